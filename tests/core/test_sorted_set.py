"""A sorted set does what a plain dictionary, sorted each time, does."""

from hypothesis import given
from hypothesis import strategies as st

from headrace.core.sorted_set import SortedSet

MEMBERS = st.sampled_from([b"", b"a", b"b", b"ab", b"\x00", b"\xff", b"c", b"d"])
SCORES = st.sampled_from([-float("inf"), -1.0, -0.0, 0.0, 0.1, 1.0, 1.0, 2.0, float("inf")])
PAIRS = st.lists(st.tuples(MEMBERS, SCORES))
CHANGES = st.lists(st.tuples(st.sampled_from(["add", "add", "add", "remove", "cut"]), MEMBERS, SCORES))


def in_order(model: dict[bytes, float]) -> list[tuple[bytes, float]]:
    return sorted(model.items(), key=lambda pair: (pair[1], pair[0]))


@given(PAIRS, CHANGES)
def test_it_holds_what_a_dictionary_holds(
    pairs: list[tuple[bytes, float]], changes: list[tuple[str, bytes, float]]
) -> None:
    held, model = SortedSet.from_pairs(pairs), dict(pairs)
    for change, member, score in changes:
        before = held.copy()
        unchanged = in_order(model)
        if change == "add":
            assert held.add(member, score) == (member not in model)
            model[member] = score
        elif change == "remove":
            assert held.remove(member) == (model.pop(member, None) is not None)
        else:
            held.remove_slice(1, 3)
            for removed, _ in in_order(model)[1:3]:
                del model[removed]
        assert list(before.items()) == unchanged
        expected = in_order(model)
        assert list(held.items()) == held.slice(0, len(held)) == expected
        assert list(held) == [each for each, _ in expected]
        assert len(held) == len(model)
        for rank, (each, its_score) in enumerate(expected):
            assert (held.rank(each), held.score(each)) == (rank, its_score)
            assert each in held
        for absent in {member} - model.keys():
            assert held.rank(absent) is held.score(absent) is None
            assert absent not in held


@given(PAIRS, SCORES, SCORES, st.booleans(), st.booleans())
def test_a_range_of_scores_is_what_a_comparison_finds(
    pairs: list[tuple[bytes, float]], low: float, high: float, above: bool, below: bool
) -> None:
    held = SortedSet.from_pairs(pairs)
    found = held.slice(*held.by_score(low, high, above=above, below=below))
    assert found == [
        (member, score)
        for member, score in in_order(dict(pairs))
        if (low < score if above else low <= score) and (score < high if below else score <= high)
    ]


@given(st.sets(MEMBERS), st.none() | MEMBERS, st.none() | MEMBERS, st.booleans(), st.booleans())
def test_a_range_of_members_is_what_a_comparison_finds(
    members: set[bytes], low: bytes | None, high: bytes | None, above: bool, below: bool
) -> None:
    held = SortedSet.from_pairs((member, 0.0) for member in members)
    found = held.slice(*held.by_member(low, high, above=above, below=below))
    assert [member for member, _ in found] == [
        member
        for member in sorted(members)
        if (low is None or (low < member if above else low <= member))
        and (high is None or (member < high if below else member <= high))
    ]
