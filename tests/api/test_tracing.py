"""Traces: spans of producers and consumers, near and far, linked by a field of the message."""

import asyncio
from collections.abc import Iterator

import pytest
import redis

import headrace
from headrace import tracing

pytest.importorskip("opentelemetry.sdk.trace", reason="there is no opentelemetry-sdk: pip install opentelemetry-sdk")

from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode, get_current_span


class Recorder:
    """Where spans end."""

    def __init__(self) -> None:
        self.exporter = InMemorySpanExporter()
        provider = TracerProvider()
        provider.add_span_processor(SimpleSpanProcessor(self.exporter))
        self.tracer = provider.get_tracer("test")

    def take(self) -> list[ReadableSpan]:
        spans = list(self.exporter.get_finished_spans())
        self.exporter.clear()
        return spans


@pytest.fixture
def recorder() -> Recorder:
    return Recorder()


@pytest.fixture(params=["near", "far"])
def db(request: pytest.FixtureRequest, headrace_server: redis.Redis) -> Iterator[headrace.Database]:
    if request.param == "near":
        opened = headrace.open(None)
    else:
        port = headrace_server.connection_pool.connection_kwargs["port"]
        opened = headrace.connect(f"redis://127.0.0.1:{port}")
    with opened:
        yield opened


def facts(span: ReadableSpan) -> dict[str, object]:
    return {name.removeprefix("messaging."): value for name, value in (span.attributes or {}).items()}


def test_a_consumer_is_linked_to_the_producer(db: headrace.Database, recorder: Recorder) -> None:
    orders = tracing.trace(db.stream("orders"), tracer=recorder.tracer)
    id = orders.add(item="book")
    [sent] = recorder.take()
    assert (sent.name, sent.kind) == ("add orders", SpanKind.PRODUCER)
    assert facts(sent) == {
        "system": "headrace", "operation.name": "add", "operation.type": "send", "destination.name": "orders",
        "message.id": str(id),
    }  # fmt: skip
    context = sent.get_span_context()
    assert context is not None
    assert orders[id]["traceparent"].startswith(f"00-{context.trace_id:032x}-{context.span_id:016x}-")
    for message in orders.group("g").consumer("w1", timeout=0.01):
        inner = get_current_span().get_span_context()
        assert message["item"] == "book"
    settled, processed = recorder.take()
    assert processed.get_span_context() == inner, "what the loop does is inside of the span"
    assert (processed.name, processed.kind) == ("process orders", SpanKind.CONSUMER)
    assert [link.context.span_id for link in processed.links] == [context.span_id]
    assert facts(processed)["consumer.group.name"] == "g"
    assert facts(processed)["client.id"] == "w1"
    assert (settled.name, facts(settled)["operation.type"]) == ("ack orders", "settle")
    assert settled.parent is not None
    assert settled.parent.span_id == inner.span_id
    assert not get_current_span().get_span_context().is_valid
    assert orders.group("g").pending() == []


def test_what_a_function_raises_is_on_the_span(db: headrace.Database, recorder: Recorder) -> None:
    jobs = tracing.trace(db.stream("jobs"), tracer=recorder.tracer)
    jobs.add_many({"n": number} for number in range(3))
    [sent] = recorder.take()
    assert facts(sent)["batch.message_count"] == 3
    assert len({message["traceparent"] for message in jobs}) == 1

    def handle(message: headrace.Message) -> None:
        if message["n"] == "1":
            message.fail("broken")
            raise ValueError("bad")

    jobs.group("g").consumer("w", timeout=0.01).run(handle, concurrency=2)
    spans = recorder.take()
    processed = [span for span in spans if span.name == "process jobs"]
    assert len(processed) == 3
    [wrong] = [span for span in processed if span.status.status_code is StatusCode.ERROR]
    assert facts(wrong)["error.type"] == "ValueError"
    assert wrong.events[0].name == "exception"
    assert sorted(span.name for span in spans if facts(span)["operation.type"] == "settle") == [
        "ack jobs", "ack jobs", "fail jobs",
    ]  # fmt: skip


def test_coroutines_and_batches_are_traced(db: headrace.Database, recorder: Recorder) -> None:
    async def work() -> None:
        events = tracing.trace(db.stream("events"), tracer=recorder.tracer)
        await events.aadd(n=1)
        await events.aadd_many([{"n": 2}, {"n": 3}])
        consumer = (await events.agroup("g")).consumer("w", timeout=0.01)
        async with consumer.abatch(2) as messages:
            assert [message["n"] for message in messages] == ["1", "2"]
        async for message in consumer:
            await message.anack(delay=60)
            break

    asyncio.run(work())
    spans = recorder.take()
    assert [span.name.removesuffix(" events") for span in spans] == ["add", "add", "receive", "ack", "nack", "process"]
    received = spans[2]
    assert facts(received)["batch.message_count"] == 2
    assert [link.context.span_id for link in received.links] == [
        context.span_id for context in (span.get_span_context() for span in spans[:2]) if context is not None
    ]
    assert facts(spans[3])["batch.message_count"] == 2
    assert [link.context.span_id for link in spans[5].links] == [received.links[1].context.span_id]


@pytest.mark.parametrize(
    "text", ["", "00-0-0-00", "x" * 10_000, "00-" + "0" * 32 + "-" + "0" * 16 + "-01", "\udcff", "00-é"]
)
def test_a_field_that_is_no_context_is_ignored(recorder: Recorder, text: str) -> None:
    with headrace.open(None) as db:
        stream = tracing.trace(db.stream("s"), tracer=recorder.tracer)
        stream.add(n=1, traceparent=text)
        assert stream.first is not None
        assert stream.first["traceparent"] == text, "what a program says itself stays"
        recorder.take()
        for _ in stream.group("g").consumer("w", timeout=0):
            pass
        assert [list(span.links) for span in recorder.take() if span.kind is SpanKind.CONSUMER] == [[]]
        quiet = tracing.trace(db.stream("quiet"), tracer=recorder.tracer, field=None)
        quiet.add(n=1)
        assert quiet.first is not None
        assert quiet.first.fields == {"n": "1"}
        with pytest.raises(ValueError, match="at least one field"):
            stream.add({})


def test_redis_py_carries_the_context(headrace_server: redis.Redis, monkeypatch: pytest.MonkeyPatch) -> None:
    recorder = Recorder()
    monkeypatch.setattr("opentelemetry.trace.get_tracer", lambda _name: recorder.tracer)
    with tracing.sending("mail", {"to": "ann"}) as fields:
        headrace_server.xadd("mail", fields)
    [(id, read)] = headrace_server.xrange("mail")
    with pytest.raises(KeyError), tracing.processing("mail", read, group="g", id=id):
        raise KeyError("ann")
    sent, processed = recorder.take()
    context = sent.get_span_context()
    assert context is not None
    assert [link.context.span_id for link in processed.links] == [context.span_id]
    assert facts(processed)["message.id"] == id.decode()
    assert processed.status.status_code is StatusCode.ERROR


def test_without_opentelemetry_nothing_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tracing, "otel", None)
    with headrace.open(None) as db:
        stream = db.stream("s")
        assert tracing.trace(stream) is stream
    with tracing.sending("s", {"n": 1}) as fields, tracing.processing("s", fields):
        assert fields == {"n": 1}
