"""`python -m bench.structures` measures what it says, at a scale of milliseconds."""

from bench.structures import blocked, claims, references, trimming
from headrace.measuring.targets import Target


def test_every_row_is_measured(targets: list[Target]) -> None:
    for target in targets:
        assert min(claims(target, 400)) > 0
        assert target.client.xinfo_groups(target.key("claimed"))[0]["pending"] == 400
        assert max(trimming(target, 1000)) > 0
        assert min(blocked(target, 5, rounds=1, seconds=0.01)) > 0
    found = dict(references(targets[0], 20))
    assert len(found) == 6
    assert min(found.values()) > 0
    left = targets[0].client.xinfo_groups(targets[0].key("referred"))
    assert {group["pending"] for group in left} == {50}
