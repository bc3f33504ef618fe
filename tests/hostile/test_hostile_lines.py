"""Append-only files with lines that no server writes there: each reader names the line, and does not run it."""

from pathlib import Path

import pytest

from support.cli.process import headrace
from support.ports import free_port
from support.raw_client import encode

INCREMENT = "appendonly.aof.1.incr.aof"
ENTRY = encode([b"XADD", b"s", b"1-1", b"f", b"v"])
NOT_DATA = "does not change data, and no server writes it there"
LINES = {
    "EVAL": ([b"EVAL", b"return #{unpack({1,2,3},-2,2147483647)}", b"0"], "too many results to unpack"),
    "ACL SETUSER": ([b"ACL", b"SETUSER", b"eve", b"on", b"nopass", b"~*", b"+@all"], NOT_DATA),
    "CONFIG SET": ([b"CONFIG", b"SET", b"requirepass", b""], NOT_DATA),
    "SHUTDOWN NOSAVE": ([b"SHUTDOWN", b"NOSAVE"], NOT_DATA),
    "DEBUG SEGFAULT": ([b"DEBUG", b"SEGFAULT"], NOT_DATA),
    "SAVE": ([b"SAVE"], NOT_DATA),
    "SUBSCRIBE c": ([b"SUBSCRIBE", b"c"], NOT_DATA),
    "MODULE LOAD": ([b"MODULE", b"LOAD", b"evil.so"], "unknown command"),
}
COMMANDS = {
    "check": ["check", "data"],
    "inspect": ["inspect", "--file", "data", "s"],
    "convert": ["convert", "data", "converted.rdb"],
    "serve": ["serve", "--dir", "data", "--port"],
}


def contents(directory: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in directory.rglob("*") if path.is_file() and path.name[0] != "."}


@pytest.mark.parametrize("line", LINES)
@pytest.mark.parametrize("command", COMMANDS)
def test_a_line_that_is_no_effect_is_named_and_not_run(tmp_path: Path, line: str, command: str) -> None:
    words, reason = LINES[line]
    directory = tmp_path / "data" / "appendonlydir"
    directory.mkdir(parents=True)
    (directory / "appendonly.aof.manifest").write_text(f"file {INCREMENT} seq 1 type i\n")
    (directory / INCREMENT).write_bytes(ENTRY + encode(words) + ENTRY.replace(b"1-1", b"2-1"))
    before = contents(tmp_path)
    port = [str(free_port())] if command == "serve" else []
    done = headrace(*COMMANDS[command], *port, cwd=tmp_path)
    told = (done.stdout + done.stderr).decode()
    assert done.returncode == 1, told
    assert reason in told
    assert line in told
    assert f"offset {len(ENTRY)}" in told
    assert INCREMENT in told
    assert "Traceback" not in told
    assert contents(tmp_path) == before
