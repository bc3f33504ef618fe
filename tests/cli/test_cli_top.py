"""`top`: right numbers, once and live, in a terminal that it gives back as it found it."""

import re
import threading
from pathlib import Path

import pytest
import redis

from headrace.cli.top.reading import take_reading
from headrace.cli.top.screen import SORTS, View
from support.cli.process import headrace, output, refusal, told, url_of
from support.cli.terminal import ALTERNATE_SCREEN, FORMER_SCREEN, PseudoTerminal
from support.server_process import ServerProcess


def fill(server: redis.Redis) -> None:
    for number in range(1, 21):
        server.xadd("devmsg", {"n": number})
    server.xadd("alarms", {"n": 1})
    server.xgroup_create("devmsg", "workers", "0")
    server.xgroup_create("devmsg", "archive", "0")
    server.xreadgroup("workers", "ann", {"devmsg": ">"}, count=7)
    server.xreadgroup("workers", "bob", {"devmsg": ">"}, count=3)
    server.set("text", "no stream")


def test_one_reading_has_streams_groups_and_consumers(server: redis.Redis) -> None:
    fill(server)
    reading = told("top", "--once", "--interval", "0", server=server)
    alarms, devmsg = reading["streams"]
    assert (alarms["name"], alarms["length"], alarms["groups"]) == ("alarms", 1, [])
    assert (devmsg["length"], devmsg["pending"], devmsg["lag"]) == (20, 10, 20)
    archive, workers = devmsg["groups"]
    assert (archive["name"], archive["lag"], archive["pending"], archive["oldest_pending"]) == ("archive", 20, 0, None)
    assert (workers["lag"], workers["pending"], workers["entries_read"]) == (10, 10, 10)
    assert workers["oldest_pending"]["consumer"] == "ann"
    assert workers["oldest_pending"]["deliveries"] == 1
    assert [(each["name"], each["pending"]) for each in workers["consumers"]] == [("ann", 7), ("bob", 3)]
    assert devmsg["in_per_s"] is None


def test_rates_are_what_happened_between_two_readings(server: redis.Redis) -> None:
    fill(server)
    before = take_reading(server, "*", None)
    before.taken_at -= 10  # seconds
    for number in range(30):
        server.xadd("devmsg", {"n": number})
    server.xreadgroup("workers", "ann", {"devmsg": ">"}, count=20)
    reading = take_reading(server, "dev*", before)
    (devmsg,) = reading.streams
    assert devmsg.in_per_s == pytest.approx(3.0, rel=0.2)
    assert devmsg.out_per_s == pytest.approx(2.0, rel=0.2)


def test_without_a_terminal_it_prints_one_reading(server: redis.Redis) -> None:
    fill(server)
    printed = output("top", "--interval", "0", server=server)
    assert "\x1b" not in printed
    assert re.search(r"^devmsg +20 +2 +20 +10 ", printed, re.MULTILINE)
    assert re.search(r"^ └ workers +10 +10 ", printed, re.MULTILINE)
    assert re.search(r"^     ann  idle .* 7", printed, re.MULTILINE)
    assert "text" not in printed
    assert "alarms" not in output("top", "--interval", "0", "--match", "dev*", server=server)


def test_an_empty_server_has_a_reading(server: redis.Redis) -> None:
    assert "there are no streams yet" in output("top", "--interval", "0", server=server)
    assert told("top", "--interval", "0", server=server)["streams"] == []


def test_it_lives_in_a_terminal_until_q(server: redis.Redis) -> None:
    fill(server)
    stop = threading.Event()
    other = redis.Redis.from_url(url_of(server))

    def write() -> None:
        while not stop.wait(0.01):
            other.xadd("devmsg", {"n": 1})

    writer = threading.Thread(target=write)
    writer.start()
    try:
        with PseudoTerminal("top", "--interval", "200ms", server=server) as terminal:
            terminal.await_text("devmsg", "workers", "ann", "q leave")
            assert ALTERNATE_SCREEN in terminal.received
            terminal.await_pattern(r"devmsg +\d+ +[1-9]\d* ")  # a rate
            terminal.forget()
            terminal.press("ss")
            terminal.await_text("in/s▼")
            terminal.press("c")
            terminal.forget()
            terminal.await_text("workers", "q leave")
            terminal.press("q")
            assert terminal.await_end() == 0
            assert FORMER_SCREEN in terminal.received
            assert terminal.is_as_before
            assert "Traceback" not in terminal.text
    finally:
        stop.set()
        writer.join()
        other.close()


def test_ctrl_c_leaves_it_quietly(headrace_server: redis.Redis) -> None:
    with PseudoTerminal("top", server=headrace_server) as terminal:
        terminal.await_text("q leave")
        terminal.interrupt()
        assert terminal.await_end() in {0, 130}
        assert FORMER_SCREEN in terminal.received
        assert terminal.is_as_before
        assert "Traceback" not in terminal.text


def test_a_server_that_goes_does_not_end_it(tmp_path: Path) -> None:
    with ServerProcess(tmp_path, "--appendonly", "no") as first:
        client = redis.Redis(port=first.port)
        client.xadd("devmsg", {"n": 1})
        with PseudoTerminal("top", "--interval", "100ms", server=client) as terminal:
            terminal.await_text("devmsg")
            first.process.kill()
            first.process.wait(10)
            terminal.await_text("There is no server at")
            assert terminal.process.poll() is None
            terminal.press("q")
            assert terminal.await_end() == 0


def test_more_lines_than_fit_are_scrolled(headrace_server: redis.Redis) -> None:
    for number in range(40):
        headrace_server.xadd(f"stream-{number:02}", {"n": 1})
    with PseudoTerminal("top", "--interval", "60s", server=headrace_server, rows=20) as terminal:
        terminal.await_text("stream-00", "25 lines more")
        assert "stream-39" not in terminal.text
        terminal.press("\x1b[6~" * 4)
        terminal.await_text("stream-39")
        terminal.press("q")
        assert terminal.await_end() == 0


def test_sixty_columns_show_the_numbers_that_say_most_and_the_one_that_is_sorted_by(server: redis.Redis) -> None:
    fill(server)
    server.xgroup_setid("devmsg", "archive", "$")
    for sort, wanted in (
        ("lag", r"^stream +length .*lag▼ +pending"),
        ("groups", r"^stream .*groups▼ +lag +pending"),
    ):
        printed = output("top", "--interval", "0", "--sort", sort, server=server, env={"COLUMNS": "60"})
        title, _, heading, *rows = printed.splitlines()
        assert "devmsg" not in title
        assert re.search(wanted, heading), heading
        assert max(len(row) for row in (heading, *rows)) <= 60
        assert re.search(r"^devmsg .* 10 +10( |$)", printed, re.MULTILINE), printed
    with PseudoTerminal("top", "--interval", "60s", server=server, rows=10, columns=60) as terminal:
        terminal.await_text("stream▼", "pending", "line more")
        terminal.press("q")
        assert terminal.await_end() == 0


def test_every_key_does_something() -> None:
    view = View()
    for _ in SORTS:
        assert view.press("s", 10)
    assert view.sort == "name"
    view.press("r", 10)
    assert view.backwards
    view.press("g", 10)
    assert not view.groups
    view.press("c", 10)
    assert not view.consumers
    view.press("down", 10)
    assert view.top_row == 1
    view.press("page down", 10)
    assert view.top_row == 11
    view.press("up", 10)
    assert view.top_row == 10
    view.press("home", 10)
    assert view.top_row == 0
    view.press("up", 10)
    assert view.top_row == 0
    assert view.press("x", 10)
    assert not view.press("q", 10)


def test_sorts_put_the_largest_first(server: redis.Redis) -> None:
    fill(server)
    printed = output("top", "--interval", "0", "--sort", "length", server=server)
    assert printed.index("devmsg") < printed.index("alarms")
    done = headrace("top", "--sort", "size", server=server)
    assert done.returncode == 2
    assert b"none of name, length" in done.stderr


def test_a_server_that_is_not_there_is_told() -> None:
    sentence = refusal("top", "--url", "redis://127.0.0.1:1")
    assert sentence.startswith("There is no server at 127.0.0.1:1 (Connection refused)")
