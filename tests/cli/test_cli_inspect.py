"""The inspector draws what is there: every byte once, in its order, with the encoding that it has."""

import gzip
import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest
import redis
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.cli.inspect.picture import part_lines
from headrace.cli.inspect.tree import tree_lines
from headrace.core.entry_log import NodeLimits
from headrace.core.listpack import Listpack, with_old_backlens
from headrace.core.stream import Stream
from headrace.core.stream_id import StreamID
from headrace.formats.anatomy.node import ENVELOPE, MASTER, Part, cut_listpack
from headrace.formats.anatomy.overview import Overview
from headrace.formats.anatomy.payload import cut_payload
from headrace.formats.stream_value import dump_stream, restore_stream
from support.campaign import LONG
from support.cli.process import output, refusal, told

GOLDEN = Path(__file__).parent.parent / "golden"
EXAMPLES = 1000 if LONG else 30
HEX_LINE = re.compile(r"^ *(\d+)?  ((?:[0-9a-f]{2} )+)", re.MULTILINE)

texts = st.one_of(
    st.binary(max_size=80),
    st.integers(-(2**63), 2**63 - 1).map(lambda number: b"%d" % number),
    st.integers(-5000, 5000).map(lambda number: b"%d" % number),
    st.sampled_from(
        [b"", b"0", b"-1", b"007", b"\x00\xff", b"x" * 63, b"x" * 64, b"y" * 4095, b"z" * 4096, b"w" * 16378]
    ),
)
entries = st.lists(
    st.tuples(st.integers(0, 70000), st.lists(st.tuples(texts, texts), min_size=1, max_size=3)), min_size=1, max_size=12
)


def build(made: list[tuple[int, list[tuple[bytes, bytes]]]], delete: int = 0) -> Stream:
    stream = Stream(NodeLimits(4096, 5))
    ms = 1526919030474
    ids = []
    for gap, pairs in made:
        ms += gap + 1
        ids.append(stream.append([text for pair in pairs for text in pair], id=f"{ms}-{gap}"))
    if delete:
        stream.delete(ids[::delete])
    return stream


def joined(parts: list[Part]) -> bytes:
    """The bytes of parts that follow each other without a gap."""
    at = parts[0].offset
    for part in parts:
        assert part.offset == at
        assert part.data
        at += len(part.data)
    return b"".join(part.data for part in parts)


def drawn_bytes(drawing: str) -> bytes:
    """All bytes that a drawing shows, by its lines of hexadecimal numbers."""
    shown = b""
    for offset, line in HEX_LINE.findall(drawing):
        assert not offset or int(offset) == len(shown)
        shown += bytes.fromhex(line)
    return shown


# --- listpacks -----------------------------------------------------------------------------------------------------


@settings(max_examples=EXAMPLES)
@given(entries, st.integers(0, 3), st.booleans())
def test_every_byte_of_a_node_is_drawn_once_with_its_encoding(
    made: list[tuple[int, list[tuple[bytes, bytes]]]], delete: int, old_backlens: bool
) -> None:
    stream = build(made, delete)
    for master, listpack in stream.nodes():
        data = with_old_backlens(listpack) if old_backlens else listpack
        parts = cut_listpack(data, master)
        assert joined(parts) == data
        elements = parts[2:-1]
        described = Listpack.from_bytes(data).describe()
        assert [(part.encoding, part.value) for part in elements] == [row[1:3] for row in described]
        for part in elements:
            body = len(part.data) - part.tail
            assert part.tail >= 1
            if isinstance(part.value, bytes):
                assert part.data[part.head : body] == part.value
        drawing = "\n".join(line.plain for part in parts for line in part_lines(part, everything=True))
        assert drawn_bytes(drawing) == data


@settings(max_examples=EXAMPLES)
@given(entries, st.integers(0, 3))
def test_what_is_said_of_a_node_is_what_the_stream_says(
    made: list[tuple[int, list[tuple[bytes, bytes]]]], delete: int
) -> None:
    stream = build(made, delete)
    found: list[tuple[str, list[bytes]]] = []
    alive = False
    for node in Overview(stream).nodes:
        names: list[bytes] = []
        for part in cut_listpack(node.listpack, node.master):
            value = b"%d" % part.value if isinstance(part.value, int) else part.value
            if part.meaning.startswith("flags: "):
                found.append((part.of, []))
                alive = "deleted" not in part.meaning
                names = [*node.fields] if "fields of the master" in part.meaning else []
                if not alive:
                    found.pop()
            elif part.of not in {MASTER, ENVELOPE} and alive and value is not None:
                if part.meaning.startswith("name of field"):
                    names.append(value)
                elif part.meaning.startswith("value of "):
                    name = names.pop(0)
                    assert part.meaning == f"value of {shortened(name)}"
                    found[-1][1].extend((name, value))
    assert found == [(str(id), fields) for id, fields in stream.range()]


def shortened(name: bytes) -> str:
    text = name.decode("utf-8", "backslashreplace")
    return text if len(text) <= 32 else text[:31] + "…"


@given(st.sets(st.tuples(st.integers(0, 2**64 - 1), st.integers(0, 2**64 - 1)), min_size=1, max_size=40))
def test_the_tree_has_a_line_for_each_key_whose_bytes_lead_to_it(ids: set[tuple[int, int]]) -> None:
    stream = Stream(NodeLimits(0, 1))
    ordered = sorted(id for id in ids if id != (0, 0)) or [(1, 1)]
    for ms, seq in ordered:
        stream.append([b"a", b"b"], id=f"{ms}-{seq}")
    path = ""
    keys = []
    for line in tree_lines(Overview(stream).tree["head"]):
        # What a line leaves blank stands above it.
        plain = line.plain
        bytes_only = re.sub(r"[^0-9a-f ]", " ", plain.split("●")[0])
        blank = len(bytes_only) - len(bytes_only.lstrip())
        path = path[:blank].ljust(blank) + bytes_only[blank:]
        keys.append((bytes.fromhex(path), plain.split("● ")[1]))
    assert keys == [(StreamID(*id).key, str(StreamID(*id))) for id in ordered]


# --- payloads ------------------------------------------------------------------------------------------------------


@settings(max_examples=EXAMPLES)
@given(entries, st.sampled_from(["auto", "7.0", "7.2", "8.6", "8.8"]))
def test_every_byte_of_a_payload_is_drawn_once(
    made: list[tuple[int, list[tuple[bytes, bytes]]]], compatibility: str
) -> None:
    stream = build(made, 3)
    for name in (b"workers", b"\x00"):
        group = stream.create_group(name)
        group.read_new(b"ann", 1526919030474, count=4)
        group.read_new(b"bob", 1526919030479, count=2)
    stream.producers.load(b"pump", [(b"a", stream.last_id)])
    payload = dump_stream(stream, compatibility)
    assert joined(cut_payload(payload)) == payload


def test_every_byte_of_the_payloads_that_servers_wrote_is_drawn_once() -> None:
    with gzip.open(GOLDEN / "redis-8.9-payloads.jsonl.gz", "rt") as lines:
        recorded = [json.loads(line) for line in lines]
    payloads = [bytes.fromhex(value) for each in recorded for value in each.values() if is_payload(value)]
    assert len(payloads) >= 10
    for payload in payloads:
        restore_stream(payload)
        assert joined(cut_payload(payload)) == payload


def is_payload(value: Any) -> bool:
    return isinstance(value, str) and re.fullmatch(r"(0f|13|15|1a|1b)([0-9a-f]{2}){20,}", value) is not None


# --- the command ---------------------------------------------------------------------------------------------------


def fill(server: redis.Redis) -> None:
    server.config_set("stream-node-max-entries", 4)
    for number in range(10):
        server.xadd("devmsg", {"dev": number % 3, "temp": 20 + number / 4}, id=f"{1526919030474 + 300 * number}-0")
    server.xadd("devmsg", {"dev": 1, "note": "n" * 200, "large": -(2**40)}, id="1526919039474-0")
    server.xdel("devmsg", "1526919030774-0")
    server.xgroup_create("devmsg", "workers", "0")
    server.xreadgroup("workers", "ann", {"devmsg": ">"}, count=4)


def test_the_payload_of_a_live_server_is_drawn_to_the_last_byte(server: redis.Redis) -> None:
    fill(server)
    payload = server.dump("devmsg")
    parts = told("inspect", "devmsg", "--payload", server=server)["parts"]
    assert b"".join(bytes.fromhex(part["bytes"]) for part in parts) == payload
    drawing = output("inspect", "devmsg", "--payload", "--all", server=server)
    assert drawn_bytes(drawing.split("the payload", 1)[1]) == payload


def test_a_stream_is_drawn_from_its_counters_to_its_bytes(server: redis.Redis) -> None:
    fill(server)
    drawing = output("inspect", "devmsg", server=server)
    assert "10, 1 deleted that still take room; 11 were ever added" in drawing
    assert "3 nodes" in drawing
    assert drawing.count("●") == 3
    assert re.search(r"workers +1526919031674-0 .* 4  ann: 4", drawing)
    assert '83 64 65 76 04           str6    10·000011 "dev"' in drawing
    assert "fields of the master, deleted" in drawing


def test_the_node_of_an_id_is_drawn(server: redis.Redis) -> None:
    fill(server)
    found = told("inspect", "devmsg", "--node", "1526919031974-0", server=server)
    assert [node["entries"] for node in found["nodes"]] == [3, 4, 3]
    assert found["drawn"] == found["nodes"][1]["master"]
    assert told("inspect", "devmsg", "--node", "0", server=server)["drawn"] == found["nodes"][0]["master"]
    assert told("inspect", "devmsg", "--node", "$", server=server)["drawn"] == found["nodes"][2]["master"]


def test_long_nodes_are_shortened_unless_all_is_asked_for(headrace_server: redis.Redis) -> None:
    for number in range(50):
        headrace_server.xadd("long", {"n": number, "text": "t" * 300})
    short = output("inspect", "long", server=headrace_server)
    assert "more: --all" in short
    assert "more bytes" in short
    whole = output("inspect", "long", "--all", server=headrace_server)
    assert "more: --all" not in whole
    assert whole.count("── entry") == told("inspect", "long", server=headrace_server)["nodes"][0]["entries"]


def test_a_payload_a_file_and_a_directory_are_drawn_alike(server: redis.Redis, tmp_path: Path) -> None:
    fill(server)
    (tmp_path / "devmsg.dump").write_bytes(server.dump("devmsg"))
    live = told("inspect", "devmsg", server=server)
    filed = told("inspect", "--file", tmp_path / "devmsg.dump")
    assert {**filed, "from": ""} == {**live, "from": ""}


@pytest.mark.parametrize("version", ["redis-7.0.15", "redis-8.9"])
def test_the_files_of_real_servers_are_drawn(version: str, tmp_path: Path) -> None:
    shutil.copytree(GOLDEN / version, tmp_path / "data")
    expected = json.loads((GOLDEN / version / "expected-of-dump.json").read_text())["0/devmsg"]["value"]
    before = {path: path.read_bytes() for path in (tmp_path / "data").rglob("*") if path.is_file()}
    snapshot = told("inspect", "--file", tmp_path / "data" / "dump.rdb", "devmsg")
    assert snapshot["length"] == len(expected["entries"])
    assert snapshot["last_id"] == expected["last_id"] if "last_id" in expected else True
    directory = told("inspect", "--file", tmp_path / "data", "devmsg")
    assert directory["length"] >= 1
    assert {path: path.read_bytes() for path in (tmp_path / "data").rglob("*") if path.is_file()} == before


def test_an_empty_stream_is_drawn(server: redis.Redis) -> None:
    server.xgroup_create("empty", "workers", "0", mkstream=True)
    drawing = output("inspect", "empty", server=server)
    assert "0 nodes" in drawing
    assert "workers" in drawing


def test_what_cannot_be_drawn_is_told_in_a_sentence(headrace_server: redis.Redis, tmp_path: Path) -> None:
    server = headrace_server
    server.set("text", "x")
    server.xadd("one", {"a": 1})
    assert refusal("inspect", "text", server=server) == "The key text holds a string, not a stream."
    assert "There is no stream nothing" in refusal("inspect", "nothing", server=server)
    assert refusal("inspect", "nothing", server=server).endswith("; it has one.")
    broken = bytearray(server.dump("one"))
    broken[5] ^= 0xFF
    (tmp_path / "broken.dump").write_bytes(broken)
    assert "is no stream that can be read" in refusal("inspect", "--file", tmp_path / "broken.dump")
    assert "There is no file or directory" in refusal("inspect", "--file", tmp_path / "nothing.rdb")
    (tmp_path / "broken.rdb").write_bytes(b"REDIS0011\xfe")
    assert "cannot be read" in refusal("inspect", "--file", tmp_path / "broken.rdb")
    assert "There is no data" in refusal("inspect", "--file", tmp_path)
