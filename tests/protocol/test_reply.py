"""The reply writer against literal bytes, a client's parser, and a model that formats a whole reply at once."""

import importlib.util
import math
import random
import subprocess
import sysconfig
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import hiredis
import pytest
import redis
from hypothesis import given
from hypothesis import strategies as st

import headrace
from headrace.core.listpack import Listpack
from headrace.core.stream_id import MAX_ID, StreamID
from headrace.protocol.reply import ReplyWriter
from support.full_memory import full_memory

CHUNK = 64 * 1024

# A reply as a tree: integers, texts, lists, and pairs for maps.
trees = st.recursive(
    st.integers(-(2**63), 2**63 - 1) | st.binary(max_size=30) | st.none(),
    lambda inner: st.lists(inner, max_size=5) | st.lists(st.tuples(inner, inner), min_size=1, max_size=4).map(tuple),
    max_leaves=25,
)


def text_of(writer: ReplyWriter) -> bytes:
    return b"".join(writer.take())


def write(protocol: int, method: str, *arguments: Any) -> bytes:
    writer = ReplyWriter(protocol)
    getattr(writer, method)(*arguments)
    return text_of(writer)


# --- each reply ----------------------------------------------------------------------------------------------------

SAME_IN_BOTH = [
    ("integer", (0,), b":0\r\n"),
    ("integer", (9,), b":9\r\n"),
    ("integer", (10,), b":10\r\n"),
    ("integer", (99,), b":99\r\n"),
    ("integer", (100,), b":100\r\n"),
    ("integer", (-1,), b":-1\r\n"),
    ("integer", (2**63 - 1,), b":9223372036854775807\r\n"),
    ("integer", (-(2**63),), b":-9223372036854775808\r\n"),
    ("bulk", (b"",), b"$0\r\n\r\n"),
    ("bulk", (b"a\r\n\0b",), b"$5\r\na\r\n\0b\r\n"),
    ("bulk", (b"x" * 100,), b"$100\r\n" + b"x" * 100 + b"\r\n"),
    ("simple", (b"PONG",), b"+PONG\r\n"),
    ("ok", (), b"+OK\r\n"),
    ("error", (b"ERR no such key",), b"-ERR no such key\r\n"),
    ("error", (b"ERR two\r\nlines\n",), b"-ERR two  lines \r\n"),
    ("array", (0,), b"*0\r\n"),
    ("array", (12,), b"*12\r\n"),
    ("raw", (b":1\r\n:2\r\n",), b":1\r\n:2\r\n"),
]

DIFFERENT = [
    ("null", (), b"$-1\r\n", b"_\r\n"),
    ("null_array", (), b"*-1\r\n", b"_\r\n"),
    ("map", (3,), b"*6\r\n", b"%3\r\n"),
    ("set", (3,), b"*3\r\n", b"~3\r\n"),
    ("push", (3,), b"*3\r\n", b">3\r\n"),
    ("boolean", (True,), b":1\r\n", b"#t\r\n"),
    ("boolean", (False,), b":0\r\n", b"#f\r\n"),
    ("verbatim", (b"a b", b"txt"), b"$3\r\na b\r\n", b"=7\r\ntxt:a b\r\n"),
    ("double", (3.0,), b"$1\r\n3\r\n", b",3\r\n"),
    ("double", (-0.0,), b"$2\r\n-0\r\n", b",-0\r\n"),
    ("double", (0.1,), b"$3\r\n0.1\r\n", b",0.1\r\n"),
    ("double", (1e15,), b"$16\r\n1000000000000000\r\n", b",1000000000000000\r\n"),
    ("double", (1e-5,), b"$7\r\n0.00001\r\n", b",0.00001\r\n"),
    ("double", (-1.25e-9,), b"$8\r\n-1.25e-9\r\n", b",-1.25e-9\r\n"),
    ("double", (1.5e19,), b"$7\r\n1.5e+19\r\n", b",1.5e+19\r\n"),
    ("double", (12345678901234567e3,), b"$20\r\n12345678901234567000\r\n", b",12345678901234567000\r\n"),
    ("double", (1e100,), b"$6\r\n1e+100\r\n", b",1e+100\r\n"),
    ("double", (math.inf,), b"$3\r\ninf\r\n", b",inf\r\n"),
    ("double", (-math.inf,), b"$4\r\n-inf\r\n", b",-inf\r\n"),
    ("double", (math.nan,), b"$3\r\nnan\r\n", b",nan\r\n"),
]


@pytest.mark.parametrize(("method", "arguments", "expected"), SAME_IN_BOTH)
def test_replies_that_are_the_same_in_both_protocols(method: str, arguments: tuple[Any, ...], expected: bytes) -> None:
    assert write(2, method, *arguments) == expected
    assert write(3, method, *arguments) == expected


@pytest.mark.parametrize(("method", "arguments", "resp2", "resp3"), DIFFERENT)
def test_replies_that_differ_by_protocol(method: str, arguments: tuple[Any, ...], resp2: bytes, resp3: bytes) -> None:
    assert write(2, method, *arguments) == resp2
    assert write(3, method, *arguments) == resp3


def test_attributes_exist_only_in_resp3() -> None:
    assert write(3, "attribute", 1) == b"|1\r\n"
    with pytest.raises(ValueError, match="RESP2 has no attributes"):
        write(2, "attribute", 1)


def test_a_verbatim_form_has_three_letters() -> None:
    with pytest.raises(ValueError, match="three letters, not b'text'"):
        write(3, "verbatim", b"a", b"text")


@given(st.floats())
def test_a_client_reads_the_double_that_was_written(value: float) -> None:
    for protocol in (2, 3):
        reader = hiredis.Reader()
        reader.feed(write(protocol, "double", value))
        read = float(reader.gets())
        assert read == value or (math.isnan(read) and math.isnan(value))


@pytest.mark.parametrize("value", [3.0, -0.5, 0.25, 1234567.5, 2.0**52, 1e100, math.inf, -math.inf])
def test_doubles_of_few_digits_look_as_redis_7_writes_them(redis_server: redis.Redis, value: float) -> None:
    redis_server.zadd("scores", {"member": value})
    text = redis_server.eval("return redis.call('ZSCORE', 'scores', 'member')", 0)
    assert write(2, "double", value) == model(text, 2)


def test_errors_are_counted() -> None:
    writer = ReplyWriter()
    writer.error(b"ERR one")
    writer.ok()
    writer.error(b"WRONGTYPE two")
    writer.take()
    assert writer.errors == 2


# --- trees, with headers known and deferred ------------------------------------------------------------------------


def write_tree(writer: ReplyWriter, tree: Any, deferred: Callable[[], bool]) -> None:
    match tree:
        case None:
            writer.null()
        case int():
            writer.integer(tree)
        case bytes():
            writer.bulk(tree)
        case list() if deferred():
            mark = writer.defer()
            for element in tree:
                write_tree(writer, element, deferred)
            writer.settle_array(mark, len(tree))
        case list():
            writer.array(len(tree))
            for element in tree:
                write_tree(writer, element, deferred)
        case tuple():
            later = writer.defer() if deferred() else None
            if later is None:
                writer.map(len(tree))
            for key, value in tree:
                write_tree(writer, key, deferred)
                write_tree(writer, value, deferred)
            if later is not None:
                writer.settle_map(later, len(tree))


def model(tree: Any, protocol: int) -> bytes:
    match tree:
        case None:
            return b"_\r\n" if protocol == 3 else b"$-1\r\n"
        case int():
            return b":%d\r\n" % tree
        case bytes():
            return b"$%d\r\n%s\r\n" % (len(tree), tree)
        case list():
            return b"*%d\r\n" % len(tree) + b"".join(model(element, protocol) for element in tree)
    header = b"%%%d\r\n" % len(tree) if protocol == 3 else b"*%d\r\n" % (2 * len(tree))
    return header + b"".join(model(key, protocol) + model(value, protocol) for key, value in tree)


@given(st.lists(trees, max_size=4), st.sampled_from([2, 3]), st.integers())
def test_any_tree_of_known_and_deferred_headers_is_that_of_the_model(
    replies: list[Any], protocol: int, seed: int
) -> None:
    writer = ReplyWriter(protocol)
    chance = random.Random(seed)
    for tree in replies:
        write_tree(writer, tree, lambda: chance.random() < 0.5)
    assert writer.written() == sum(len(model(tree, protocol)) for tree in replies)
    assert text_of(writer) == b"".join(model(tree, protocol) for tree in replies)


@given(trees.filter(lambda tree: not isinstance(tree, tuple)))
def test_a_client_reads_the_tree_that_was_written(tree: Any) -> None:
    def as_resp2(tree: Any) -> Any:
        if isinstance(tree, tuple):
            return [as_resp2(part) for pair in tree for part in pair]
        return [as_resp2(element) for element in tree] if isinstance(tree, list) else tree

    writer = ReplyWriter()
    write_tree(writer, tree, lambda: True)
    reader = hiredis.Reader()
    reader.feed(text_of(writer))
    assert reader.gets() == as_resp2(tree)


@pytest.mark.parametrize("length", [0, 9, 10, 99, 100, 99_999, 1_000_000])
def test_a_long_deferred_reply_gets_its_header_in_front(length: int) -> None:
    writer = ReplyWriter()
    writer.simple(b"before")
    outer = writer.defer()
    writer.bulk(b"key")
    inner = writer.defer()
    for i in range(length):
        writer.integer(i % 10)
    writer.settle_array(inner, length)
    writer.settle_array(outer, 2)
    writer.simple(b"after")
    digits = b"".join(b":%d\r\n" % i for i in range(10)) * (length // 10 + 1)
    expected = b"+before\r\n*2\r\n$3\r\nkey\r\n*%d\r\n" % length + digits[: 4 * length] + b"+after\r\n"
    assert writer.written() == len(expected)
    assert text_of(writer) == expected


def test_a_header_that_was_not_deferred_cannot_be_settled() -> None:
    writer = ReplyWriter()
    with pytest.raises(ValueError, match="no deferred header is open at 0"):
        writer.settle_array(0, 1)
    writer.defer()
    with pytest.raises(ValueError, match="no deferred header is open at 7"):
        writer.settle_array(7, 1)
    with pytest.raises(ValueError, match="not settled"):
        writer.take()


# --- chunks --------------------------------------------------------------------------------------------------------


def test_take_gives_everything_once() -> None:
    writer = ReplyWriter()
    assert writer.take() == []
    writer.ok()
    assert writer.take() == [b"+OK\r\n"]
    assert writer.take() == []
    assert writer.written() == 0


def test_a_long_reply_leaves_in_chunks_of_64_kb() -> None:
    writer = ReplyWriter()
    writer.array(100_000)
    for _ in range(100_000):
        writer.bulk(b"0123456789")
    assert writer.written() == len(b"*100000\r\n") + 17 * 100_000
    pieces = writer.take()
    assert b"".join(pieces) == b"*100000\r\n" + b"$10\r\n0123456789\r\n" * 100_000
    assert max(map(len, pieces)) <= CHUNK
    assert len(pieces) < 2 + 17 * 100_000 // (CHUNK - 100)


@pytest.mark.parametrize("method", ["bulk", "raw"])
def test_a_large_text_is_sent_as_the_object_it_came_as(method: str) -> None:
    text = bytes(CHUNK)
    writer = ReplyWriter()
    writer.ok()
    getattr(writer, method)(text)
    writer.ok()
    pieces = writer.take()
    assert any(piece is text for piece in pieces)
    assert b"".join(pieces) == b"+OK\r\n" + (text if method == "raw" else b"$65536\r\n" + text + b"\r\n") + b"+OK\r\n"


@pytest.mark.parametrize("size", [CHUNK - 30, CHUNK - 1, CHUNK, CHUNK + 1, 10 * CHUNK])
@pytest.mark.parametrize("deferred", [False, True])
def test_texts_around_the_size_of_a_chunk_are_written_whole(size: int, deferred: bool) -> None:
    writer = ReplyWriter(3)
    tree = [b"first", b"x" * size, [b"y" * size], b"last"]
    write_tree(writer, tree, lambda: deferred)
    writer.verbatim(b"z" * size, b"txt")
    expected = model(tree, 3) + b"=%d\r\ntxt:%s\r\n" % (size + 4, b"z" * size)
    assert writer.written() == len(expected)
    assert text_of(writer) == expected


# --- rewinding -----------------------------------------------------------------------------------------------------


@given(st.lists(st.integers(0, 3 * CHUNK), max_size=6), st.integers(0, 6))
def test_rewind_forgets_what_was_written_since(sizes: list[int], at: int) -> None:
    writer = ReplyWriter()
    expected = b""
    point = 0
    for number, size in enumerate(sizes):
        if number == at:
            point = writer.written()
            assert point == len(expected)
        if number < at:
            expected += b"$%d\r\n%s\r\n" % (size, bytes(size))
        writer.bulk(bytes(size))
    if at < len(sizes):
        writer.rewind(point)
    writer.error(b"ERR instead")
    expected += b"-ERR instead\r\n"
    assert writer.written() == len(expected)
    assert text_of(writer) == expected


@pytest.mark.parametrize("kept", [0, 1000, 30_000])
@pytest.mark.parametrize("dropped", [0, 1000, 30_000])
def test_rewind_works_to_a_point_inside_a_chunk(kept: int, dropped: int) -> None:
    writer = ReplyWriter()
    for _ in range(kept):
        writer.ok()
    point = writer.written()
    for _ in range(dropped):
        writer.null()
    writer.rewind(point)
    writer.ok()
    assert text_of(writer) == b"+OK\r\n" * (kept + 1)


def test_rewind_drops_the_headers_that_were_deferred_since() -> None:
    writer = ReplyWriter()
    writer.ok()
    point = writer.written()
    writer.defer()
    writer.integer(1)
    writer.defer()
    writer.rewind(point)
    writer.error(b"ERR instead")
    assert writer.take() == [b"+OK\r\n-ERR instead\r\n"]


def test_rewind_cannot_go_forward() -> None:
    writer = ReplyWriter()
    writer.ok()
    with pytest.raises(ValueError, match="only 5 bytes were written, not 6"):
        writer.rewind(6)


# --- memory --------------------------------------------------------------------------------------------------------


def test_a_refused_allocation_leaves_what_was_written() -> None:
    writer = ReplyWriter()
    with full_memory():
        writer.ok()
    assert writer.take() == []
    writer.bulk(b"x" * 4000)
    for method, arguments in [("bulk", (b"y" * 200,)), ("simple", (b"y" * 200,)), ("error", (b"y" * 200,))]:
        with full_memory():
            getattr(writer, method)(*arguments)
    assert writer.errors == 0
    mark = writer.defer()
    while writer.written() < 4096:
        writer.raw(b"z")
    with full_memory():
        writer.settle_array(mark, 1)
    writer.settle_array(mark, 1)
    assert text_of(writer) == b"$4000\r\n" + b"x" * 4000 + b"\r\n*1\r\n" + b"z" * (4096 - 4009)


# --- from compiled code --------------------------------------------------------------------------------------------

PROBE = """
from headrace.core.memory cimport byte_t
from headrace.core.stream_id cimport StreamID
from headrace.protocol.reply cimport BULK_OVERHEAD, HEADER_MAX, ReplyWriter, put_bulk, put_header

def bulk_id(ReplyWriter writer, StreamID id):
    writer.bulk_id(id.id)

def bulk_span(ReplyWriter writer, bytes text):
    writer.bulk_span(text, len(text))

def bulk_element(ReplyWriter writer, bytes listpack):
    writer.bulk_element(<const byte_t *>listpack + 6)

def by_hand(ReplyWriter writer, bytes text):
    cdef byte_t *start = writer.room(HEADER_MAX + len(text) + BULK_OVERHEAD)
    writer.size += put_bulk(put_header(start, c"*", 1), text, len(text)) - start
"""


@pytest.fixture(scope="session")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> ModuleType:
    """A module that uses the writer the way compiled commands do."""
    cython_compiler = pytest.importorskip("Cython.Compiler.Main")
    source = tmp_path_factory.mktemp("probe") / "reply_probe.pyx"
    source.write_text(PROBE)
    include = str(Path(headrace.__file__).parent.parent)
    cython_compiler.compile(str(source), language_level=3, include_path=[include])
    library = source.with_suffix(".so")
    headers = sysconfig.get_paths()["include"]
    command = ["cc", "-shared", "-fPIC", "-O0", "-w", f"-I{headers}", str(source.with_suffix(".c")), "-o", str(library)]
    subprocess.run(command, check=True)
    spec = importlib.util.spec_from_file_location("reply_probe", library)
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("id", [StreamID(0), StreamID(1526919030474, 55), MAX_ID])
def test_compiled_code_writes_an_id_as_text(compiled: ModuleType, id: StreamID) -> None:
    writer = ReplyWriter()
    compiled.bulk_id(writer, id)
    assert text_of(writer) == model(bytes(id), 2)


@given(value=st.integers(-(2**63), 2**63 - 1) | st.binary(max_size=5000))
def test_compiled_code_writes_a_listpack_element_as_text(compiled: ModuleType, value: int | bytes) -> None:
    listpack = Listpack()
    listpack.append(value)
    writer = ReplyWriter()
    compiled.bulk_element(writer, bytes(listpack))
    assert text_of(writer) == model(value if isinstance(value, bytes) else str(value).encode(), 2)


@pytest.mark.parametrize("size", [0, 1, 9, 10, 99, 100, 5000, CHUNK - 40, CHUNK, 3 * CHUNK])
def test_compiled_code_writes_spans_and_by_hand(compiled: ModuleType, size: int) -> None:
    writer = ReplyWriter()
    for _ in range(3):
        compiled.bulk_span(writer, b"x" * size)
        compiled.by_hand(writer, b"x" * size)
    assert text_of(writer) == (model(b"x" * size, 2) + model([b"x" * size], 2)) * 3
