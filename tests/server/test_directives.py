"""Every directive of Redis and Valkey is decided: it acts, it changes nothing and that is said, or it is refused."""

import os
from pathlib import Path

import pytest
import redis

from headrace.engine.configuration.config import SETTINGS, ChangeRefused, Config, UnknownSetting
from headrace.engine.configuration.inert_settings import refusal_of
from headrace.engine.configuration.settings import Setting
from headrace.server.redis_conf import BadConfiguration, load, rewritten
from support.directives import EVERY_SETTING, FORGOTTEN, IN_FILES_ONLY, REDIS_7_0, REDIS_LATER, SWITCHES, VALKEY
from support.server_process import ServerProcess, run_to_its_end

DEBIAN_FILE = Path("/etc/redis/redis.conf")
OWN = {
    *("headrace-stage-ttl", "lua-memory-limit", "min-replicas-to-confirm", "policies", "repl-confirm-timeout"),
    *("console-port", "metrics-bind", "metrics-max-streams", "metrics-port"),
    "rdb-compatibility-version",  # which is in Redis 8 without a name
}
ELSEWHERE = ("dir", "port", "pidfile", "unixsocket", "aclfile")  # what a test must choose itself

# A value that Redis takes and that is not the default; for settings that only take the default, one that is refused.
OTHER_VALUES = {
    "acl-pubsub-default": "allchannels",
    "appendfsync": "no",
    "bind": "127.0.0.1",
    "client-output-buffer-limit": "normal 1 2 3",
    "cluster-preferred-endpoint-type": "hostname",
    "enable-debug-command": "yes",
    "enable-module-command": "yes",
    "enable-protected-configs": "yes",
    "latency-tracking-info-percentiles": "50 95",
    "log-format": "logfmt",
    "log-timestamp-format": "iso8601",
    "loglevel": "verbose",
    "maxmemory-policy": "allkeys-lru",
    "notify-keyspace-events": "KEA",
    "oom-score-adj": "relative",
    "oom-score-adj-values": "1 2 3",
    "propagation-error-behavior": "panic",
    "rdb-compatibility-version": "7.0",
    "rdb-version-check": "relaxed",
    "repl-diskless-load": "swapdb",
    "replicaof": "127.0.0.1 6379",
    "sanitize-dump-payload": "yes",
    "save": "60 5",
    "shutdown-on-sigint": "nosave",
    "shutdown-on-sigterm": "save now",
    "supervised": "auto",
    "syslog-facility": "local3",
    "tls-auth-clients": "optional",
    "tls-auth-clients-user": "CN",
    "tls-protocols": "TLSv1.2",
    "unixsocketperm": "700",
}


def other_value(setting: Setting) -> str:
    if setting.name in OTHER_VALUES:
        return OTHER_VALUES[setting.name]
    if isinstance(setting.default, bool):
        return "no" if setting.default else "yes"
    if isinstance(setting.default, int):
        return str(setting.default + 1)
    return "/" if setting.name == "dir" else "other"


def quoted(value: str) -> str:
    return value if value and not value.startswith("{") else f'"{value}"'


# --- the table -----------------------------------------------------------------------------------------------------


def test_every_setting_of_redis_and_valkey_is_one_here_and_there_are_no_others() -> None:
    assert set(Config().settings) == set(EVERY_SETTING) | OWN


def test_no_setting_is_decided_twice() -> None:
    names = [name for setting in SETTINGS for name in (setting.name, setting.alias) if name]
    assert len(names) == len(set(names))


def test_a_setting_is_in_force_or_inert_or_says_why_it_has_one_value_only() -> None:
    for setting in SETTINGS:
        assert not (setting.inert and setting.because), setting.name
        if setting.because:
            assert setting.read(setting.words(setting.show(setting.default)), setting.default) == setting.default
            for value in setting.only if isinstance(setting.only, tuple) else (setting.only,):
                assert setting.read(setting.words(setting.show(value)), setting.default) == value


def test_a_setting_that_is_not_inert_is_read_somewhere() -> None:
    sources = Path(__file__).parents[2] / "src" / "headrace"
    text = "".join(
        path.read_text()
        for path in sources.rglob("*.py*")
        if path.suffix in (".py", ".pyx") and path.parent.name != "configuration"
    )
    packed = [f"{kind}-max-listpack-{what}" for kind in ("set", "hash", "zset") for what in ("entries", "value")]
    signals = ["shutdown-on-sigint", "shutdown-on-sigterm"]
    lazy = [f"lazyfree-lazy-{what}" for what in ("eviction", "expire", "server-del", "user-del", "user-flush")]
    own_certificate = ["tls-client-key-file", "tls-client-key-file-pass"]
    composed = {*packed, *signals, *lazy, *own_certificate}
    unread = [
        setting.name
        for setting in SETTINGS
        if not setting.inert and not setting.because and f'"{setting.name}"' not in text
    ]
    assert set(unread) <= composed


@pytest.mark.parametrize("name", [*SWITCHES, "loadmodule", "sentinel", "search-timeout", "ts-encoding", "my.module"])
def test_what_is_no_setting_is_refused_with_its_reason(name: str, tmp_path: Path) -> None:
    reason = refusal_of(name)
    assert reason is not None
    with pytest.raises(ChangeRefused, match=reason):
        Config().set_many([(name, "1")])
    (tmp_path / "redis.conf").write_text(f"port 1\n{name} 1\n")
    with pytest.raises(BadConfiguration) as refusal:
        load(Config(), [str(tmp_path / "redis.conf")])
    assert str(refusal.value) == f"The setting '{name} 1' in line 2 of {tmp_path}/redis.conf is refused: {reason}."


@pytest.mark.parametrize("name", FORGOTTEN)
def test_what_redis_forgets_is_taken_from_a_file_and_named(name: str, tmp_path: Path) -> None:
    (tmp_path / "redis.conf").write_text(f"{name} 5\n")
    config = Config()
    load(config, [str(tmp_path / "redis.conf")])
    assert config.inert_given == [name]
    assert rewritten(f"{name} 5\n", config) == f"{name} 5\n"
    with pytest.raises(UnknownSetting):
        config.set_many([(name, "5")])


def test_directives_of_files_are_no_settings() -> None:
    assert not set(IN_FILES_ONLY) & set(Config().settings)


# --- each setting by every road ------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", EVERY_SETTING)
def test_the_usual_value_comes_by_a_file_a_flag_and_config_set_and_is_written_back(name: str, tmp_path: Path) -> None:
    value = str(tmp_path) if name == "dir" else EVERY_SETTING[name]
    path = tmp_path / "redis.conf"
    path.write_text(f"{name} {quoted(value)}\n")
    by_file = Config()
    load(by_file, [str(path)])
    by_flag = Config()
    load(by_flag, [f"--{name}", *(value.split(" ") if name != "proc-title-template" else [value])])
    assert by_flag.shown([name]) == by_file.shown([name])
    setting = by_file.settings[name]
    assert by_file.given == {setting.name: None}
    if not setting.fixed:
        by_command = Config()
        by_command.set_many([(name, value)], guarded=True)
        assert by_command.shown([name]) == by_file.shown([name])
    again = tmp_path / "again.conf"
    again.write_text(rewritten(path.read_text(), by_file))
    by_rewritten = Config()
    load(by_rewritten, [str(again)])
    assert by_rewritten.shown(["*"]) == by_file.shown(["*"])
    assert (by_file.inert_given == [setting.name]) == bool(setting.inert)


@pytest.mark.parametrize("setting", SETTINGS, ids=lambda setting: setting.name)
def test_another_value_is_kept_and_written_back_or_refused_with_the_reason(setting: Setting, tmp_path: Path) -> None:
    value = other_value(setting)
    path = tmp_path / "redis.conf"
    path.write_text(f"{setting.name} {value}\n")
    config = Config()
    if setting.because:
        with pytest.raises(BadConfiguration) as refusal:
            load(config, [str(path)])
        assert setting.because in str(refusal.value)
        if not setting.fixed:
            with pytest.raises(ChangeRefused) as refused:
                config.set_many([(setting.name, value)])
            assert refused.value.reason == setting.because
        assert config.shown(["*"]) == Config().shown(["*"])
        return
    load(config, [str(path)])
    assert config.shown([setting.name]) != Config().shown([setting.name])
    again = tmp_path / "again.conf"
    again.write_text(rewritten("# nothing\n", config))
    reread = Config()
    load(reread, [str(again)])
    assert reread.shown(["*"]) == config.shown(["*"])


def test_config_set_takes_the_usual_value_of_what_redis_takes_it_for(
    headrace_server: redis.Redis, redis_server: redis.Redis
) -> None:
    """Whether a setting can change while the server runs is as in Redis 7.0, but for what later versions opened."""
    opened_later = {"io-threads"}
    for name, usual in redis_server.config_get("*").items():
        replies = []
        for server in (redis_server, headrace_server):
            value = server.config_get(name)[name] if name in ELSEWHERE or name == "bind" else usual
            try:
                replies.append(str(server.config_set(name, value)))
            except redis.ResponseError as error:
                replies.append(str(error))
        if name not in opened_later:
            assert replies[1] == replies[0], name


def test_config_get_lists_all_that_redis_lists(headrace_server: redis.Redis, redis_server: redis.Redis) -> None:
    assert set(redis_server.config_get("*")) <= set(headrace_server.config_get("*"))


# --- whole files ---------------------------------------------------------------------------------------------------


def stock_file(path: Path, settings: dict[str, str]) -> Path:
    """Write a file that sets everything to its usual value; the older name of a setting stands for it, too."""
    lines = [f"{name} {quoted(value)}\n" for name, value in settings.items() if name not in ELSEWHERE]
    path.write_text("".join(lines))
    return path


@pytest.mark.parametrize(
    "settings", [REDIS_7_0, REDIS_7_0 | REDIS_LATER, REDIS_7_0 | VALKEY], ids=["Redis 7.0", "Redis 8", "Valkey 8"]
)
def test_a_file_with_every_usual_value_starts_and_the_log_names_once_what_changes_nothing(
    settings: dict[str, str], tmp_path: Path
) -> None:
    file = stock_file(tmp_path / "stock.conf", settings)
    with ServerProcess(tmp_path, str(file), "--save", "", "--bind", "127.0.0.1") as server:
        [line] = [line for line in server.log.splitlines() if "change nothing here" in line]
        assert "maxmemory-samples" in line
        assert "slowlog-max-len" not in line
        client = server.client()
        shown = client.config_get("*")
        assert shown["appendonly"] == "no"
        assert client.config_rewrite()
    with ServerProcess(tmp_path, str(file)) as server:
        assert server.client().config_get("*") == shown | {"port": str(server.port)}


@pytest.mark.skipif(not os.access(DEBIAN_FILE, os.R_OK), reason="there is no readable file of Debian's redis-server")
def test_the_file_of_debians_redis_server_starts_as_it_is(tmp_path: Path) -> None:
    places = ("--dir", str(tmp_path), "--logfile", "", "--pidfile", str(tmp_path / "pid"), "--daemonize", "no")
    with ServerProcess(tmp_path, str(DEBIAN_FILE), *places) as server:
        shown = server.client().config_get("*")
        assert (shown["appendonly"], shown["save"]) == ("no", "3600 1 300 100 60 10000")
        assert server.log.count("change nothing here") == 1


def test_without_an_append_only_file_a_file_that_says_nothing_of_save_saves_as_redis_does(tmp_path: Path) -> None:
    (tmp_path / "redis.conf").write_text("appendonly no\n")
    with ServerProcess(tmp_path, str(tmp_path / "redis.conf")) as server:
        assert "as in redis-server it is 3600 1 300 100 60 10000" in server.log
        server.client().xadd("s", {"a": 1}, id="1-1")
        assert server.stop() == 0
    with ServerProcess(tmp_path, str(tmp_path / "redis.conf")) as server:
        assert server.client().xlen("s") == 1


def test_without_an_append_only_file_by_flag_everything_is_in_memory_only(tmp_path: Path) -> None:
    with ServerProcess(tmp_path, "--appendonly", "no") as server:
        assert server.client().config_get("save") == {"save": ""}


def test_a_change_that_changes_nothing_is_said_in_the_log(tmp_path: Path) -> None:
    with ServerProcess(tmp_path) as server:
        client = server.client()
        client.config_set("latency-tracking", "no", "maxmemory-samples", 7, "sanitize-dump-payload", "yes")
        assert client.config_get("maxmemory-samples") == {"maxmemory-samples": "7"}
        server.await_log(
            "CONFIG SET maxmemory-samples: the value is kept, but it changes nothing here: nothing is evicted"
        )
        assert "latency-tracking" not in server.log
        assert "change nothing here:" not in server.log, "nothing inert was given at the start"


def test_a_module_in_a_file_ends_the_start_with_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "redis.conf").write_text("loadmodule /usr/lib/search.so\n")
    ended = run_to_its_end("serve", "redis.conf", directory=tmp_path)
    assert ended.returncode == 1
    assert ended.stderr.decode() == (
        "headrace: The setting 'loadmodule /usr/lib/search.so' in line 1 of "
        f"{tmp_path}/redis.conf is refused: Headrace has no modules.\n"
    )
