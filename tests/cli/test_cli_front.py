"""What a person meets first: help, completion, and one sentence where something is wrong."""

import subprocess
import sys
from pathlib import Path

import pytest
import redis
import typer

from headrace.cli import times
from headrace.cli.app import app
from headrace.cli.showing import duration, lossless, raw, shown
from support.cli.process import COMMAND, environment, headrace, output, refusal
from support.server_process import ServerProcess

COMMANDS = ["top", "tail", "inspect", "load", "export", "convert", "check", "serve", "group", "migrate"]
GROUP_COMMANDS = ["list", "create", "reset", "drop", "claim", "pending"]


# --- help ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_help_with_examples(name: str) -> None:
    text = output(name, "--help")
    assert "For example:" in text
    assert f"headrace {name}" in text


def test_every_command_of_groups_has_help() -> None:
    for name in GROUP_COMMANDS:
        assert "--url" in output("group", name, "--help")


def test_the_heavy_things_are_not_imported_before_they_are_needed() -> None:
    """`--help` and `serve` start fast."""
    heavy = ("redis", "rich", "pyarrow", "pyspark", "importlib.metadata", "headrace.engine.engine")
    code = f"import sys, headrace.cli.app; print([name for name in {heavy} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, env=environment(None))
    assert done.stdout.strip() == b"[]"


# --- completion ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_can_be_installed_in_every_shell(shell: str, tmp_path: Path) -> None:
    done = subprocess.run(
        [*COMMAND, "--show-completion", shell],
        capture_output=True,
        check=False,
        timeout=60,
        env=environment(None, {"HOME": str(tmp_path), "_TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION": "1"}),
    )
    assert done.returncode == 0, done.stderr
    assert b"_HEADRACE_COMPLETE" in done.stdout


def complete(line: str, server: redis.Redis) -> list[str]:
    """What bash is offered behind a line."""
    words = line.split(" ")
    asked = {
        "_HEADRACE_COMPLETE": "complete_bash",
        "COMP_WORDS": line,
        "COMP_CWORD": str(len(words) - 1),
    }
    return headrace(server=server, env=asked).stdout.decode().split()


def test_commands_options_and_streams_are_completed(server: redis.Redis) -> None:
    server.xadd("devmsg", {"a": 1})
    server.xadd("devices", {"a": 1})
    server.xadd("*odd", {"a": 1})
    server.set("device", "no stream")
    assert {"tail", "top"} <= set(complete("headrace t", server))
    assert "--follow" in complete("headrace tail --f", server)
    assert complete("headrace tail dev", server) == ["devices", "devmsg"]
    assert complete("headrace tail *", server) == ["*odd"]
    assert complete("headrace group create devm", server) == ["devmsg"]


# --- errors --------------------------------------------------------------------------------------------------------


def test_a_server_that_is_not_there_is_told_by_every_command() -> None:
    env = {"HEADRACE_URL": "redis://127.0.0.1:1"}
    for arguments in (["tail", "x"], ["load", "x"], ["export", "x"], ["group", "list"], ["inspect", "x"]):
        sentence = refusal(*arguments, env=env)
        assert sentence == (
            "There is no server at 127.0.0.1:1 (Connection refused): start one with `headrace serve`, or name another "
            "with --url."
        )
    assert "No such file" in refusal("tail", "x", "--url", "unix:///no/such/socket")
    sentence = refusal("tail", "x", "--url", "http://user:secret@example")
    assert "'example' is no url of a server" in sentence
    assert "secret" not in sentence


@pytest.mark.parametrize(("content", "why"), [(None, "cannot be read: No such file"), (b"\xff", "is no text in UTF-8")])
def test_a_query_that_cannot_be_read_is_a_usage_error(tmp_path: Path, content: bytes | None, why: str) -> None:
    if content is not None:
        (tmp_path / "query.sql").write_bytes(content)
    done = headrace("pipeline", "transform", "@query.sql", "--stream", "a=b", "--key", "c", cwd=tmp_path)
    assert done.returncode == 2
    assert f"query.sql {why}" in done.stderr.decode()
    assert b"Traceback" not in done.stderr


def test_passwords_are_asked_for_and_judged(tmp_path: Path) -> None:
    socket = tmp_path / "headrace.sock"
    with ServerProcess(
        tmp_path, "--appendonly", "no", "--requirepass", "secret", "--unixsocket", str(socket)
    ) as server:
        client = redis.Redis.from_url(f"redis://:secret@127.0.0.1:{server.port}")
        client.xadd("devmsg", {"n": 1}, id="1-1")
        port = str(server.port)
        follow = ("tail", "devmsg", "--no-follow", "--format", "raw")
        assert "wants a password" in refusal(*follow, "--port", port)
        assert "does not accept" in refusal(*follow, "--port", port, "--password", "wrong")
        assert output(*follow, "--port", port, "--password", "secret") == "1-1\t1\n"
        assert output(*follow, "--port", port, env={"HEADRACE_PASSWORD": "secret"}) == "1-1\t1\n"
        assert output(*follow, "--url", f"redis://:secret@127.0.0.1:{port}/0") == "1-1\t1\n"
        assert output(*follow, "--url", f"unix://{socket}", "--password", "secret") == "1-1\t1\n"
        client.execute_command("ACL", "SETUSER", "ann", "on", ">pw", "~*", "+ping", "+type")
        assert "does not permit this user" in refusal(*follow, "--port", port, "--user", "ann", "--password", "pw")
        assert "There is no stream devmsg" in refusal(*follow, "--port", port, "--password", "secret", "--db", "2")


def test_usage_errors_leave_with_2() -> None:
    for arguments in (["tail"], ["tail", "x", "--nonsense"], ["nonsense"], ["tail", "x", "-n", "many"], ["inspect"]):
        done = headrace(*arguments)
        assert done.returncode == 2
        assert b"Traceback" not in done.stderr


# --- words ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "ms"),
    [
        *(("90", 90_000), ("1m", 60_000), ("1h30m", 5_400_000), ("1h 30m", 5_400_000), ("500ms", 500)),
        *(("2d", 172_800_000), ("1.5s", 1500), ("0", 0), ("1w", 604_800_000), ("2H", 7_200_000)),
    ],
)
def test_durations_are_what_people_type(text: str, ms: int) -> None:
    assert times.duration_ms(text) == ms


@pytest.mark.parametrize("text", ["", "soon", "1x", "-1m", "m", "1m-", "1e3"])
def test_what_is_no_duration_is_refused(text: str) -> None:
    with pytest.raises(typer.BadParameter, match="is no duration"):
        times.duration_ms(text)


@pytest.mark.parametrize(
    ("text", "place", "end", "stands"),
    [
        ("0", "0-0", "0", "0-0"),
        ("5", "5-0", "5", "5-0"),
        ("5-7", "5-7", "5-7", "5-7"),
        ("-", "0-0", "0", "0-0"),
        ("$", "$", "$", "$"),
        ("+", "$", "$", "$"),
        ("1970-01-01T00:00:10Z", "10000-0", "10000", f"9999-{2**64 - 1}"),
        ("1970-01-02T00:00+00:00", "86400000-0", "86400000", f"86399999-{2**64 - 1}"),
    ],
)
def test_places_are_ids_and_moments(text: str, place: str, end: str, stands: str) -> None:
    assert (times.place(text), times.range_end(text), times.group_place(text)) == (place, end, stands)


@pytest.mark.parametrize("text", ["", "soon", "5-", "-5", "1-2-3", "99999999999999999999", "2026-13-01", "25:00"])
def test_what_is_no_place_is_refused(text: str) -> None:
    with pytest.raises(typer.BadParameter):
        times.place(text)


def test_so_long_ago_is_a_place(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("time.time", lambda: 1_000_000.0)
    assert times.place("5m") == times.place("5m ago") == "999700000-0"
    assert times.place("now") == "1000000000-0"
    assert times.place("100w") == "0-0"


def test_durations_and_bytes_are_written_for_people() -> None:
    written = [duration(ms) for ms in (0, 999, 1000, 9999, 61_000, 3_600_000, 90_061_000)]
    assert written == ["0ms", "999ms", "1.0s", "10.0s", "1m 1s", "1h", "1d 1h"]
    assert shown(b"a\n\xff\x00\x1b[31m") == "a\\n\\xff\\x00\\x1b[31m"
    assert shown("ü流".encode()) == "ü流"
    assert shown(b"abcdef", 3) == "abc…"
    for text in (b"", b"\xff", "ü".encode(), b"\xed\xa0\x80"):
        assert raw(lossless(text)) == text


def test_the_table_of_commands_is_complete() -> None:
    registered = {command.name or command.callback.__name__ for command in app.registered_commands if command.callback}
    assert set(COMMANDS) - {"group"} <= registered
