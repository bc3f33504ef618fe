"""Failed logins slow the place they come from, and no other; the table of places is bounded."""

import pytest

from headrace.engine.acl.logins import FORGOTTEN_MS, FREE_FAILURES, LONGEST_WAIT_MS, MOST_PLACES, Logins, place_of


def fail(logins: Logins, address: bytes, times: int, now_ms: int = 0) -> None:
    for _ in range(times):
        logins.note_failure(address, now_ms)


@pytest.mark.parametrize(
    ("address", "place"),
    [
        (b"10.0.0.1:5000", "10.0.0.1"),
        (b"[::ffff:10.0.0.1]:5000", "10.0.0.1"),
        (b"[2001:db8:1:2:3:4:5:6]:5000", "2001:db8:1:2::/64"),
        (b"[2001:db8:1:2::9]:1", "2001:db8:1:2::/64"),
        (b"[fe80::1%eth0]:1", "fe80::/64"),
        (b"/run/headrace.sock:0", "unix"),
        (b"", "unix"),
    ],
)
def test_a_place_is_an_address_a_network_or_the_unix_socket(address: bytes, place: str) -> None:
    assert place_of(address) == place


def test_the_first_failures_are_free_and_then_each_login_waits_behind_the_one_before() -> None:
    logins = Logins()
    fail(logins, b"10.0.0.1:1", FREE_FAILURES - 1)
    assert logins.delay_ms(b"10.0.0.1:1", 0) == 0
    fail(logins, b"10.0.0.1:2", 1)
    assert logins.delay_ms(b"10.0.0.1:3", 0) == 100
    assert logins.delay_ms(b"10.0.0.1:4", 0) == 200
    assert logins.delay_ms(b"10.0.0.1:5", 150) == 150
    fail(logins, b"10.0.0.1:2", 5)
    assert logins.delay_ms(b"10.0.0.1:3", 1000) == 400
    assert logins.delay_ms(b"10.0.0.2:1", 1000) == 0


def test_who_would_wait_too_long_is_refused_and_takes_no_turn() -> None:
    logins = Logins()
    fail(logins, b"10.0.0.1:1", FREE_FAILURES + 10)
    turns = [logins.delay_ms(b"10.0.0.1:1", 0) for _ in range(1000)]
    taken = [turn for turn in turns if turn is not None]
    assert max(taken) <= LONGEST_WAIT_MS
    assert len(taken) == LONGEST_WAIT_MS // 400
    assert logins.delay_ms(b"10.0.0.1:1", LONGEST_WAIT_MS) == 400


def test_failures_are_forgotten_after_a_while() -> None:
    logins = Logins()
    fail(logins, b"10.0.0.1:1", FREE_FAILURES)
    assert logins.delay_ms(b"10.0.0.1:1", FORGOTTEN_MS) == 100
    assert logins.delay_ms(b"10.0.0.1:1", FORGOTTEN_MS + 1) == 0
    assert len(logins) == 0


def test_the_table_is_bounded_and_forgets_who_failed_the_longest_ago() -> None:
    logins = Logins()
    fail(logins, b"10.0.0.1:1", FREE_FAILURES)
    for i in range(MOST_PLACES - 1):
        logins.note_failure(b"[2001:db8:0:%x::1]:1" % i, 1)
    fail(logins, b"10.0.0.1:1", 1, 2)
    for i in range(MOST_PLACES):
        if i % 1000 == 0:
            fail(logins, b"10.0.0.1:1", 1, 2)
        logins.note_failure(b"[2001:db8:1:%x::1]:1" % i, 3)
    assert len(logins) == MOST_PLACES
    assert logins.delay_ms(b"10.0.0.1:1", 3) == 400
