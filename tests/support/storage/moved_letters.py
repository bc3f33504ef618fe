"""What is pending and what is dead in an engine, and that nothing is lost or doubled on the way from one to the other.

    before, after     two states with one unit of effects between them: a command, or what time has caused
    in both           an entry that has become a dead letter, and is pending in its group still
    in neither        an entry that time took from a pending list, that its stream still holds, and that is no letter

What FORCE made pending before the group has read it is not looked at: it may be a letter, and be delivered then.
"""

from typing import Final, NamedTuple

from headrace.core.stream import Stream
from headrace.engine.engine import Engine
from headrace.engine.rules.dead_letters import split_letter

DONE: Final = ("trimmed", "dropped", "redelivered", "retried", "buried", "removed", "created")

Delivered = tuple[int, bytes, bytes, bytes]  # database, key, group, ID


class Letters(NamedTuple):
    """See the module. Letters are known by their own place: database, key and ID."""

    pending: set[Delivered]
    dead: dict[tuple[int, bytes, bytes], Delivered]


def take_letters(engine: Engine) -> Letters:
    """Find what is pending in all groups, and all dead letters with where they came from."""
    found = Letters(set(), {})
    for db in engine.databases:
        for key, value in db.values.items():
            if isinstance(value, Stream):
                for group in value.group_list():
                    read = [id for id, *_ in group.pending_records() if id <= group.last_delivered_id]
                    found.pending.update((db.number, key, group.name, bytes(id)) for id in read)
                for id, fields in value.range():
                    letter = split_letter(fields) if len(fields) > 16 else None
                    if letter is not None:
                        origin = letter[1]
                        found.dead[db.number, key, bytes(id)] = db.number, origin.stream, origin.group, origin.id
    return found


def find_fault(engine: Engine, before: Letters, after: Letters, *, by_time: bool) -> str | None:
    """Say what is in both places, or in neither, in the engine, which is in the second state; None: all is well."""
    moved = [origin for place, origin in after.dead.items() if place not in before.dead]
    doubled = [each for each in moved if each in before.pending & after.pending]
    if doubled:
        return f"Dead letters, and pending still: {doubled}"
    if len(set(moved)) != len(moved):
        return f"Dead letters twice: {moved}"
    lost = [each for each in before.pending - after.pending if by_time and each not in moved and _is_held(engine, each)]
    return f"Neither pending nor dead: {lost}" if lost else None


def _is_held(engine: Engine, delivered: Delivered) -> bool:
    """Whether the entry is there, and so is the group."""
    database, key, group, id = delivered
    stream = engine.databases[database].values.get(key)
    if not isinstance(stream, Stream) or stream.group(group) is None:
        return False
    return any(bytes(found) == id for found, _ in stream.range())


def count_done(engine: Engine) -> dict[str, int]:
    """Count what the rules that are declared have done."""
    counts = dict.fromkeys(DONE, 0)
    for db in engine.databases:
        for _, _, declared in engine.rules.declarations(db):
            for done in declared.done.values():
                for name in DONE:
                    counts[name] += getattr(done, name)
    return counts
