"""A master of a Redis and of a Headrace: what it shows of its replicas, waits for, and hands over."""

import re
import signal
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from threading import Thread

import pytest
import redis

from support.patience import PATIENCE_S, await_that
from support.raw_client import RawClient, parse
from support.redis_process import RedisProcess
from support.server_process import ServerProcess

Replicas = tuple[ServerProcess, RedisProcess, ServerProcess]


@pytest.fixture
def trio(tmp_path: Path) -> Iterator[Replicas]:
    """A Headrace, and two replicas of it: a Redis and a Headrace."""
    with ExitStack() as stack:
        for name in ("master", "headrace"):
            (tmp_path / name).mkdir()
        master = stack.enter_context(ServerProcess(tmp_path / "master", "--repl-diskless-sync-delay", "0"))
        following = ("--replicaof", "127.0.0.1", str(master.port))
        theirs = stack.enter_context(RedisProcess(tmp_path / "redis", *following))
        ours = stack.enter_context(ServerProcess(tmp_path / "headrace", *following))
        await_that(lambda: online(master.client()) == 2)
        yield master, theirs, ours


def online(client: redis.Redis) -> int:
    info = client.info("replication")
    return sum(info.get(f"slave{number}", {}).get("state") == "online" for number in range(3))


def test_info_and_role_list_the_replicas(trio: Replicas) -> None:
    master, theirs, ours = trio
    client = master.client()
    client.xadd("s", {"a": "1"})
    assert client.wait(2, int(PATIENCE_S * 1000)) == 2
    info = client.info("replication")
    assert info["connected_slaves"] == 2
    assert {info[f"slave{number}"]["port"] for number in range(2)} == {theirs.port, ours.port}
    with master.raw() as raw:
        role = parse(raw.run("ROLE"))
    assert role[1] == "$master"
    assert sorted(each[2] for each in role[3][1:]) == sorted([f"${theirs.port}", f"${ours.port}"])
    assert info["repl_backlog_active"] == 1
    assert client.info("stats")["sync_full"] == 2
    for replica in (theirs, ours):
        assert replica.client().xlen("s") == 1
        assert replica.client().info("replication")["master_replid"] == info["master_replid"]


def test_info_replication_has_the_fields_of_redis_in_their_order(trio: Replicas) -> None:
    master, _, _ = trio
    with master.raw() as client:
        lines = client.run("INFO", "replication").decode().splitlines()
    assert [line.split(":")[0] for line in lines if ":" in line] == [
        *("role", "connected_slaves", "slave0", "slave1", "master_failover_state"),
        *("master_replid", "master_replid2", "master_repl_offset", "second_repl_offset"),
        *("repl_backlog_active", "repl_backlog_size", "repl_backlog_first_byte_offset", "repl_backlog_histlen"),
    ]


def test_replicas_of_a_replica_continue_when_it_is_promoted(tmp_path: Path) -> None:
    with ExitStack() as stack:
        chain: list[ServerProcess] = []
        for name in ("first", "second", "third"):
            (tmp_path / name).mkdir()
            following = ("--replicaof", "127.0.0.1", str(chain[-1].port)) if chain else ()
            arguments = ("--repl-diskless-sync-delay", "0", *following)
            chain.append(stack.enter_context(ServerProcess(tmp_path / name, *arguments)))
        first, second, third = (server.client() for server in chain)
        await_that(lambda: online(first) == 1 and online(second) == 1)
        first.xadd("s", {"a": "1"})
        await_that(lambda: third.xlen("s") == 1)
        second.execute_command("REPLICAOF", "NO", "ONE")
        second.xadd("s", {"a": "2"})
        await_that(lambda: third.xlen("s") == 2)
        assert second.info("stats")["sync_full"] == 1
        assert third.info("replication")["master_replid"] == second.info("replication")["master_replid"]
        assert third.info("replication")["master_replid2"] == first.info("replication")["master_replid"]


def test_clients_that_replicate_are_shown_and_ended_by_their_type(trio: Replicas) -> None:
    master, _, _ = trio
    client = master.client()
    lines = client.execute_command("CLIENT", "LIST", "TYPE", "replica").strip().splitlines()
    assert ["flags=S" in str(line) for line in lines] == [True, True]
    assert client.info("clients")["connected_clients"] == len(client.client_list(_type="normal"))
    assert client.execute_command("CLIENT", "KILL", "TYPE", "normal") >= 0
    assert online(client) == 2
    assert client.execute_command("CLIENT", "KILL", "TYPE", "slave") == 2
    await_that(lambda: client.info("stats")["sync_partial_ok"] == 2)
    await_that(lambda: online(client) == 2)
    assert client.info("stats")["sync_full"] == 2


def test_wait_counts_who_has_the_last_write(trio: Replicas) -> None:
    master, theirs, _ = trio
    client = master.client()
    client.set("k", "1")
    assert client.wait(2, int(PATIENCE_S * 1000)) == 2
    theirs.process.send_signal(19)
    try:
        client.set("k", "2")
        assert client.wait(1, int(PATIENCE_S * 1000)) == 1
        assert client.wait(2, 50) == 1
    finally:
        theirs.process.send_signal(18)
    assert client.wait(2, int(PATIENCE_S * 1000)) == 2


def test_waitaof_counts_the_disks_of_replicas(trio: Replicas) -> None:
    master, _, _ = trio
    client = master.client()
    client.set("k", "1")
    # Redis 7.0 does not say how far its disk is, and here it has no append-only file.
    assert client.execute_command("WAITAOF", 1, 1, int(PATIENCE_S * 1000)) == [1, 1]
    assert client.execute_command("WAITAOF", 1, 2, 50) == [1, 1]


def test_writes_are_accepted_while_enough_replicas_answer(trio: Replicas) -> None:
    master, _, _ = trio
    client = master.client()
    client.config_set("min-replicas-to-write", 2)
    assert client.set("k", "1")
    assert client.info("replication")["min_slaves_good_slaves"] == 2
    client.config_set("min-replicas-to-write", 3)
    with pytest.raises(redis.ResponseError, match="Not enough good replicas to write"):
        client.set("k", "2")


def test_a_pause_of_all_clients_does_not_keep_replicas_waiting(trio: Replicas) -> None:
    master, _, _ = trio
    client = master.client()
    client.set("k", "1")
    client.client_pause(2000)
    await_that(lambda: client.info("replication")["slave0"]["lag"] <= 1)
    assert client.wait(2, int(PATIENCE_S * 1000)) == 2


def test_messages_are_heard_at_replicas_and_are_no_data(trio: Replicas) -> None:
    master, theirs, ours = trio
    with theirs.raw() as one, ours.raw() as other:
        for listener in (one, other):
            listener.run("SUBSCRIBE", "news")
        client = master.client()
        client.publish("news", "hello")
        with client.pipeline(transaction=True) as transaction:
            transaction.set("k", "1").publish("news", "inside").execute()
        for listener in (one, other):
            assert b"hello" in listener.reply()
            assert b"inside" in listener.reply()
    assert client.wait(2, int(PATIENCE_S * 1000)) == 2
    assert master.stop() == 0
    with ServerProcess(master.directory) as again:
        assert again.client().get("k") == "1"


# --- handing over --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("target", [1, 2], ids=["to a Redis", "to a Headrace"])
def test_failover_hands_over_without_losing_a_write(trio: Replicas, target: int) -> None:
    master, chosen = trio[0], trio[target]
    client = master.client()
    written: list[str] = []
    refused: list[str] = []

    def write() -> None:
        with master.client() as writer:
            while not refused:
                try:
                    written.append(str(writer.xadd("s", {"a": len(written)})))
                except redis.exceptions.ReadOnlyError as error:
                    refused.append(str(error))

    thread = Thread(target=write)
    thread.start()
    try:
        await_that(lambda: len(written) > 20)
        assert client.execute_command("FAILOVER", "TO", "127.0.0.1", chosen.port)
        await_that(lambda: chosen.client().info("replication")["role"] == "master")
        await_that(lambda: client.info("replication").get("master_link_status") == "up")
    finally:
        refused.append("the test is over")
        thread.join(PATIENCE_S)
    assert client.info("replication")["master_failover_state"] == "no-failover"
    assert [each for each, _ in chosen.client().xrange("s")] == written
    assert client.info("replication")["master_port"] == chosen.port
    assert chosen.client().info("stats")["sync_full"] == 0
    chosen.client().xadd("s", {"a": "after"})
    await_that(lambda: client.xlen("s") == len(written) + 1)


def test_failover_gives_up_when_its_time_is_over_and_writes_go_on(trio: Replicas) -> None:
    master, theirs, ours = trio
    client = master.client()
    for replica in (theirs, ours):
        replica.process.send_signal(19)
    try:
        client.set("k", "1")
        assert client.execute_command("FAILOVER", "TIMEOUT", 300)
        assert client.info("replication")["master_failover_state"] == "waiting-for-sync"
        with pytest.raises(redis.ResponseError, match="FAILOVER already in progress"):
            client.execute_command("FAILOVER")
        with pytest.raises(redis.ResponseError, match="REPLICAOF not allowed while failing over"):
            client.execute_command("REPLICAOF", "NO", "ONE")
        assert client.set("k", "2")  # held back until then
        assert client.info("replication")["master_failover_state"] == "no-failover"
        assert client.execute_command("FAILOVER")
        assert client.execute_command("FAILOVER", "ABORT")
        assert client.set("k", "3")
    finally:
        for replica in (theirs, ours):
            replica.process.send_signal(18)
    assert client.info("replication")["role"] == "master"


def test_a_master_that_was_killed_continues_as_a_replica_of_its_successor(tmp_path: Path) -> None:
    for name in ("master", "replica"):
        (tmp_path / name).mkdir()
    with ExitStack() as stack:
        master = stack.enter_context(ServerProcess(tmp_path / "master", "--repl-diskless-sync-delay", "0"))
        replica = stack.enter_context(ServerProcess(tmp_path / "replica", "--replicaof", "127.0.0.1", str(master.port)))
        await_that(lambda: online(master.client()) == 1)
        master.client().xadd("s", {"a": "1"})
        await_that(lambda: offset_of(replica) == offset_of(master))
        master.process.kill()
        successor = replica.client()
        successor.execute_command("REPLICAOF", "NO", "ONE")
        successor.xadd("s", {"a": "2"})
        again = stack.enter_context(ServerProcess(tmp_path / "master"))
        assert again.client().info("replication")["role"] == "master"
        again.client().execute_command("REPLICAOF", "127.0.0.1", replica.port)
        await_that(lambda: again.client().xlen("s") == 2)
        assert successor.info("stats")["sync_full"] == 0
        await_that(lambda: offset_of(again) == offset_of(replica))


def offset_of(server: ServerProcess) -> int:
    return int(server.client().info("replication")["master_repl_offset"])


def test_a_redis_hands_over_to_a_headrace(tmp_path: Path) -> None:
    with (
        RedisProcess(tmp_path / "redis") as master,
        ServerProcess(tmp_path, "--replicaof", "127.0.0.1", str(master.port)) as ours,
    ):
        await_that(lambda: online(master.client()) == 1)
        master.client().xadd("s", {"a": "1"})
        assert master.client().execute_command("FAILOVER", "TO", "127.0.0.1", ours.port, "TIMEOUT", 60000)
        await_that(lambda: ours.client().info("replication")["role"] == "master")
        await_that(lambda: master.client().info("replication").get("master_link_status") == "up")
        ours.client().xadd("s", {"a": "2"})
        await_that(lambda: master.client().xlen("s") == 2)
        assert ours.client().info("stats")["sync_full"] == 0


# --- the end ---------------------------------------------------------------------------------------------------------


def test_a_master_that_is_stopped_sends_its_replicas_everything_first(trio: Replicas) -> None:
    master, theirs, ours = trio
    with master.client().pipeline(transaction=False) as pipeline:
        for number in range(2000):
            pipeline.xadd("s", {"a": number})
        pipeline.execute()
    assert master.stop() == 0
    for replica in (theirs, ours):
        assert replica.client().xlen("s") == 2000


def test_a_master_that_is_stopped_does_not_wait_for_ever(trio: Replicas) -> None:
    master, theirs, _ = trio
    client = master.client()
    client.config_set("shutdown-timeout", 1)
    theirs.process.send_signal(19)
    try:
        client.set("k", "v")
        assert master.stop() == 0
        assert "reported offset" in master.log
        assert "1 of 2 replicas are in sync when shutting down." in master.log
    finally:
        theirs.process.send_signal(18)


def test_a_shutdown_that_waits_for_replicas_can_be_aborted(trio: Replicas) -> None:
    master, theirs, _ = trio
    with master.client() as client, RawClient.of(client) as ends, RawClient.of(client) as writes:
        client.config_set("shutdown-timeout", 100)
        theirs.process.send_signal(signal.SIGSTOP)
        try:
            client.set("k", "v")
            for abort in (True, False):
                ends.send_words("SHUTDOWN")
                master.await_log("Waiting for replicas before shutting down.")
                await_that(lambda: client.info("clients")["blocked_clients"] == 1)
                assert 0 < int(client.info("server")["shutdown_in_milliseconds"]) <= 100_000
                assert client.get("k") == "v"
                writes.send_words("SET", "k", "w")
                await_that(lambda: client.info("clients")["blocked_clients"] == 2)
                if not abort:
                    break
                assert client.execute_command("SHUTDOWN", "ABORT") in (True, "OK", b"OK")
                assert ends.reply() == b"-ERR Errors trying to SHUTDOWN. Check logs.\r\n"
                assert writes.reply() == b"+OK\r\n"
                assert "shutdown_in_milliseconds" not in client.info("server")
                with pytest.raises(redis.ResponseError, match="No shutdown in progress"):
                    client.execute_command("SHUTDOWN", "ABORT")
                client.set("k", "v")
        finally:
            theirs.process.send_signal(signal.SIGCONT)
        assert master.process.wait(60) == 0  # as soon as the replica has everything


def test_a_monitor_of_a_replica_sees_what_its_master_does(trio: Replicas) -> None:
    master, theirs, ours = trio
    with master.client() as client, RawClient.of(client) as writes, ExitStack() as stack:
        client.set("before", "v")
        client.wait(2, 10_000)
        monitors = [stack.enter_context(RawClient.of(each)) for each in (theirs.client(), ours.client())]
        for monitor in monitors:
            assert monitor.run("MONITOR") == b"+OK\r\n"
        for words in ("SELECT 3", "XADD s 1-1 a b", "MULTI", "SET a 1", "SET b 2", "EXEC", "PUBLISH c m", "SET end 1"):
            writes.run(*words.split())
        seen: list[list[bytes]] = []
        for monitor in monitors:
            lines: list[bytes] = []
            while not lines or b'"end"' not in lines[-1]:
                line = re.sub(rb"^\+[\d.]+ ", b"", monitor.reply())
                if b'"PING"' not in line:
                    lines.append(line)
            seen.append(lines)
        assert seen[0] == seen[1]
        assert seen[0][0] == b'[3 127.0.0.1:%d] "SELECT" "3"\r\n' % master.port


def test_the_log_names_the_role(trio: Replicas) -> None:
    master, _, replica = trio
    assert re.search(rf"^{master.process.pid}:M .* Ready to accept", master.log, re.MULTILINE)
    replica.await_log("The link to")
    assert re.search(rf"^{replica.process.pid}:S .* The link to .* is up", replica.log, re.MULTILINE)


def test_info_has_the_memory_of_replicas(trio: Replicas) -> None:
    assert int(trio[0].client().info("memory")["mem_clients_slaves"]) >= 0


# --- tools ---------------------------------------------------------------------------------------------------------


def test_redis_cli_shows_what_is_sent_to_replicas(tmp_path: Path) -> None:
    with (
        ServerProcess(tmp_path) as master,
        subprocess.Popen(
            ["redis-cli", "-p", str(master.port), "--replica"], stdout=subprocess.PIPE, text=True
        ) as shown,
    ):
        try:
            client = master.client()
            await_that(lambda: online(client) == 1)
            client.set("k", "v")
            assert any('"set","k","v"' in line.lower() for line in iter(shown.stdout or []))
        finally:
            shown.kill()
