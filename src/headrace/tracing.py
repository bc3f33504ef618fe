"""Traces of messages: spans of OpenTelemetry, and the context of the producer in a field of the message.

    orders = tracing.trace(db.stream("orders"))     a span for each add; the field `traceparent` of the message names it
    worker = orders.group("billing").consumer("w1") a span while a message is handled, linked to that of its producer

    with tracing.sending("orders", fields) as carried:          the same for those who use redis-py
        client.xadd("orders", carried)
    with tracing.processing("orders", fields, group="billing", id=id):
        handle(fields)

Spans follow the conventions for messaging: `send`, `receive`, `process` and `settle`. They are made where the package
opentelemetry-api is installed. Without it `trace` returns what it was given, and messages travel as they are. Streams
that are not traced pay nothing.

What a field says is the word of whoever wrote it: a value that is no `traceparent` is ignored.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from datetime import timedelta
from typing import Any, Final, TypeVar, cast

from headrace.api.consumer import Consumer
from headrace.api.group import Group
from headrace.api.ids import Position
from headrace.api.message import Message
from headrace.api.stream import Stream

try:
    from opentelemetry import trace as otel
    from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator
except ModuleNotFoundError:  # messages are not traced then
    otel = None  # type: ignore[assignment,unused-ignore]

FIELD: Final = "traceparent"

_MOST_LINKS: Final = 128  # of a span that receives many messages
_SYSTEM: Final = "headrace"

_Traced = TypeVar("_Traced", Stream, Group, Consumer)


def trace(what: _Traced, *, field: str | None = FIELD, tracer: Any = None) -> _Traced:
    """Return a stream, a group or a consumer whose messages are traced; so is what is made from it.

    The field that carries the context of the producer has a name that can be chosen; with None there is none, and
    nothing is linked. Spans come from the `tracer`, else from the one that the program has set up.
    """
    if otel is None:
        return what
    kinds: dict[type, type] = {Stream: _TracedStream, Group: _TracedGroup, Consumer: _TracedConsumer}
    spans = _Spans(tracer or otel.get_tracer("headrace"), field)
    return cast(_Traced, _become(kinds[type(what)], what, spans))


@contextmanager
def sending(stream: str, fields: Mapping[Any, Any], *, field: str = FIELD) -> Iterator[dict[Any, Any]]:
    """Give a `with` block the fields to add to a stream, with the context of its span."""
    if otel is None:
        yield dict(fields)
        return
    spans = _Spans(otel.get_tracer("headrace"), field)
    with spans.send(stream):
        yield spans.with_context(fields, {})


@contextmanager
def processing(
    stream: str,
    fields: Mapping[Any, Any],
    *,
    group: str = "",
    consumer: str = "",
    id: str | bytes = "",
    field: str = FIELD,
) -> Iterator[None]:
    """Let a `with` block be a span that is linked to the span which added the message."""
    if otel is None:
        yield
        return
    text = fields.get(field, fields.get(field.encode()))
    spans = _Spans(otel.get_tracer("headrace"), field)
    with spans.process(stream, group, consumer, id.decode() if isinstance(id, bytes) else id, text):
        yield


# --- spans -------------------------------------------------------------------------------------------------------


class _Spans:
    """Makes spans as the conventions for messaging name them."""

    def __init__(self, tracer: Any, field: str | None) -> None:
        self._tracer = tracer
        self._propagator = TraceContextTextMapPropagator()
        self.field = field

    def with_context(self, fields: Mapping[Any, Any] | None, named: Mapping[str, Any]) -> dict[Any, Any]:
        """Return fields with the one that names the span of now; a message without fields stays one, and is refused."""
        row = dict(fields or {})
        if self.field is None or not (row or named) or self.field in row or self.field in named:
            return row
        carrier: dict[str, str] = {}
        self._propagator.inject(carrier)
        return {**row, self.field: carrier["traceparent"]} if carrier else row

    def producer_of(self, text: object) -> Any:
        """Return the context that a field names; None where it names none."""
        if isinstance(text, bytes):
            text = text.decode("latin-1")
        if not isinstance(text, str):
            return None
        context = otel.get_current_span(self._propagator.extract({"traceparent": text})).get_span_context()
        return context if context.is_valid and context.is_remote else None

    def _span(self, kind: Any, name: str, operation: str, stream: str, links: Iterable[Any], **more: Any) -> Any:
        facts = {
            "messaging.system": _SYSTEM,
            "messaging.operation.name": name,
            "messaging.operation.type": operation,
            "messaging.destination.name": stream,
            **{f"messaging.{key.replace('__', '.')}": value for key, value in more.items() if value not in ("", None)},
        }
        found = [otel.Link(context) for context in links if context is not None][:_MOST_LINKS]
        return self._tracer.start_as_current_span(f"{name} {stream}", kind=kind, attributes=facts, links=found)

    def send(self, stream: str, count: int | None = None) -> AbstractContextManager[Any]:
        """A span while messages are added."""
        return cast(
            AbstractContextManager[Any],
            self._span(otel.SpanKind.PRODUCER, "add", "send", stream, (), batch__message_count=count),
        )

    def receive(self, stream: str, group: str, consumer: str) -> AbstractContextManager[Any]:
        """A span while messages are waited for and read."""
        more = {"consumer__group__name": group, "client__id": consumer}
        return cast(
            AbstractContextManager[Any], self._span(otel.SpanKind.CLIENT, "receive", "receive", stream, (), **more)
        )

    def process(self, stream: str, group: str, consumer: str, id: str, text: object) -> AbstractContextManager[Any]:
        """A span while a message is handled, linked to that of its producer."""
        more = {"consumer__group__name": group, "client__id": consumer, "message__id": id}
        links = (self.producer_of(text),)
        return cast(
            AbstractContextManager[Any],
            self._span(otel.SpanKind.CONSUMER, "process", "process", stream, links, **more),
        )

    def settle(self, how: str, stream: str, group: str, ids: list[str]) -> AbstractContextManager[Any]:
        """A span while messages are acknowledged, given back or given up."""
        more = {"consumer__group__name": group, "message__id": ids[0] if len(ids) == 1 else None}
        count = len(ids) if len(ids) != 1 else None
        return cast(
            AbstractContextManager[Any],
            self._span(otel.SpanKind.CLIENT, how, "settle", stream, (), batch__message_count=count, **more),
        )

    def link_all(self, span: Any, messages: list[Message]) -> None:
        """Note what was received, with links to the producers."""
        span.set_attribute("messaging.batch.message_count", len(messages))
        for message in messages[:_MOST_LINKS]:
            context = self.producer_of(message.get(self.field)) if self.field is not None else None
            if context is not None:
                span.add_link(context)


def _become(kind: type[Any], what: Any, spans: _Spans) -> Any:
    """Make a traced one of the same data."""
    traced: Any = object.__new__(kind)
    traced.__dict__.update(what.__dict__)
    traced.spans = spans
    return traced


def _text(name: bytes) -> str:
    return name.decode("utf-8", "replace")


# --- what is traced ----------------------------------------------------------------------------------------------


class _TracedStream(Stream):
    """A stream whose adds are spans."""

    spans: _Spans

    def add(self, fields: Mapping[Any, Any] | None = None, /, **named: Any) -> Any:
        with self.spans.send(_text(self._key)) as span:
            added = super().add(self.spans.with_context(fields, named), **named)
            span.set_attribute("messaging.message.id", str(added))
            return added

    async def aadd(self, fields: Mapping[Any, Any] | None = None, /, **named: Any) -> Any:
        with self.spans.send(_text(self._key)) as span:
            added = await super().aadd(self.spans.with_context(fields, named), **named)
            span.set_attribute("messaging.message.id", str(added))
            return added

    def add_many(self, rows: Iterable[Mapping[Any, Any]]) -> int:
        with self.spans.send(_text(self._key)) as span:
            count = super().add_many(self.spans.with_context(row, {}) for row in rows)
            span.set_attribute("messaging.batch.message_count", count)
            return count

    async def aadd_many(self, rows: Iterable[Mapping[Any, Any]]) -> int:
        with self.spans.send(_text(self._key)) as span:
            count = await super().aadd_many(self.spans.with_context(row, {}) for row in rows)
            span.set_attribute("messaging.batch.message_count", count)
            return count

    def group(self, name: str, start: Position = "0") -> Group:
        return cast(Group, _become(_TracedGroup, super().group(name, start), self.spans))

    async def agroup(self, name: str, start: Position = "0") -> Group:
        return cast(Group, _become(_TracedGroup, await super().agroup(name, start), self.spans))


class _TracedGroup(Group):
    """A group whose consumers are traced."""

    spans: _Spans

    def consumer(self, name: str, **options: Any) -> Consumer:
        return cast(Consumer, _become(_TracedConsumer, super().consumer(name, **options), self.spans))


class _TracedConsumer(Consumer):
    """A consumer that has a span while a message is handled, and one when it is settled."""

    spans: _Spans

    def _process(self, message: Message) -> AbstractContextManager[Any]:
        text = message.get(self.spans.field) if self.spans.field is not None else None
        return self.spans.process(_text(self._key), _text(self._group), self.name, str(message.id), text)

    def _settle(self, how: str, messages: Iterable[Message | Position]) -> AbstractContextManager[Any]:
        ids = [str(each.id if isinstance(each, Message) else each) for each in messages]
        return self.spans.settle(how, _text(self._key), _text(self._group), ids)

    def __iter__(self) -> Iterator[Message]:
        for message in super().__iter__():
            with self._process(message):
                yield message
                if not message.settled:  # the XACK goes along with the next read
                    with self._settle("ack", [message]):
                        pass

    async def __aiter__(self) -> AsyncIterator[Message]:
        async for message in super().__aiter__():
            with self._process(message):
                yield message
                if not message.settled:
                    with self._settle("ack", [message]):
                        pass

    def run(self, handle: Callable[[Message], object], *, concurrency: int = 1) -> None:
        def handle_and_note(message: Message) -> object:
            with _noting_failure():
                return handle(message)

        super().run(handle_and_note, concurrency=concurrency)

    async def arun(self, handle: Callable[[Message], Awaitable[object]], *, concurrency: int = 1) -> None:
        async def handle_and_note(message: Message) -> object:
            with _noting_failure():
                return await handle(message)

        await super().arun(handle_and_note, concurrency=concurrency)

    def _consumers(self, concurrency: int) -> list[Consumer]:
        return [_become(_TracedConsumer, each, self.spans) for each in super()._consumers(concurrency)]

    def read(self, count: int = 1, *, timeout: float | timedelta | None = None) -> list[Message]:
        with self.spans.receive(_text(self._key), _text(self._group), self.name) as span:
            messages = super().read(count, timeout=timeout)
            self.spans.link_all(span, messages)
            return messages

    async def aread(self, count: int = 1, *, timeout: float | timedelta | None = None) -> list[Message]:
        with self.spans.receive(_text(self._key), _text(self._group), self.name) as span:
            messages = await super().aread(count, timeout=timeout)
            self.spans.link_all(span, messages)
            return messages

    def ack(self, *messages: Message | Position) -> int:
        with self._settle("ack", messages):
            return super().ack(*messages)

    async def aack(self, *messages: Message | Position) -> int:
        with self._settle("ack", messages):
            return await super().aack(*messages)

    def nack(self, message: Message, delay: float | timedelta | None = None) -> None:
        with self._settle("nack", [message]):
            super().nack(message, delay)

    async def anack(self, message: Message, delay: float | timedelta | None = None) -> None:
        with self._settle("nack", [message]):
            await super().anack(message, delay)

    def fail(self, message: Message, reason: str) -> None:
        with self._settle("fail", [message]):
            super().fail(message, reason)

    async def afail(self, message: Message, reason: str) -> None:
        with self._settle("fail", [message]):
            await super().afail(message, reason)


@contextmanager
def _noting_failure() -> Iterator[None]:
    """Note on the span of now what a program's function raises."""
    try:
        yield
    except Exception as error:
        span = otel.get_current_span()
        span.record_exception(error)
        span.set_status(otel.StatusCode.ERROR, str(error))
        span.set_attribute("error.type", type(error).__qualname__)
        raise
