"""`dead`: lists, shows, puts back and removes dead letters, and asks before it removes."""

import re

import redis

from headrace.engine.rules.dead_letters import Origin
from support.cli.process import headrace, output, refusal, told
from support.patience import await_that

KEPT = "Say --yes, because there is nobody to ask here."


def die(server: redis.Redis, count: int, *, reason: bytes = b"deliveries", stream: bytes = b"orders") -> None:
    for number in range(1, count + 1):
        fields = Origin(stream, b"5-%d" % number, b"billing", b"ann", 3, 1000, 2000, reason).fields()
        server.execute_command("XADD", "orders:dead", "*", "n", number, *fields)


def numbers(server: redis.Redis, key: str) -> list[bytes]:
    return [fields[b"n"] for _, fields in server.xrange(key)]


def test_dead_letters_are_listed_and_shown(server: redis.Redis) -> None:
    assert output("dead", "list", server=server) == "There are no dead letters.\n"
    server.xadd("orders", {"n": 0})
    die(server, 3)
    (listed,) = told("dead", "list", server=server)
    assert (listed["stream"], listed["length"]) == ("orders:dead", 3)
    assert re.search(
        r"^orders:dead +orders +billing .* deliveries +3$", output("dead", "list", server=server), re.MULTILINE
    )
    letters = told("dead", "show", "orders:dead", "--where", "n=2", server=server)
    assert [letter["fields"] for letter in letters] == [[["n", "2"]]]
    assert (letters[0]["stream"], letters[0]["entry_id"], letters[0]["group"]) == ("orders", "5-2", "billing")
    assert "and older ones: --count 10" in output("dead", "show", "orders:dead", "-n", "2", server=server)
    one = output("dead", "show", "orders:dead", letters[0]["id"], server=server)
    assert re.search(r"^headrace-last-delivery +2000 *$", one, re.MULTILINE)
    assert told("dead", "show", "orders:dead", letters[0]["id"], server=server) == letters[0]
    assert "There is no entry 1-1" in refusal("dead", "show", "orders:dead", "1-1", server=server)
    assert "There is no stream nothing" in refusal("dead", "show", "nothing", server=server)


def test_dead_letters_are_removed_after_a_question(server: redis.Redis) -> None:
    die(server, 5)
    ids = [id.decode() for id, _ in server.xrange("orders:dead")]
    for words in ((), (ids[0],), ("--where", "n=2")):
        assert KEPT in refusal("dead", "drop", "orders:dead", *words, server=server)
    assert numbers(server, "orders:dead") == [b"1", b"2", b"3", b"4", b"5"]
    assert told("dead", "drop", "orders:dead", ids[0], "--yes", server=server) == {
        "stream": "orders:dead",
        "dropped": 1,
    }
    assert output("dead", "drop", "orders:dead", "--where", "n=2", "-y", server=server) == "1 dead letter is gone.\n"
    assert numbers(server, "orders:dead") == [b"3", b"4", b"5"]
    assert output("dead", "drop", "orders:dead", "-y", server=server) == "3 dead letters are gone.\n"
    assert output("dead", "drop", "orders:dead", server=server) == "0 dead letters are gone.\n"


def test_dead_letters_are_put_back(headrace_server: redis.Redis) -> None:
    server = headrace_server
    die(server, 3)
    die(server, 2, reason=b"fatal")
    assert told(
        "dead", "redrive", "orders:dead", "--where", "headrace-reason=fatal", "--to", "spare", server=server
    ) == {
        "stream": "orders:dead",
        "moved": 2,
        "left": 3,
    }
    assert numbers(server, "spare") == [b"1", b"2"]
    printed = output("dead", "redrive", "orders:dead", "--count", "1", server=server)
    assert printed == "1 dead letter is back; 2 left in orders:dead.\n"
    assert numbers(server, "orders") == [b"1"]
    last = server.xrevrange("orders:dead", count=1)[0][0].decode()
    output("dead", "redrive", "orders:dead", last, "--to", "spare", server=server)
    assert (numbers(server, "orders:dead"), numbers(server, "spare")[-1]) == ([b"2"], b"3")
    printed = output("dead", "redrive", "orders:dead", "--rate", "1", server=server)
    assert printed.startswith("The server puts back 1 a second from orders:dead,")
    assert told("dead", "redrive", "orders:dead", "--status", server=server)["rate"] == 1
    assert output("dead", "redrive", "orders:dead", "--end", server=server) == "The redrive of orders:dead has ended.\n"
    assert output("dead", "redrive", "orders:dead", "--end", server=server) == "No redrive of orders:dead runs.\n"
    assert told("dead", "redrive", "orders:dead", "--status", server=server) == {
        "stream": "orders:dead",
        "running": False,
    }
    output("dead", "redrive", "orders:dead", "--rate", "1000", server=server)
    await_that(lambda: server.xlen("orders:dead") == 0)
    assert numbers(server, "orders") == [b"1", b"2"]


def test_conditions_that_are_none_are_refused(headrace_server: redis.Redis) -> None:
    for words, sentence in (
        (("show", "--where", "n"), "write --where FIELD=VALUE"),
        (("redrive", "--status", "--rate", "5"), "--status and --end stand alone"),
        (("redrive", "1-1", "--rate", "5"), "Letters that are named go at once"),
        (("drop", "1-1", "--where", "n=1"), "either IDs, or --where"),
    ):
        done = headrace("dead", words[0], "orders:dead", *words[1:], server=headrace_server)
        assert done.returncode == 2
        assert sentence in done.stderr.decode()
