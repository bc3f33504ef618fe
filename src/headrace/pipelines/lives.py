"""What happened to streams while they were read, according to the offsets of a query.

start  {"0": {"orders": {"id": "5-1", "added": 17}}}
end    {"0": {"orders": {"id": "2-0", "added": 2, "life": 1, "lost": 3}}}     made anew, and 3 entries were lost
"""

import json
from dataclasses import dataclass

from headrace.pipelines.layout import shown_key
from headrace.spark.offsets import from_json


@dataclass(frozen=True)
class Fate:
    """What happened to a stream between two offsets."""

    key: str
    renewed: int
    """How often it was deleted and made anew."""
    lost: int
    """Entries that were trimmed, or deleted with the key, before they were read."""
    gone: bool
    """It was deleted."""
    read_up_to: str

    def __str__(self) -> str:
        told = []
        if self.renewed:
            told.append("was deleted and made anew, and is read from its beginning")
        elif self.gone:
            told.append("was deleted")
        if self.lost:
            many = "1 entry was" if self.lost == 1 else f"{self.lost:,} entries were"
            told.append(f"{many} gone before they were read")
        unknown = not self.lost and (self.renewed or self.gone)
        rest = "; whether it got entries after that, before it was deleted, is not known" if unknown else ""
        return f"the stream {self.key!r}, read up to {self.read_up_to}: {'; '.join(told)}{rest}"


def fates(start: str | None, end: str | None) -> list[Fate]:
    """Return the streams that something happened to between two offsets of a query."""
    before = from_json(json.loads(start or "null") or {})
    found = []
    for place, mark in from_json(json.loads(end or "null") or {}).items():
        old = before.get(place)
        if old is None:
            continue
        fate = Fate(
            shown_key(place[1]),
            renewed=mark.life - old.life,
            lost=mark.lost - old.lost,
            gone=mark.gone and not old.gone,
            read_up_to=bytes(old.id).decode(),
        )
        if fate.renewed or fate.lost or fate.gone:
            found.append(fate)
    return found
