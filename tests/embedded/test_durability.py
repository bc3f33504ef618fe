"""On disk: what was acknowledged survives, one process at a time has a directory, and a forked one has nothing."""

import logging
import os
import random
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest

import headrace
from headrace.api.database import Database
from headrace.api.errors import CannotOpen, DatabaseClosed, Refused
from headrace.core.stream_id import StreamID
from headrace.storage.errors import DirectoryInUse
from support.campaign import BRIEF, LONG
from support.own_host import host_of
from support.patience import PATIENCE_S
from support.server_process import ServerProcess, run_to_its_end

KILLS = 100 if LONG else 5

WRITER = """
import sys, threading, time
import headrace

db = headrace.open(sys.argv[1])
stream = db.stream("s")
group = stream.group("g")
say = threading.Lock()

def tell(*words):
    with say:
        print(*words, flush=True)

def add(name):
    number = 0
    while True:
        number += 1
        tell("added", stream.add(thread=name, number=number))

def add_many(name):
    while True:
        count = len(db.stream(f"bulk:{name}"))
        db.stream(f"bulk:{name}").add_many({"number": count + n} for n in range(1500))
        tell("bulk", name, count + 1500)
        time.sleep(0.02)

def consume(name):
    before = None
    for message in group.consumer(name):
        if before is not None:
            tell("acked", before.id)
        before = message

for work, name in ((add, "a"), (add, "b"), (add_many, "m"), (consume, "c"), (consume, "d")):
    threading.Thread(target=work, args=[name], daemon=True).start()
threading.Event().wait()
"""


def test_what_was_acknowledged_survives_kill_after_kill(tmp_path: Path) -> None:
    chance = random.Random(1)
    added: set[str] = set()
    acked: set[str] = set()
    bulk = 0
    for _ in range(KILLS):
        process = subprocess.Popen([sys.executable, "-c", WRITER, tmp_path / "data"], stdout=subprocess.PIPE)
        assert process.stdout is not None
        said = [process.stdout.readline()]  # it has begun
        threading.Timer(chance.uniform(0.1, 0.4), process.kill).start()
        said += process.stdout.readlines()
        process.wait(10)
        for line in said:
            kind, *words = line.decode().split()
            if not line.endswith(b"\n"):
                continue  # the end cut it
            if kind == "bulk":
                bulk = int(words[1])
            else:
                (added if kind == "added" else acked).add(words[0])
        with headrace.open(tmp_path / "data") as db:
            stream = db.stream("s")
            assert added <= {str(message.id) for message in stream}
            pending = {str(each.id) for each in stream.group("g").pending()}
            assert not acked & pending
            assert all(StreamID.parse(id) <= stream.group("g").position for id in acked)
            numbers = [int(message["number"]) for message in db.stream("bulk:m")]
            assert numbers == list(range(len(numbers)))
            assert len(numbers) >= bulk
    print(f"{KILLS} kills, {len(added)} added, {len(acked)} acknowledged, {bulk} in bulk")
    assert len(added) > 20 * KILLS
    assert acked


@pytest.mark.parametrize("policy", ["always", "everysec", "no"])
def test_what_was_closed_is_there_again(tmp_path: Path, policy: str) -> None:
    for turn in range(3):
        with headrace.open(str(tmp_path / "a" / "b"), appendfsync=policy) as db:
            stream = db.stream("s")
            assert len(stream) == 1001 * turn
            stream.add(turn=turn)
            stream.add_many({"n": n} for n in range(1000))
            db.redis(db=2).set("k", turn)
    with headrace.open(tmp_path / "a" / "b") as db:
        assert db.redis(db=2).get("k") == b"2"
        assert db.path == tmp_path / "a" / "b"


def test_a_stream_that_rows_made_has_the_settings_of_then_after_a_restart(tmp_path: Path) -> None:
    with headrace.open(tmp_path, stream_idmp_maxsize=7) as db:
        db.stream("one").add(n=1)
        db.stream("many").add_many([{"n": 1}, {"n": 2}])
    with headrace.open(tmp_path) as db:
        for key in ("one", "many"):
            assert db.execute("XINFO", "STREAM", key)[b"idmp-maxsize"] == 7


def test_threads_that_add_at_the_same_time_share_syncs(tmp_path: Path) -> None:
    with headrace.open(tmp_path) as db:
        stream = db.stream("s")

        def add(name: int) -> None:
            for number in range(100):
                stream.add(name=name, number=number)

        before = db.redis().info("persistence")["aof_current_size"]
        threads = [threading.Thread(target=add, args=[name]) for name in range(16)]
        syncs = host_of(db).journal.syncs
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        syncs = host_of(db).journal.syncs - syncs
        assert db.redis().info("persistence")["aof_current_size"] > before
    if not BRIEF:  # where a sanitizer watches, to add takes as long as to sync
        assert syncs < 1600 / 2, f"{syncs} syncs for 1,600 messages"
    with headrace.open(tmp_path) as db:
        found = [(int(message["name"]), int(message["number"])) for message in db.stream("s")]
    assert sorted(found) == [(name, number) for name in range(16) for number in range(100)]
    for name in range(16):
        assert [number for who, number in found if who == name] == list(range(100))


def test_threads_do_everything_at_once(tmp_path: Path) -> None:
    failures: list[BaseException] = []
    with headrace.open(tmp_path, appendfsync="no", stream_node_max_entries=10) as db:
        stream = db.stream("s")
        group = stream.group("g")
        ended = threading.Event()

        def repeat(work: Any, seed: int) -> None:
            chance = random.Random(seed)
            try:
                while not ended.is_set():
                    work(chance)
            except BaseException as failure:  # noqa: BLE001
                failures.append(failure)

        def consume(chance: random.Random) -> None:
            consumer = group.consumer(f"c{threading.get_ident()}", timeout=0, prefetch=3)
            for _ in consumer:
                if chance.random() < 0.1:
                    break
            consumer.claim(idle=0.01)

        client = db.redis()
        works = [
            *(lambda _: stream.add(n=1), lambda _: stream.add_many([{"n": n} for n in range(50)])),
            *(consume, consume, lambda _: sum(1 for _ in stream), lambda _: stream.trim(maxlen=2000)),
            *(lambda _: client.xadd("s", {"n": 2}), lambda _: client.info(), lambda _: group.pending()),
            *(
                lambda _: list(stream.tail(timeout=0.001)),
                lambda _: stream.delete(*[m.id for m in stream.range(count=3)]),
            ),
        ]
        threads = [threading.Thread(target=repeat, args=[work, seed]) for seed, work in enumerate(works)]
        for thread in threads:
            thread.start()
        time.sleep(60 if LONG else 1.5)
        ended.set()
        for thread in threads:
            thread.join(60)
        assert failures == []
        picture = (list(stream), group.position, [each[:2] for each in group.pending()], stream.last_id)
    with headrace.open(tmp_path) as db:
        stream, group = db.stream("s"), db.stream("s").group("g")
        assert (list(stream), group.position, [each[:2] for each in group.pending()], stream.last_id) == picture


# --- one process at a time -------------------------------------------------------------------------------------------


def test_a_directory_in_use_is_refused_here_and_to_a_server(tmp_path: Path) -> None:
    with headrace.open(tmp_path) as db:
        db.stream("s").add(n=1)
        with pytest.raises(CannotOpen, match="this process already"):
            headrace.open(tmp_path)
        refused = run_to_its_end("serve", "--port", "0", "--unixsocket", "x.sock", directory=tmp_path)
        assert refused.returncode != 0
        assert f"in use by another process (pid {os.getpid()})".encode() in refused.stdout + refused.stderr
        db.stream("s").add(n=2)
    with ServerProcess(tmp_path) as server, server.client() as client:
        assert client.xlen("s") == 2
        client.xadd("s", {"n": 3})
        with pytest.raises(DirectoryInUse, match=rf"pid {server.process.pid}\): close it there"):
            headrace.open(tmp_path)
    with headrace.open(tmp_path) as db:
        assert [message["n"] for message in db.stream("s")] == ["1", "2", "3"]


def test_a_forked_process_is_told_that_it_has_no_database(tmp_path: Path) -> None:
    db = headrace.open(tmp_path)
    stream = db.stream("s")
    stream.add(n=1)
    said, saying = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            for use in (lambda: stream.add(n=2), lambda: len(stream), db.redis().ping):
                try:
                    use()
                except DatabaseClosed as error:
                    os.write(saying, str(error)[:24].encode() + b"\n")
            db.close()
            os.write(saying, b"%d\n" % db.closed)
            with headrace.open(None) as other:
                os.write(saying, str(other.stream("s").add(n=1, id="1-1")).encode() + b"\n")
            os.close(saying)
            time.sleep(60)  # outlives the parent's database
        finally:
            os._exit(0)
    os.close(saying)
    with os.fdopen(said) as lines:
        assert lines.read().split("\n") == ["this process was forked "] * 3 + ["1", "1-1", ""]
    stream.add(n=3)
    db.close()
    with headrace.open(tmp_path) as again:  # the child does not keep the directory
        assert [message["n"] for message in again.stream("s")] == ["1", "3"]
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)


def test_a_program_that_just_ends_has_closed_its_databases(tmp_path: Path) -> None:
    program = (
        "import headrace, sys; db = headrace.open(sys.argv[1], appendfsync='no'); memory = headrace.open(None);"
        "db.stream('s').add_many({'n': n} for n in range(10)); print(len(db.stream('s')))"
    )
    ended = subprocess.run([sys.executable, "-X", "dev", "-c", program, tmp_path], capture_output=True, check=True)
    assert (ended.stdout, ended.stderr) == (b"10\n", b"")
    with headrace.open(tmp_path) as db:
        assert len(db.stream("s")) == 10


def test_importing_headrace_loads_no_engine() -> None:
    program = "import sys, headrace; print([name for name in sys.modules if name.startswith('headrace.')])"
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True)
    assert ended.stdout == b"[]\n"


# --- settings --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"port": 6379}, "port is a setting of a server, and there is none here"),
        ({"appendfsync": "sometimes"}, "The setting appendfsync cannot be 'sometimes'"),
        ({"colour": "red"}, "There is no setting colour"),
        ({"dir": "/"}, "dir needs a directory, which is what open"),
    ],
)
def test_a_wrong_setting_is_one_sentence(tmp_path: Path, settings: dict[str, Any], sentence: str) -> None:
    with pytest.raises(CannotOpen, match=sentence):
        headrace.open(tmp_path, **settings)
    with headrace.open(tmp_path):
        pass


def test_memory_only_keeps_nothing_and_says_so() -> None:
    with pytest.raises(CannotOpen, match="appendonly needs a directory"):
        headrace.open(None, appendonly=True)
    with headrace.open(None, stream_node_max_entries=7) as db, db.redis() as client:
        assert client.config_get("stream-node-max-entries") == {"stream-node-max-entries": "7"}
        for name, value in (("appendonly", "yes"), ("save", "1 1"), ("port", "7777")):
            with pytest.raises(Exception, match=r"in memory only|setting of a server"):
                client.config_set(name, value)
        with pytest.raises(Refused, match="in memory only"):
            db.execute("BGSAVE")
        with pytest.raises(Refused):
            db.execute("SHUTDOWN")
        assert client.ping()


def test_a_directory_that_cannot_be_made_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(CannotOpen, match=r"Headrace cannot make the directory .*file/data"):
        headrace.open(tmp_path / "file" / "data")


def test_without_append_only_files_a_snapshot_is_the_memory(tmp_path: Path) -> None:
    with headrace.open(tmp_path, appendonly=False, save="3600 1") as db:
        db.stream("s").add(n=1)
    assert (tmp_path / "dump.rdb").exists()
    with headrace.open(tmp_path, appendonly=False) as db:
        assert len(db.stream("s")) == 1


# --- chores ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("reaped", [False, True])
def test_files_are_rewritten_behind_the_programs_back(
    tmp_path: Path, reaped: bool, caplog: pytest.LogCaptureFixture
) -> None:
    before = signal.signal(signal.SIGCHLD, signal.SIG_IGN) if reaped else None
    try:
        with caplog.at_level(logging.INFO, "headrace"), headrace.open(tmp_path, appendfsync="no") as db:
            stream = db.stream("s")
            stream.add_many({"n": n} for n in range(20_000))
            stream.trim(maxlen=10)
            db.execute("BGREWRITEAOF")
            deadline = time.monotonic() + PATIENCE_S
            while "Background AOF rewrite finished successfully" not in caplog.text:
                assert time.monotonic() < deadline, caplog.text
                stream.add(n=1)
            added = len(stream)
    finally:
        if before is not None:
            signal.signal(signal.SIGCHLD, before)
    numbers = {path.name.split(".")[2] for path in (tmp_path / "appendonlydir").iterdir()} - {"manifest"}
    assert numbers == {"2"}
    with headrace.open(tmp_path) as db:
        assert len(db.stream("s")) == added > 10


def test_everysec_syncs_within_about_a_second(tmp_path: Path) -> None:
    with headrace.open(tmp_path, appendfsync="everysec") as db:
        db.stream("s").add(n=1)
        deadline = time.monotonic() + PATIENCE_S
        while db.execute("WAITAOF", 1, 0, 0)[0] != 1:
            assert time.monotonic() < deadline


def test_keys_expire_and_everything_else_happens_without_a_call(tmp_path: Path) -> None:
    with headrace.open(tmp_path) as db, db.redis() as client:
        client.set("k", "v", px=10)
        deadline = time.monotonic() + PATIENCE_S
        while client.info("stats")["expired_keys"] == 0:
            assert time.monotonic() < deadline
            time.sleep(0.01)


def use_many_commands(db: Database, chance: random.Random, acknowledged: list[int]) -> None:
    """Write with commands that are Python inside, and note what was acknowledged."""
    for _ in range(1000):  # an exception in a finalizer goes no further: it may never come
        number = acknowledged[0] + 1
        db.execute("RPUSH", "list", *[number] * 20)
        acknowledged[0] = number
        db.execute("ZADD", "scores", chance.random(), chance.randrange(50))
        db.execute("HSET", "hash", chance.randrange(50), number)
        db.stream("s").add(number=number)


def look(db: Database) -> str:
    """Everything that `use_many_commands` writes, as text."""
    return repr(
        [
            *(db.execute("LRANGE", "list", 0, -1), db.execute("ZRANGE", "scores", 0, -1, "WITHSCORES")),
            *(sorted(db.execute("HGETALL", "hash").items()), list(db.stream("s"))),
        ]
    )


# A process of its own, because a KeyboardInterrupt that nobody catches would end the tests.
INTERRUPTED = """
import os, random, signal, sys, threading, time
import headrace
from embedded.test_durability import look, use_many_commands

chance, acknowledged, interrupts = random.Random(3), [0], 0
db = headrace.open(sys.argv[1], appendfsync="no")
deadline = time.monotonic() + float(sys.argv[2])
while time.monotonic() < deadline or interrupts < 2:
    try:
        threading.Timer(chance.uniform(0.0001, 0.002), os.kill, [os.getpid(), signal.SIGINT]).start()
        use_many_commands(db, chance, acknowledged)
        time.sleep(1)
    except KeyboardInterrupt:
        interrupts += 1
print(interrupts, acknowledged[0])
print(look(db))
db.close()
print(signal.getsignal(signal.SIGINT) is signal.default_int_handler)
"""


def test_ctrl_c_waits_until_the_command_is_over(tmp_path: Path) -> None:
    command = [sys.executable, "-c", INTERRUPTED, str(tmp_path), "60" if LONG else "1.5"]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=250, check=False)
    assert ended.returncode == 0, ended.stderr
    counts, picture, restored = ended.stdout.splitlines()
    interrupts, acknowledged = map(int, counts.split())
    assert interrupts >= 2
    assert acknowledged > 0
    assert restored == "True"
    with headrace.open(tmp_path) as db:
        assert look(db) == picture
        assert len(db.execute("LRANGE", "list", 0, -1)) >= 20 * acknowledged


def test_another_exception_in_the_middle_of_a_command_ends_the_database_and_loses_nothing(tmp_path: Path) -> None:
    class Interrupted(BaseException):
        pass

    def handle(_number: int, _frame: object) -> None:
        if armed:
            raise Interrupted

    armed = False
    before = signal.signal(signal.SIGVTALRM, handle)
    chance, acknowledged, broken = random.Random(3), [0], 0
    try:
        deadline = time.monotonic() + (60 if LONG else 2)
        while time.monotonic() < deadline or (broken == 0 and time.monotonic() < deadline + 60):
            with headrace.open(tmp_path, appendfsync="no") as db:
                items = [int(item) for item in db.execute("LRANGE", "list", 0, -1)]
                assert acknowledged[0] <= len(items) / 20 <= acknowledged[0] + 1
                acknowledged[0] = len(items) // 20
                assert items == [number + 1 for number in range(acknowledged[0]) for _ in range(20)]
                try:
                    armed = True
                    signal.setitimer(signal.ITIMER_VIRTUAL, chance.uniform(0.0001, 0.002))
                    use_many_commands(db, chance, acknowledged)
                except Interrupted:
                    armed = False
                    if db.closed:  # else it came between two commands
                        broken += 1
                        with pytest.raises(DatabaseClosed, match="open it again, which finds all"):
                            db.stream("s").add(n=1)
    finally:
        signal.signal(signal.SIGVTALRM, before)
    assert broken


def test_readers_that_wait_are_told_when_a_command_was_interrupted(tmp_path: Path) -> None:
    class Interrupted(BaseException):
        pass

    def interrupt() -> None:
        raise Interrupted

    told: list[BaseException] = []
    db = headrace.open(tmp_path)

    def wait() -> None:
        try:
            for _ in db.stream("s").tail():
                pass
        except DatabaseClosed as error:
            told.append(error)

    thread = threading.Thread(target=wait)
    thread.start()
    deadline = time.monotonic() + PATIENCE_S
    while db.redis().info("clients")["blocked_clients"] == 0:
        assert time.monotonic() < deadline
        time.sleep(0.001)
    host_of(db).soon(interrupt)
    with pytest.raises(Interrupted):
        db.execute("PING")
    thread.join(60)
    assert [type(error) for error in told] == [DatabaseClosed]
    db.close()
    with headrace.open(tmp_path) as db:
        assert len(db.stream("s")) == 0
