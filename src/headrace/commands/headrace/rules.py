"""HEADRACE POLICY: the rules of streams and groups, said, shown and taken back.

A rule is kept as some fields of a hash beside the stream (`engine.rules.rule`), and its effects are HSET and HDEL. The
engine follows that hash, so that a rule that comes in any other way, by hand or from a master, is as good.
"""

from typing import Final, NamedTuple

from headrace.commands.declaration.table import command
from headrace.commands.held import hash_at, note_change, settle_removal
from headrace.core.stream import Stream
from headrace.engine.call import Call
from headrace.engine.command import Flag
from headrace.engine.errors import SYNTAX, CommandError, quoted
from headrace.engine.glob import matcher
from headrace.engine.pubsub.notifications import Event
from headrace.engine.rules.book import Done
from headrace.engine.rules.dead_letters import default_stream
from headrace.engine.rules.rule import (
    KEEPREF,
    OF_KEY,
    OF_PATTERN,
    SINCE,
    GroupRule,
    Rule,
    StreamRule,
    field_name,
    fields_of,
    group_rule_of,
    kept_fields,
    read_group_rule,
    read_stream_rule,
    stream_rule_of,
)
from headrace.engine.side_keys import side_key

_READING: Final = frozenset({b"get", b"list"})
_NO_PERMISSION: Final = b"NOPERM No permissions to access a key"

Pairs = list[tuple[bytes, bytes | int]]


class _Target(NamedTuple):
    """What a rule is for."""

    name: bytes  # a key, or a pattern of keys
    is_pattern: bool
    group: bytes | None  # None: for the stream itself

    @property
    def side_key(self) -> bytes:
        return side_key(self.name, OF_PATTERN if self.is_pattern else OF_KEY)


def _read_target(argv: list[bytes]) -> tuple[_Target, list[bytes]]:
    """Read `key | MATCH pattern [GROUP group]`, and return what stands behind it."""
    words = argv[3:]
    is_pattern = bool(words) and words[0].lower() == b"match"
    if is_pattern:
        words = words[1:]
    if not words:
        raise CommandError(SYNTAX)
    name, *words = words
    group = None
    if words and words[0].lower() == b"group":
        if len(words) == 1:
            raise CommandError(SYNTAX)
        group, words = words[1], words[2:]
    return _Target(name, is_pattern, group), words


def _keys_of_policy(argv: list[bytes]) -> list[bytes]:
    """List the key that a rule is for, and the stream that it writes dead letters to; patterns are no keys."""
    if len(argv) < 4 or argv[2].lower() == b"list":
        return []
    try:
        target, words = _read_target(argv)
    except CommandError:
        return []
    keys = [] if target.is_pattern else [target.name]
    if argv[2].lower() == b"set" and target.group is not None:
        lowered = [word.lower() for word in words]
        if b"deadletter" in lowered[:-1]:
            keys.append(words[lowered.index(b"deadletter") + 1])
        elif b"maxdeliveries" in lowered and not target.is_pattern:
            keys.append(default_stream(target.name))
    return keys


def _refuse_pattern(call: Call, target: _Target, *, buries: bool) -> None:
    """Refuse a pattern that matches keys for which the user has no permission."""
    user = call.client.user
    if not target.is_pattern or user is None or user.unlimited:
        return
    patterns = [target.name, default_stream(target.name)] if buries else [target.name]
    if not all(user.allows_keys_matching(pattern) for pattern in patterns):
        raise CommandError(_NO_PERMISSION)


# --- setting ---------------------------------------------------------------------------------------------------


def _refuse_hopeless(call: Call, target: _Target, rule: Rule) -> None:
    """Refuse a rule that cannot be kept."""
    if not target.is_pattern:
        _refuse_other_type(call, target.name)
    if not isinstance(rule, GroupRule) or not rule.buries:
        return
    dead = rule.dead_letter
    if dead is not None and target.is_pattern and matcher(target.name)(dead):
        raise CommandError(
            b"ERR the dead-letter stream '%s' matches '%s' itself: choose a name that the pattern does not match"
            % (quoted(dead)[:128], quoted(target.name)[:128])
        )
    if not target.is_pattern and dead == target.name:
        raise CommandError(
            b"ERR '%s' cannot be its own dead-letter stream: what failed there would fail again" % quoted(dead)[:128]
        )
    if dead is not None or not target.is_pattern:
        _refuse_other_type(call, dead if dead is not None else default_stream(target.name))


def _refuse_other_type(call: Call, key: bytes) -> None:
    value = call.peek(key)
    if value is not None and not isinstance(value, Stream):
        raise CommandError(b"WRONGTYPE '%s' holds another kind of value than a stream" % quoted(key)[:128])


def _set(call: Call) -> None:
    target, words = _read_target(call.argv)
    read_rule = read_stream_rule if target.group is None else read_group_rule
    rule: Rule = read_rule(words, call.now_ms)
    _refuse_pattern(call, target, buries=isinstance(rule, GroupRule) and rule.buries and rule.dead_letter is None)
    _refuse_hopeless(call, target, rule)
    held = hash_at(call, target.side_key)
    former = _kept_rule(held, target.group) if held is not None else None
    call.emit_nothing()
    if former is None or rule._replace(since_ms=former.since_ms) != former:
        _keep(call, target, held, kept_fields(rule, target.group))
    call.reply.ok()


def _kept_rule(held: dict[bytes, bytes], group: bytes | None) -> Rule | None:
    return stream_rule_of(held) if group is None else group_rule_of(held, group)


def _keep(call: Call, target: _Target, held: dict[bytes, bytes] | None, fields: dict[bytes, bytes]) -> None:
    """Put the fields of a rule in the place of those that it had."""
    key = target.side_key
    if held is None:
        held = {}
        call.create(key, held)
    outdated = [
        whole for name in fields_of(held, target.group) if (whole := field_name(name, target.group)) not in fields
    ]
    for name in outdated:
        del held[name]
    held.update(fields)
    note_change(call, key, Event.HASH, b"hset", len(fields))
    if outdated:
        call.emit([b"HDEL", key, *outdated])
    call.emit([b"HSET", key, *(word for pair in fields.items() for word in pair)])


def _delete(call: Call) -> None:
    target, words = _read_target(call.argv)
    if words:
        raise CommandError(SYNTAX)
    _refuse_pattern(call, target, buries=False)
    held = hash_at(call, target.side_key)
    names = [field_name(name, target.group) for name in fields_of(held, target.group)] if held is not None else []
    if held is not None and names:
        for name in names:
            del held[name]
        settle_removal(call, target.side_key, held, b"hdel", len(names))
        call.emit([b"HDEL", target.side_key, *names])
    call.reply.integer(int(bool(names)))


# --- showing ---------------------------------------------------------------------------------------------------


def _said(rule: Rule) -> Pairs:
    """Return what a rule says, in the words of POLICY SET: durations in milliseconds, sizes in bytes."""
    pairs: Pairs
    if isinstance(rule, StreamRule):
        limits: Pairs = [(b"maxlen", rule.max_length), (b"maxage", rule.max_age_ms), (b"maxbytes", rule.max_bytes)]
        pairs = [pair for pair in limits if pair[1]]
        if rule.references != KEEPREF:
            pairs.append((b"refs", rule.references))
        if rule.drops_acked:
            pairs.append((b"drop", b"acked"))
    else:
        numbers: Pairs = [
            (b"visibility", rule.visibility_ms),
            (b"retry-min", rule.retry_min_ms),
            (b"retry-max", rule.retry_max_ms),
            (b"maxdeliveries", rule.max_deliveries),
            (b"consumerttl", rule.consumer_ttl_ms),
        ]
        pairs = [pair for pair in numbers if pair[1]]
        if rule.dead_letter is not None:
            pairs.append((b"deadletter", rule.dead_letter))
        if rule.create_from is not None:
            pairs.append((b"create", rule.create_from))
    return [*pairs, (SINCE, rule.since_ms)]


def _counted(call: Call, rule: Rule, done: Done) -> Pairs:
    """Return what a rule has done, and since when that was counted."""
    counts: Pairs = [(b"active", int(not call.engine.is_replica)), (b"counted-since", done.since_ms)]
    if isinstance(rule, StreamRule):
        return [*counts, (b"trimmed", done.trimmed), (b"dropped", done.dropped)]
    return [
        *counts,
        (b"redelivered", done.redelivered),
        (b"retried", done.retried),
        (b"dead-letters", done.buried),
        (b"consumers-removed", done.removed),
        (b"groups-created", done.created),
    ]


def _reply_pairs(call: Call, pairs: Pairs) -> None:
    call.reply.map(len(pairs))
    for name, value in pairs:
        call.reply.bulk(name)
        if isinstance(value, int):
            call.reply.integer(value)
        else:
            call.reply.bulk(value)


def _get(call: Call) -> None:
    target, words = _read_target(call.argv)
    if words:
        raise CommandError(SYNTAX)
    found: tuple[Rule, Done, bytes | None] | None = None
    if target.is_pattern:
        declared = call.engine.rules.declared(call.db, target.name, is_pattern=True)
        rule = declared.rule_of(target.group) if declared is not None else None
        if declared is not None and rule is not None:
            found = rule, declared.done[target.group], target.name
    else:
        in_force = call.engine.rules.in_force(call.db, target.name)
        if in_force is not None and target.group is None and in_force.rule is not None:
            found = in_force.rule, in_force.done, in_force.pattern
        elif in_force is not None and target.group in in_force.groups:
            group = in_force.groups[target.group]
            found = group.rule, group.done, group.pattern
    if found is None:
        call.reply.null()
        return
    rule, done, pattern = found
    source: Pairs = [(b"match", pattern)] if pattern is not None else []
    _reply_pairs(call, [*source, *_said(rule), *_counted(call, rule, done)])


def _list(call: Call) -> None:
    if call.argc > 4:
        raise CommandError(SYNTAX)
    matches = matcher(call.argv[3] if call.argc == 4 else b"*")
    rows: list[Pairs] = []
    for name, is_pattern, declared in call.engine.rules.declarations(call.db):
        if not matches(name):
            continue
        target: Pairs = [(b"match" if is_pattern else b"key", name)]
        if declared.stream is not None:
            rows.append([*target, *_said(declared.stream)])
        rows += [[*target, (b"group", group), *_said(rule)] for group, rule in sorted(declared.groups.items())]
    call.reply.array(len(rows))
    for row in rows:
        _reply_pairs(call, row)


_ACTIONS: Final = {b"set": _set, b"get": _get, b"del": _delete, b"list": _list}


@command(
    "headrace|policy <SET <key | MATCH pattern> [GROUP group] [MAXLEN count] [MAXAGE duration] [MAXBYTES size] "
    "[KEEPREF|DELREF|ACKED] [DROP ACKED] [VISIBILITY duration] [RETRY min max] [MAXDELIVERIES count] "
    "[DEADLETTER stream] [CONSUMERTTL duration] [CREATE FROM id|$] | GET <key | MATCH pattern> [GROUP group] | "
    "DEL <key | MATCH pattern> [GROUP group] | LIST [pattern]>",
    arity=-3,
    flags=Flag.WRITE | Flag.DENY_OOM | Flag.MOVABLE_KEYS,
    find_keys=_keys_of_policy,
    reading=_READING,
    since="0.3.0",
    group="headrace",
)
def headrace_policy(call: Call) -> None:
    """Set, show, remove or list the rules that the server keeps for streams and their groups.

    SET puts a rule in the place of the one that the stream has, or with GROUP the group. A rule for a key wins over
    those of patterns, and of these the longest that matches wins. Durations are milliseconds, or 30s, 5m, 7d; sizes are
    bytes, or 512mb. Of a stream: MAXLEN, MAXAGE and MAXBYTES are kept at every append and by time; with DELREF pending
    records go with their entries, and with ACKED nothing goes that a group has not finished. DROP ACKED deletes an
    entry when every group has acknowledged it. Of a group: what a consumer holds longer than VISIBILITY goes to the
    next reader that asks with `>`. RETRY lets an entry that failed wait for min, twice that, and so on up to max. What
    was delivered MAXDELIVERIES times and failed, or was rejected by XNACK FATAL, moves to the stream DEADLETTER, which
    is the key with `:dead` behind it where it is not said. CONSUMERTTL removes consumers that were not seen for so
    long, and what they held goes back to the group. CREATE FROM makes a group that is missing, and its stream, when
    somebody reads it.

    GET replies what is in force for a key, or what was set for a pattern, since when, and what it has done; nil where
    there is no rule. DEL replies whether there was one. LIST replies all rules. The user needs permission for the key,
    or for all keys that match, and for the dead-letter stream. On a replica rules sleep: its master keeps them.
    """
    action = _ACTIONS.get(call.argv[2].lower())
    if action is None:
        raise CommandError(
            b"ERR unknown subcommand '%s' of HEADRACE POLICY: it has SET, GET, DEL and LIST"
            % (quoted(call.argv[2])[:128])
        )
    action(call)
