"""The form of a dead letter."""

from headrace.engine.rules import dead_letters
from headrace.engine.rules.dead_letters import Origin, split_letter

ORIGIN = Origin(b"orders", b"5-1", b"billing", b"w1", 3, 1000, 3000, dead_letters.TOO_MANY_DELIVERIES)


def test_a_letter_is_split_into_what_it_was_and_where_it_came_from() -> None:
    own = [b"name", b"value", b"name", b"again"]
    assert split_letter([*own, *ORIGIN.fields()]) == (own, ORIGIN)


def test_a_letter_that_died_twice_is_split_once_at_a_time() -> None:
    first = [b"a", b"1", *ORIGIN.fields()]
    assert split_letter([*first, *ORIGIN.fields()]) == (first, ORIGIN)


def test_other_entries_are_no_letters() -> None:
    assert split_letter([b"a", b"1"]) is None
    assert split_letter(ORIGIN.fields()[:-2]) is None
    assert split_letter([b"a", b"1", *ORIGIN.fields(), b"b", b"2"]) is None
    broken = ORIGIN.fields()
    broken[9] = b"many"
    assert split_letter(broken) is None
