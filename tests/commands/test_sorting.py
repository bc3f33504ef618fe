"""SORT and SORT_RO answer as a live redis-server does."""

import random

import redis

from support.campaign import LONG
from support.raw_client import RawClient

REQUESTS = 20_000 if LONG else 1_500
KEYS = ("list", "set", "zset", "texts", "numbers", "string", "none")
OPTIONS = (
    "ASC",
    "DESC",
    "ALPHA",
    "LIMIT 1 3",
    "LIMIT 0 0",
    "LIMIT -1 2",
    "LIMIT 2 -5",
    "LIMIT 100 1",
    "LIMIT x 1",
    "LIMIT 1",
    "BY w_*",
    "BY h_*->weight",
    "BY h_*->",
    "BY nosort",
    "BY t_*",
    "GET #",
    "GET o_*",
    "GET h_*->name",
    "GET x",
    "GET",
    "GET none_*",
    "STORE result",
    "STORE list2",
    "STORE",
    "NONSENSE",
    "BY w_*->x",
    "GET o_*->",
    "GET *",
)


def fill(server: RawClient) -> None:
    chance = random.Random(1)
    server.run("RPUSH", "list", *chance.sample(range(100), 12))
    server.run("RPUSH", "texts", "b", "a", "B", "aa", "", "\xff", "a b")
    server.run("RPUSH", "numbers", "1", "-2.5", "1e3", "inf", "-inf", "0x10", " 7")
    server.run("SADD", "set", *chance.sample(range(100), 9))
    for member in chance.sample(range(100), 9):
        server.run("ZADD", "zset", chance.randrange(5), member)
    for number in range(100):
        server.run("SET", f"w_{number}", (number * 37) % 101)
        server.run("SET", f"t_{number}", f"text{(number * 41) % 103}")
        server.run("SET", f"o_{number}", f"object {number}")
        server.run("HSET", f"h_{number}", "weight", (number * 59) % 107, "name", f"name {number}")
    server.run("SET", "string", "x")


def test_random_requests_are_answered_alike(headrace_server: redis.Redis, redis_server: redis.Redis) -> None:
    chance = random.Random(7)
    with RawClient.of(headrace_server) as ours, RawClient.of(redis_server) as theirs:
        fill(ours)
        fill(theirs)
        for _ in range(REQUESTS):
            words = [chance.choice(("SORT", "SORT", "SORT_RO")), chance.choice(KEYS)]
            for option in chance.sample(OPTIONS, chance.randrange(4)):
                words += option.split()
            # The order of a set that nothing sorts is any order.
            if words[1] == "set" and ("nosort" in words or "h_*->" in words) and "STORE" not in words:
                continue
            # Texts of which nothing is known are equal, and Redis gives equals in any order where it sorts only a part.
            if "ALPHA" in words and "BY" in words and words[1] in ("texts", "numbers", "set", "zset"):
                continue
            if "ALPHA" in words and any(word in ("h_*->", "w_*->x") for word in words):
                continue
            assert ours.run(*words) == theirs.run(*words), words
            for key in ("result", "list2"):
                assert ours.run("LRANGE", key, 0, -1) == theirs.run("LRANGE", key, 0, -1), words


def test_patterns_need_every_key(headrace_server: redis.Redis, redis_server: redis.Redis) -> None:
    requests = (
        "SORT k",
        "SORT k BY nosort",
        "SORT k BY w_*",
        "SORT k GET #",
        "SORT k STORE d",
        "SORT k STORE k2",
        "SORT_RO k GET #",
    )
    rules = ("~k*", "%R~*", "~k* (~* +sort)", "allkeys", "%R~k %W~d")
    for rule in rules:
        answers = []
        for server in (headrace_server, redis_server):
            server.execute_command(
                "ACL", "SETUSER", "sorter", "reset", "on", "nopass", "+@all", *rule.split(" (")[0].split()
            )
            if "(" in rule:
                server.execute_command("ACL", "SETUSER", "sorter", "(" + rule.split("(")[1])
            with RawClient.of(server) as client:
                client.run("AUTH", "sorter", "x")
                replies = [client.run(*request.split()) for request in requests]
                # Which key it was, later versions say in other words.
                answers.append([reply.split()[0] if reply.startswith(b"-NOPERM") else reply for reply in replies])
            server.acl_deluser("sorter")
        assert answers[0] == answers[1], rule
