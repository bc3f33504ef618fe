"""A sorted set: members with scores, in the order of (score, member)."""

from collections.abc import Iterable, Iterator


class SortedSet:
    """Members, each with a score."""

    def __init__(self) -> None:
        self._scores: dict[bytes, float] = {}

    @staticmethod
    def from_pairs(pairs: Iterable[tuple[bytes, float]]) -> "SortedSet":
        """Make a sorted set of (member, score)."""
        made = SortedSet()
        made._scores = dict(pairs)
        return made

    def __len__(self) -> int:
        return len(self._scores)

    def score(self, member: bytes) -> float | None:
        """Return the score of a member; None where it is none."""
        return self._scores.get(member)

    def add(self, member: bytes, score: float) -> bool:
        """Set the score of a member; True where it is new."""
        new = member not in self._scores
        self._scores[member] = score
        return new

    def remove(self, member: bytes) -> bool:
        """Take a member out; False where it was none."""
        return self._scores.pop(member, None) is not None

    def items(self) -> Iterator[tuple[bytes, float]]:
        """Iterate over (member, score)."""
        return iter(sorted(self._scores.items(), key=lambda item: (item[1], item[0])))
