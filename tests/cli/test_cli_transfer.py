"""`load` and `export`: what a stream holds comes back from every format, byte by byte."""

import json
import os
import random
import signal
from functools import partial
from io import BytesIO
from pathlib import Path
from subprocess import PIPE, Popen
from typing import Any

import pytest
import redis
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.cli.interrupts import undivided
from headrace.cli.rows.csv_rows import csv_line, read_csv
from headrace.cli.rows.json_lines import json_line, read_json_lines
from support.campaign import LONG
from support.cli.process import COMMAND, environment, headrace, output, refusal, told
from support.cli.terminal import PseudoTerminal
from support.patience import await_that

EXAMPLES = 2000 if LONG else 100

# One of each thing that a format may stumble over.
NASTY = [
    b"",
    b" ",
    b" padded ",
    b'"',
    b'""',
    b'a "quoted" word',
    b"comma, comma",
    b"two\nlines",
    b"\r\n",
    b"tab\there",
    b"null",
    b"NULL",
    b"007",
    b"1e400",
    b"-0",
    b"{}",
    b"\x00",
    b"\xff\xfe no text",
    b"half a letter \xc3",
    "grüße, 流".encode(),
    "\ud800".encode("utf-8", "surrogatepass"),
    b"\\ud800",
    b"x" * 70_000,
]

Entries = list[tuple[bytes, list[bytes]]]


def entries_of(client: redis.Redis, key: str) -> Entries:
    """What a stream holds, fields in their order and repeated where they are."""
    client.set_response_callback("XRANGE", lambda reply, **_: reply)
    try:
        return [(id, fields) for id, fields in client.execute_command("XRANGE", key, "-", "+")]
    finally:
        client.set_response_callback("XRANGE", redis.Redis().response_callbacks["XRANGE"])


def fill_with_nasty(client: redis.Redis, key: str) -> None:
    for number, value in enumerate(NASTY):
        client.execute_command("XADD", key, f"{number + 1}-{number}", "value", value, "number", number)
    client.execute_command("XADD", key, f"{2**64 - 1}-1", "other", "last")


# --- round trips ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("form", ["jsonl", "csv", "parquet"])
def test_what_is_exported_loads_to_the_same_stream(server: redis.Redis, form: str, tmp_path: Path) -> None:
    fill_with_nasty(server, "nasty")
    path = tmp_path / f"nasty.{form}"
    done = told("export", "nasty", path, server=server)
    assert done == {"entries": len(NASTY) + 1, "file": str(path)}
    loaded = told("load", "again", path, "--keep-ids", server=server)
    assert loaded == {"rows": len(NASTY) + 1, "loaded": len(NASTY) + 1, "already_there": 0, "out_of_order": 0}
    assert entries_of(server, "again") == entries_of(server, "nasty")


def test_json_lines_keep_what_no_table_can_hold(server: redis.Redis, tmp_path: Path) -> None:
    for fields in (["a", "1", "b", "2", "a", "3"], ["_id", "x"], ["_fields", "y"], ["\udcff", "z"]):
        server.execute_command("XADD", "odd", "*", *(text.encode("utf-8", "surrogateescape") for text in fields))
    lines = output("export", "odd", server=server).encode()
    output("load", "again", "--keep-ids", server=server, stdin=lines)
    assert entries_of(server, "again") == entries_of(server, "odd")
    for form in ("csv", "parquet"):
        sentence = refusal("export", "odd", tmp_path / f"odd.{form}", server=server)
        assert "has the field a twice" in sentence
        assert "JSON lines" in sentence
    assert list(tmp_path.iterdir()) == []


def test_pipes_carry_every_format(headrace_server: redis.Redis) -> None:
    fill_with_nasty(headrace_server, "nasty")
    for form in ("json", "csv", "parquet"):
        exported = headrace("export", "nasty", "--format", form, server=headrace_server)
        assert exported.returncode == 0
        output("load", form, "-", "--format", form, "--keep-ids", server=headrace_server, stdin=exported.stdout)
        assert entries_of(headrace_server, form) == entries_of(headrace_server, "nasty")


def test_a_range_is_exported(server: redis.Redis) -> None:
    for number in range(1, 9):
        server.xadd("range", {"n": number}, id=f"{number}-1")
    lines = output("export", "range", "--from", "3", "--to", "5", server=server).splitlines()
    assert [json.loads(line)["n"] for line in lines] == ["3", "4", "5"]
    lines = output("export", "range", "--from", "3-2", "--to", "5-0", server=server).splitlines()
    assert [json.loads(line)["n"] for line in lines] == ["4"]


names = st.one_of(st.binary(min_size=1, max_size=6), st.sampled_from([b"_id", b"_fields", b"_key", b"a"]))
rows = st.lists(st.lists(st.tuples(names, st.binary(max_size=20)), min_size=1, max_size=5), max_size=8)


@settings(max_examples=EXAMPLES)
@given(rows)
def test_any_fields_come_back_from_json_lines(made: list[list[tuple[bytes, bytes]]]) -> None:
    text = b"".join(json_line(b"%d-1" % number, pairs) for number, pairs in enumerate(made))
    read = list(read_json_lines(BytesIO(text), "_id"))
    assert [(row.id, row.pairs) for row in read] == [(b"%d-1" % number, pairs) for number, pairs in enumerate(made)]
    text.decode()  # which other programs read, too


@settings(max_examples=EXAMPLES)
@given(st.lists(st.lists(st.none() | st.binary(max_size=12), min_size=3, max_size=3), max_size=8), st.booleans())
def test_any_cells_come_back_from_csv(table: list[list[bytes | None]], windows: bool) -> None:
    heading: list[bytes | None] = [b"_id", b"a,b", b"c\nd"]
    kept = [cells for cells in table if any(cell is not None for cell in cells[1:])]
    lines = [csv_line(cells) for cells in [heading, *kept]]
    text = b"".join(line[:-1] + b"\r\n" if windows else line for line in lines)
    read = list(read_csv(BytesIO(text), "_id"))
    assert [row.id for row in read] == [cells[0] for cells in kept]
    expected = [
        [(name, cell) for name, cell in zip(heading[1:], cells[1:], strict=True) if cell is not None] for cells in kept
    ]
    assert [row.pairs for row in read] == expected


# --- what others write ---------------------------------------------------------------------------------------------


def test_json_of_others_becomes_text(server: redis.Redis) -> None:
    lines = b"""{"dev": 3, "temp": 26.50, "big": 12345678901234567890123, "ok": true, "none": null}

    {"nested": {"a": [1, 2.0, "x"], "b": null}, "text": "\\u00fc\\n", "twice": 1, "twice": 2}\n"""
    assert told("load", "made", server=server, stdin=lines)["loaded"] == 2
    assert [fields for _, fields in entries_of(server, "made")] == [
        [b"dev", b"3", b"temp", b"26.50", b"big", b"12345678901234567890123", b"ok", b"true"],
        [b"nested", b'{"a": [1, 2.0, "x"], "b": null}', b"text", "ü\n".encode(), b"twice", b"1", b"twice", b"2"],
    ]


def test_parquet_of_others_becomes_text(headrace_server: redis.Redis, tmp_path: Path) -> None:
    arrow = pytest.importorskip("pyarrow")
    table = arrow.table(
        {
            "count": arrow.array([1, None], arrow.int32()),
            "share": arrow.array([0.5, 2.0]),
            "when": arrow.array([1526919030474, 0], arrow.timestamp("ms", "UTC")),
            "ok": arrow.array([True, False]),
            "tags": arrow.array([["a", "b"], None]),
            "kind": arrow.array(["x", "y"]).dictionary_encode(),
        }
    )
    pytest.importorskip("pyarrow.parquet").write_table(table, tmp_path / "made.parquet")
    output("load", "made", tmp_path / "made.parquet", server=headrace_server)
    first, second = (
        dict(zip(fields[::2], fields[1::2], strict=True)) for _, fields in entries_of(headrace_server, "made")
    )
    assert first == {
        b"count": b"1",
        b"share": b"0.5",
        b"when": b"2018-05-21T16:10:30.474000+00:00",
        b"ok": b"true",
        b"tags": b'["a", "b"]',
        b"kind": b"x",
    }
    assert second.keys() == {b"share", b"when", b"ok", b"kind"}


# --- loading again -------------------------------------------------------------------------------------------------


def test_a_load_that_is_repeated_adds_nothing_twice(server: redis.Redis, tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_bytes(b"".join(json_line(b"%d-1" % number, [(b"n", b"%d" % number)]) for number in range(1, 3001)))
    for number in range(1, 1701):
        server.xadd("rows", {"n": number}, id=f"{number}-1")
    done = told("load", "rows", path, "--keep-ids", server=server)
    assert done == {"rows": 3000, "loaded": 1300, "already_there": 1700, "out_of_order": 0}
    assert server.xlen("rows") == 3000
    assert output("load", "rows", path, "--keep-ids", server=server) == (
        "0 entries were added to rows; 3,000 were there already.\n"
    )


def test_rows_that_come_too_late_are_told_from_those_that_are_there(server: redis.Redis) -> None:
    server.xadd("rows", {"n": "1"}, id="1-1")
    server.xadd("rows", {"n": "5"}, id="5-1")
    lines = b"".join(json_line(b"%d-1" % number, [(b"n", b"%d" % number)]) for number in (1, 3, 5, 6))
    done = headrace("load", "rows", "--keep-ids", server=server, stdin=lines)
    assert done.returncode == 1
    assert done.stdout == b"1 entry was added to rows; 2 were there already.\n"
    assert b"1 row was refused, the first in line 2: IDs must rise" in done.stderr


@pytest.mark.parametrize(
    ("form", "content", "complaint"),
    [
        ("json", b'{"a": 1}\n{"a": }\n', "Line 2 is no JSON"),
        ("json", b'{"a": 1}\n\n[1]\n', "Line 3 is no JSON object"),
        ("json", b'{"a": 1}\n{}\n', "Line 2 has no fields"),
        ("json", b'{"a": 1}\n{"_fields": [["a"]]}\n', "Line 2 has _fields"),
        ("json", b'{"a": 1}\n' + b"[" * 100_000, "Line 2 is no JSON"),
        ("csv", b"a,b\n1,2\n3\n", "Line 3 has 1 cells, and the heading has 2"),
        ("csv", b'a,b\n1,2\n"x\ny",2\n3,"4\n', "Line 5 begins a quoted value that has no end"),
        ("csv", b'a,b\n1,2\n3,4"5"\n', "Line 3 is no CSV: cell 2"),
        ("csv", b"a,a\n1,2\n", "Line 1 names the column a twice"),
        ("csv", b"", "Line 1 names the columns"),
        ("parquet", b"PAR1 nothing", "is no Parquet file"),
    ],
)
def test_what_cannot_be_read_is_told_with_its_line(
    headrace_server: redis.Redis, form: str, content: bytes, complaint: str
) -> None:
    sentence = refusal("load", "rows", "--format", form, server=headrace_server, stdin=content)
    assert complaint in sentence
    added = 2 if b"x\ny" in content else 1 if content.startswith((b'{"a": 1}', b"a,b\n1,2")) else 0
    assert headrace_server.xlen("rows") == added
    assert sentence.partition("Before that, ")[2].startswith(f"{added} entr" if added else "")
    assert ("Before that" in sentence) == (added > 0)


def test_ids_that_are_none_are_told(headrace_server: redis.Redis) -> None:
    sentence = refusal("load", "rows", "--keep-ids", server=headrace_server, stdin=b'{"a": 1}\n')
    assert "Line 1 has no ID to keep" in sentence
    sentence = refusal("load", "rows", "--keep-ids", server=headrace_server, stdin=b'{"_id": "x", "a": 1}\n')
    assert "Line 1 has the ID x, which is none" in sentence
    assert headrace_server.exists("rows") == 0


def test_files_that_are_there_or_missing_are_told(headrace_server: redis.Redis, tmp_path: Path) -> None:
    headrace_server.xadd("rows", {"a": 1})
    headrace_server.set("text", "x")
    path = tmp_path / "rows.csv"
    path.write_text("mine")
    assert "is already there" in refusal("export", "rows", path, server=headrace_server)
    assert path.read_text() == "mine"
    output("export", "rows", path, "--force", server=headrace_server)
    assert path.read_text().startswith("_id,a\n")
    assert "cannot be read: No such file" in refusal("load", "rows", tmp_path / "none.csv", server=headrace_server)
    assert "cannot be written" in refusal("export", "rows", tmp_path / "no" / "x.csv", server=headrace_server)
    assert "holds a string" in refusal("export", "text", server=headrace_server)
    assert "holds a string" in refusal("load", "text", path, server=headrace_server)
    odd = headrace("load", "rows", tmp_path / "rows.txt", server=headrace_server)
    assert odd.returncode == 2
    assert b"use --format json|csv|parquet" in odd.stderr


def test_parquet_without_pyarrow_is_a_sentence(headrace_server: redis.Redis, tmp_path: Path) -> None:

    (tmp_path / "pyarrow.py").write_text("raise ImportError\n")
    path = os.pathsep.join([str(tmp_path), *filter(None, [os.environ.get("PYTHONPATH")])])
    headrace_server.xadd("rows", {"a": 1})
    sentence = refusal("export", "rows", tmp_path / "x.parquet", server=headrace_server, env={"PYTHONPATH": path})
    assert sentence == "Parquet needs pyarrow, which is not installed: pip install pyarrow"


def test_a_bar_shows_how_far_it_is(headrace_server: redis.Redis, tmp_path: Path) -> None:
    chance = random.Random(7)
    path = tmp_path / "rows.jsonl"
    path.write_text("".join(json.dumps({"n": chance.random()}) + "\n" for _ in range(20_000)))
    with PseudoTerminal("load", "rows", str(path), "--batch", "500", server=headrace_server) as terminal:
        terminal.await_text("loading", "%")
        terminal.await_text("20,000 entries were added to rows.")
        assert terminal.await_end() == 0
    assert headrace_server.xlen("rows") == 20_000


def test_ctrl_c_waits_until_a_batch_is_counted_and_a_second_one_does_not(
    request: pytest.FixtureRequest,
) -> None:
    # A Spark that has run in this process has left its own handler.
    request.addfinalizer(
        partial(signal.signal, signal.SIGINT, signal.signal(signal.SIGINT, signal.default_int_handler))
    )
    steps = []

    def run(presses: int) -> None:
        with undivided():
            for _ in range(presses):
                signal.raise_signal(signal.SIGINT)
            steps.append(presses)

    run(0)
    for presses in (1, 2):
        with pytest.raises(KeyboardInterrupt):
            run(presses)
    assert steps == [0, 1]
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_a_load_that_is_stopped_says_how_much_it_has_loaded(headrace_server: redis.Redis) -> None:

    process: Any = Popen(
        [*COMMAND, "load", "rows", "--batch", "10"],
        stdin=PIPE,
        stdout=PIPE,
        stderr=PIPE,
        env=environment(headrace_server),
    )
    with process:
        process.stdin.write(b'{"a": 1}\n' * 10)
        process.stdin.flush()
        await_that(lambda: headrace_server.xlen("rows") == 10)
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == 130
        assert process.stderr.read() == b"headrace: Stopped: 10 entries were added to rows.\n"
