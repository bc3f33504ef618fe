"""A database on a server: connections that break, servers that restart, fail over, or let nobody in."""

import asyncio
import os
import threading
from pathlib import Path

import pytest
import redis

import headrace
from headrace import CannotConnect, CannotOpen, ConnectionLost, Refused
from support.patience import await_that
from support.ports import free_port
from support.scripted_server import ScriptedServer
from support.server_process import ServerProcess

DURABLE = ("--appendonly", "yes", "--appendfsync", "always")


def test_a_worker_lives_on_when_its_server_is_killed_and_comes_back(tmp_path: Path) -> None:
    added: list[int] = []
    handled: list[int] = []

    def produce() -> None:
        """Add each number until its add is acknowledged: after a loss, perhaps once more."""
        for number in range(300):
            while True:
                try:
                    stream.add(n=number)
                    break
                except ConnectionLost:
                    continue
            added.append(number)

    def work(name: str) -> None:
        for message in workers.consumer(name):
            handled.append(int(message["n"]))
            if handled[-1] == 300:
                return

    async def work_async() -> None:
        async with headrace.connect_async(f"redis://127.0.0.1:{server.port}", patience=60) as db:
            async for message in (await db.stream("s").agroup("g")).consumer("async"):
                handled.append(int(message["n"]))
                if handled[-1] == 300:
                    return

    server = ServerProcess(tmp_path, *DURABLE)
    with server, headrace.connect(f"redis://127.0.0.1:{server.port}", patience=60) as db:
        stream = db.stream("s")
        workers = stream.group("g")
        targets = [produce, lambda: work("one"), lambda: work("two"), lambda: asyncio.run(work_async())]
        threads = [threading.Thread(target=target) for target in targets]
        for thread in threads:
            thread.start()
        await_that(lambda: len(added) >= 30)
        server.process.kill()
        server.process.wait()
        with ServerProcess(tmp_path, *DURABLE, port=server.port):
            threads[0].join()
            await_that(lambda: set(range(300)) <= set(handled))
            stream.add_many({"n": 300} for _ in range(3))
            for thread in threads[1:]:
                thread.join()
            assert len(stream) - 303 <= 1  # what a lost reply made us add once more
            with db.redis() as client:
                assert client.xlen("s") == len(stream)


def test_what_may_run_twice_is_sent_again_and_what_may_not_is_raised() -> None:
    broken: set[bytes] = set()

    def answer(request: list[bytes]) -> bytes | None:
        if request[0] not in broken:
            broken.add(request[0])
            return None
        return b":7\r\n" if request[0] != b"XADD" else b"$3\r\n7-0\r\n"

    with ScriptedServer(answer) as server, headrace.connect(f"redis://127.0.0.1:{server.port}") as db:
        stream = db.stream("s")
        assert (len(stream), stream.delete("1-0")) == (7, 7)
        with pytest.raises(ConnectionLost, match="broke before XADD had its reply"):
            stream.add(n=1)
        assert str(stream.add(n=1)) == "7-0"
        broken.clear()
        assert str(stream.add(n=1, idmp=("me", 1))) == "7-0"  # the server knows that it is the same
        broken.clear()
        with pytest.raises(ConnectionLost, match="0 messages are added for certain"):
            stream.add_many([{"n": 1}])

        async def main() -> None:
            assert (await stream.alen(), await stream.adelete("1-0")) == (7, 7)
            broken.clear()
            with pytest.raises(ConnectionLost):
                await stream.aadd(n=1)
            broken.clear()
            with pytest.raises(ConnectionLost):
                await stream.aadd_many([{"n": 1}])
            await db.aclose()

        broken.clear()
        asyncio.run(main())


def test_a_server_that_loads_is_waited_for_and_one_that_never_answers_is_not() -> None:
    asked = 0

    def answer(_request: list[bytes]) -> bytes:
        nonlocal asked
        asked += 1
        return b"-LOADING Redis is loading the dataset in memory\r\n" if asked < 4 else b":1\r\n"

    with ScriptedServer(answer) as server, headrace.connect(f"redis://127.0.0.1:{server.port}") as db:
        assert (len(db.stream("s")), asked) == (1, 4)
        asked = 0
        assert asyncio.run(db.stream("s").alen()) == 1
    with ScriptedServer(lambda _: b"") as server:
        url = f"redis://127.0.0.1:{server.port}"
        with headrace.connect(url, timeout=0.05, patience=0.1) as db, pytest.raises(ConnectionLost, match="XLEN"):
            len(db.stream("s"))


def test_a_sentinel_leads_to_the_master_and_to_the_next_one(redis_server: redis.Redis) -> None:
    port = redis_server.connection_pool.connection_kwargs["port"]
    masters = [b"$9\r\n127.0.0.1\r\n$1\r\n1\r\n"]

    def former(request: list[bytes]) -> bytes:
        if request[0] == b"ROLE":
            return b"*1\r\n$6\r\nmaster\r\n"
        return b"-READONLY You can't write against a read only replica.\r\n"

    with ScriptedServer(former) as old, ScriptedServer(lambda _: b"*2\r\n" + masters[-1]) as sentinel:
        masters.append(b"$9\r\n127.0.0.1\r\n$%d\r\n%d\r\n" % (len(str(old.port)), old.port))
        url = f"sentinel://127.0.0.1:{free_port()},127.0.0.1:{sentinel.port}/orders"
        with headrace.connect(url) as db:
            masters.append(b"$9\r\n127.0.0.1\r\n$%d\r\n%d\r\n" % (len(str(port)), port))
            id = db.stream("s").add(n=1)  # what the former master refused was not done
            assert [message["n"] for message in db.stream("s")] == ["1"]
            assert redis_server.xrange("s")[0][0] == bytes(id)

        async def main() -> None:
            async with headrace.connect_async(url) as db:
                assert await db.stream("s").alen() == 1

        asyncio.run(main())
        masters.append(masters[0])
        with pytest.raises(CannotConnect, match=r"No Sentinel of sentinel://.* leads to a master"):
            headrace.connect(url, patience=0.1)


def test_a_forked_process_has_connections_of_its_own(headrace_server: redis.Redis) -> None:
    port = headrace_server.connection_pool.connection_kwargs["port"]
    with headrace.connect(f"redis://127.0.0.1:{port}") as db:
        db.stream("s").add(n=0)
        child = os.fork()
        if child == 0:
            code = 1
            try:
                for n in range(50):
                    db.stream("child").add(n=n)
                code = 0
            finally:
                os._exit(code)
        for n in range(50):
            db.stream("parent").add(n=n)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        assert (len(db.stream("child")), len(db.stream("parent"))) == (50, 50)


def test_a_url_that_leads_nowhere_is_one_sentence(headrace_server: redis.Redis, tmp_path: Path) -> None:
    port = headrace_server.connection_pool.connection_kwargs["port"]
    nowhere = free_port()
    for url, sentence in (
        (f"redis://127.0.0.1:{nowhere}", rf"There is no connection to redis://127.0.0.1:{nowhere}: .*refused"),
        (
            f"redis://me:secret@127.0.0.1:{port}",
            r"refuses the connection \(WRONGPASS .*a wrong one",
        ),
        (f"redis://127.0.0.1:{port}/99", "DB index is out of range"),
        (f"redis://127.0.0.1:{port}/x", "has the database 'x', which is no number"),
        (f"redis://127.0.0.1:{port}?nosuch=1", "has the option nosuch: there are db, username"),
        (f"unix://{tmp_path}/none.sock", "No such file or directory"),
        ("sentinel://127.0.0.1:1", "lacks the name of the master"),
        ("localhost:6379", "is no url of a server: write redis://host:port"),
    ):
        with pytest.raises(CannotConnect, match=sentence) as refused:
            headrace.connect(url)
        assert "secret" not in str(refused.value)
    with pytest.raises(CannotConnect, match="There is no connection"):
        asyncio.run(headrace.connect_async(f"redis://127.0.0.1:{nowhere}")._open())
    with pytest.raises(CannotOpen, match=r"is a server: headrace.connect\('redis://localhost'\) connects to it"):
        headrace.open("redis://localhost")
    with headrace.connect(f"redis://127.0.0.1:{port}/1") as db:
        db.stream("only here").add(n=1)
        assert headrace_server.exists("only here") == 0
        with pytest.raises(Refused):
            db.execute("XADD", "s")
