"""SCAN, HSCAN, SSCAN, ZSCAN: pages of the size that COUNT asks for, and nothing that stays is left out."""

import random

import pytest
import redis

from headrace.core.member_set import MemberSet
from headrace.core.sorted_set import SortedSet
from headrace.engine.applier import Applier
from headrace.formats.dump import open_payload
from headrace.formats.values import dump_value, restore_value
from support.in_process import InProcess

FILL = {"HSCAN": ("HSET", 2), "SSCAN": ("SADD", 1), "ZSCAN": ("ZADD", 2)}


def fill(engine: InProcess, scan: str, numbers: range) -> None:
    command, width = FILL[scan]
    for number in numbers:
        member, text = f"m{number}", str(number)
        words = {"HSCAN": (member, text), "SSCAN": (member,), "ZSCAN": (text, member)}[scan]
        assert len(words) == width
        engine.run(command, "k", *words)


def page(engine: InProcess, scan: str, cursor: bytes, *options: str | int) -> tuple[bytes, list[bytes]]:
    """The next cursor, and the texts of a page."""
    key = () if scan == "SCAN" else ("k",)
    lines = engine.run(scan, *key, cursor, *options).split(b"\r\n")
    assert lines[0] == b"*2"
    return lines[2], lines[5:-1:2]


@pytest.mark.parametrize("scan", FILL)
def test_a_page_has_as_many_elements_as_count_asks_for(scan: str) -> None:
    engine = InProcess()
    fill(engine, scan, range(2000))
    cursor, found, sizes = b"0", [], []
    while True:
        cursor, texts = page(engine, scan, cursor, "COUNT", 100)
        found += texts[:: FILL[scan][1]]
        sizes.append(len(texts) // FILL[scan][1])
        if cursor == b"0":
            break
    assert sizes == [100] * 20
    assert sorted(found) == sorted(b"m%d" % number for number in range(2000))


@pytest.mark.parametrize("scan", FILL)
def test_a_small_collection_comes_whole(scan: str) -> None:
    engine = InProcess()
    fill(engine, scan, range(100))
    cursor, texts = page(engine, scan, b"0", "COUNT", 3)
    assert (cursor, len(texts)) == (b"0", 100 * FILL[scan][1])


def test_a_hash_with_a_long_value_comes_in_pages_and_without_values_where_asked() -> None:
    engine = InProcess()
    fill(engine, "HSCAN", range(50))
    engine.run("HSET", "k", "long", "x" * 65)
    cursor, texts = page(engine, "HSCAN", b"0", "COUNT", 5, "NOVALUES")
    assert cursor != b"0"
    assert len(texts) == 5
    assert page(engine, "HSCAN", b"0", "COUNT", 1000, "MATCH", "m1?", "NOVALUES")[1] == [
        b"m%d" % number for number in range(10, 20)
    ]


@pytest.mark.parametrize("scan", ["SCAN", *FILL])
def test_what_stays_is_found_while_elements_come_and_go_and_after_a_restart(scan: str) -> None:
    chance = random.Random(scan)
    engine = InProcess()
    for number in range(600):
        if scan == "SCAN":
            engine.run("SET", f"m{number}", "v")
        else:
            fill(engine, scan, range(number, number + 1))
    remove = {"SCAN": ("DEL",), "HSCAN": ("HDEL", "k"), "SSCAN": ("SREM", "k"), "ZSCAN": ("ZREM", "k")}[scan]
    for number in chance.sample(range(600), 100):
        engine.run(*remove, f"m{number}")
    staying = {b"m%d" % number for number in range(0, 600, 3)}
    here = set(page(engine, scan, b"0", "COUNT", 10_000)[1])
    staying &= here
    width = FILL[scan][1] if scan in FILL else 1
    cursor, found, newest = b"0", set(), 1000
    history = engine.take_effects()
    while True:
        cursor, texts = page(engine, scan, cursor, "COUNT", 7)
        found.update(texts[::width])
        if cursor == b"0":
            break
        for _ in range(chance.randrange(10)):
            newest += 1
            if chance.random() < 0.5:
                if scan == "SCAN":
                    engine.run("SET", f"m{newest}", "v")
                else:
                    fill(engine, scan, range(newest, newest + 1))
            else:
                engine.run(*remove, f"m{3 * chance.randrange(200) + 1}")
        if scan == "ZSCAN":
            engine.run("ZADD", "k", str(chance.random()), chance.choice(sorted(staying)))
        history += engine.take_effects()
        if chance.random() < 0.03:
            engine = InProcess()
            applier = Applier(engine.engine, engine.engine.clocks.unix_ms())
            for _, argv in history:
                applier.run(argv)
            applier.end()
            engine.take_effects()
    assert staying <= found


def test_a_walk_goes_on_after_a_value_was_written_to_a_file_and_read_again() -> None:
    members = [b"m%d" % random.Random(number).randrange(10**9) for number in range(1000)]
    written = MemberSet(members), SortedSet.from_pairs((member, -float(i)) for i, member in enumerate(members))
    for held in written:
        read = restore_value(open_payload(dump_value(held))[0])
        assert isinstance(read, MemberSet | SortedSet)
        cursor, _ = held.page(0, 100)
        assert read.page(cursor, 100) == held.page(cursor, 100)


def test_a_key_that_is_replaced_keeps_its_place_in_a_scan() -> None:
    engine = InProcess()
    for number in range(100):
        engine.run("SET", f"m{number}", "v")
    cursor, found = page(engine, "SCAN", b"0", "COUNT", 10)
    engine.run("RENAME", "m99", "m0")
    engine.run("COPY", "m98", "m1", "REPLACE")
    payload = engine.run("DUMP", "m98").split(b"\r\n", 1)[1][:-2]
    engine.run("RESTORE", "m2", 0, payload, "REPLACE")
    while cursor != b"0":
        cursor, texts = page(engine, "SCAN", cursor, "COUNT", 10)
        found += texts
    assert {b"m0", b"m1", b"m2"} <= set(found)


def test_types_and_errors_are_those_of_redis(headrace_server: redis.Redis, redis_server: redis.Redis) -> None:
    answers = []
    for server in (headrace_server, redis_server):
        server.flushall()
        for number in range(40):
            server.set(f"s{number}", 1)
            server.sadd(f"t{number}", 1)
        server.zadd("z", {f"m{number}": number for number in range(300)})
        found = set(server.scan_iter(count=3, _type="SET"))
        replies: list[object] = [sorted(found), sorted(server.scan_iter(match="s1*", count=7))]
        replies.append(sorted(server.zscan_iter("z", count=11)))
        for words in (
            "SCAN x",
            "SCAN 0 COUNT 0",
            "SCAN 0 COUNT x",
            "SCAN 0 TYPE",
            "SCAN 0 NOVALUES",
            "HSCAN z 0",
            "SSCAN z 0 COUNT 1",
            "ZSCAN z -1 COUNT 0",
            "ZSCAN z 0 MATCH",
            "ZSCAN none 0 COUNT 0",
            "ZSCAN z 18446744073709551616",
            "SCAN 0 TYPE nonsense COUNT 1000",
        ):
            try:
                replies.append(server.execute_command(*words.split()))
            except redis.ResponseError as error:
                replies.append(str(error))
        answers.append(replies)
    assert answers[0] == answers[1]
