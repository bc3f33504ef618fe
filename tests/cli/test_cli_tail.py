"""`tail`: what was, what comes, what is left out, and how it looks."""

import json
import re
import subprocess
import time

import pytest
import redis
from rich.cells import cell_len

from headrace.cli.tail.filters import conditions
from support.cli.process import COMMAND, environment, headrace, output, refusal
from support.cli.terminal import PseudoTerminal
from support.patience import PATIENCE_S


def fill(server: redis.Redis, count: int = 30) -> None:
    for number in range(count):
        server.xadd("devmsg", {"dev": number % 3, "temp": 20 + number / 2}, id=f"{1526919030474 + 100 * number}-0")


def lines(server: redis.Redis, *arguments: str) -> list[str]:
    return output("tail", *arguments, "--no-follow", server=server).splitlines()


# --- what was ------------------------------------------------------------------------------------------------------


def test_the_last_entries_come_in_columns(server: redis.Redis) -> None:
    fill(server)
    assert lines(server, "devmsg", "-n", "3") == [
        "time                     id               dev  temp",
        "2018-05-21 16:10:33.174  1526919033174-0  0    33.5",
        "2018-05-21 16:10:33.274  1526919033274-0  1    34.0",
        "2018-05-21 16:10:33.374  1526919033374-0  2    34.5",
    ]
    assert len(lines(server, "devmsg")) == 11
    assert lines(server, "devmsg", "-n", "0") == []


def test_a_place_to_begin_is_an_id_or_a_time(server: redis.Redis) -> None:
    fill(server)
    ids = [json.loads(line)["_id"] for line in lines(server, "devmsg", "--from", "1526919033174-0", "--json")]
    assert ids == ["1526919033174-0", "1526919033274-0", "1526919033374-0"]
    assert len(lines(server, "devmsg", "--from", "2018-05-21T16:10:33.174", "--json")) == 3
    assert len(lines(server, "devmsg", "--from", "0", "--json")) == 30
    assert lines(server, "devmsg", "--from", "5m", "--json") == []
    assert lines(server, "devmsg", "--from", "$", "--json") == []


def test_streams_are_merged_by_their_ids(server: redis.Redis) -> None:
    for number in range(1, 7):
        server.xadd(f"s{number % 2}", {"n": number}, id=f"{number}-0")
    told = [json.loads(line) for line in lines(server, "s0", "s1", "-n", "4", "--json")]
    assert [(each["_key"], each["n"]) for each in told] == [("s1", "3"), ("s0", "4"), ("s1", "5"), ("s0", "6")]
    assert [line.split("\t") for line in lines(server, "s0", "s1", "-n", "1", "--format", "raw")] == [
        ["s0", "6-0", "6"]
    ]


def test_every_format_shows_the_same_entry(headrace_server: redis.Redis) -> None:
    server = headrace_server
    server.xadd("devmsg", {"dev": "a,b", "note": 'said "no"', "empty": ""}, id="1526919030474-5")
    assert lines(server, "devmsg", "--format", "json") == [
        '{"_id": "1526919030474-5", "dev": "a,b", "note": "said \\"no\\"", "empty": ""}'
    ]
    assert lines(server, "devmsg", "--format", "csv") == [
        "_id,dev,note,empty",
        '1526919030474-5,"a,b","said ""no""",""',
    ]
    assert lines(server, "devmsg", "--format", "csv", "--field", "dev", "--field", "none") == [
        "_id,dev,none",
        '1526919030474-5,"a,b",',
    ]
    assert lines(server, "devmsg", "--format", "raw") == ['1526919030474-5\ta,b\tsaid "no"\t']
    assert lines(server, "devmsg", "--format", "{_time} {_key}/{_id}: {dev} {{{none}}}\\t{note}") == [
        '2018-05-21 16:10:30.474 devmsg/1526919030474-5: a,b {}\tsaid "no"'
    ]
    assert lines(server, "devmsg", "--format", "json", "--field", "dev") == ['{"_id": "1526919030474-5", "dev": "a,b"}']


def test_bytes_that_are_no_text_pass_through(server: redis.Redis) -> None:
    server.xadd("bytes", {b"\xff": b"\x00\xfe\n"}, id="1-1")
    done = headrace("tail", "bytes", "--no-follow", "--format", "raw", server=server)
    assert done.stdout == b"1-1\t\x00\xfe\n\n"
    assert r"\xff" in "".join(lines(server, "bytes"))
    assert lines(server, "bytes", "--json") == [r'{"_id": "1-1", "\udcff": "\u0000\udcfe\n"}']


def test_a_csv_that_has_no_column_for_a_field_says_so_once(headrace_server: redis.Redis) -> None:
    for fields in ({"a": 1}, {"a": 2, "b": 3}, {"b": 4}):
        headrace_server.xadd("mixed", fields)
    done = headrace("tail", "mixed", "--no-follow", "--format", "csv", server=headrace_server)
    assert [line.split(b",", 1)[1] for line in done.stdout.splitlines()] == [b"a", b"1", b"2", b""]
    assert done.stderr.count(b"this CSV has no column for it") == 1


# --- what is left out ----------------------------------------------------------------------------------------------


def test_conditions_choose_entries_and_the_last_are_counted_behind_them(server: redis.Redis) -> None:
    fill(server, 1200)
    found = lines(server, "devmsg", "--where", "temp>=26", "--where", "temp<28", "--json")
    assert [json.loads(line)["temp"] for line in found] == ["26.0", "26.5", "27.0", "27.5"]
    found = lines(server, "devmsg", "--where", "dev=1", "--grep", "temp=.*[.]5", "-n", "2", "--json")
    assert [json.loads(line)["temp"] for line in found] == ["614.5", "617.5"]


@pytest.mark.parametrize(
    ("text", "holds"),
    [
        ("temp>25", True),
        ("temp > 26", False),
        ("temp<=26.0", True),
        ("temp=26.00", True),
        ("temp!=26", False),
        ("temp!=27", True),
        ("temp<100", True),
        ("name=Ann", True),
        ("name==Ann", True),
        ("name>A", True),
        ("name~^A", True),
        ("name~^n", False),
        ("name!~x", True),
        ("none=1", False),
        ("none!=1", True),
        ("none!~1", True),
        ("tag=b", True),
        ("tag!=b", False),
        ("empty=", True),
        ("a=b=c", False),
        ("with space=1", True),
    ],
)
def test_conditions_hold_or_not(text: str, holds: bool) -> None:
    pairs = [
        (b"temp", b"26"),
        (b"name", b"Ann"),
        (b"tag", b"a"),
        (b"tag", b"b"),
        (b"empty", b""),
        (b"with space", b"1"),
    ]
    (condition,) = conditions([text], None)
    assert condition(pairs) is holds


@pytest.mark.parametrize(
    "arguments", [["--where", "temp"], ["--where", "temp~["], ["--grep", "("], ["--format", "xml"], ["--from", "soon"]]
)
def test_what_makes_no_sense_is_a_usage_error(headrace_server: redis.Redis, arguments: list[str]) -> None:
    done = headrace("tail", "devmsg", "--no-follow", *arguments, server=headrace_server)
    assert done.returncode == 2
    assert b"Traceback" not in done.stderr
    assert arguments[0].encode() in done.stderr


def test_streams_that_are_none_are_told(server: redis.Redis) -> None:
    server.set("text", "x")
    assert refusal("tail", "text", server=server) == "The key text holds a string, not a stream."
    assert "There is no stream nothing" in refusal("tail", "nothing", "--no-follow", server=server)


# --- what comes ----------------------------------------------------------------------------------------------------


def test_new_entries_appear_and_ctrl_c_ends_it_quietly(server: redis.Redis) -> None:
    fill(server, 3)
    with PseudoTerminal("tail", "devmsg", "later", "--where", "temp>20", server=server) as terminal:
        terminal.await_text("There is no stream later yet; waiting for it.", "20.5", "21.0")
        server.xadd("devmsg", {"dev": 7, "temp": "77.5"})
        terminal.await_text("77.5")
        server.xadd("devmsg", {"dev": 7, "temp": "-4"})
        server.xadd("later", {"dev": 8, "temp": "88.25"})  # a stream that was not there when it began
        terminal.await_text("88.25")
        assert "-4" not in terminal.text.split("77.5")[1]
        server.xadd("devmsg", {"dev": 9, "temp": "99.125"})
        terminal.await_text("99.125")
        assert [terminal.text.count(temp) for temp in ("20.5", "77.5", "88.25", "99.125")] == [1, 1, 1, 1]
        terminal.interrupt()
        assert terminal.await_end() == 130
        assert "Traceback" not in terminal.text
        assert "Abort" not in terminal.text


def test_a_pattern_follows_what_matches_now_and_later(server: redis.Redis) -> None:
    server.set("sensor:text", "no stream")
    server.xadd("sensor:1", {"n": "first"}, id="1-0")
    server.xadd("sensor:2", {"n": "second"}, id="2-0")
    server.xadd("other", {"n": "nobody asked"}, id="3-0")
    told = [json.loads(line) for line in lines(server, "sensor:*", "--json")]
    assert [(each["_key"], each["n"]) for each in told] == [("sensor:1", "first"), ("sensor:2", "second")]
    assert [
        json.loads(line)["_key"] for line in lines(server, "sensor:?", "sensor:1", "other", "-n", "3", "--json")
    ] == [
        "sensor:1",
        "sensor:2",
        "other",
    ]
    assert "matches nothing:*" in refusal("tail", "nothing:*", "--no-follow", server=server)
    with PseudoTerminal("tail", "sensor:*", "none:*", "-n", "1", server=server) as terminal:
        terminal.await_text("No stream matches none:* yet; waiting for one.", "second")
        server.xadd("sensor:3", {"n": "third"})  # a stream that was not there when it began: all of it is new
        terminal.await_text("sensor:3", "third")
        server.delete("sensor:1", "sensor:2")
        server.rpush("sensor:1", "not a stream any more")
        server.xadd("sensor:2", {"n": "begun again"})
        server.xadd("sensor:3", {"n": "fourth"})
        terminal.await_text("begun again", "fourth")
        assert [terminal.text.count(each) for each in ("first", "second", "third")] == [0, 1, 1]


def test_a_key_with_the_name_of_a_pattern_is_meant_itself(server: redis.Redis) -> None:
    server.xadd("s[1]*", {"n": "odd"})
    server.xadd("s1", {"n": "plain"})
    assert [json.loads(line)["n"] for line in lines(server, "s[1]*", "--json")] == ["odd"]


def test_colours_are_for_terminals(headrace_server: redis.Redis) -> None:
    fill(headrace_server, 2)
    with PseudoTerminal("tail", "devmsg", "--no-follow", server=headrace_server) as terminal:
        assert terminal.await_end() == 0
        assert "\x1b[36m1526919030474-0" in terminal.received
    assert "\x1b" not in output("tail", "devmsg", "--no-follow", server=headrace_server)


def test_a_pipe_gets_every_entry_at_once_and_may_close(headrace_server: redis.Redis) -> None:
    fill(headrace_server, 1)
    with subprocess.Popen(
        [*COMMAND, "tail", "devmsg", "--json"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment(headrace_server),
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert b"20.0" in process.stdout.readline()
        headrace_server.xadd("devmsg", {"dev": 1, "temp": "55"})
        assert b'"55"' in process.stdout.readline()
        process.stdout.close()
        deadline = time.monotonic() + PATIENCE_S
        while process.poll() is None:
            assert time.monotonic() < deadline
            headrace_server.xadd("devmsg", {"dev": 1, "temp": "56"})
            time.sleep(0.05)
        assert re.search(rb"Traceback|Error", process.stderr.read()) is None


def test_wide_characters_keep_columns_straight(headrace_server: redis.Redis) -> None:
    for number, (name, city) in enumerate([("张三", "北京"), ("hb", "Wien"), ("欧阳娜娜", "上海")], 1):
        headrace_server.xadd("people", {"name": name, "city": city}, id=f"{number}-0")
    printed = lines(headrace_server, "people")
    assert {cell_len(line[: line.index(city)]) for line, city in zip(printed[1:3], ("北京", "Wien"), strict=True)} == {
        36
    }
    drawn = output("inspect", "people", server=headrace_server).splitlines()
    assert len({cell_len(line[: line.index("value of")]) for line in drawn if "value of" in line}) == 1
