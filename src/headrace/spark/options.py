r"""The options of a source and of a sink: what they are called, what they may be, which go together.

    reading                                                         default
      url                   redis://…, rediss://…, unix://…,        redis://127.0.0.1:6379
                            sentinel://host:port,host:port/name,
                            several with commas between
      readFrom              master, replica: where tasks read       master
                            entries, of servers that Sentinels
                            watch
      path                  instead of a server: a data directory,
                            an RDB file or a DUMP payload
      archive               what `headrace pipeline archive` has
                            written: entries that it has come from
                            there, all others from the server
      archiveCheckpoint     that of the archive, where it is not    archive/_checkpoint
                            in the archive itself
      db                    which database of a path; a url         0
                            has it at its end: redis://…/3
      keys                  names and glob patterns, commas between (\\, is a comma)
      startingId            earliest, latest, or an ID as XRANGE    earliest; a stream without archive: latest
                            takes it ("(5-1": after 5-1)
      endingId              latest, or an ID (batch only)           latest
      startingTimestamp     ISO 8601, or milliseconds since 1970
      endingTimestamp       the same: entries before it (batch only)
                            all four also as JSON: {"key": value, "other": value, "*": all others}
      minPartitions         at least so many tasks                  as many as there are entries for
      entriesPerPartition   at most about so many entries a task    1000000
      columns               of the default schema, commas between   all
      mode                  permissive, dropmalformed, failfast     permissive
      metadataPrefix        of metadata columns in a schema         _
      timeZone              of times that name none                 the session's; of startingTimestamp
                                                                    and endingTimestamp: UTC
      timestampFormat       seconds, milliseconds, microseconds,    ISO 8601, or milliseconds
                            nanoseconds, or a pattern of Spark's
      columnNameOfCorruptRecord  the column of a schema that has    _corrupt_record
                            malformed entries as JSON
      payloadField          the field that has an encoded object,
                            whose members are columns
      payloadFormat         json, msgpack, avro                     json
      payloadSchema         of avro: the schema, as JSON, or a
                            file that has it
      deadLetterKey         the stream for what cannot be parsed
      minEntriesPerTrigger  a micro-batch waits for so many,        1
      maxTriggerDelay       but not longer than this                15 minutes
      maxEntriesPerTrigger  entries of one micro-batch              1000000
      maxBytesPerTrigger    bytes of one micro-batch                as many as there are
      failOnDataLoss        true, false                             true
      failOnMissing         true: a key named without a pattern     false: a warning
                            must be there when the query begins
      group                 the consumer group to publish progress as
      pushFilters           true where Spark's spark.sql.python.filterPushdown.enabled is

    writing
      url                   as above
      key, keyColumn        the stream, or the column that names it
      idColumn              the column of entry IDs                 the server makes them
      fieldsColumn          the map column that has the fields      every other column is a field
      partitions            streams key:0 … key:n-1 instead of one
      partitionBy           the column whose hash says which
      maxlen, minid         trimming, about
      txnAppId, txnVersion  of a batch that may be written again,
                            and counts once: its name and number

    both
      transport             auto, xrange, packed                    auto: packed where the server has it
      retryTimeout          seconds to wait for a server that       30
                            stops answering

Names may be in upper or lower case, as in Spark. Unknown options are refused, because a misspelt option that is ignored
reads the wrong data.
"""

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, tzinfo
from difflib import get_close_matches
from functools import partial
from pathlib import Path
from typing import Final, Literal, cast

from headrace.clients.urls import EXPECTED, SCHEMES, is_sentinel, split_urls
from headrace.core.errors import InvalidInterval, InvalidStreamID
from headrace.core.stream_id import MAX_ID, MIN_ID, StreamID, parse_range_end, parse_range_start
from headrace.spark.avro import check_avro
from headrace.spark.errors import BadOption
from headrace.spark.moments import UNITS, Moments, local_zone, read_zone, to_directives

Mode = Literal["permissive", "dropmalformed", "failfast"]
TransportName = Literal["auto", "xrange", "packed"]

DEFAULT_URL: Final = "redis://127.0.0.1:6379"
DEFAULT_ENTRIES_PER_PARTITION: Final = 1_000_000
DEFAULT_ENTRIES_PER_TRIGGER: Final = 1_000_000

_BOTH: Final = ("url", "transport", "retryTimeout")
_READING: Final = (
    *("path", "db", "keys", "startingId", "endingId", "startingTimestamp", "endingTimestamp", "minPartitions"),
    *("entriesPerPartition", "columns", "mode", "metadataPrefix", "maxEntriesPerTrigger", "maxBytesPerTrigger"),
    *("failOnDataLoss", "failOnMissing", "group", "pushFilters", "readFrom", "archive", "archiveCheckpoint"),
    *("columnNameOfCorruptRecord", "timeZone", "timestampFormat", "deadLetterKey", "minEntriesPerTrigger"),
    *("maxTriggerDelay", "payloadField", "payloadFormat", "payloadSchema"),
)
_WRITING: Final = (
    *("key", "keyColumn", "idColumn", "fieldsColumn", "partitions", "partitionBy", "maxlen", "minid"),
    *("txnAppId", "txnVersion"),
)
# What Spark's source for Kafka and spark-redis call them.
_CALLED_ELSEWHERE: Final = {
    "subscribe": "keys",
    "subscribepattern": "keys, which takes patterns such as sensor:*",
    "assign": "keys",
    "topic": "key for writing, keys for reading",
    "startingoffsets": "startingId",
    "startingoffsetsbytimestamp": "startingTimestamp",
    "endingoffsets": "endingId",
    "endingoffsetsbytimestamp": "endingTimestamp",
    "maxoffsetspertrigger": "maxEntriesPerTrigger",
    "minoffsetspertrigger": "minEntriesPerTrigger",
    "maxrecordsperpartition": "entriesPerPartition",
    "includeheaders": "a column named _fields, which has headers like all other fields",
    "groupidprefix": "group",
    "kafka.bootstrap.servers": "url",
    "kafka.group.id": "group",
    "host": "url",
    "port": "url",
    "spark.redis.host": "url",
    "spark.redis.port": "url",
    "stream.keys": "keys",
    "stream.offsets": "startingId",
    "stream.group.name": "group",
    "stream.read.batch.size": "maxEntriesPerTrigger",
}
_TABLES_LOSE_OPTIONS: Final = (
    "CREATE TABLE loses the options of sources that are written in Python: use CREATE TEMPORARY VIEW … USING headrace "
    "OPTIONS (…)"
)
_MODES: Final = ("permissive", "dropmalformed", "failfast")
_DEFAULT_DELAY: Final = "15 minutes"
_DURATION: Final = re.compile(r"(\d+(?:\.\d+)?)\s*([a-z]+)", re.ASCII)
_UNITS_S: Final = {
    **dict.fromkeys(("ms", "millisecond", "milliseconds"), 0.001),
    **dict.fromkeys(("s", "sec", "second", "seconds"), 1.0),
    **dict.fromkeys(("m", "min", "minute", "minutes"), 60.0),
    **dict.fromkeys(("h", "hour", "hours"), 3600.0),
    **dict.fromkeys(("d", "day", "days"), 86400.0),
}
_OTHERS: Final = "*"  # in JSON: every key that is not named
# Spark hands these on to readers and writers.
_SPARKS_OWN: Final = frozenset({"checkpointlocation", "queryname"})


class Latest:
    """The position behind the last entry, wherever that is."""

    def __repr__(self) -> str:
        return "LATEST"

    def __reduce__(self) -> str:
        return "LATEST"


LATEST: Final = Latest()
Position = StreamID | Latest


@dataclass(frozen=True)
class PerKey:
    """A position for every key, or, given as JSON, those of some keys and perhaps one for all others."""

    everywhere: Position | None
    by_key: Mapping[bytes, Position]
    option: str

    def of(self, key: bytes) -> Position:
        """Return the position for a key; raises BadOption where the JSON has none."""
        position = self.by_key.get(key, self.everywhere)
        if position is None:
            shown = key.decode(errors="backslashreplace")
            raise BadOption(
                self.option, None, f"has no value for stream {shown!r}: add one, or one for {_OTHERS!r}, all others"
            )
        return position

    def of_new(self, key: bytes) -> Position:
        """Return the position for a stream that appears later: its beginning, where the JSON has none."""
        return MIN_ID if key not in self.by_key and self.everywhere is None else self.of(key)


@dataclass(frozen=True)
class ServerOptions:
    """How to reach the data."""

    urls: tuple[str, ...]
    transport: TransportName
    retry_seconds: float
    from_replica: bool = False
    """Whether tasks read entries from replicas."""


@dataclass(frozen=True)
class PayloadFormat:
    """Which field has an encoded object, and how it is encoded."""

    field: str
    name: str
    schema: str | None = None  # of Avro


@dataclass(frozen=True)
class ReadOptions:
    """The options of a read."""

    server: ServerOptions
    path: str | None
    db: int
    keys: tuple[bytes, ...]
    starting: PerKey
    ending: PerKey
    min_partitions: int | None
    entries_per_partition: int
    columns: tuple[str, ...] | None
    mode: Mode
    metadata_prefix: str
    corrupt_column: str
    moments: Moments
    payload: PayloadFormat | None
    """The field that has an encoded object, and how that is encoded."""
    entries_per_trigger: int | None
    bytes_per_trigger: int | None
    least_entries_per_trigger: int | None
    trigger_delay_s: float
    dead_letter_key: bytes | None
    fail_on_data_loss: bool
    fail_on_missing: bool
    group: bytes | None
    push_filters: bool
    archive: str | None
    archive_checkpoint: str | None

    @property
    def leaves_out_malformed(self) -> bool:
        """Whether entries that cannot be parsed are not among the rows."""
        return self.mode == "dropmalformed" or self.dead_letter_key is not None


@dataclass(frozen=True)
class WriteOptions:
    """Where to write, and how rows become entries."""

    server: ServerOptions
    key: bytes | None
    key_column: str | None
    id_column: str | None
    fields_column: str | None
    partitions: int | None
    partition_by: str | None
    maxlen: int | None
    minid: StreamID | None
    txn: tuple[str, int] | None
    """The application and the number of a batch that counts once."""


def read_options(given: Mapping[str, str], *, streaming: bool) -> ReadOptions:
    """Check the options of a source."""
    options = _Given(given, (*_BOTH, *_READING), _WRITING, "writing")
    path = options.text("path")
    if path is not None and options.text("url") is not None:
        raise BadOption("path", path, "either a path or a url, not both")
    if path is not None and streaming:
        raise BadOption("path", path, "files do not grow: read them with spark.read, or give a url")
    if path is None and options.text("db") is not None:
        raise BadOption(
            "db", options.text("db"), "goes with path; a url has its database at its end, as redis://host/3"
        )
    archive, archive_checkpoint = options.text("archive"), options.text("archiveCheckpoint")
    if path is not None and archive is not None:
        raise BadOption("archive", archive, "goes with a url: the streams of a path are read from the path alone")
    if archive is None and archive_checkpoint is not None:
        raise BadOption("archiveCheckpoint", archive_checkpoint, "goes with archive")
    dead_letter_key = options.text("deadLetterKey")
    if dead_letter_key is not None and path is not None:
        raise BadOption("deadLetterKey", dead_letter_key, "goes with a url: there is no server to write to")
    if dead_letter_key is not None and options.one_of("mode", _MODES) == "failfast":
        raise BadOption("deadLetterKey", dead_letter_key, "the mode failfast ends the query instead: leave one out")
    begins_at_latest = streaming and archive is None
    keys = _names(options.text("keys") or "")
    if not keys and path is None:
        told = "" if given else f" ({_TABLES_LOSE_OPTIONS})"
        raise BadOption("keys", None, f'is missing: name the streams to read, as "orders,clicks" or "sensor:*"{told}')
    for name in ("endingId", "endingTimestamp"):
        value = options.text(name)
        if streaming and value is not None:
            raise BadOption(name, value, "a streaming query has no end; leave it out, or use spark.read")
    return ReadOptions(
        server=replace(_server_options(options), from_replica=_reads_from_replica(options)),
        path=path,
        db=options.count("db", least=0) or 0,
        keys=keys or (b"*",),
        starting=options.position(
            "startingId", "startingTimestamp", LATEST if begins_at_latest else MIN_ID, _starting_id
        ),
        ending=options.position("endingId", "endingTimestamp", LATEST, _ending_id),
        min_partitions=options.count("minPartitions"),
        entries_per_partition=options.count("entriesPerPartition") or DEFAULT_ENTRIES_PER_PARTITION,
        columns=_columns(options.text("columns")),
        mode=cast(Mode, options.one_of("mode", _MODES)),
        metadata_prefix=options.text("metadataPrefix") or "_",
        corrupt_column=options.text("columnNameOfCorruptRecord") or "_corrupt_record",
        moments=_moments(options),
        payload=_payload(options),
        entries_per_trigger=options.count("maxEntriesPerTrigger"),
        bytes_per_trigger=options.count("maxBytesPerTrigger"),
        least_entries_per_trigger=options.count("minEntriesPerTrigger"),
        trigger_delay_s=_seconds(options),
        dead_letter_key=_encoded(dead_letter_key),
        fail_on_data_loss=options.one_of("failOnDataLoss", ("true", "false")) == "true",
        fail_on_missing=options.one_of("failOnMissing", ("false", "true")) == "true",
        group=_encoded(options.text("group")),
        push_filters=options.one_of("pushFilters", ("false", "true")) == "true",
        archive=archive,
        archive_checkpoint=archive_checkpoint,
    )


def write_options(given: Mapping[str, str], *, streaming: bool = False) -> WriteOptions:
    """Check the options of a sink."""
    options = _Given(given, (*_BOTH, *_WRITING), _READING, "reading")
    key, key_column = options.text("key"), options.text("keyColumn")
    if (key is None) == (key_column is None):
        found = "both are given" if key is not None else "neither is given"
        found += "" if given else f" ({_TABLES_LOSE_OPTIONS})"
        raise BadOption("key", key, f"a stream is named by the option key or by keyColumn, and {found}")
    partitions, partition_by = options.count("partitions"), options.text("partitionBy")
    if (partitions is None) != (partition_by is None):
        raise BadOption("partitions", options.text("partitions"), "goes together with partitionBy, the column to hash")
    minid = options.text("minid")
    if minid is not None and options.text("maxlen") is not None:
        raise BadOption("minid", minid, "trim by maxlen or by minid, not by both")
    application, version = options.text("txnAppId"), options.count("txnVersion", least=0)
    if (application is None) != (version is None):
        raise BadOption("txnAppId", application, "goes together with txnVersion, the number of the batch")
    if application is not None and streaming:
        raise BadOption(
            "txnAppId", application, "a streaming query is known by its checkpoint; leave this out, or use foreachBatch"
        )
    return WriteOptions(
        server=_server_options(options),
        key=_encoded(key),
        key_column=key_column,
        id_column=options.text("idColumn"),
        fields_column=options.text("fieldsColumn"),
        partitions=partitions,
        partition_by=partition_by,
        maxlen=options.count("maxlen", least=0),
        minid=None if minid is None else _id("minid", minid, StreamID.parse),
        txn=None if application is None or version is None else (application, version),
    )


class _Given:
    """Options as Spark gave them, asked for by name."""

    def __init__(
        self, given: Mapping[str, str], known: tuple[str, ...], elsewhere: tuple[str, ...], elsewhere_is: str
    ) -> None:
        self._values = {name.lower(): value for name, value in given.items()}
        names = {name.lower(): name for name in known}
        others = {name.lower(): name for name in elsewhere}
        if "provider" in self._values:
            raise BadOption("provider", self._values["provider"], _TABLES_LOSE_OPTIONS)
        for name, value in self._values.items():
            if name in _CALLED_ELSEWHERE:
                raise BadOption(name, value, f"is called otherwise here: did you mean {_CALLED_ELSEWHERE[name]}?")
            if name in names or name in _SPARKS_OWN or "." in name:
                continue
            if name in others:
                raise BadOption(others[name], value, f"is an option for {elsewhere_is}")
            near = get_close_matches(name, names, n=1)
            hint = f"did you mean {names[near[0]]}?" if near else f"the options are {', '.join(sorted(known))}"
            raise BadOption(name, value, f"there is no such option; {hint}")

    def text(self, name: str) -> str | None:
        value = self._values.get(name.lower())
        if value is not None and not value.strip():
            raise BadOption(name, value, "is empty; give it a value or leave it out")
        return value

    def count(self, name: str, least: int = 1) -> int | None:
        value = self.text(name)
        if value is None:
            return None
        if not value.strip().isascii() or not value.strip().isdigit() or int(value) < least:
            raise BadOption(name, value, f"expected a whole number from {least} on")
        return int(value)

    def one_of(self, name: str, choices: tuple[str, ...]) -> str:
        value = self.text(name)
        if value is None:
            return choices[0]
        if value.strip().lower() not in choices:
            raise BadOption(name, value, f"expected {' or '.join(choices)}")
        return value.strip().lower()

    def position(
        self, id_name: str, time_name: str, default: Position, read_id: "Callable[[str, str], Position]"
    ) -> PerKey:
        by_id, by_time = self.text(id_name), self.text(time_name)
        if by_id is not None and by_time is not None:
            raise BadOption(time_name, by_time, f"either {id_name} or {time_name}, not both")
        if by_id is not None:
            return _per_key(id_name, by_id, read_id)
        if by_time is not None:
            to_id = _starting_time if time_name.startswith("starting") else _ending_time
            return _per_key(time_name, by_time, partial(to_id, read_zone(self.text("timeZone") or "UTC")))
        return PerKey(default, {}, id_name)


def _server_options(options: _Given) -> ServerOptions:
    urls = split_urls(options.text("url") or DEFAULT_URL)
    for url in urls:
        if not url.startswith(SCHEMES):
            raise BadOption("url", url, f"expected {EXPECTED}")
    seconds = options.text("retryTimeout") or "30"
    try:
        retry_seconds = float(seconds)
    except ValueError:
        retry_seconds = -1
    if not 0 <= retry_seconds < float("inf"):
        raise BadOption("retryTimeout", seconds, "expected a number of seconds")
    transport = cast(TransportName, options.one_of("transport", ("auto", "xrange", "packed")))
    return ServerOptions(urls, transport, retry_seconds)


def _reads_from_replica(options: _Given) -> bool:
    wanted = options.one_of("readFrom", ("master", "replica"))
    if wanted == "replica" and not all(map(is_sentinel, split_urls(options.text("url") or DEFAULT_URL))):
        raise BadOption("readFrom", wanted, "goes with a url that says who has replicas: sentinel://host:port/name")
    return wanted == "replica"


def _moments(options: _Given) -> Moments:
    zone, format = options.text("timeZone"), options.text("timestampFormat")  # noqa: A001  (Spark's word)
    if zone is not None:
        read_zone(zone)
    if format is not None and format not in UNITS:
        to_directives(format)
    return Moments(zone, format, local_zone())


def _payload(options: _Given) -> PayloadFormat | None:
    field, schema = options.text("payloadField"), options.text("payloadSchema")
    if field is None:
        for name in ("payloadFormat", "payloadSchema"):
            if options.text(name) is not None:
                raise BadOption(name, options.text(name), "goes together with payloadField, the field")
        return None
    name = options.one_of("payloadFormat", ("json", "msgpack", "avro"))
    if name != "avro":
        if schema is not None:
            raise BadOption("payloadSchema", schema, "goes together with payloadFormat=avro; columns have their types")
        return PayloadFormat(field, name)
    if schema is None:
        raise BadOption("payloadSchema", None, "is missing: the schema of payloadFormat=avro, as JSON, or its file")
    if not schema.lstrip().startswith(("{", "[", '"')):
        try:
            schema = Path(schema).read_text()
        except OSError as error:
            raise BadOption("payloadSchema", schema, f"is neither JSON nor a file that can be read: {error}") from None
    try:
        check_avro(schema)
    except ValueError as error:
        raise BadOption("payloadSchema", schema, str(error)) from None
    return PayloadFormat(field, name, schema)


def _seconds(options: _Given) -> float:
    text = options.text("maxTriggerDelay")
    if text is not None and options.text("minEntriesPerTrigger") is None:
        raise BadOption("maxTriggerDelay", text, "goes together with minEntriesPerTrigger")
    found = _DURATION.fullmatch((text or _DEFAULT_DELAY).strip().lower())
    if found is None or found[2] not in _UNITS_S:
        raise BadOption("maxTriggerDelay", text, "expected a duration such as 90s or 15 minutes")
    return float(found[1]) * _UNITS_S[found[2]]


def _per_key(name: str, text: str, read: Callable[[str, str], Position]) -> PerKey:
    if not text.lstrip().startswith("{"):
        return PerKey(read(name, text.strip()), {}, name)
    try:
        parsed = json.loads(text)
    except ValueError as error:
        raise BadOption(name, text, f"begins as JSON and is none ({error})") from None
    positions = {key: read(name, str(value)) for key, value in parsed.items()}
    others = positions.pop(_OTHERS, None)
    return PerKey(others, {key.encode(errors="surrogateescape"): each for key, each in positions.items()}, name)


def _starting_id(name: str, text: str) -> Position:
    if text.lower() in {"latest", "$"}:
        return LATEST
    return MIN_ID if text.lower() == "earliest" else _id(name, text, parse_range_start)


def _ending_id(name: str, text: str) -> Position:
    return LATEST if text.lower() in {"latest", "+"} else _id(name, text, parse_range_end)


def _id(name: str, text: str, parse: Callable[[str], StreamID]) -> StreamID:
    try:
        return parse(text)
    except (InvalidStreamID, InvalidInterval):
        raise BadOption(name, text, "expected an ID such as 1526919030474-55") from None


def _starting_time(zone: tzinfo, name: str, text: str) -> Position:
    return StreamID(_milliseconds(zone, name, text), 0)


def _ending_time(zone: tzinfo, name: str, text: str) -> Position:
    milliseconds = _milliseconds(zone, name, text)
    return StreamID(milliseconds, 0).predecessor() if milliseconds else MIN_ID


def _milliseconds(zone: tzinfo, name: str, text: str) -> int:
    if text.isascii() and text.isdigit() and int(text) <= MAX_ID.ms:
        return int(text)
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise BadOption(
            name, text, "expected a time such as 2026-01-31T12:00:00Z, or milliseconds since 1970"
        ) from None
    moment = moment if moment.tzinfo else moment.replace(tzinfo=zone)
    milliseconds = int(moment.timestamp() * 1000)
    if milliseconds < 0:
        raise BadOption(name, text, "IDs begin in 1970")
    return milliseconds


def _names(text: str) -> tuple[bytes, ...]:
    parts = text.replace("\\\\", "\0").replace("\\,", "\1").split(",")
    names = (part.strip().replace("\1", ",").replace("\0", "\\\\") for part in parts)
    return tuple(dict.fromkeys(name.encode() for name in names if name))


def _columns(text: str | None) -> tuple[str, ...] | None:
    return None if text is None else tuple(name.strip() for name in text.split(",") if name.strip())


def _encoded(text: str | None) -> bytes | None:
    return None if text is None else text.encode()
