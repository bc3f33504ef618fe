"""`metrics-port`: what Prometheus gets, from whom it is kept, and what it may cost."""

import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.metered_server import OPEN_METRICS, MeteredServer, Samples, at
from support.patience import PATIENCE_S, await_that
from support.raw_client import RawClient
from support.replication.server_pair import is_writable
from support.server_process import ServerProcess

PROMTOOL = shutil.which("promtool")


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MeteredServer]:
    with MeteredServer(tmp_path_factory.mktemp("metrics"), "--metrics-max-streams", "6") as started:
        yield started


@pytest.fixture(autouse=True)
def _empty(server: MeteredServer) -> None:
    server.client().flushall()


def test_names_are_those_of_redis_exporter_and_values_those_of_the_commands(server: MeteredServer) -> None:
    client = server.client()
    for number in range(10):
        client.xadd("orders", {"n": number})
    client.xgroup_create("orders", "billing", "0")
    client.xreadgroup("billing", "b1", {"orders": ">"}, count=4)
    client.xadd("orders:dead", {"n": "gone"})
    client.execute_command("HEADRACE", "SCHEDULE", "orders", "DELAY", "1h", "n", "later")
    place = {"db": "db0", "stream": "orders"}
    group = {**place, "group": "billing"}
    samples = server.await_samples(lambda seen: seen.get(at("headrace_stream_scheduled", **place)) == 1)
    assert samples == {**samples, **server_values()}
    assert samples[at("redis_stream_length", **place)] == 10
    assert samples[at("redis_stream_groups", **place)] == 1
    assert samples[at("redis_stream_group_lag", **group)] == 6
    assert samples[at("redis_stream_group_entries_read", **group)] == 4
    assert samples[at("redis_stream_group_messages_pending", **group)] == 4
    assert samples[at("redis_stream_group_consumers", **group)] == 1
    assert samples[at("redis_stream_group_consumer_messages_pending", **group, consumer="b1")] == 4
    assert at("redis_stream_group_consumer_idle_seconds", **group, consumer="b1") in samples
    assert samples[at("headrace_stream_group_consumer_delivered_total", **group, consumer="b1")] == 4
    assert samples[at("headrace_stream_group_consumer_acknowledged_total", **group, consumer="b1")] == 0
    assert samples[at("headrace_stream_entries_added_total", **place)] == 10
    assert samples[at("headrace_stream_dead_letters", **place)] == 1
    assert samples[at("redis_commands_total", cmd="xreadgroup")] == 1
    assert samples[at("headrace_journal_group_size_sum")] >= 14, "each write is in a group"
    info = client.info("persistence")
    assert info["headrace_synced_units"] >= samples[at("headrace_journal_group_size_sum")]
    assert info["headrace_syncs"] >= samples[at("headrace_journal_sync_seconds_count")] > 0
    assert info["headrace_sync_usec"] > 0
    assert samples[at("headrace_journal_sync_seconds_count")] == samples[at("headrace_journal_group_size_count")]


def server_values() -> Samples:
    return {
        at("redis_up"): 1,
        at("redis_connected_clients"): 1,
        at("redis_loading_dump_file"): 0,
        at("redis_aof_last_write_status"): 1,
        at("redis_db_keys", db="db0"): 4,
        at("headrace_held_replies"): 0,
        at("headrace_unconfirmed_replies"): 0,
        at("headrace_cold_bytes"): 0,
    }


def test_lag_in_seconds_and_the_oldest_pending_entry_grow_with_time(server: MeteredServer) -> None:
    client = server.client()
    an_hour_ago = int(time.time() * 1000) - 3_600_000
    client.xadd("jobs", {"n": 1}, id=f"{an_hour_ago}-0")
    client.xadd("jobs", {"n": 2}, id=f"{an_hour_ago + 600_000}-0")
    client.xgroup_create("jobs", "slow", "0")
    client.xreadgroup("slow", "s1", {"jobs": ">"}, count=1)
    client.xclaim("jobs", "slow", "s1", 0, [f"{an_hour_ago}-0"], idle=900_000)
    group = {"db": "db0", "stream": "jobs", "group": "slow"}
    samples = server.await_samples(lambda seen: at("redis_stream_group_lag", **group) in seen)
    assert 3000 <= samples[at("headrace_stream_group_lag_seconds", **group)] < 3600
    assert 900 <= samples[at("headrace_stream_group_oldest_pending_seconds", **group)] < 3600
    client.xreadgroup("slow", "s1", {"jobs": ">"})
    client.xack("jobs", "slow", f"{an_hour_ago}-0", f"{an_hour_ago + 600_000}-0")
    samples = server.await_samples(lambda seen: seen[at("redis_stream_group_lag", **group)] == 0)
    assert samples[at("headrace_stream_group_lag_seconds", **group)] == 0
    assert samples[at("headrace_stream_group_oldest_pending_seconds", **group)] == 0


@pytest.mark.parametrize("accept", ["", OPEN_METRICS])
def test_hostile_names_are_text_in_both_formats(server: MeteredServer, accept: str) -> None:
    client = server.client()
    names: list[bytes] = [b'a"b\\c\nd', b"\xff\x00 }", b"<script>alert(1)</script>", b"x" * 5000, b"\\xff\x00 }"]
    for name in names:
        client.xadd(name, {"n": 1})
        client.xgroup_create(name, name, "0")
        client.xgroup_createconsumer(name, name, name)
    server.await_samples(lambda seen: seen.get(at("redis_db_keys", db="db0")) == 5)
    samples = server.samples(accept)
    shown = {dict(labels)["stream"] for name, labels in samples if name == "redis_stream_group_lag"}
    # Two of the names have the same text, and then the second is among the others.
    assert shown == {'a"b\\c\nd', "\\xff\x00 }", "<script>alert(1)</script>", "x" * 256 + "…"}
    assert samples[at("headrace_other_streams")] == 1
    assert {dict(labels)["consumer"] for name, labels in samples if "consumer_idle" in name} == shown


def test_streams_beyond_the_bound_are_summed_and_take_the_place_of_others(server: MeteredServer) -> None:
    client = server.client()
    for number in range(9):
        client.xadd(f"s{number}", {"n": 1})
        client.xadd(f"s{number}", {"n": 2})
        client.xgroup_create(f"s{number}", "g", "0")
        client.xreadgroup("g", "c", {f"s{number}": ">"}, count=1)

    def own(seen: Samples) -> set[str]:
        return {dict(labels)["stream"] for name, labels in seen if name == "redis_stream_length"}

    samples = server.await_samples(lambda seen: seen.get(at("headrace_other_streams")) == 3)
    chosen = own(samples)
    assert len(chosen) == 6
    assert samples[at("headrace_other_streams_length")] == 6
    assert samples[at("headrace_other_streams_groups")] == 3
    assert samples[at("headrace_other_streams_messages_pending")] == 3
    gone = sorted(chosen)[:2]
    client.delete(*gone)
    samples = server.await_samples(lambda seen: seen[at("headrace_other_streams")] == 1 and len(own(seen)) == 6)
    assert chosen - set(gone) < own(samples), "the others keep their series"


def test_many_keys_are_seen_over_several_scrapes(server: MeteredServer) -> None:
    client = server.client()
    rounds = server.samples()[at("headrace_metrics_rounds_total")]
    for start in range(0, 150_000, 10_000):
        client.mset({f"key:{number}": "" for number in range(start, start + 10_000)})
    first = server.await_samples(lambda seen: seen.get(at("redis_db_keys", db="db0")) == 150_000)
    later = server.await_samples(lambda seen: seen[at("headrace_metrics_rounds_total")] >= rounds + 2)
    scrapes = later[at("headrace_metrics_readings_total")] - first[at("headrace_metrics_readings_total")]
    assert scrapes >= 1, "150,000 keys are more than one scrape looks at"


def test_what_is_no_scrape_is_refused_in_a_line(server: MeteredServer) -> None:
    assert server.ask("/")[0] == 200
    assert server.ask("/../etc/passwd")[0] == 404
    assert server.ask(method="POST")[0] == 405
    assert server.ask(method="HEAD")[2] == ""
    for rude, status in ((b"\x16\x03\x01 hello\r\n\r\n", b"400"), (b"GET /" + b"x" * 10_000, b"431")):
        with socket.create_connection(("127.0.0.1", server.metrics_port), timeout=PATIENCE_S) as connection:
            connection.sendall(rude)
            assert connection.recv(100).split()[1] == status


def test_connections_that_say_nothing_hold_up_nobody(server: MeteredServer) -> None:
    address = ("127.0.0.1", server.metrics_port)
    silent = [socket.create_connection(address, timeout=PATIENCE_S) for _ in range(16)]
    try:
        with socket.create_connection(address, timeout=PATIENCE_S) as one_more:
            assert b"503" in one_more.recv(100)
        assert server.client().ping()
    finally:
        for connection in silent:
            connection.close()
    deadline = time.monotonic() + PATIENCE_S
    while server.ask("/")[0] != 200:
        assert time.monotonic() < deadline
    assert server.samples()


def test_a_metrics_port_that_is_taken_is_said_before_anything_runs(server: MeteredServer, tmp_path: Path) -> None:
    with (
        pytest.raises(AssertionError, match="Address already in use"),
        ServerProcess(tmp_path, "--metrics-port", str(server.metrics_port)),
    ):
        pass


@pytest.mark.skipif(PROMTOOL is None, reason="there is no promtool: Debian's package prometheus brings it")
def test_promtool_finds_no_fault_in_metrics_and_rules(server: MeteredServer) -> None:
    client = server.client()
    client.xadd('or"ders\\', {"n": 1})
    client.xgroup_create('or"ders\\', "g\n", "0")
    client.xreadgroup("g\n", "c", {'or"ders\\': ">"})
    server.await_samples(lambda seen: any(name == "redis_stream_group_lag" for name, _ in seen))
    rules = Path(__file__).parents[2] / "contrib/prometheus/alerts.yml"
    for arguments, text in ((("metrics",), server.ask()[2]), (("rules", str(rules)), "")):
        command = [str(PROMTOOL), "check", *arguments]
        checked = subprocess.run(command, input=text, capture_output=True, text=True, check=False, timeout=PATIENCE_S)
        assert (checked.returncode, checked.stderr) == (0, ""), checked.stdout


# --- more than one machine -------------------------------------------------------------------------------------------


def test_the_metrics_of_a_master_and_its_replica_are_those_of_info(tmp_path: Path) -> None:
    for name in ("m", "r"):
        (tmp_path / name).mkdir()
    # No PING moves the offset between two readings, and a replica that stands still keeps its place.
    quiet = ("--min-replicas-to-confirm", "1", "--repl-timeout", "4000", "--repl-ping-replica-period", "3600")
    with MeteredServer(tmp_path / "m", *quiet) as master:
        following = ("--replicaof", f"127.0.0.1 {master.port}", "--repl-timeout", "4000")
        with MeteredServer(tmp_path / "r", *following) as replica, master.client() as leader:
            place = {"master_host": "127.0.0.1", "master_port": str(master.port)}
            replica.await_samples(lambda seen: seen.get(at("redis_master_link_up", **place)) == 1)
            await_that(lambda: is_writable(leader))
            for number in range(20):
                leader.xadd("s", {"n": number})
            told = leader.info("replication")
            which = {"slave_ip": told["slave0"]["ip"], "slave_port": str(replica.port), "slave_state": "online"}
            samples = master.await_samples(
                lambda seen: (
                    seen.get(at("headrace_replica_unsynced_bytes", **which)) == 0
                    and seen.get(at("headrace_confirm_wait_seconds_count"), 0) >= 20
                )
            )
            told = leader.info("replication")
            assert samples[at("redis_connected_slaves")] == told["connected_slaves"] == 1
            assert samples[at("redis_connected_slave_offset_bytes", **which)] == told["slave0"]["offset"]
            assert samples[at("redis_master_repl_offset")] == told["master_repl_offset"]
            assert samples[at("headrace_replica_behind_bytes", **which)] == 0
            assert samples[at("headrace_confirm_wait_seconds_sum")] > 0
            of_replica = replica.await_samples(
                lambda seen: seen.get(at("redis_slave_repl_offset", **place)) == told["master_repl_offset"]
            )
            assert of_replica[at("redis_master_sync_in_progress", **place)] == 0
            assert [dict(labels)["role"] for name, labels in of_replica if name == "redis_instance_info"] == ["slave"]
            replica.process.send_signal(signal.SIGSTOP)
            with RawClient(master.port) as writer:
                writer.send([b"XADD", b"s", b"*", b"n", b"waits"])
                samples = master.await_samples(lambda seen: seen[at("headrace_unconfirmed_replies")] == 1)
                assert samples[at("headrace_held_replies")] == 1
                assert samples[at("headrace_replica_behind_bytes", **which)] > 0
                replica.process.send_signal(signal.SIGCONT)
                master.await_samples(lambda seen: seen[at("headrace_unconfirmed_replies")] == 0)
