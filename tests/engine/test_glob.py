"""Glob patterns match what Redis's own matcher matches, which is written out below byte for byte."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.engine.glob import matcher

STAR, ANY, OPEN, CLOSE, NOT, ESCAPE, TO = b"*?[]^\\-"
TRICKY = st.lists(st.sampled_from(b"aab*?[]^-\\c\n"), max_size=8).map(bytes)


def redis_matches(pattern: bytes, text: bytes) -> bool:
    """Match as `stringmatchlen` does, one byte of the pattern after another."""
    at = place = 0

    def byte(index: int) -> int:
        return pattern[index] if index < len(pattern) else 0

    while at < len(pattern) and place < len(text):
        if pattern[at] == STAR:
            while byte(at + 1) == STAR:
                at += 1
            rest = pattern[at + 1 :]
            return not rest or any(redis_matches(rest, text[begin:]) for begin in range(place, len(text)))
        if pattern[at] == OPEN:
            at += 1
            negated = byte(at) == NOT
            at += negated
            found = False
            while byte(at) != CLOSE:
                if at >= len(pattern):
                    at -= 1
                    break
                if pattern[at] == ESCAPE and at + 1 < len(pattern):
                    at += 1
                    found |= pattern[at] == text[place]
                elif at + 2 < len(pattern) and pattern[at + 1] == TO:
                    low, high = sorted((pattern[at], pattern[at + 2]))
                    found |= low <= text[place] <= high
                    at += 2
                else:
                    found |= pattern[at] == text[place]
                at += 1
            if found == negated:
                return False
        elif pattern[at] != ANY:
            if pattern[at] == ESCAPE and at + 1 < len(pattern):
                at += 1
            if pattern[at] != text[place]:
                return False
        at += 1
        place += 1
        if place >= len(text):
            while byte(at) == STAR:
                at += 1
            break
    return at >= len(pattern) and place >= len(text)


@given(TRICKY, TRICKY)
def test_a_pattern_matches_what_redis_matches(pattern: bytes, text: bytes) -> None:
    # KEYS and SCAN ask nobody about `*`.
    assert matcher(pattern)(text) == (pattern == b"*" or redis_matches(pattern, text))


@pytest.mark.parametrize(
    ("pattern", "text"),
    [(b"MAX*", b"maxmemory"), (b"[A-C]x", b"BX"), (b"save", b"SAVE")],
)
def test_case_can_be_ignored(pattern: bytes, text: bytes) -> None:
    assert matcher(pattern, ignore_case=True)(text)
    assert not matcher(pattern)(text)


def test_a_negated_class_that_ignores_case_excludes_both_cases() -> None:
    assert not matcher(b"[^a]", ignore_case=True)(b"A")


def test_many_stars_take_no_exponential_time() -> None:
    began = time.process_time()
    assert not matcher(b"a*" * 40 + b"b")(b"a" * 5_000)
    assert time.process_time() - began < 1
