"""CONFIG: Redis's names, texts and units; several at once or none; and nothing that is not true."""

from pathlib import Path

import pytest
import redis

from headrace.engine.configuration.config import SETTINGS, ChangeRefused, Config, UnknownSetting
from headrace.engine.configuration.settings import SettingRefused
from support.ports import free_port
from support.raw_client import RawClient
from support.server_process import ServerProcess

REFUSED_ALIKE = [
    ["SET", "timeout", "abc"],
    ["SET", "timeout", "-1"],
    ["SET", "timeout", "99999999999999999999"],
    ["SET", "timeout", "+5"],
    ["SET", "timeout", "05"],
    ["SET", "timeout", ""],
    ["SET", "maxclients", "0"],
    ["SET", "maxclients", "4294967296"],
    ["SET", "hz", "10.5"],
    ["SET", "hz", " 10"],
    ["SET", "hz", "0x10"],
    ["SET", "hz", "-5"],
    ["SET", "port", "70000"],
    ["SET", "port", "abc"],
    ["SET", "maxmemory", "1zb"],
    ["SET", "maxmemory", "-1"],
    ["SET", "maxmemory", "50%"],
    ["SET", "maxmemory", "1.5gb"],
    ["SET", "appendfsync", "x"],
    ["SET", "appendonly", "maybe"],
    ["SET", "rdbcompression", "1"],
    ["SET", "save", "abc"],
    ["SET", "save", "900"],
    ["SET", "save", "0 1"],
    ["SET", "save", "900 1 "],
    ["SET", "save", "  "],
    ["SET", "client-output-buffer-limit", "normal 1 2"],
    ["SET", "client-output-buffer-limit", "normal 1 2 3 slave 4"],
    ["SET", "client-output-buffer-limit", "foo 1 2 3"],
    ["SET", "client-output-buffer-limit", "master 1 2 3"],
    ["SET", "client-output-buffer-limit", "normal 1mb -2 3"],
    ["SET", "client-output-buffer-limit", "normal 1 2 x"],
    ["SET", "client-output-buffer-limit", "normal 1 2 -3"],
    ["SET", "client-query-buffer-limit", "1"],
    ["SET", "client-query-buffer-limit", "1000000000000000000000"],
    ["SET", "proto-max-bulk-len", "1"],
    ["SET", "tcp-keepalive", "-1"],
    ["SET", "stream-node-max-bytes", "-1"],
    ["SET", "stream-node-max-entries", "-1"],
    ["SET", "stream-node-max-entries", "1k"],
    ["SET", "stream-node-max-entries", "9223372036854775808"],
    ["SET", "slowlog-log-slower-than", "-2"],
    ["SET", "slowlog-max-len", "-1"],
    ["SET", "latency-monitor-threshold", "-1"],
    ["SET", "busy-reply-threshold", "-1"],
    ["SET", "lua-time-limit", "x"],
    ["SET", "list-max-listpack-size", "99999999999"],
    ["SET", "auto-aof-rewrite-percentage", "-1"],
    ["SET", "auto-aof-rewrite-min-size", "-1"],
    ["SET", "databases", "3"],
    ["SET", "DataBases", "3"],
    ["SET", "daemonize", "yes"],
    ["SET", "unixsocket", "/x"],
    ["SET", "unixsocketperm", "777"],
    ["SET", "tcp-backlog", "5"],
    ["SET", "logfile", "x"],
    ["SET", "pidfile", "x"],
    ["SET", "appendfilename", "x"],
    ["SET", "enable-debug-command", "no"],
    ["SET", "dir", "/nosuch"],
    ["SET", "dbfilename", "a/b"],
    ["SET", "bind", "1.2.3.4"],
    ["SET", "nosuch", "1"],
    ["SET", "a b", "1"],
    ["SET", "include", "x"],
    ["SET", "timeout", "5", "nosuch", "3"],
    ["SET", "nosuch", "3", "hz", "abc"],
    ["SET", "databases", "3", "nosuch", "1"],
    ["SET", "timeout", "1", "timeout", "2"],
    ["SET", "timeout", "1", "TIMEOUT", "2"],
    ["SET", "timeout", "1", "hz"],
    ["SET", "timeout"],
    ["SET"],
    ["GET"],
    ["RESETSTAT", "x"],
    ["REWRITE"],
    ["FOO"],
    [],
]

ACCEPTED_ALIKE = [
    ("timeout", "7"),
    ("TIMEOUT", "7"),
    ("hz", "1000"),
    ("hz", "0"),
    ("maxmemory", "1gb"),
    ("maxmemory", "17179869184gb"),
    ("maxmemory", "gb"),
    ("maxmemory", ""),
    ("maxmemory", "0"),
    ("stream-node-max-bytes", "1k"),
    ("stream-node-max-bytes", "4KB"),
    ("stream-node-max-bytes", "4096b"),
    ("stream-node-max-entries", "9223372036854775807"),
    ("client-query-buffer-limit", "2mb"),
    ("client-output-buffer-limit", "normal 1mb 2kb 3"),
    ("client-output-buffer-limit", "replica 1 2 3 Pubsub 4m 5k 6"),
    ("client-output-buffer-limit", ""),
    ("save", ""),
    ("protected-mode", "YES"),
    ("lua-time-limit", "4"),
    ("slowlog-log-slower-than", "-1"),
    ("list-max-ziplist-size", "-1"),
    ("appendfsync", "No"),
    ("notify-keyspace-events", ""),
    ("requirepass", ""),
]


def raw(server: redis.Redis, *words: str) -> bytes:
    client = RawClient(server.connection_pool.connection_kwargs["port"])
    try:
        return client.run(*words)
    finally:
        client.close()


@pytest.mark.parametrize("words", REFUSED_ALIKE, ids=" ".join)
def test_config_refuses_in_the_words_of_redis(
    words: list[str], headrace_server: redis.Redis, redis_server: redis.Redis
) -> None:
    assert raw(headrace_server, "CONFIG", *words) == raw(redis_server, "CONFIG", *words)


@pytest.mark.parametrize(("name", "value"), ACCEPTED_ALIKE)
def test_config_prints_what_was_set_as_redis_does(
    name: str, value: str, headrace_server: redis.Redis, redis_server: redis.Redis
) -> None:
    before = redis_server.config_get(name.lower())
    try:
        for request in (["SET", name, value], ["GET", name]):
            assert raw(headrace_server, "CONFIG", *request) == raw(redis_server, "CONFIG", *request)
    finally:
        redis_server.config_set(name.lower(), before[name.lower()])


def test_an_older_name_is_the_same_setting(headrace_server: redis.Redis) -> None:
    headrace_server.config_set("lua-time-limit", 4)
    assert headrace_server.config_get("busy-reply-threshold") == {"busy-reply-threshold": "4"}


def test_config_get_takes_several_patterns_and_names_each_setting_once(headrace_server: redis.Redis) -> None:
    found = headrace_server.config_get("stream-node-*", "TIMEOUT", "timeo?", "nosuch", "[hx]z")
    assert set(found) == {"stream-node-max-bytes", "stream-node-max-entries", "TIMEOUT", "hz"}


def test_config_get_is_a_map_in_resp3(headrace_server: redis.Redis) -> None:
    client = RawClient(headrace_server.connection_pool.connection_kwargs["port"])
    client.run("HELLO", 3)
    assert client.run("CONFIG", "GET", "hz") == b"%1\r\n$2\r\nhz\r\n$2\r\n10\r\n"
    client.close()


def test_all_of_config_get_can_be_fed_back_as_test_suites_do(headrace_server: redis.Redis) -> None:
    settings = headrace_server.config_get("*")
    unchangeable = [setting for setting in SETTINGS if setting.fixed or setting.guarded]
    fixed = {name for setting in unchangeable for name in (setting.name, setting.alias)}
    for name, value in settings.items():
        if name not in fixed:
            headrace_server.config_set(name, value)
    assert headrace_server.config_get("*") == settings


def test_several_settings_change_together_or_not_at_all(headrace_server: redis.Redis) -> None:
    with pytest.raises(redis.ResponseError, match="possibly related to argument 'hz'"):
        headrace_server.config_set("timeout", 5, "hz", "abc")
    assert headrace_server.config_get("timeout") == {"timeout": "0"}
    headrace_server.config_set("timeout", 5, "hz", 20)
    assert headrace_server.config_get("timeout", "hz") == {"timeout": "5", "hz": "20"}


@pytest.mark.parametrize(
    ("name", "value", "why"),
    [
        ("aof-use-rdb-preamble", "no", "writes bases as RDB only"),
        ("maxmemory-policy", "allkeys-lru", "never evicts"),
        ("maxmemory-policy", "foo", "allkeys-random, noeviction, offload"),
    ],
)
def test_what_headrace_does_not_have_cannot_be_switched_on(
    name: str, value: str, why: str, headrace_server: redis.Redis
) -> None:
    before = headrace_server.config_get(name)
    with pytest.raises(redis.ResponseError, match=why):
        headrace_server.config_set(name, value)
    assert headrace_server.config_get(name) == before


def test_limits_of_idempotent_production_have_redis_8_bounds(headrace_server: redis.Redis) -> None:
    for name, most in (("stream-idmp-duration", 86400), ("stream-idmp-maxsize", 10000)):
        headrace_server.config_set(name, most)
        assert (
            raw(headrace_server, "CONFIG", "SET", name, str(most + 1))
            == (
                f"-ERR CONFIG SET failed (possibly related to argument '{name}') - "
                f"argument must be between 1 and {most} inclusive\r\n"
            ).encode()
        )


def test_resetstat_sets_the_counters_back(headrace_server: redis.Redis) -> None:
    with pytest.raises(redis.ResponseError):
        headrace_server.execute_command("XADD", "s")
    headrace_server.config_resetstat()
    stats = headrace_server.info("everything")
    assert (stats["total_error_replies"], stats["total_commands_processed"]) == (0, 1)
    assert "errorstat_ERR" not in stats
    assert "cmdstat_xadd" not in stats


def test_a_secret_is_not_in_the_slow_log(headrace_server: redis.Redis) -> None:
    headrace_server.config_set("slowlog-log-slower-than", 0)
    headrace_server.config_set("requirepass", "hush")
    headrace_server.config_set("requirepass", "")
    assert b"hush" not in b"".join(entry["command"] for entry in headrace_server.slowlog_get(10))
    headrace_server.slowlog_reset()


def test_guarded_settings_can_change_where_that_is_allowed(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    with ServerProcess(tmp_path, "--enable-protected-configs", "local", "--appendonly", "no") as server:
        client = server.client()
        client.config_set("dir", str(tmp_path / "data"))
        assert client.config_get("dir") == {"dir": str(tmp_path / "data")}
        with pytest.raises(redis.ResponseError, match="No such file or directory"):
            client.config_set("dir", "/nosuch")


def test_port_and_addresses_can_change_while_the_server_runs(tmp_path: Path) -> None:
    with ServerProcess(tmp_path) as server, ServerProcess(tmp_path / "..") as other:
        client = server.client()
        with pytest.raises(redis.ResponseError, match="Unable to listen on this port"):
            client.config_set("port", other.port)
        assert server.client().ping()
        with pytest.raises(redis.ResponseError, match="Failed to bind to specified addresses"):
            client.config_set("bind", "1.2.3.4")
        assert server.client().ping()
        client.config_set("bind", "127.0.0.1")
        assert server.client().ping()
        moved = free_port()
        client.config_set("port", moved)
        assert redis.Redis(port=moved).ping()
        assert client.ping(), "a connection stays"
        with pytest.raises(ConnectionRefusedError):
            server.raw()


# --- the Config by itself ------------------------------------------------------------------------------------------


def test_a_watcher_that_refuses_undoes_every_change() -> None:
    config = Config()
    seen: list[int] = []
    config.watch("timeout", seen.append)

    def refuse(value: int) -> None:
        if value == 20:
            raise SettingRefused("not today")

    config.watch("hz", refuse)
    with pytest.raises(ChangeRefused, match="hz: not today"):
        config.set_many([("timeout", "5"), ("hz", "20")])
    assert (config["timeout"], config["hz"]) == (0, 10)
    assert seen == [5, 0]


def test_a_watcher_sees_only_changes() -> None:
    config = Config()
    seen: list[int] = []
    config.watch("hz", seen.append)
    config.set_many([("hz", "10")])
    config.set_many([("hz", "11")])
    assert seen == [11]


def test_an_unknown_name_is_told_by_its_type() -> None:
    with pytest.raises(UnknownSetting):
        Config().set_many([("nosuch", "1")])


@pytest.mark.parametrize("setting", SETTINGS, ids=lambda setting: setting.name)
def test_every_default_is_read_back_from_what_it_prints(setting) -> None:  # type: ignore[no-untyped-def]
    shown = setting.show(setting.default)
    assert setting.show(setting.read(setting.words(shown), setting.default)) == shown
