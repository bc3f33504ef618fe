"""Pages of a dictionary's keys: whatever happens between them, no key is left out that was there all the time."""

from itertools import chain

from hypothesis import given
from hypothesis import strategies as st

from headrace.core.dict_pages import page_of_keys

CHANGES = st.lists(
    st.tuples(st.sampled_from(["add", "add", "remove", "remove", "restart", "many"]), st.integers(0, 1000)), max_size=12
)


@given(st.integers(0, 120), st.integers(0, 2**32), st.lists(CHANGES, max_size=40), st.integers(1, 12))
def test_every_key_that_stays_is_given(size: int, removed: int, rounds: list[list[tuple[str, int]]], most: int) -> None:
    held = dict.fromkeys(range(size))
    for place in range(size):
        if removed >> (place % 32) & 1:
            del held[place]
    staying, given_keys, cursor, newest = set(held), set(), 0, size
    for pages in range(10_000):
        following, keys = page_of_keys(held, cursor, most)
        assert following < cursor or cursor == 0
        assert len(keys) <= most
        assert set(keys) <= held.keys()
        given_keys.update(keys)
        if following == 0:
            break
        cursor = following
        for change, number in rounds[pages] if pages < len(rounds) else ():
            if change == "add":
                newest += 1
                held[newest] = None
            elif change == "many":
                held.update(dict.fromkeys(range(newest + 1, newest + number)))
                newest += number
            elif change == "restart":
                held = dict(list(held.items()))
            elif held:
                gone = list(held)[number % len(held)]
                del held[gone]
                staying.discard(gone)
    assert staying <= given_keys


def test_a_walk_over_what_does_not_change_gives_each_key_once() -> None:
    held = dict.fromkeys(range(1000))
    pages, cursor = [], 0
    while True:
        cursor, keys = page_of_keys(held, cursor, 10)
        pages.append(keys)
        if cursor == 0:
            break
    assert [len(keys) for keys in pages] == [10] * 100
    assert sorted(chain.from_iterable(pages)) == list(range(1000))


def test_a_cursor_beyond_the_end_is_the_end() -> None:
    assert page_of_keys({1: None, 2: None}, 2**64 - 1, 10) == (0, [1, 2])
    assert page_of_keys({}, 5, 10) == (0, [])


def test_empty_places_are_passed_over() -> None:
    held = dict.fromkeys(range(100_000))
    for key in range(10, 99_990):
        del held[key]
    cursor, upper = page_of_keys(held, 0, 10)
    assert cursor == 10
    assert page_of_keys(held, cursor, 10) == (0, list(range(10)))
    assert upper == list(range(99_990, 100_000))
