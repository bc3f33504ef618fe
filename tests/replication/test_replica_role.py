"""A replica answers as Redis's does: what it refuses, what it shows of itself, what it leaves to its master."""

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
import redis

from support.patience import await_that
from support.raw_client import parse
from support.redis_process import RedisProcess
from support.server_process import ServerProcess

Trio = tuple[RedisProcess, RedisProcess, ServerProcess]

NO_WRITES = "#!lua flags=no-writes\nreturn redis.call('GET', 'k')"
WRITES = "#!lua\nreturn redis.call('SET', 'k', 'v')"
SAME_ANSWERS = [
    ["SET", "k", "v"],
    ["XADD", "s", "*", "a", "1"],
    ["XREADGROUP", "GROUP", "g", "c", "STREAMS", "s", ">"],
    ["FLUSHALL"],
    ["GET", "nosuch"],
    ["EVAL", "return redis.call('SET', 'k', 'v')", "0"],
    ["EVAL", "return redis.pcall('SET', 'k', 'v')", "0"],
    ["EVAL", WRITES, "0"],
    ["EVAL", NO_WRITES, "0"],
    ["PUBLISH", "nobody", "hears"],
    ["WAIT", "0", "0"],
    ["WAIT", "x", "0"],
    ["FAILOVER"],
    ["FAILOVER", "ABORT"],
    ["FAILOVER", "TO", "127.0.0.1"],
    ["FAILOVER", "TIMEOUT", "x"],
    ["FAILOVER", "TIMEOUT", "0"],
    ["FAILOVER", "ABORT", "FORCE"],
    ["FAILOVER", "FORCE", "FORCE"],
    ["REPLICAOF", "127.0.0.1", "x"],
    ["REPLICAOF", "127.0.0.1", "65536"],
    ["REPLICAOF", "127.0.0.1", "-1"],
    ["REPLICAOF", "NO", "TWO"],
    ["REPLICAOF", "NO"],
    ["CLIENT", "LIST", "TYPE", "replica"],
    ["CLIENT", "KILL", "TYPE", "nosuch"],
    ["CONFIG", "SET", "replicaof", "127.0.0.1 1"],
    ["REPLCONF"],
    ["REPLCONF", "capa"],
    ["REPLCONF", "nosuch", "1"],
    ["REPLCONF", "listening-port", "x"],
    ["REPLCONF", "capa", "eof", "capa", "psync2"],
]


@pytest.fixture(scope="module")
def trio(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Trio]:
    """A Redis, and two replicas of it: a Redis and a Headrace."""
    with ExitStack() as stack:
        master = stack.enter_context(RedisProcess(tmp_path_factory.mktemp("master")))
        following = ("--replicaof", "127.0.0.1", str(master.port))
        replica = stack.enter_context(RedisProcess(tmp_path_factory.mktemp("redis"), *following))
        ours = stack.enter_context(
            ServerProcess(tmp_path_factory.mktemp("headrace"), *following, "--enable-debug-command", "yes")
        )
        for each in (replica, ours):
            await_link(each.client())
        yield master, replica, ours


def await_link(client: redis.Redis, status: str = "up") -> None:
    await_that(lambda: client.info("replication").get("master_link_status") == status)


def await_same_offset(master: redis.Redis, *replicas: redis.Redis) -> None:
    """Wait until replicas have everything."""
    for replica in replicas:
        await_that(
            lambda replica=replica: (
                replica.info("replication").get("slave_repl_offset")  # type: ignore[misc]
                == master.info("replication")["master_repl_offset"]
            )
        )


# --- against a live replica of Redis -------------------------------------------------------------------------------


@pytest.mark.parametrize("words", SAME_ANSWERS, ids=lambda words: " ".join(words).replace("\n", " "))
def test_a_replica_answers_as_that_of_redis(words: list[str], trio: Trio) -> None:
    _, theirs, ours = trio
    with theirs.raw() as one, ours.raw() as other:
        assert other.run(*words) == one.run(*words)


def test_a_transaction_that_writes_is_refused_as_there(trio: Trio) -> None:
    _, theirs, ours = trio
    answers = []
    for server in (theirs, ours):
        with server.raw() as client:
            answers.append([client.run(*words) for words in (["MULTI"], ["GET", "k"], ["SET", "k", "v"], ["EXEC"])])
    assert answers[1] == answers[0]


def test_to_follow_the_same_master_again_changes_nothing(trio: Trio) -> None:
    master, theirs, ours = trio
    for server in (theirs, ours):
        with server.raw() as client:
            assert client.run("REPLICAOF", "127.0.0.1", master.port) == b"+OK Already connected to specified master\r\n"


def test_role_is_that_of_a_replica(trio: Trio) -> None:
    master, theirs, ours = trio
    await_same_offset(master.client(), theirs.client(), ours.client())
    for server in (theirs, ours):
        with server.raw() as client:
            role = parse(client.run("ROLE"))
        assert role[:5] == ["*", "$slave", "$127.0.0.1", f":{master.port}", "$connected"]
        assert int(role[5][1:]) == server.client().info("replication")["slave_repl_offset"]


def test_hello_says_replica(trio: Trio) -> None:
    _, theirs, ours = trio
    for server in (theirs, ours):
        with server.raw() as client:
            assert b"$4\r\nrole\r\n$7\r\nreplica\r\n" in client.run("HELLO", 2)


def test_info_replication_has_all_fields_of_redis_in_their_order(trio: Trio) -> None:
    _, theirs, ours = trio
    fields = []
    for server in (theirs, ours):
        with server.raw() as client:
            lines = client.run("INFO", "replication").decode().splitlines()
            fields.append([line.split(":")[0] for line in lines if ":" in line])
    assert [name for name in fields[1] if name in fields[0]] == fields[0]


def test_client_list_shows_the_master(trio: Trio) -> None:
    _, theirs, ours = trio
    for server in (theirs, ours):
        [line] = server.client().execute_command("CLIENT", "LIST", "TYPE", "master").strip().splitlines()
        assert "flags=M" in str(line)


def test_a_master_whose_connection_is_killed_is_followed_again(trio: Trio) -> None:
    _, _, ours = trio
    client = ours.client()
    before = client.client_list(_type="master")[0]["id"]
    assert client.execute_command("CLIENT", "KILL", "TYPE", "master") == 1
    await_that(lambda: client.client_list(_type="master"))
    assert client.client_list(_type="master")[0]["id"] != before
    await_link(client)


def test_an_expired_key_is_missing_but_kept_until_the_master_deletes_it(trio: Trio) -> None:
    master, theirs, ours = trio
    leader = master.client()
    leader.execute_command("DEBUG", "SET-ACTIVE-EXPIRE", "0")
    try:
        leader.flushall()
        leader.set("short", "1", px=1)
        leader.set("long", "1")
        await_same_offset(leader, theirs.client(), ours.client())
        for server in (theirs, ours):
            client = server.client()
            await_that(lambda client=client: client.get("short") is None)  # type: ignore[misc]
            assert (client.exists("short"), client.keys("*"), client.dbsize()) == (0, ["long"], 2)
            assert client.ttl("short") == -2
        assert leader.get("short") is None  # which deletes it
        await_same_offset(leader, theirs.client(), ours.client())
        for server in (theirs, ours):
            await_that(lambda server=server: server.client().dbsize() == 1)  # type: ignore[misc]
    finally:
        leader.execute_command("DEBUG", "SET-ACTIVE-EXPIRE", "1")


def test_who_waits_at_a_replica_reads_what_the_master_adds(trio: Trio) -> None:
    master, _, ours = trio
    with ours.raw() as reader:
        reader.send_words("XREAD", "BLOCK", 0, "STREAMS", "awaited", "$")
        await_that(lambda: ours.client().info("clients")["blocked_clients"] == 1)
        master.client().xadd("awaited", {"a": "1"}, id="5-1")
        assert b"5-1" in reader.reply()


def test_who_listens_at_a_replica_hears_what_is_published_at_the_master(trio: Trio) -> None:
    master, _, ours = trio
    with ours.raw() as listener:
        listener.run("SUBSCRIBE", "news")
        master.client().publish("news", "hello")
        assert b"hello" in listener.reply()


# --- changes of the role -------------------------------------------------------------------------------------------


@pytest.fixture
def master(tmp_path: Path) -> Iterator[RedisProcess]:
    with RedisProcess(tmp_path / "redis") as server:
        yield server


def test_a_promotion_begins_a_history_that_remembers_the_one_before(master: RedisProcess, tmp_path: Path) -> None:
    with ServerProcess(tmp_path, "--replicaof", "127.0.0.1", str(master.port)) as server:
        client = server.client()
        await_link(client)
        master.client().xadd("s", {"a": "1"})
        await_same_offset(master.client(), client)
        before = client.info("replication")
        with pytest.raises(redis.exceptions.ReadOnlyError):
            client.xadd("s", {"a": "2"})
        assert client.execute_command("REPLICAOF", "NO", "ONE")
        after = client.info("replication")
        assert after["role"] == "master"
        assert after["master_replid2"] == before["master_replid"] != after["master_replid"]
        assert after["second_repl_offset"] == before["master_repl_offset"] + 1
        assert client.xadd("s", {"a": "2"})
        assert client.execute_command("REPLICAOF", "NO", "ONE")
        assert client.info("replication")["master_replid"] == after["master_replid"]


def test_blocked_clients_are_let_go_when_a_master_becomes_a_replica(master: RedisProcess, tmp_path: Path) -> None:
    with ServerProcess(tmp_path) as server, server.raw() as blocked, server.raw() as other:
        blocked.send_words("XREAD", "BLOCK", 0, "STREAMS", "s", "$")
        await_that(lambda: server.client().info("clients")["blocked_clients"] == 1)
        assert other.run("REPLICAOF", "127.0.0.1", master.port) == b"+OK\r\n"
        assert blocked.reply() == (
            b"-UNBLOCKED force unblock from blocking operation, instance state changed (master -> replica?)\r\n"
        )
        assert blocked.is_closed()
        assert other.run("PING") == b"+PONG\r\n"


def test_sentinels_transaction_changes_the_role_and_survives_a_restart(master: RedisProcess, tmp_path: Path) -> None:
    file = tmp_path / "redis.conf"
    file.write_text("appendonly yes\n")
    with ServerProcess(tmp_path, str(file)) as server:
        with server.raw() as bystander, server.raw() as sentinel:
            bystander.run("PING")
            for words in (
                ["MULTI"],
                ["SLAVEOF", "127.0.0.1", master.port],
                ["CONFIG", "REWRITE"],
                ["CLIENT", "KILL", "TYPE", "normal"],
                ["CLIENT", "KILL", "TYPE", "pubsub"],
            ):
                sentinel.run(*words)
            assert sentinel.run("EXEC").startswith(b"*4\r\n+OK\r\n+OK\r\n:")
            assert bystander.is_closed()
        assert f"replicaof 127.0.0.1 {master.port}" in file.read_text()
        await_link(server.client())
    with ServerProcess(tmp_path, str(file)) as server:
        client = server.client()
        await_link(client)
        assert client.config_get("replicaof") == {"replicaof": f"127.0.0.1 {master.port}"}
        assert client.config_get("slaveof") == {"slaveof": f"127.0.0.1 {master.port}"}
        client.execute_command("SLAVEOF", "NO", "ONE")
        client.config_rewrite()
        assert "replicaof" not in file.read_text()


def test_what_a_transaction_wrote_before_it_made_the_server_a_replica_is_kept(tmp_path: Path) -> None:
    with ServerProcess(tmp_path) as server, server.raw() as client:
        for words in (["MULTI"], ["SET", "k", "v"], ["REPLICAOF", "127.0.0.1", "1"]):
            client.run(*words)
        assert client.run("EXEC") == b"*2\r\n+OK\r\n+OK\r\n"
        server.process.kill()
    with ServerProcess(tmp_path) as server:
        assert server.client().get("k") == "v"


# --- settings ------------------------------------------------------------------------------------------------------


def test_without_its_master_a_replica_may_refuse_even_to_read(tmp_path: Path) -> None:
    answers = []
    words = (["GET", "k"], ["SET", "k", "v"], ["PING"], ["INFO", "x"], ["EVAL", "return 1", "0"], ["MULTI"])
    inside = (["EVAL", "return redis.call('GET', 'k')", "0"], ["GET", "k"], ["DISCARD"])
    outside = (
        ["EVAL", "#!lua\nreturn 1", "0"],
        ["EVAL", "#!lua flags=no-writes\nreturn 1", "0"],
        ["EVAL", "#!lua flags=no-writes,allow-stale\nreturn redis.call('GET', 'k')", "0"],
        ["EVAL", "#!lua flags=no-writes,allow-stale\nreturn 1", "0"],
    )
    nowhere = ("--replicaof", "127.0.0.1", "1")
    with RedisProcess(tmp_path / "redis", *nowhere) as theirs, ServerProcess(tmp_path, *nowhere) as ours:
        for server in (theirs, ours):
            server.client().config_set("replica-serve-stale-data", "no")
            with server.raw() as client:
                answers.append([client.run(*each) for each in (*words, *inside, *outside)])
        assert answers[1] == answers[0]
        assert answers[1][0].startswith(b"-MASTERDOWN")
        ours.client().config_set("replica-serve-stale-data", "yes")
        assert ours.client().get("k") is None


def test_a_replica_that_may_be_written_to_keeps_what_is_written_to_itself(master: RedisProcess, tmp_path: Path) -> None:
    with ServerProcess(tmp_path, "--replicaof", "127.0.0.1", str(master.port), "--replica-read-only", "no") as server:
        client = server.client()
        await_link(client)
        offset = client.info("replication")["master_repl_offset"]
        client.set("own", "1")
        assert client.get("own") == "1"
        assert client.info("replication")["master_repl_offset"] == offset
        client.config_set("replica-read-only", "yes")
        with pytest.raises(redis.exceptions.ReadOnlyError):
            client.set("own", "2")


def test_a_replica_minds_maxmemory_only_where_it_is_told_to(tmp_path: Path) -> None:
    following = ("--replicaof", "127.0.0.1", "1", "--replica-read-only", "no")
    with ServerProcess(tmp_path, *following, "--maxmemory", "1") as server:
        client = server.client()
        assert client.set("k", "v")
        client.config_set("replica-ignore-maxmemory", "no")
        await_that(lambda: is_out_of_memory(client))
        client.config_set("replica-ignore-maxmemory", "yes")
        await_that(lambda: not is_out_of_memory(client))


def is_out_of_memory(client: redis.Redis) -> bool:
    try:
        client.set("k", "v")
    except redis.exceptions.OutOfMemoryError:
        return True
    return False


def test_a_master_refuses_writes_without_replicas_where_it_needs_some(tmp_path: Path) -> None:
    needing = ("--min-replicas-to-write", "1")
    answers = []
    with RedisProcess(tmp_path / "redis", *needing) as theirs, ServerProcess(tmp_path, *needing) as ours:
        for server in (theirs, ours):
            with server.raw() as client:
                words = (["SET", "k", "v"], ["GET", "k"], ["EVAL", "return redis.call('SET', 'k', 'v')", "0"])
                answers.append([client.run(*each) for each in words])
                answers[-1].append(client.run("EVAL", WRITES, "0"))
        assert answers[1] == answers[0]
        assert answers[1][0] == b"-NOREPLICAS Not enough good replicas to write.\r\n"
        info = ours.client().info("replication")
        assert info["min_slaves_good_slaves"] == 0
        ours.client().config_set("min-replicas-to-write", 0)
        assert ours.client().set("k", "v")


def test_failover_without_replicas_is_refused_as_there(tmp_path: Path) -> None:
    with RedisProcess(tmp_path / "redis") as theirs, ServerProcess(tmp_path) as ours:
        for words in (["FAILOVER"], ["FAILOVER", "FORCE"], ["FAILOVER", "TO", "127.0.0.1", "1"], ["FAILOVER", "ABORT"]):
            with theirs.raw() as one, ours.raw() as other:
                assert other.run(*words) == one.run(*words)
