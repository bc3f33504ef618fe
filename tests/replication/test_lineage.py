"""What a server that wants to follow another concludes from its lineage."""

import pytest

from headrace.engine.effect_log import EffectLog
from headrace.replication.lineage import Lineage

OLD, SHARED, OWN = (letter * 40 for letter in (b"a", b"b", b"c"))


@pytest.mark.parametrize(
    ("masters", "histories", "lags"),
    [
        (("m",), ((SHARED, 90), (OLD, 50)), True),
        (("m",), ((SHARED, 100), (OLD, 50)), False),
        (("m",), ((b"d" * 40, 95), (SHARED, 90)), False),  # it was led elsewhere, and will never have it
        (("m",), ((OLD, 40),), True),
        ((), ((SHARED, 90), (OLD, 50)), False),  # a master decides what the data is
        ((), (), False),
    ],
)
def test_a_replica_lags_where_it_has_less_of_the_history_it_is_in(
    masters: tuple[str, ...], histories: tuple[tuple[bytes, int], ...], lags: bool
) -> None:
    effects = EffectLog()
    effects.begin_at(120, OWN, [(SHARED, 100), (OLD, 50)])
    assert Lineage("r", masters, histories).lags_behind(effects) is lags
