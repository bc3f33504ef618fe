"""What a replica says to its master, and what it makes of what a master says: a script plays the master."""

import asyncio
import struct
from itertools import count
from pathlib import Path

import pytest

from headrace.core.stream import Stream
from headrace.core.stream_id import StreamID
from headrace.engine.effect_log import CallbackSubscriber
from headrace.formats.aof import encode
from headrace.replication.incoming_snapshot import BadSnapshot, IncomingSnapshot
from headrace.storage.disk import Disk
from support.patience import await_that
from support.ports import free_port
from support.replication.fake_master import HISTORY, FakeMaster, ReplicaConnection, following_master, snapshot_of
from support.replication.replica_host import ReplicaHost

NEW_HISTORY = b"c" * 40
NUMBERS = count()
GETACK = encode([b"REPLCONF", b"GETACK", b"*"])


def commands(*lines: str) -> bytes:
    return b"".join(encode([word.encode() for word in line.split()]) for line in lines)


# --- the handshake -------------------------------------------------------------------------------------------------


def test_who_we_are_is_said_as_redis_says_it(tmp_path: Path) -> None:
    said: list[list[bytes]] = []

    def script(replica: ReplicaConnection) -> None:
        replica.shake_hands()
        said.extend(replica.said)
        replica.stay()

    settings = {"port": "7777", "replica_announce_ip": "10.0.0.7", "masterauth": "p", "masteruser": "u"}
    with FakeMaster(script) as master, ReplicaHost(tmp_path, master.port, **settings):
        await_that(lambda: said)
    assert said[:5] == [
        [b"PING"],
        [b"AUTH", b"u", b"p"],
        [b"REPLCONF", b"listening-port", b"7777"],
        [b"REPLCONF", b"ip-address", b"10.0.0.7"],
        [b"REPLCONF", b"capa", b"eof", b"capa", b"psync2"],
    ]
    assert said[5][:2] == [b"REPLCONF", b"headrace"]
    assert said[6] == [b"PSYNC", b"?", b"-1"]


def test_a_master_that_was_renamed_is_continued_under_its_new_name(tmp_path: Path) -> None:
    asked: list[list[bytes]] = []

    def first(replica: ReplicaConnection) -> None:
        replica.shake_hands()
        replica.send_snapshot(offset=10)
        replica.send(commands("SELECT 5", "SET a 1"))
        replica.await_acknowledged(10 + len(commands("SELECT 5", "SET a 1")))

    def second(replica: ReplicaConnection) -> None:
        asked.append(replica.shake_hands())
        replica.send(b"\n\n+CONTINUE %s\r\n" % NEW_HISTORY + commands("SET b 2"))  # in the database of before
        replica.stay()

    with FakeMaster(first, second) as master, ReplicaHost(tmp_path, master.port) as replica:
        await_that(lambda: asked)
        offset = 10 + len(commands("SELECT 5", "SET a 1", "SET b 2"))
        replica.await_offset(offset)
        replica.run("SELECT", 5)
        assert replica.run("MGET", "a", "b") == b"*2\r\n$1\r\n1\r\n$1\r\n2\r\n"
        effects = replica.engine.effects
        assert effects.history == NEW_HISTORY
        assert effects.ancestors == [(HISTORY, offset - len(commands("SET b 2")))]
    assert asked[0] == [HISTORY, b"%d" % (offset - len(commands("SET b 2")) + 1)]


def test_data_that_has_changed_since_its_place_was_known_asks_for_everything(tmp_path: Path) -> None:
    """A master whose followers have left, and who keeps no journal, counts nothing: its place says nothing any more."""
    asked: list[list[bytes]] = []

    def script(replica: ReplicaConnection) -> None:
        asked.append(replica.shake_hands())
        replica.stay()

    def write_uncounted() -> None:
        effects = replica.engine.effects
        replica.link.stop()
        replica.engine.end_following()
        effects.begin_at(99, HISTORY)
        follower = CallbackSubscriber(lambda _: None)
        effects.subscribe(follower)
        effects.unsubscribe(follower)
        replica.engine.begin_following()
        asked.clear()
        replica.link.start("127.0.0.1", master.port)

    with FakeMaster(script) as master, ReplicaHost(tmp_path, master.port, appendonly="no") as replica:
        await_that(lambda: asked)
        replica.call(write_uncounted)
        await_that(lambda: asked)
    assert asked == [[b"?", b"-1"]]


@pytest.mark.parametrize("accepted", [True, False])
def test_a_failover_asks_the_other_to_take_over(tmp_path: Path, accepted: bool) -> None:
    asked: list[list[bytes]] = []
    agreed: list[bool] = []

    def script(replica: ReplicaConnection) -> None:
        asked.append(replica.shake_hands())
        replica.send(b"+CONTINUE\r\n" if accepted else b"-ERR PSYNC FAILOVER replid must match my replid.\r\n")
        replica.stay()

    with FakeMaster(script) as master, ReplicaHost(tmp_path, master.port) as replica:
        replica.call(replica.link.stop)
        replica.link.takes_over = True
        replica.link.on_takeover = agreed.append
        asked.clear()
        replica.call(lambda: replica.engine.effects.begin_at(99, HISTORY))
        replica.call(lambda: replica.link.start("127.0.0.1", master.port))
        await_that(lambda: agreed)
        assert agreed == [accepted]
        assert not replica.link.takes_over
    assert asked[0] == [HISTORY, b"100", b"FAILOVER"]


# --- snapshots -----------------------------------------------------------------------------------------------------


def receive(directory: Path, header: bytes, *pieces: bytes) -> tuple[bytes, bytes]:
    """Receive a snapshot that comes in pieces; what the file holds, and what came behind."""
    coming = [piece for piece in pieces if piece]  # nothing would be the end

    async def read(most: int) -> bytes:
        if not coming:
            return b""
        piece = coming.pop(0)
        coming[:0] = [piece[most:]] if piece[most:] else []
        return piece[:most]

    async def run() -> tuple[bytes, bytes]:
        snapshot = IncomingSnapshot(header, Disk(), directory / f"incoming-{next(NUMBERS)}")
        try:
            behind = await snapshot.receive(read)
            return snapshot.path.read_bytes(), behind
        finally:
            snapshot.discard()

    behind_file = asyncio.run(run())
    return behind_file[0], behind_file[1] + b"".join(coming)


def test_the_mark_at_the_end_may_come_in_two_pieces(tmp_path: Path) -> None:
    mark = b"0123456789abcdef0123456789abcdef01234567"
    body = b"REDIS" + mark[:39] + b"x" * 50 + mark[:20]
    text = body + mark + b"*1\r\n"
    for at in range(len(text) + 1):
        assert receive(tmp_path, b"$EOF:" + mark, text[:at], text[at:]) == (body, b"*1\r\n")
    assert receive(tmp_path, b"$EOF:" + mark, *(text[at : at + 1] for at in range(len(text)))) == (body, b"*1\r\n")


def test_what_follows_a_sized_snapshot_is_left_for_the_stream(tmp_path: Path) -> None:
    for at in range(11):
        assert receive(tmp_path, b"$5", b"01234*1\r\n"[:at], b"01234*1\r\n"[at:]) == (b"01234", b"*1\r\n")


@pytest.mark.parametrize("header", [b"$-1", b"$", b"$12x", b"$EOF:abc", b"*3", b"$1234567890123456789"])
def test_a_line_that_announces_no_snapshot_is_refused(tmp_path: Path, header: bytes) -> None:
    with pytest.raises(BadSnapshot, match="expected the size of a snapshot"):
        receive(tmp_path, header)


def module_snapshot() -> bytes:
    """A snapshot with a value of a module, a string and a library that cannot be loaded here."""
    alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
    number = sum(alphabet.index(letter) << 58 - 6 * at for at, letter in enumerate("ReJSON-RL")) + 3
    library = b"#!other name=lib\nnothing"
    return b"".join(
        (
            *(b"REDIS0009", b"\xf5", bytes([len(library)]), library),
            *(b"\x07\x03doc\x81", struct.pack(">Q", number), b"\x05\x02{}\x00"),
            *(b"\x00\x04text\x01v", b"\xff", bytes(8)),
        )
    )


def test_values_that_there_are_not_here_are_named_and_counted_and_the_rest_is_loaded(tmp_path: Path) -> None:
    def script(replica: ReplicaConnection) -> None:
        replica.shake_hands()
        replica.send_snapshot(module_snapshot())
        replica.stay()

    with FakeMaster(script) as master, ReplicaHost(tmp_path, master.port) as replica:
        await_that(lambda: replica.link.is_up)
        assert replica.run("GET", "text") == b"$1\r\nv\r\n"
        said = " ".join(replica.log.warnings)
        assert "module value of key 'doc' in database 0" in said
        assert "library of functions" in said
        assert replica.fields()["master_skipped_values"] == 2
        # A start would refuse that library, so a base without it is written.
        await_that(lambda: "Background AOF rewrite finished successfully" in replica.log.sentences)
    with ReplicaHost(tmp_path, free_port()) as restarted:
        assert restarted.run("GET", "text") == b"$1\r\nv\r\n"


def test_readers_that_wait_are_served_when_a_snapshot_brings_what_they_wait_for(tmp_path: Path) -> None:
    stream = Stream()
    stream.append([b"a", b"b"], StreamID(6))

    def empty(replica: ReplicaConnection) -> None:
        replica.shake_hands()
        replica.send_snapshot()
        replica.stay()

    def filled(replica: ReplicaConnection) -> None:
        replica.shake_hands()
        replica.send_snapshot(snapshot_of({b"s": stream}), 10)
        replica.stay()

    with FakeMaster(empty, filled) as master, ReplicaHost(tmp_path, master.port) as replica:
        await_that(lambda: replica.link.is_up)
        waiting = replica.client()
        assert replica.call(lambda: waiting.run("XREAD", "BLOCK", "0", "STREAMS", "s", "5-5")) == b""
        replica.call(lambda: replica.link.disconnect("test"))
        await_that(lambda: b"6-0" in replica.sent_to(waiting))


# --- the stream ----------------------------------------------------------------------------------------------------


def test_an_acknowledgement_tells_what_was_done_before_it_was_asked_for(tmp_path: Path) -> None:
    answers: list[list[bytes]] = []

    def script(replica: ReplicaConnection) -> None:
        replica.shake_hands()
        replica.send_snapshot()
        assert replica.await_acknowledged(0)[2] == b"0"
        done = commands("SELECT 0", "SET a 1")
        replica.send(done + GETACK)
        answers.append(replica.await_acknowledged(len(done)))
        answers.append(replica.await_acknowledged(len(done + GETACK)))
        replica.stay()

    with FakeMaster(script) as master, ReplicaHost(tmp_path, master.port):
        await_that(lambda: len(answers) == 2)
    done = len(commands("SELECT 0", "SET a 1"))
    assert int(answers[0][2]) == done
    assert answers[0][3] == b"FACK"
    assert int(answers[1][2]) == done + len(GETACK)


def test_a_headrace_is_told_at_once_when_the_disk_has_what_it_sent(tmp_path: Path) -> None:
    synced: list[int] = []
    add = commands("XADD s 1-1 a b")

    def script(replica: ReplicaConnection) -> None:
        while (argv := replica.command())[0] != b"PSYNC":
            replica.send(b"$2\r\n\r\n\r\n" if argv[0] == b"INFO" else b"+OK\r\n")
        replica.send_snapshot()
        replica.await_acknowledged(0)
        for _ in range(20):  # more than acknowledgements of each second could tell
            replica.send(add.replace(b"1-1", b"%d-1" % (len(synced) + 1)) if len(synced) < 9 else commands("SET k v"))
            sent = (synced[-1] if synced else 0) + len(add if len(synced) < 9 else commands("SET k v"))
            while int(replica.await_acknowledged(0)[4]) < sent:
                pass
            synced.append(sent)
        replica.stay()

    with FakeMaster(script) as master, ReplicaHost(tmp_path, master.port):
        await_that(lambda: len(synced) == 20)


def test_half_a_transaction_is_forgotten_with_its_link_and_asked_for_again(tmp_path: Path) -> None:
    asked: list[list[bytes]] = []
    transaction = commands("MULTI", "SET a 1", "SET b 2", "EXEC")

    def first(replica: ReplicaConnection) -> None:
        replica.shake_hands()
        replica.send_snapshot()
        replica.send(commands("SET x 1") + transaction[:-5])
        replica.await_acknowledged(len(commands("SET x 1")))

    def second(replica: ReplicaConnection) -> None:
        asked.append(replica.shake_hands())
        replica.send(b"+CONTINUE\r\n" + transaction)
        replica.stay()

    with FakeMaster(first, second) as master, ReplicaHost(tmp_path, master.port) as replica:
        replica.await_offset(len(commands("SET x 1") + transaction))
        assert replica.run("MGET", "x", "a", "b") == b"*3\r\n$1\r\n1\r\n$1\r\n1\r\n$1\r\n2\r\n"
    assert asked == [[HISTORY, b"%d" % (len(commands("SET x 1")) + 1)]]


UNKNOWN = ("JSON.SET doc $ 1", "TS.ADD t 1 2", "LPUSH text x")


def test_commands_that_cannot_be_repeated_are_left_out_of_data_and_journal(tmp_path: Path) -> None:
    stream = commands(
        *("SELECT 2", "SET text v", UNKNOWN[0], "XADD s 1-1 a b"),
        *("MULTI", "SET a 1", UNKNOWN[1], "SET b 2", UNKNOWN[2], "EXEC", "SET c 3"),
        *(UNKNOWN[0], "SET e 5", "SELECT 5", "SET e 6"),
    )

    def script(replica: ReplicaConnection) -> None:
        replica.shake_hands()
        replica.send_snapshot()
        replica.send(stream)
        replica.stay()

    def continued(replica: ReplicaConnection) -> None:
        assert replica.shake_hands() == [HISTORY, b"%d" % (len(stream) + 1)]
        replica.send(b"+CONTINUE\r\n" + commands("SELECT 2", "SET d 4"))
        replica.stay()

    expected = b"*4\r\n$1\r\nv\r\n$1\r\n1\r\n$1\r\n2\r\n$1\r\n3\r\n"
    with FakeMaster(script, continued) as master:
        with ReplicaHost(tmp_path, master.port) as replica:
            replica.await_offset(len(stream))
            replica.run("SELECT", 2)
            assert replica.run("MGET", "text", "a", "b", "c") == expected
            assert replica.run("XLEN", "s") == b":1\r\n"
            assert replica.fields()["master_skipped_commands"] == 4
            assert [any(line.rsplit(" ", 2)[0].split()[0] in text for text in replica.log.warnings) for line in UNKNOWN]
            assert "JSON.SET doc" in replica.log.warnings[0]
        with ReplicaHost(tmp_path, master.port) as restarted:
            assert not [text for text in restarted.log.warnings if "refused" in text]
            restarted.await_offset(len(stream + commands("SELECT 2", "SET d 4")))
            restarted.run("SELECT", 2)
            assert restarted.run("MGET", "text", "a", "b", "c") == expected
            assert restarted.run("MGET", "d", "e") == b"*2\r\n$1\r\n4\r\n$1\r\n5\r\n"
            restarted.run("SELECT", 5)
            assert restarted.run("GET", "e") == b"$1\r\n6\r\n"


def test_options_that_only_a_master_may_use(tmp_path: Path) -> None:
    lines = (
        "XADD s MAXLEN = 2 LIMIT 100 1-1 a b",
        "XADD s IDMP producer message 2-1 a b",
        "XTRIM s MAXLEN = 1 LIMIT 100",
    )
    with (
        following_master(*([word.encode() for word in line.split()] for line in lines)) as master,
        ReplicaHost(tmp_path, master.port) as replica,
    ):
        replica.await_offset(len(commands(*lines)))
        assert replica.fields()["master_skipped_commands"] == 0, replica.log.warnings
        assert replica.run("XRANGE", "s", "-", "+").startswith(b"*1\r\n*2\r\n$3\r\n2-1")


def test_the_number_of_commands_that_are_named_is_bounded(tmp_path: Path) -> None:
    with (
        following_master(*([b"NO.SUCH", b"k%d" % number] for number in range(100))) as master,
        ReplicaHost(tmp_path, master.port) as replica,
    ):
        await_that(lambda: replica.fields()["master_skipped_commands"] == 100)
        assert len(replica.log.warnings) == 11
