"""A master that cannot be followed: one sentence, more attempts, and the data that was there is kept."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from headrace.formats.aof import encode
from headrace.formats.crc64 import crc64
from support.patience import await_that
from support.ports import free_port
from support.replication.fake_master import EMPTY_RDB, HISTORY, FakeMaster, ReplicaConnection, Script, snapshot_of
from support.replication.replica_host import ReplicaHost

OTHER_HISTORY = b"b" * 40


KEPT = snapshot_of({b"kept": b"yes"})
LARGE = snapshot_of({b"large": bytes(range(256)) * 4000})
OF_20 = {b"repl-stream-db": b"20", b"repl-id": b"a" * 40, b"repl-offset": b"7"}


def good(replica: ReplicaConnection) -> None:
    """Give a replica data, and go away."""
    replica.shake_hands()
    replica.send_snapshot(KEPT, 100)
    replica.await_acknowledged(100)


def full_sync(payload: bytes) -> Script:
    def script(replica: ReplicaConnection) -> None:
        replica.shake_hands()
        replica.send(b"+FULLRESYNC %s 5\r\n" % OTHER_HISTORY + payload)

    return script


def answer(psync: bytes, *, then_wait: bool = False) -> Script:
    def script(replica: ReplicaConnection) -> None:
        replica.shake_hands()
        replica.send(psync)
        if then_wait:
            replica.stay()

    return script


def continue_with(data: bytes) -> Script:
    def script(replica: ReplicaConnection) -> None:
        replica.shake_hands()
        replica.send(b"+CONTINUE\r\n" + data)
        replica.stay()

    return script


def http_server(replica: ReplicaConnection) -> None:
    replica.command()
    replica.send(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n")


def endless_line(replica: ReplicaConnection) -> None:
    replica.command()
    replica.send(b"x" * 500_000)
    replica.stay()


def wants_a_password(replica: ReplicaConnection) -> None:
    replica.command()
    replica.send(b"-NOAUTH Authentication required.\r\n")
    while True:
        replica.command()
        replica.send(b"-NOAUTH Authentication required.\r\n")


def silence(replica: ReplicaConnection) -> None:
    replica.shake_hands()
    replica.stay()


def replica_without_master(replica: ReplicaConnection) -> None:
    replica.shake_hands()
    replica.send(b"-NOMASTERLINK Can't SYNC while not connected with my master\r\n")
    assert replica.command() == [b"ROLE"]
    replica.send(b"*5\r\n$5\r\nslave\r\n$9\r\n10.1.1.99\r\n:7001\r\n$7\r\nconnect\r\n:-1\r\n")
    replica.stay()


def damaged(snapshot: bytes) -> bytes:
    changed = bytearray(snapshot)
    changed[len(changed) // 2] ^= 1
    return bytes(changed)


def wrong_inside(snapshot: bytes) -> bytes:
    """A file that is damaged, and whose checksum is right."""
    body = snapshot[:-8].replace(b"\x00\x04kept", b"\x7f\x04kept")
    return body + crc64(body).to_bytes(8, "little")


def sized(snapshot: bytes) -> bytes:
    return b"$%d\r\n%s" % (len(snapshot), snapshot)


MARK = b"e" * 40
BAD: dict[str, tuple[Script, str]] = {
    "no Redis": (http_server, "is no Redis: it answered PING with 'HTTP/1.1 400 Bad Request'"),
    "no end of a line": (endless_line, "is no Redis: it sent a line without an end"),
    "a password is wanted": (wants_a_password, "refuses us, so that masterauth must be set"),
    "a circle": (replica_without_master, "is itself a replica of 10.1.1.99:7001 and has no link to its master"),
    "loading": (answer(b"-LOADING Redis is loading\r\n"), "cannot be followed yet: 'LOADING Redis is loading'"),
    "no place": (answer(b"+FULLRESYNC abc 1\r\n"), "'abc', which is none"),
    "no offset": (answer(b"+FULLRESYNC %s x\r\n" % HISTORY), "which is no place in a history"),
    "no answer": (answer(b"+HELLO\r\n"), "answered PSYNC with '+HELLO'"),
    "an end": (answer(b"", then_wait=False), "ended the connection in the handshake"),
    "no snapshot": (full_sync(b"+what\r\n"), "expected the size of a snapshot, found b'+what'"),
    "refused snapshot": (full_sync(b"-ERR no disk\r\n"), "sends no data: 'ERR no disk'"),
    "half a snapshot": (full_sync(sized(LARGE)[:300_000]), "bytes of the snapshot"),
    "no mark": (full_sync(b"$EOF:%s\r\n%s" % (MARK, KEPT)), "bytes of the snapshot"),
    "damaged snapshot": (full_sync(sized(damaged(LARGE))), "the file is damaged"),
    "wrong value": (full_sync(sized(wrong_inside(KEPT))), "it is damaged: offset"),
    "another file": (full_sync(sized(b"GIF89a" * 10)), "expected an RDB file"),
    "a newer file": (full_sync(sized(EMPTY_RDB.replace(b"0009", b"0999"))), "expected an RDB version up to"),
    "a higher database": (full_sync(sized(snapshot_of({b"k": b"v"}, 20))), "start with --databases 21"),
    "a higher one selected": (full_sync(sized(snapshot_of({b"k": b"v"}, aux=OF_20))), "start with --databases 21"),
    "no commands": (continue_with(b"hello\r\n"), "expected the * of a command, found b'hello"),
    "a database": (continue_with(encode([b"SELECT", b"99"])), "it selects database 99, and there are only 16"),
    "silence": (silence, "has sent nothing for 1 seconds"),
}


@contextmanager
def replica_with_data(directory: Path, script: Script, **settings: str) -> Iterator[ReplicaHost]:
    """A replica that had a good master, and has another one now."""
    with FakeMaster(good, script) as master, ReplicaHost(directory, master.port, **settings) as replica:
        await_that(lambda: len(master.connections) >= 3)  # it tries again
        yield replica


@pytest.mark.parametrize("case", BAD)
def test_one_sentence_says_what_is_wrong_and_the_data_is_kept(tmp_path: Path, case: str) -> None:
    script, sentence = BAD[case]
    with replica_with_data(tmp_path, script, repl_timeout="1") as replica:
        replica.await_error(sentence)
        said = [text for text in replica.log.warnings if sentence in text]
        assert len(said) == 1, replica.log.warnings
        assert replica.run("GET", "kept") == b"$3\r\nyes\r\n"
        assert replica.fields()["master_link_status"] == "down"
        assert replica.offset == 100
        await_that(lambda: replica.call(lambda: replica.link._pause_s) > replica.link.first_pause_s)  # which grows
        await_that(lambda: not list(tmp_path.rglob("temp-sync-*")))
    with ReplicaHost(tmp_path, free_port()) as restarted:
        assert restarted.run("GET", "kept") == b"$3\r\nyes\r\n"


def test_nobody_listens(tmp_path: Path) -> None:
    with ReplicaHost(tmp_path, free_port()) as replica:
        replica.await_error("cannot be reached: Connection refused")
        await_that(lambda: replica.fields()["master_total_sync_attempts"] > 5)
        assert len(replica.log.warnings) == 1


def test_a_wrong_password(tmp_path: Path) -> None:
    def script(replica: ReplicaConnection) -> None:
        replica.command()
        replica.send(b"-NOAUTH Authentication required.\r\n")
        assert replica.command() == [b"AUTH", b"me", b"secret"]
        replica.send(b"-WRONGPASS invalid username-password pair or user is disabled.\r\n")
        replica.stay()

    with (
        FakeMaster(script) as master,
        ReplicaHost(tmp_path, master.port, masterauth="secret", masteruser="me") as replica,
    ):
        replica.await_error("refused the password of masterauth: 'WRONGPASS")
        assert "secret" not in "".join(replica.log.warnings)


def test_an_old_master_is_asked_by_sync(tmp_path: Path) -> None:
    def script(replica: ReplicaConnection) -> None:
        replica.shake_hands()
        replica.send(b"-ERR unknown command 'PSYNC'\r\n")
        assert replica.socket.recv(100) == b"SYNC\r\n"
        replica.send(b"\n\n" + sized(KEPT) + encode([b"SET", b"more", b"1"]))
        replica.stay()

    with FakeMaster(script) as master, ReplicaHost(tmp_path, master.port) as replica:
        await_that(lambda: replica.run("GET", "more") == b"$1\r\n1\r\n")
        assert replica.run("GET", "kept") == b"$3\r\nyes\r\n"
