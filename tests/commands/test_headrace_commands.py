"""HEADRACE: ranges cut and shipped as nodes; packed entries staged, committed exactly once, and repeated the same."""

from typing import Any

import pytest
import redis
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.commands.all import make_engine
from headrace.core.stream import Stream
from headrace.engine.applier import Applier
from headrace.engine.configuration.config import Config
from support.in_process import InProcess
from support.packed_rows import numbered, packed
from support.stream_session import NOW, StreamSession

NOTHING = [None, None, 0]
BATCHES = b"headrace:{s}:batches"


class Session(StreamSession):
    """A session that also sends bytes, and reads replies as Python values."""

    def send(self, *words: str | bytes | int) -> Any:
        return decode(self.run(*words))[0]

    def stage(self, batch: int, partition: int, payload: bytes, *more: str | int, query: str = "q") -> Any:
        return self.send("HEADRACE", "STAGE", "s", query, batch, partition, payload, *more)

    def commit(self, batch: int, parts: int, *more: str | int, query: str = "q") -> Any:
        return self.send("HEADRACE", "COMMIT", "s", query, batch, parts, *more)

    def entries(self, key: str = "s") -> list[Any]:
        return list(self.send("XRANGE", key, "-", "+"))

    def data(self) -> dict[bytes, Any]:
        """Everything in database 0, comparable."""
        return {key: shown(value) for key, value in self.engine.databases[0].values.items()}


def decode(reply: bytes) -> tuple[Any, bytes]:
    """Read one RESP2 reply."""
    line, _, rest = reply.partition(b"\r\n")
    kind, body = line[:1], line[1:]
    if kind == b"$":
        size = int(body)
        return (None, rest) if size < 0 else (rest[:size], rest[size + 2 :])
    if kind == b"*":
        items = []
        for _ in range(int(body)):
            item, rest = decode(rest)
            items.append(item)
        return items, rest
    if kind == b":":
        return int(body), rest
    return line, rest


def shown(value: Any) -> Any:
    if isinstance(value, Stream):
        nodes = [(str(master), listpack) for master, listpack in value.nodes()]
        return (len(value), str(value.last_id), str(value.first_id), value.entries_added, nodes)
    return dict(value) if isinstance(value, dict) else value


def repeated(effects: list[tuple[int, list[bytes]]]) -> Session:
    """Repeat effects in an engine of its own."""
    session = Session()
    session.wait_ms(123_456)
    applier = Applier(session.engine, session.engine.clocks.unix_ms())
    for number, argv in effects:
        assert applier.run([b"SELECT", b"%d" % number]) is None
        assert applier.run(argv) is None, argv[:3]
    applier.end()
    return session


@pytest.fixture
def session() -> Session:
    return Session()


# --- reading -------------------------------------------------------------------------------------------------------


@pytest.fixture
def filled() -> Session:
    """Nine entries in nodes of two, the fifth deleted."""
    session = Session()
    session.ask("CONFIG SET stream-node-max-entries 2")
    session.fill("s", *(f"{ms}-0" for ms in range(1, 10)))
    session.ask("XDEL s 5-0")
    session.take_effects()
    return session


def test_splits_cut_a_range_at_nodes(filled: Session) -> None:
    parts = filled.send("HEADRACE", "SPLITS", "s", "-", "+", 2)
    greatest = b"18446744073709551615-18446744073709551615"
    assert [part[:3] for part in parts] == [[b"0-0", b"6-18446744073709551615", 5], [b"7-0", greatest, 3]]
    assert all(part[3] > 0 for part in parts)
    (part,) = filled.send("HEADRACE", "SPLITS", "s", "(2-0", "(4-0", 5)
    assert part[:3] == [b"2-1", b"3-18446744073709551615", 2]
    assert filled.send("HEADRACE", "SPLITS", "s", "10", "+", 4) == []
    assert filled.send("HEADRACE", "SPLITS", "s", "5", "3", 4) == []
    assert filled.send("HEADRACE", "SPLITS", "none", "-", "+", 4) == []
    assert filled.take_effects() == []


def test_nodes_come_as_they_are_kept_and_a_few_at_a_time(filled: Session) -> None:
    stream = filled.engine.databases[0].values[b"s"]
    kept = [[master.key, listpack] for master, listpack in stream.nodes()]
    assert filled.send("HEADRACE", "NODES", "s", "-", "+") == [None, kept]
    assert filled.send("HEADRACE", "NODES", "s", "4", "(7-0") == [None, kept[1:3]]
    following, nodes = filled.send("HEADRACE", "NODES", "s", "4", "8-0", "COUNT", 1)
    assert (following, nodes) == (b"5-0", kept[1:2])
    assert filled.send("HEADRACE", "NODES", "none", "-", "+") == [None, []]
    assert filled.take_effects() == []


@pytest.mark.parametrize(
    ("line", "error"),
    [
        ("SPLITS s - + 0", "ERR value is out of range"),
        ("SPLITS s - + x", "ERR value is not an integer"),
        ("SPLITS s x + 1", "ERR Invalid stream ID"),
        ("SPLITS s - (0-0 1", "ERR invalid start or end ID"),
        ("SPLITS string - + 1", "WRONGTYPE"),
        ("NODES s - + COUNT", "ERR syntax error"),
        ("NODES s - + BYTES 1", "ERR syntax error"),
        ("NODES s - + COUNT 0", "ERR value is out of range"),
        ("NODES string - +", "WRONGTYPE"),
        ("STAGE s q -1 0 x", "ERR batch must be"),
        ("STAGE s q 0 x x", "ERR partition must be"),
        ("STAGE s q 0 0 x", "ERR the payload does not begin as packed entries"),
        ("STAGE s q 0 0 x OFFSET", "ERR syntax error"),
        ("STAGE string q 0 0 x", "WRONGTYPE"),
        ("COMMIT s q 0 x", "ERR value is not an integer"),
        ("COMMIT s q 0 1 MAXLEN", "ERR syntax error"),
        ("COMMIT s q 0 1 MAXLEN 1 MINID 1", "ERR syntax error"),
        ("COMMIT s q 0 1 MAXLEN -1", "ERR The MAXLEN argument"),
        ("COMMIT s q 0 1 MINID x", "ERR Invalid stream ID"),
        ("COMMIT s q 0 2 PARTS 1", "ERR syntax error"),
        ("COMMIT s q 0 1", "ERR part 0 of batch 0 is not staged"),
        ("COMMIT string q 0 0", "WRONGTYPE"),
        ("LINK s x payload", "ERR the payload does not begin"),
        ("NONSENSE", "ERR unknown subcommand"),
    ],
)
def test_what_is_wrong_is_said_and_changes_nothing(filled: Session, line: str, error: str) -> None:
    filled.ask("SET string v")
    before = filled.data()
    filled.take_effects()
    assert filled.ask(f"HEADRACE {line}").startswith(f"-{error}")
    assert (filled.data(), filled.take_effects(), filled.engine.staging.bytes) == (before, [], 0)


# --- staging and committing ----------------------------------------------------------------------------------------


def test_nobody_sees_what_is_staged_until_all_of_it_is_committed(session: Session) -> None:
    assert session.stage(0, 1, numbered(2, b"late")) == 2
    assert session.stage(0, 0, numbered(1, b"early")) == 1
    assert session.stage(0, 0, numbered(2, b"then")) == 3
    assert session.data() == {}
    assert session.take_effects() == []
    assert session.engine.staging.bytes > 0
    assert b"headrace_staged_bytes:0\r\n" not in session.run("INFO", "memory")
    assert session.commit(0, 2) == [b"%d-0" % NOW, b"%d-4" % NOW, 5]
    assert [(id, fields[3]) for id, fields in session.entries()] == [
        (b"%d-%d" % (NOW, place), word) for place, word in enumerate([b"early", b"then", b"then", b"late", b"late"])
    ]
    assert session.engine.staging.bytes == 0
    assert session.send("HGETALL", BATCHES) == [b"q", b"0 %d-0 %d-4 5" % (NOW, NOW)]


def test_a_repeat_changes_nothing_and_is_answered_alike(session: Session) -> None:
    session.stage(7, 0, numbered(3))
    answer = session.commit(7, 1)
    before = session.data()
    session.take_effects()
    session.stage(7, 0, numbered(3))
    assert session.commit(7, 1) == answer
    assert session.commit(7, 1) == answer
    assert session.commit(6, 1) == NOTHING
    assert (session.data(), session.take_effects(), session.engine.staging.batches) == (before, [], {})
    session.stage(8, 0, numbered(1))
    assert session.commit(8, 1)[2] == 1
    session.stage(7, 0, numbered(1), query="other")
    assert session.commit(7, 1, query="other")[2] == 1
    assert len(session.entries()) == 5


def test_parts_may_be_named_and_what_is_not_named_is_forgotten(session: Session) -> None:
    for attempt in (17, 23, 29):
        session.stage(0, attempt, numbered(1, b"%d" % attempt))
    assert session.commit(0, 2, "PARTS", 29, 17, "MAXLEN", 100)[2] == 2
    assert [fields[3] for _, fields in session.entries()] == [b"29", b"17"]
    assert session.engine.staging.batches == {}


def test_a_part_that_is_missing_refuses_the_batch(session: Session) -> None:
    session.stage(0, 0, numbered(1))
    assert session.commit(0, 2).startswith(b"-ERR part 1 of batch 0 is not staged")
    assert session.data() == {}
    assert session.stage(0, 1, b"") == 0
    assert session.commit(0, 2)[2] == 1
    assert session.stage(1, 0, b"") == 0
    assert session.commit(1, 1) == NOTHING
    assert session.commit(2, 0) == NOTHING
    assert session.send("HGET", BATCHES, "q") == b"2 - - 0"


def test_an_offset_makes_staging_repeatable(session: Session) -> None:
    assert session.stage(0, 0, numbered(2, b"a"), "OFFSET", 0) == 2
    assert session.stage(0, 0, numbered(2, b"a"), "OFFSET", 0) == 2
    assert session.stage(0, 0, numbered(3, b"b"), "OFFSET", 2) == 5
    assert session.stage(0, 0, numbered(3, b"b"), "OFFSET", 2) == 5
    assert b"holds 5 entries" in session.stage(0, 0, numbered(1), "OFFSET", 3)
    assert b"holds 5 entries" in session.stage(0, 0, numbered(1), "OFFSET", 6)
    assert b"holds 0 entries" in session.stage(0, 1, numbered(1), "OFFSET", 1)
    assert session.engine.staging.bytes == len(numbered(2, b"a")) + len(numbered(3, b"b"))
    assert session.commit(0, 1)[2] == 5


def test_an_abort_forgets_the_batch(session: Session) -> None:
    session.stage(0, 0, numbered(1))
    session.stage(0, 1, numbered(1))
    session.stage(1, 0, numbered(1))
    assert session.send("HEADRACE", "ABORT", "s", "q", 0) == 2
    assert session.send("HEADRACE", "ABORT", "s", "q", 0) == 0
    assert session.commit(0, 2).startswith(b"-ERR part 0")
    assert session.commit(1, 1)[2] == 1
    assert session.engine.staging.bytes == 0


def test_what_nobody_commits_expires(session: Session) -> None:
    session.ask("CONFIG SET headrace-stage-ttl 10")
    session.stage(0, 0, numbered(1))
    session.wait_ms(9_000)
    session.stage(1, 0, numbered(1))
    session.engine.tick()
    assert len(session.engine.staging.batches) == 2
    session.wait_ms(2_000)
    session.engine.tick()
    assert session.commit(0, 1).startswith(b"-ERR part 0 of batch 0 is not staged: it expired")
    assert session.commit(1, 1)[2] == 1


def test_a_query_can_be_forgotten(session: Session) -> None:
    session.stage(3, 0, numbered(1))
    session.commit(3, 1)
    session.take_effects()
    assert session.send("HEADRACE", "FORGET", "s", "q") == 1
    assert session.effects() == [f"HDEL {BATCHES.decode()} q"]
    assert session.send("HEADRACE", "FORGET", "s", "q") == 0
    assert session.send("EXISTS", BATCHES) == 0
    session.stage(3, 0, numbered(1))
    assert session.commit(3, 1)[2] == 1


@pytest.mark.parametrize(
    ("options", "left"),
    [("MAXLEN 3", 3), ("MAXLEN ~ 100", 107), ("MINID 5-205", 3), ("MINID = 6", 0), ("MINID ~ 5-120", 107)],
)
def test_a_commit_trims(session: Session, options: str, left: int) -> None:
    places = range(1, 208)
    session.stage(0, 0, packed([[(b"n", b"%d" % place)] for place in places], [b"5-%d" % place for place in places]))
    assert session.commit(0, 1, *options.split())[2] == 207
    assert len(session.entries()) == left
    assert repeated(session.take_effects()).data() == session.data()


def test_ids_of_their_own_must_rise_over_all_parts(session: Session) -> None:
    row = [[(b"f", b"v")]]
    session.send("XADD", "s", "5-0", "f", "v")
    session.take_effects()
    before = session.data()
    session.stage(0, 0, packed(row, [b"5-0"]))
    assert session.commit(0, 1) == b"-ERR 5-0 is not greater than the ID before it, 5-0"
    session.stage(0, 0, packed(row, [b"7-0"]), "OFFSET", 0)
    session.stage(0, 1, packed(row, [b"6-0"]))
    assert session.commit(0, 2) == b"-ERR 6-0 is not greater than the ID before it, 7-0"
    session.stage(0, 1, numbered(1), "OFFSET", 0)
    assert session.commit(0, 2) == b"-ERR some parts have IDs of their own and others have none"
    assert (session.data(), session.take_effects()) == (before, [])
    assert session.commit(0, 1) == [b"7-0", b"7-0", 1]


def test_a_commit_follows_the_last_id_also_where_the_clock_has_not(session: Session) -> None:
    session.ask(f"XADD s {NOW + 5}-7 f v")
    session.stage(0, 0, numbered(2))
    assert session.commit(0, 1) == [b"%d-8" % (NOW + 5), b"%d-9" % (NOW + 5), 2]


def test_a_hash_that_is_none_or_holds_something_else_refuses_the_commit(session: Session) -> None:
    session.stage(0, 0, numbered(1))
    session.send("SET", BATCHES, "x")
    assert session.commit(0, 1).startswith(b"-WRONGTYPE")
    session.send("DEL", BATCHES)
    for text in ("x", "1 2 3", "a - - 0", "0 - - x"):
        session.send("HSET", BATCHES, "q", text)
        assert b"is not what a commit wrote" in session.commit(0, 1)
    session.send("DEL", BATCHES)
    assert session.commit(0, 1)[2] == 1


def test_link_appends_at_once(session: Session) -> None:
    assert session.send("HEADRACE", "LINK", "s", "5-0", numbered(2), numbered(1)) == [b"5-0", b"5-2", 3]
    assert session.send("HEADRACE", "LINK", "s", "*", numbered(1)) == [b"%d-0" % NOW, b"%d-0" % NOW, 1]
    assert session.send("HEADRACE", "LINK", "s", "5-0", numbered(1)).startswith(b"-ERR 5-0 is not greater")
    assert session.send("HEADRACE", "LINK", "new", "*", b"") == NOTHING
    assert session.send("EXISTS", "new") == 0
    assert repeated(session.take_effects()).data() == session.data()


def test_readers_that_wait_and_watch_are_told(session: Session) -> None:
    waiting, watching = session.connect(), session.connect()
    waiting.run("XREAD", "BLOCK", 0, "STREAMS", "s", "$")
    watching.run("WATCH", "s")
    watching.run("MULTI")
    session.stage(0, 0, numbered(2))
    assert waiting.waits
    session.commit(0, 1)
    assert not waiting.waits
    assert len(decode(waiting.reply())[0][0][1]) == 2
    assert watching.run("EXEC") == b"*-1\r\n"


# --- effects -------------------------------------------------------------------------------------------------------


@settings(max_examples=30)
@given(st.lists(st.integers(0, 250), min_size=1, max_size=4), st.sampled_from(["auto", "7.0"]), st.integers(0, 300))
def test_effects_repeated_give_the_same_data(sizes: list[int], compatibility: str, kept: int) -> None:
    session = Session()
    session.ask(f"CONFIG SET rdb-compatibility-version {compatibility}")
    for batch in range(2):
        for partition, size in enumerate(sizes):
            session.stage(batch, partition, numbered(size) if size else b"")
        session.commit(batch, len(sizes), "MAXLEN", "~", kept)
        session.wait_ms(1)
    effects = session.take_effects()
    commands = {argv[0] for _, argv in effects}
    assert (b"HEADRACE" in commands) == (compatibility == "auto" and sum(sizes) > 0)
    again = repeated(effects)
    assert again.send("HGETALL", BATCHES) == session.send("HGETALL", BATCHES)
    assert again.entries() == session.entries()
    assert again.ask("XINFO STREAM s")[:1] == session.ask("XINFO STREAM s")[:1]
    if compatibility == "auto":
        assert again.data() == session.data()
    assert again.commit(1, len(sizes)) == session.commit(1, len(sizes))


def test_a_redis_server_can_repeat_the_effects_where_it_should(redis_server: redis.Redis, session: Session) -> None:
    session.ask("CONFIG SET rdb-compatibility-version 7.0")
    session.stage(0, 0, packed([[(b"n", b"%d" % n), (b"\xff", b"\r\n")] for n in range(250)]))
    session.commit(0, 1, "MAXLEN", 120)
    for _, argv in session.take_effects():
        redis_server.execute_command(*argv)
    assert [[id, [part for pair in fields.items() for part in pair]] for id, fields in redis_server.xrange("s")] == [
        [id, fields] for id, fields in session.entries()
    ]
    assert redis_server.hgetall(BATCHES) == {b"q": session.send("HGET", BATCHES, "q")}


# --- who may -------------------------------------------------------------------------------------------------------


def test_permissions_apply(session: Session) -> None:
    session.ask("ACL SETUSER reader on nopass +@read ~s")
    session.ask("ACL SETUSER writer on nopass +@stream ~s ~headrace:{s}:batches")
    session.ask("XADD s 1-0 f v")
    reader, writer = session.connect(), session.connect()
    reader.run("AUTH", "reader", "x")
    writer.run("AUTH", "writer", "x")
    assert reader.run("HEADRACE", "SPLITS", "s", "-", "+", 1).startswith(b"*1")
    assert reader.run("HEADRACE", "NODES", "s", "-", "+").startswith(b"*2")
    for client, words in (
        (reader, ("HEADRACE", "STAGE", "s", "q", 0, 0, b"")),
        (reader, ("HEADRACE", "COMMIT", "s", "q", 0, 0)),
        (reader, ("HEADRACE", "LINK", "s", "*", b"")),
        (reader, ("HEADRACE", "NODES", "t", "-", "+")),
        (writer, ("HEADRACE", "STAGE", "t", "q", 0, 0, b"")),
        (writer, ("HEADRACE", "COMMIT", "t", "q", 0, 0)),
        (writer, ("HEADRACE", "ABORT", "t", "q", 0)),
        (writer, ("HEADRACE", "FORGET", "t", "q")),
        (writer, ("HEADRACE", "LINK", "t", "*", b"")),
    ):
        assert client.run(*words).startswith(b"-NOPERM"), words
    assert writer.run("HEADRACE", "STAGE", "s", "q", 0, 0, numbered(1)) == b":1\r\n"
    assert writer.run("HEADRACE", "COMMIT", "s", "q", 0, 1).startswith(b"*3")


def test_each_consumer_is_counted_once_for_what_it_is_given_and_acknowledges() -> None:
    session = Session()
    for number in range(1, 11):
        session.send("XADD", "s", f"{number}-0", "n", number)
    session.send("XGROUP", "CREATE", "s", "g", 0)

    def counted() -> dict[bytes, tuple[int, int]]:
        return {row[1]: (row[3], row[5]) for row in session.send("HEADRACE", "CONSUMERS", "s", "g")}

    session.send("XREADGROUP", "GROUP", "g", "a", "COUNT", 4, "STREAMS", "s", ">")
    session.send("XREADGROUP", "GROUP", "g", "a", "STREAMS", "s", 0)
    assert counted() == {b"a": (4, 0)}, "its own history is not new"
    assert session.send("XACK", "s", "g", "1-0", "2-0", "9-0") == 2
    session.send("XCLAIM", "s", "g", "b", 0, "3-0")
    session.send("XCLAIM", "s", "g", "b", 0, "3-0", "JUSTID")
    session.send("XAUTOCLAIM", "s", "g", "b", 0, 0, "COUNT", 1)
    assert counted() == {b"a": (4, 2), b"b": (2, 0)}
    session.send("XREADGROUP", "GROUP", "g", "b", "COUNT", 3, "NOACK", "STREAMS", "s", ">")
    session.send("XACKDEL", "s", "g", "ACKED", "IDS", 1, "3-0")
    session.send("XGROUP", "SETID", "s", "g", "3-0")
    session.send("XREADGROUP", "GROUP", "g", "c", "COUNT", 1, "STREAMS", "s", ">")
    assert counted() == {b"a": (4, 2), b"b": (5, 1), b"c": (1, 0)}
    session.send("XREADGROUP", "GROUP", "g", "c", "CLAIM", 0, "COUNT", 1, "STREAMS", "s", ">")
    session.send("XNACK", "s", "g", "FAIL", "IDS", 1, "4-0")
    assert session.send("XACK", "s", "g", "4-0") == 1, "nobody has it: nobody is counted"
    assert counted() == {b"a": (4, 2), b"b": (5, 1), b"c": (2, 0)}
    assert session.run("HEADRACE", "CONSUMERS", "none", "g") == b"-ERR no such key\r\n"
    assert session.run("HEADRACE", "CONSUMERS", "s", "x").startswith(b"-NOGROUP No such consumer group 'x'")
    assert session.run("HEADRACE", "CONSUMERS", "s", "g") == session.run("HEADRACE", "CONSUMERS", "s", "g")


def test_the_table_knows_them() -> None:
    engine = make_engine(Config())
    assert set(engine.commands.table[b"headrace"].subcommands) == {
        *(b"splits", b"nodes", b"stage", b"commit", b"abort", b"forget", b"link", b"help", b"policy", b"memory"),
        b"consumers",
        *(b"identity", b"idmplimits", b"idmpforget", b"idmprecord", b"idmprepeat", b"release", b"seen"),
        *(b"schedule", b"scheduled", b"unschedule", b"redrive", b"redriving"),
    }
    client = InProcess()
    keys = client.run("COMMAND", "GETKEYS", "HEADRACE", "COMMIT", "s", "q", "0", "1")
    assert keys == b"*2\r\n$1\r\ns\r\n$20\r\nheadrace:{s}:batches\r\n"
