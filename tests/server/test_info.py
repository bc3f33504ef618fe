"""INFO: Redis's sections and fields, spelled and formatted alike."""

import re
import time

import pytest
import redis

import headrace
from support.patience import PATIENCE_S
from support.raw_client import RawClient, port_of

SINCE_7_0 = {
    "headrace_staged_bytes",
    "headrace_history_cache",
    "headrace_history_reads",
    "headrace_segments",
    "headrace_segment_bytes",
    "headrace_cold_bytes",
    "headrace_compacted_bytes",
    "headrace_offloaded_bytes",
    "headrace_offload_status",
    "headrace_sync_usec",
    "headrace_synced_units",
    "headrace_syncs",
    "headrace_version",
    "acl_access_denied_auth",
    "acl_access_denied_cmd",
    "acl_access_denied_key",
    "acl_access_denied_channel",
    "evicted_scripts",
    "pubsub_clients",
    "watching_clients",
    "total_watched_keys",
    "total_blocking_keys",
    "total_blocking_keys_on_nokey",
    "client_query_buffer_limit_disconnections",
    "client_output_buffer_limit_disconnections",
}


def text_of(server: redis.Redis, *sections: str) -> str:
    client = RawClient(port_of(server))
    try:
        return client.run("INFO", *sections).decode().split("\r\n", 1)[1].removesuffix("\r\n")
    finally:
        client.close()


def titles(text: str) -> list[str]:
    return re.findall(r"^# (\w+)\r$", text, re.MULTILINE)


def fields(text: str) -> dict[str, str]:
    return dict(line.split(":", 1) for line in text.split("\r\n") if ":" in line)


@pytest.mark.parametrize(
    "sections",
    [
        [],
        ["all"],
        ["everything"],
        ["default"],
        ["server", "Clients", "nosuch"],
        ["keyspace", "cpu"],
        ["default", "commandstats"],
        ["nosuch"],
        ["modules"],
    ],
    ids=str,
)
def test_sections_are_those_of_redis_in_its_order(
    sections: list[str], headrace_server: redis.Redis, redis_server: redis.Redis
) -> None:
    assert titles(text_of(headrace_server, *sections)) == titles(text_of(redis_server, *sections))


@pytest.mark.parametrize(
    "section", ["server", "clients", "memory", "persistence", "stats", "replication", "cpu", "cluster"]
)
def test_fields_are_spelled_and_ordered_as_in_redis(
    section: str, headrace_server: redis.Redis, redis_server: redis.Redis
) -> None:
    ours = [name for name in fields(text_of(headrace_server, section)) if name not in SINCE_7_0]
    theirs = list(fields(text_of(redis_server, section)))
    assert set(ours) <= set(theirs)
    assert ours == [name for name in theirs if name in ours]


@pytest.mark.parametrize("section", ["server", "clients", "memory", "persistence", "stats", "replication", "cpu"])
def test_values_have_the_form_that_they_have_in_redis(
    section: str, headrace_server: redis.Redis, redis_server: redis.Redis
) -> None:
    def forms(server: redis.Redis) -> dict[str, str]:
        return {
            name: re.sub(r"\d+", "9", value).replace("-9", "9")
            for name, value in fields(text_of(server, section)).items()
            if name not in ("run_id", "master_replid", "executable", "mem_allocator") and not name.endswith("_human")
        }

    theirs = forms(redis_server)
    assert {
        name: form for name, form in forms(headrace_server).items() if name in theirs and theirs[name] != form
    } == {}


def test_info_is_a_verbatim_text_in_resp3(headrace_server: redis.Redis) -> None:
    client = RawClient.of(headrace_server)
    client.run("HELLO", 3)
    assert client.run("INFO", "cluster") == b"=34\r\ntxt:# Cluster\r\ncluster_enabled:0\r\n\r\n"
    assert client.run("INFO", "nosuch") == b"=4\r\ntxt:\r\n"
    client.close()


def test_it_says_which_redis_and_which_headrace_it_is(headrace_server: redis.Redis) -> None:
    server = headrace_server.info("server")
    assert server["redis_version"] == "8.10.0"
    assert server["headrace_version"] == headrace.__version__
    assert server["tcp_port"] == port_of(headrace_server)
    assert re.fullmatch("[0-9a-f]{40}", str(server["run_id"]))


def test_command_and_error_statistics_count_as_in_redis(
    headrace_server: redis.Redis, redis_server: redis.Redis
) -> None:
    counts = []
    for server in (headrace_server, redis_server):
        server.config_resetstat()
        client = RawClient(port_of(server))
        for request in (
            ["XADD", "s", "1-1", "a", "b"],
            ["XADD", "s", "1-1", "a", "b"],
            ["XADD", "s"],
            ["XGROUP", "CREATE", "s", "g", "0"],
            ["XGROUP", "CREATE", "s", "g", "0"],
            ["XREADGROUP", "GROUP", "nosuch", "c", "STREAMS", "s", ">"],
            ["NOSUCH"],
            ["XLEN", "s"],
        ):
            client.run(*request)
        client.close()
        shown = fields(text_of(server, "commandstats", "errorstats"))
        counts.append(
            {
                name: re.sub(r"usec=\d+,usec_per_call=\d+\.\d\d,", "", value)
                for name, value in shown.items()
                if not name.startswith(("cmdstat_config", "cmdstat_info", "cmdstat_client"))
            }
        )
    assert counts[0] == counts[1]


def test_dirty_clients_and_keyspace_follow_what_happens(headrace_server: redis.Redis) -> None:
    before = int(headrace_server.info("persistence")["rdb_changes_since_last_save"])
    headrace_server.xadd("s", {"a": "b"})
    headrace_server.set("k", "v", px=100_000)
    shown = headrace_server.info()
    assert shown["rdb_changes_since_last_save"] == before + 2
    assert shown["db0"]["keys"] == 2
    assert shown["db0"]["expires"] == 1
    assert 0 < shown["db0"]["avg_ttl"] <= 100_000
    assert shown["connected_clients"] >= 1


def test_blocked_clients_and_their_keys_are_counted(headrace_server: redis.Redis) -> None:
    headrace_server.xgroup_create("s", "g", mkstream=True)
    waiting = RawClient.of(headrace_server)
    waiting.send(
        b"XREADGROUP GROUP g c BLOCK 60000 STREAMS s >".split(),
    )
    shown: dict[str, object] = {}
    deadline = time.monotonic() + PATIENCE_S
    while shown.get("blocked_clients") != 1:
        assert time.monotonic() < deadline
        shown = headrace_server.info("clients")
    assert shown["clients_in_timeout_table"] == 1
    assert (shown["total_blocking_keys"], shown["total_blocking_keys_on_nokey"]) == (1, 1)
    waiting.close()


def test_the_rate_of_commands_shows_within_a_second(headrace_server: redis.Redis) -> None:
    pipe = headrace_server.pipeline(transaction=False)
    deadline = time.monotonic() + 0.5
    while time.monotonic() < deadline:
        for _ in range(100):
            pipe.ping()
        pipe.execute()
    assert headrace_server.info("stats")["instantaneous_ops_per_sec"] > 100
