"""A rule of a stream, or of a group of it: its options, how it is set, and how it is kept.

    headrace:{orders}:policy            maxlen 1000   refs acked   since 1700000000000
                                        visibility:billing 30000   maxdeliveries:billing 5   since:billing 17000…
    headrace:{orders:*}:policy-match    the same, for every key that matches

A rule is some fields of such a hash: those of the stream have the name of an option, those of a group that name, a
colon, and the name of the group. It is data like any other, and may be written by hand: a value that cannot be read
counts as missing.
"""

from collections.abc import Mapping
from typing import Final, NamedTuple

from headrace.core.errors import InvalidStreamID
from headrace.core.stream_id import StreamID
from headrace.engine.errors import SYNTAX, CommandError, quoted
from headrace.engine.rules.quantities import duration_ms, size_bytes

OF_KEY: Final = b"policy"
OF_PATTERN: Final = b"policy-match"

KEEPREF: Final = b"keepref"
DELREF: Final = b"delref"
ACKED: Final = b"acked"

SINCE: Final = b"since"

Fields = dict[bytes, bytes]


class StreamRule(NamedTuple):
    """What a stream keeps. 0: no limit."""

    max_length: int = 0
    max_age_ms: int = 0
    max_bytes: int = 0
    references: bytes = KEEPREF
    drops_acked: bool = False
    since_ms: int = 0

    @property
    def says_something(self) -> bool:
        """Whether the rule asks for anything."""
        return bool(self.max_length or self.max_age_ms or self.max_bytes or self.drops_acked)

    def fields(self) -> Fields:
        """Return what is kept of the rule."""
        fields: Fields = {}
        for name, limit in ((b"maxlen", self.max_length), (b"maxage", self.max_age_ms), (b"maxbytes", self.max_bytes)):
            if limit:
                fields[name] = b"%d" % limit
        if self.references != KEEPREF:
            fields[b"refs"] = self.references
        if self.drops_acked:
            fields[b"drop"] = ACKED
        return fields


class GroupRule(NamedTuple):
    """How a group delivers. 0, or None: nothing is said of it."""

    visibility_ms: int = 0
    retry_min_ms: int = 0
    retry_max_ms: int = 0
    max_deliveries: int = 0
    dead_letter: bytes | None = None
    consumer_ttl_ms: int = 0
    create_from: bytes | None = None
    since_ms: int = 0

    @property
    def says_something(self) -> bool:
        """Whether the rule asks for anything."""
        return bool(
            self.visibility_ms
            or self.retry_min_ms
            or self.max_deliveries
            or self.dead_letter is not None
            or self.consumer_ttl_ms
            or self.create_from is not None
        )

    @property
    def buries(self) -> bool:
        """Whether entries that the group gives up become dead letters."""
        return bool(self.max_deliveries) or self.dead_letter is not None

    def fields(self) -> Fields:
        """Return what is kept of the rule, without the name of the group."""
        fields: Fields = {}
        if self.visibility_ms:
            fields[b"visibility"] = b"%d" % self.visibility_ms
        if self.retry_min_ms:
            fields[b"retry"] = b"%d %d" % (self.retry_min_ms, self.retry_max_ms)
        if self.max_deliveries:
            fields[b"maxdeliveries"] = b"%d" % self.max_deliveries
        if self.dead_letter is not None:
            fields[b"deadletter"] = self.dead_letter
        if self.consumer_ttl_ms:
            fields[b"consumerttl"] = b"%d" % self.consumer_ttl_ms
        if self.create_from is not None:
            fields[b"create"] = self.create_from
        return fields


Rule = StreamRule | GroupRule


# --- kept ------------------------------------------------------------------------------------------------------

_STREAM_FIELDS: Final = frozenset({b"maxlen", b"maxage", b"maxbytes", b"refs", b"drop", SINCE})
_GROUP_FIELDS: Final = frozenset(
    {b"visibility", b"retry", b"maxdeliveries", b"deadletter", b"consumerttl", b"create", SINCE}
)


def field_name(name: bytes, group: bytes | None) -> bytes:
    """Return the field that keeps an option of a stream or of a group."""
    return name if group is None else b"%s:%s" % (name, group)


def kept_fields(rule: Rule, group: bytes | None) -> Fields:
    """Return the fields of the hash that keep a rule."""
    fields = {**rule.fields(), SINCE: b"%d" % rule.since_ms}
    return {field_name(name, group): text for name, text in fields.items()}


def fields_of(held: Mapping[bytes, bytes], group: bytes | None) -> Fields:
    """Take what a hash has of the stream, or of one of its groups, without the name of the group."""
    if group is None:
        return {name: held[name] for name in _STREAM_FIELDS if name in held}
    return {name: held[whole] for name in _GROUP_FIELDS if (whole := field_name(name, group)) in held}


def groups_of(held: Mapping[bytes, bytes]) -> list[bytes]:
    """List the groups that a hash has rules for, by name."""
    names = set()
    for whole in held:
        name, colon, group = whole.partition(b":")
        if colon and name in _GROUP_FIELDS:
            names.add(group)
    return sorted(names)


def _number(fields: Mapping[bytes, bytes], name: bytes) -> int:
    text = fields.get(name, b"")
    return int(text) if text.isdigit() and len(text) < 19 else 0


def _duration(text: bytes | None) -> int:
    try:
        return duration_ms(text) if text is not None else 0
    except CommandError:
        return 0


def _size(text: bytes | None) -> int:
    try:
        return size_bytes(text) if text is not None else 0
    except CommandError:
        return 0


def stream_rule_of(held: Mapping[bytes, bytes]) -> StreamRule | None:
    """Read the rule of the stream; None where there is none."""
    fields = fields_of(held, None)
    references = fields.get(b"refs", KEEPREF).lower()
    rule = StreamRule(
        max_length=_number(fields, b"maxlen"),
        max_age_ms=_duration(fields.get(b"maxage")),
        max_bytes=_size(fields.get(b"maxbytes")),
        references=references if references in (DELREF, ACKED) else KEEPREF,
        drops_acked=fields.get(b"drop", b"").lower() == ACKED,
        since_ms=_number(fields, SINCE),
    )
    return rule if rule.says_something else None


def group_rule_of(held: Mapping[bytes, bytes], group: bytes) -> GroupRule | None:
    """Read the rule of a group; None where there is none."""
    fields = fields_of(held, group)
    shortest, _, longest = fields.get(b"retry", b"").partition(b" ")
    retry_min_ms = _duration(shortest)
    start = fields.get(b"create")
    rule = GroupRule(
        visibility_ms=_duration(fields.get(b"visibility")),
        retry_min_ms=retry_min_ms,
        retry_max_ms=max(_duration(longest), retry_min_ms),
        max_deliveries=_number(fields, b"maxdeliveries"),
        dead_letter=fields.get(b"deadletter") or None,
        consumer_ttl_ms=_duration(fields.get(b"consumerttl")),
        create_from=start if start is not None and _is_start(start) else None,
        since_ms=_number(fields, SINCE),
    )
    return rule if rule.says_something else None


def _is_start(text: bytes) -> bool:
    if text == b"$":
        return True
    try:
        StreamID.parse(text)
    except InvalidStreamID:
        return False
    return True


# --- asked for -------------------------------------------------------------------------------------------------


class _Words:
    """The options of POLICY SET, one after another, each at most once."""

    def __init__(self, words: list[bytes]) -> None:
        self._words = words
        self._at = 0
        self._seen: set[bytes] = set()

    def next_option(self) -> bytes | None:
        """Take the next option, in lower case; None at the end."""
        if self._at == len(self._words):
            return None
        option = self._words[self._at].lower()
        self._at += 1
        if option in self._seen:
            raise CommandError(b"ERR %s is said twice" % quoted(option.upper()))
        self._seen.add(option)
        return option

    def value(self) -> bytes:
        """Take what follows an option."""
        if self._at == len(self._words):
            raise CommandError(SYNTAX)
        self._at += 1
        return self._words[self._at - 1]

    def positive(self, option: bytes) -> int:
        """Take a count."""
        text = self.value()
        if not text.isdigit() or not int(text[:19]) > 0 or len(text) > 18:
            raise CommandError(b"ERR %s takes a positive integer, not '%s'" % (option.upper(), quoted(text)[:128]))
        return int(text)


def read_stream_rule(words: list[bytes], since_ms: int) -> StreamRule:
    """Read the options that POLICY SET takes for a stream."""
    reader = _Words(words)
    length = age_ms = size = 0
    references = None
    drops_acked = False
    while (option := reader.next_option()) is not None:
        if option == b"maxlen":
            length = reader.positive(option)
        elif option == b"maxage":
            age_ms = duration_ms(reader.value())
        elif option == b"maxbytes":
            size = size_bytes(reader.value())
        elif option in (KEEPREF, DELREF, ACKED):
            if references is not None:
                raise CommandError(b"ERR only one of KEEPREF, DELREF and ACKED can be kept")
            references = option
        elif option == b"drop":
            if reader.value().lower() != ACKED:
                raise CommandError(b"ERR DROP takes ACKED: entries that every group has acknowledged")
            drops_acked = True
        else:
            raise _unknown(option, b"of a stream: it has MAXLEN, MAXAGE, MAXBYTES, KEEPREF, DELREF, ACKED, DROP ACKED")
    if references is not None and not (length or age_ms or size):
        raise CommandError(
            b"ERR %s says which entries a limit may remove: MAXLEN, MAXAGE or MAXBYTES is missing" % references.upper()
        )
    rule = StreamRule(length, age_ms, size, references or KEEPREF, drops_acked, since_ms)
    _refuse_silence(rule)
    return rule


def read_group_rule(words: list[bytes], since_ms: int) -> GroupRule:
    """Read the options that POLICY SET takes for a group."""
    reader = _Words(words)
    visibility_ms = retry_min_ms = retry_max_ms = deliveries = ttl_ms = 0
    dead_letter = start = None
    while (option := reader.next_option()) is not None:
        if option == b"visibility":
            visibility_ms = duration_ms(reader.value())
        elif option == b"retry":
            retry_min_ms, retry_max_ms = duration_ms(reader.value()), duration_ms(reader.value())
            if retry_max_ms < retry_min_ms:
                raise CommandError(b"ERR RETRY takes the shortest wait first, and the longest behind it")
        elif option == b"maxdeliveries":
            deliveries = reader.positive(option)
        elif option == b"deadletter":
            dead_letter = reader.value()
            if not dead_letter:
                raise CommandError(b"ERR DEADLETTER takes the name of a stream, which is not empty")
        elif option == b"consumerttl":
            ttl_ms = duration_ms(reader.value())
        elif option == b"create":
            if reader.value().lower() != b"from":
                raise CommandError(b"ERR CREATE takes FROM and an ID: CREATE FROM 0, or CREATE FROM $")
            start = reader.value()
            if not _is_start(start):
                raise CommandError(b"ERR CREATE FROM takes 0, $ or an ID, not '%s'" % quoted(start)[:128])
        else:
            raise _unknown(
                option, b"of a group: it has VISIBILITY, RETRY, MAXDELIVERIES, DEADLETTER, CONSUMERTTL, CREATE FROM"
            )
    rule = GroupRule(visibility_ms, retry_min_ms, retry_max_ms, deliveries, dead_letter, ttl_ms, start, since_ms)
    _refuse_silence(rule)
    return rule


def _unknown(option: bytes, known: bytes) -> CommandError:
    return CommandError(b"ERR '%s' is no rule %s" % (quoted(option.upper())[:128], known))


def _refuse_silence(rule: Rule) -> None:
    if not rule.says_something:
        raise CommandError(b"ERR a rule must say something; POLICY DEL removes one")
