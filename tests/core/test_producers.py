"""What a stream remembers of its producers."""

from headrace.core.producers import Producers
from headrace.core.stream import Stream
from headrace.core.stream_id import StreamID
from headrace.formats.stream_value import dump_stream, restore_stream


def remembered(producers: Producers) -> dict[bytes, list[bytes]]:
    return {producer: [id for id, _ in sent] for producer, sent in producers.tables()}


def test_a_message_is_found_again_by_its_producer_only() -> None:
    producers = Producers()
    producers.record(b"p", b"i", StreamID(1, 2))
    assert producers.find(b"p", b"i") == StreamID(1, 2)
    assert producers.find(b"q", b"i") is None
    assert producers.find(b"p", b"j") is None
    assert (len(producers), producers.remembered, producers.recorded) == (1, 1, 1)


def test_the_oldest_of_a_producer_is_forgotten_beyond_the_size() -> None:
    producers = Producers(max_size=2)
    for i in range(4):
        producers.record(b"p", b"%d" % i, StreamID(i + 1))
    producers.record(b"q", b"0", StreamID(9))
    assert remembered(producers) == {b"p": [b"2", b"3"], b"q": [b"0"]}
    assert producers.recorded == 5


def test_age_is_that_of_the_entry_and_only_expiry_looks_at_it() -> None:
    producers = Producers(duration_s=10)
    for ms in (1000, 2000, 3000):
        producers.record(b"p", b"%d" % ms, StreamID(ms, 7))
    producers.record(b"old", b"i", StreamID(500))
    assert producers.find(b"old", b"i") is not None
    producers.expire(12_000)
    assert remembered(producers) == {b"p": [b"3000"]}
    producers.expire(12_999)
    assert len(producers) == 1
    producers.expire(13_000)
    assert (len(producers), producers.recorded) == (0, 4)


def test_expiry_stops_at_the_first_that_is_young_enough() -> None:
    producers = Producers(duration_s=10)
    producers.record(b"p", b"young", StreamID(5000))
    producers.record(b"p", b"old", StreamID(10))
    producers.expire(12_000)
    assert remembered(producers) == {b"p": [b"young", b"old"]}


def test_bounds_that_really_change_clear_the_memory_but_not_the_counters() -> None:
    producers = Producers(100, 100)
    producers.record(b"p", b"i", StreamID(1))
    producers.duplicates = 3
    assert not producers.configure(100, 100)
    assert len(producers) == 1
    assert producers.configure(100, 99)
    assert (len(producers), producers.recorded, producers.duplicates) == (0, 1, 3)


def test_memory_outlives_the_entries_and_travels_with_the_stream() -> None:
    stream = Stream()
    producers = stream.producers
    producers.configure(60, 50)
    for producer in (b"q", b"p"):
        for i in range(3):
            producers.record(producer, b"%d" % i, stream.append((b"f", b"v")))
    producers.duplicates = 2
    stream.trim_to_length(0)
    for other in (stream.copy(), restore_stream(dump_stream(stream))):
        twin = other.producers
        assert twin.tables() == producers.tables()
        assert (twin.duration_s, twin.max_size, twin.recorded, twin.duplicates) == (60, 50, 6, 2)
        assert [producer for producer, _ in twin.tables()] == [b"p", b"q"]
        twin.record(b"p", b"new", StreamID(9))
        assert producers.find(b"p", b"new") is None
