"""ACL rules: random ones are accepted, printed and enforced as by redis-server 7.0.15.

Since 7.2, rules about commands are printed as they were given; 7.0 prints them in a reduced form. These rules are
therefore compared by what they allow: a redis-server 7.0 that is given our rules must allow the same.
"""

import random
import re
from collections.abc import Iterator

import pytest
import redis

from headrace.commands.all import TABLE
from headrace.engine.acl.categories import CATEGORIES
from support.campaign import LONG
from support.raw_client import RawClient, parse

ROUNDS = 600 if LONG else 56

COMMANDS = ["get", "set", "del", "xadd", "xread", "xreadgroup", "config", "client", "acl", "publish", "psubscribe"]
COMMANDS += ["select", "multi", "keys", "xgroup", "copy", "ping", "subscribe", "object", "exists", "rename", "flushall"]
INNER = ["config|get", "config|set", "client|id", "client|kill", "acl|whoami", "xgroup|create", "select|0", "get|x"]
WRONG = ["nosuch", "config|nosuch", "get|", "config|get|x", "a|b|c", "@nosuch", "", "get ", "|"]
PATTERNS = ["a*", "*", "k?", "[ab]", "", "a", "a", "**", "zz", "\\*"]
WORDS = ["on", "off", "nopass", "resetpass", "allkeys", "resetkeys", "allchannels", "resetchannels", "allcommands"]
WORDS += [
    "nocommands",
    "clearselectors",
    "ON",
    "AllKeys",
    "nonsense",
    "~",
    "&",
    "%",
    "+",
    "-",
    ">",
    "#",
    "(",
    ")",
    "()",
]

START = ["on", "+@all", "+@all ~k*", "+@all &a*", "+select|0 +@read", "+@all -@dangerous %R~a", "+@all %W~a"]

REQUESTS = [
    *(
        "get a",
        "get k1",
        "get zz",
        "set a v",
        "set a v GET",
        "set zz v",
        "del a zz",
        "exists a",
        "exists zz",
        "copy a b",
    ),
    *("copy a zz", "rename k1 k2", "xadd a * f v", "xread STREAMS a b 0 0", "xread STREAMS zz 0", "xlen a", "keys *"),
    *("xreadgroup GROUP g c STREAMS a >", "xgroup create a g 0", "xgroup destroy zz g", "xgroup help", "config get x"),
    *("config set a b", "client id", "client kill a", "acl whoami", "acl list", "publish a m", "publish zz m", "ping"),
    *("subscribe a b", "psubscribe a*", "psubscribe *", "spublish a m", "ssubscribe zz", "unsubscribe zz", "auth x y"),
    *("select 0", "select 1", "get x", "object encoding a", "object encoding zz", "flushall", "multi", "hello", "quit"),
    *("watch a zz", "sadd zz m", "lpush a x", "type zz", "restore a 0 x", "command", "command count", "info", "dbsize"),
]


class Rules:
    """Draws rules: most of them right."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)

    def some(self) -> list[str]:
        return [self._rule() for _ in range(self._random.randint(1, 6))]

    def _rule(self) -> str:
        rng = self._random
        if rng.random() < 0.15:
            inner = " ".join(self._selector_rule() for _ in range(rng.randint(0, 4)))
            return f"({inner})"
        if rng.random() < 0.15:
            text = rng.choice(("pw1", "pw2", ""))
            return rng.choice((">", ">", ">", "<")) + text
        if rng.random() < 0.05:
            return rng.choice("#!") + rng.choice(("0" * 64, "1" * 64, "zz", "A" * 64))
        return rng.choice(WORDS) if rng.random() < 0.2 else self._selector_rule()

    def _selector_rule(self) -> str:
        rng = self._random
        chance = rng.random()
        if chance < 0.3:
            return rng.choice("++-") + rng.choice(COMMANDS)
        if chance < 0.4:
            return rng.choice("++-") + rng.choice(INNER)
        if chance < 0.6:
            return rng.choice("++-") + "@" + rng.choice((*CATEGORIES, "all", "all", "READ"))
        if chance < 0.62:
            return rng.choice("+-") + rng.choice(WRONG)
        if chance < 0.64:
            return rng.choice(("%~a", "%X~a", "%RR~a", "~x y", "&x y"))
        if chance < 0.85:
            return rng.choice(("~", "%R~", "%W~", "%RW~", "%r~")) + rng.choice(PATTERNS)
        return "&" + rng.choice(PATTERNS)


@pytest.fixture
def both(headrace_server: redis.Redis, redis_server: redis.Redis) -> Iterator[tuple[RawClient, RawClient]]:
    with RawClient.of(headrace_server) as ours, RawClient.of(redis_server) as theirs:
        yield ours, theirs
        for wire in (ours, theirs):
            wire.run("ACL", "DELUSER", "u", "again")
            wire.run("ACL", "LOG", "RESET")


def outcomes(wire: RawClient, user: str) -> list[str]:
    """What DRYRUN says of each request: OK, or the kind of thing that is denied."""
    found = []
    for request in REQUESTS:
        reply = wire.run("ACL", "DRYRUN", user, *request.split())
        kind = re.search(rb"(command|'[^']*' key|'[^']*' channel)\r\n$", reply)
        found.append(f"{request}: " + (kind[1].decode() if kind else reply.decode()))
    return found


def listed(wire: RawClient, user: str) -> str:
    """What ACL LIST says of a user, without rules about commands."""
    lines = parse(wire.run("ACL", "LIST"))
    assert isinstance(lines, list)
    line = next(line for line in lines[1:] if line.startswith(f"$user {user} "))
    words = line.replace("sanitize-payload ", "").split(" ")
    return " ".join(re.sub(r"^[-+][^)]*", "", word) for word in words)


@pytest.mark.parametrize("seed", range(8))
def test_random_rules_are_those_of_redis(both: tuple[RawClient, RawClient], seed: int) -> None:
    ours, theirs = both
    rules = Rules(seed)
    accepted = 0
    for number in range(ROUNDS):
        chosen = rules.some()
        if number % 4 == 0:
            for wire in both:
                wire.run("ACL", "DELUSER", "u")
                wire.run("ACL", "SETUSER", "u", *START[number // 4 % len(START)].split())
        replies = [wire.run("ACL", "SETUSER", "u", *chosen) for wire in both]
        assert replies[0] == replies[1], chosen
        accepted += replies[0] == b"+OK\r\n"
        assert listed(ours, "u").split() == listed(theirs, "u").split(), chosen
        assert outcomes(ours, "u") == outcomes(theirs, "u"), chosen
    assert accepted > ROUNDS / 4

    line = next(line for line in parse(ours.run("ACL", "LIST")) if line.startswith("$user u "))
    words = line.removeprefix("$user u ").split(" ")
    for wire in both:
        assert wire.run("ACL", "SETUSER", "again", *words) == b"+OK\r\n"
        assert outcomes(wire, "again") == outcomes(ours, "u")
    again = next(line for line in parse(ours.run("ACL", "LIST")) if line.startswith("$user again "))
    assert again.removeprefix("$user again ") == line.removeprefix("$user u ")


def test_every_category_has_the_commands_of_redis(both: tuple[RawClient, RawClient]) -> None:
    ours, theirs = both
    names = {each.name.decode() for outer in TABLE.values() for each in (outer, *outer.subcommands.values())}
    known = set()
    for category in CATEGORIES:
        reply = parse(theirs.run("ACL", "CAT", category))
        assert isinstance(reply, list)
        expected = {name[1:] for name in reply[1:]}
        found = {name[1:] for name in parse(ours.run("ACL", "CAT", category))[1:]}
        known |= expected
        assert expected & names <= found, category
    for category in CATEGORIES:
        found = {name[1:] for name in parse(ours.run("ACL", "CAT", category))[1:]}
        expected = {name[1:] for name in parse(theirs.run("ACL", "CAT", category))[1:]}
        assert found & known <= expected, category


def test_answers_are_those_of_redis(both: tuple[RawClient, RawClient]) -> None:
    ours, theirs = both
    for request in (
        *("ACL", "ACL NOSUCH", "ACL SETUSER", "ACL GETUSER nobody", "ACL DELUSER default", "ACL DELUSER nobody"),
        *("ACL CAT nosuch", "ACL CAT a b", "ACL CAT", "ACL LOG x", "ACL LOG 0", "ACL LOG RESET", "ACL LOG 1 2"),
        *("ACL GENPASS 0", "ACL GENPASS -1", "ACL GENPASS 4097", "ACL GENPASS x", "ACL GENPASS 1 2", "ACL WHOAMI"),
        *("ACL SAVE", "ACL LOAD", "ACL DRYRUN nobody get a", "ACL DRYRUN default nosuch", "ACL DRYRUN default get"),
        *("ACL DRYRUN default get a", "ACL DRYRUN default config nosuch", "ACL USERS", "AUTH default x", "AUTH a b c"),
        *("ACL SETUSER u (+get", "ACL SETUSER u (+get ~b", "ACL SETUSER u +get (", "AUTH nobody x", "ACL LOG RESET"),
    ):
        assert ours.run(*request.split()) == theirs.run(*request.split()), request
    for bits, digits in ((None, 64), (1, 1), (5, 2), (4096, 1024)):
        words = ["ACL", "GENPASS"] if bits is None else ["ACL", "GENPASS", str(bits)]
        assert re.fullmatch(rb"\$%d\r\n[0-9a-f]{%d}\r\n" % (digits, digits), ours.run(*words))
