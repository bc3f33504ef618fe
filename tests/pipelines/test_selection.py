"""Exact keys as the source's option takes them: whatever the bytes, the key is among those that are read."""

from hypothesis import given
from hypothesis import strategies as st

from headrace.engine.glob import matcher
from headrace.pipelines.selection import keys_option, matching_keys
from headrace.spark.options import read_options

KEYS = st.one_of(st.binary(max_size=12), st.text(alphabet="ab,\\*?[]^- \x00é", max_size=10).map(str.encode))


@given(st.lists(KEYS, min_size=1, max_size=4))
def test_an_option_made_of_keys_reads_each_of_them(keys: list[bytes]) -> None:
    patterns = read_options({"keys": keys_option(keys)}, streaming=False).keys
    for key in keys:
        assert any(matcher(pattern)(key) for pattern in patterns), (key, patterns)


@given(st.text(alphabet="ab,\\*?[]^-é", min_size=1, max_size=10), KEYS)
def test_a_key_that_is_text_is_read_alone(text: str, other: bytes) -> None:
    key = text.encode()
    (pattern,) = read_options({"keys": keys_option([key])}, streaming=False).keys
    assert matcher(pattern)(other) == (other == key)


def test_names_and_patterns_choose_among_keys() -> None:
    keys = [b"orders", b"sensor:1", b"sensor:2", b"\xff"]
    assert matching_keys(keys, "sensor:*, orders") == [b"orders", b"sensor:1", b"sensor:2"]
    assert matching_keys(keys, None) == sorted(keys)
