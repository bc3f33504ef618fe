"""`group`: lists, moves and removes what it says, and asks before it does what cannot be undone."""

import re

import redis

from support.cli.process import headrace, output, refusal, told
from support.cli.terminal import PseudoTerminal

KEPT = "Say --yes, because there is nobody to ask here."


def fill(server: redis.Redis) -> None:
    for number in range(1, 21):
        server.xadd("devmsg", {"n": number}, id=f"{number}-0")
    server.xgroup_create("devmsg", "workers", "0")
    server.xreadgroup("workers", "ann", {"devmsg": ">"}, count=6)


def group_of(server: redis.Redis, name: str = "workers") -> dict[str, object]:
    return next(dict(group) for group in server.xinfo_groups("devmsg") if group["name"] == name.encode())


def unread(server: redis.Redis) -> list[bytes]:
    """What the group would get next, all of it."""
    reply = server.xreadgroup("workers", "probe", {"devmsg": ">"}, noack=True)
    return [id for id, _ in reply[0][1]] if reply else []


def test_groups_are_listed(server: redis.Redis) -> None:
    fill(server)
    server.xadd("other", {"n": 1})
    (group,) = told("group", "list", server=server)
    assert (group["stream"], group["group"], group["lag"], group["pending"]) == ("devmsg", "workers", 14, 6)
    assert [(each["name"], each["pending"]) for each in group["consumers"]] == [("ann", 6)]
    assert re.search(
        r"^devmsg +workers +6-0 +14 +6 +\d+m?s +ann \(idle ",
        output("group", "list", "devmsg", server=server),
        re.MULTILINE,
    )
    assert output("group", "list", "other", server=server) == "There are no groups.\n"


def test_a_group_is_made_at_a_place(server: redis.Redis) -> None:
    fill(server)
    output("group", "create", "devmsg", "new", server=server)
    assert group_of(server, "new")["last-delivered-id"] == b"20-0"
    made = told("group", "create", "devmsg", "old", "--at", "0", server=server)
    assert made == {"stream": "devmsg", "group": "old", "last_delivered_id": "0-0", "lag": 20, "pending": 0}
    assert group_of(server, "old")["last-delivered-id"] == b"0-0"
    output("group", "create", "devmsg", "since", "--at", "1970-01-01T00:00:00.005+00:00", server=server)
    assert group_of(server, "since")["last-delivered-id"] == b"4-%d" % (2**64 - 1)
    assert "already has a group new" in refusal("group", "create", "devmsg", "new", server=server)
    assert "There is no stream made" in refusal("group", "create", "made", "g", server=server)
    output("group", "create", "made", "g", "--make-stream", server=server)
    assert server.xinfo_groups("made")[0]["name"] == b"g"


def test_a_group_is_reset_to_an_id_a_time_or_a_lag(server: redis.Redis) -> None:
    fill(server)
    output("group", "reset", "devmsg", "workers", "--to", "15-0", "--yes", server=server)
    assert unread(server) == [b"%d-0" % number for number in range(16, 21)]
    output("group", "reset", "devmsg", "workers", "--to", "1970-01-01T00:00:00.018+00:00", "--yes", server=server)
    assert unread(server) == [b"18-0", b"19-0", b"20-0"]
    said = output("group", "reset", "devmsg", "workers", "--lag", "4", "--yes", server=server)
    assert said.endswith("with 4 entries to read.\n")
    assert group_of(server)["lag"] == 4
    assert unread(server) == [b"17-0", b"18-0", b"19-0", b"20-0"]
    output("group", "reset", "devmsg", "workers", "--lag", "100", "-y", server=server)
    assert len(unread(server)) == 20
    output("group", "reset", "devmsg", "workers", "--lag", "0", "-y", server=server)
    assert unread(server) == []
    assert group_of(server)["pending"] == 6


def test_a_lag_reaches_over_many_pages_and_gaps(server: redis.Redis) -> None:
    with server.pipeline(transaction=False) as pipeline:
        for number in range(1, 3001):
            pipeline.xadd("devmsg", {"n": number}, id=f"{number}-0")
        pipeline.xdel("devmsg", *(f"{number}-0" for number in range(1000, 1100)))
        pipeline.xgroup_create("devmsg", "workers", "0")
        pipeline.execute()
    output("group", "reset", "devmsg", "workers", "--lag", "2500", "--yes", server=server)
    assert len(unread(server)) == 2500


def test_a_group_is_dropped_when_that_is_confirmed(server: redis.Redis) -> None:
    fill(server)
    assert refusal("group", "drop", "devmsg", "workers", server=server).endswith(KEPT)
    assert refusal("group", "reset", "devmsg", "workers", "--to", "0", server=server).endswith(KEPT)
    assert group_of(server)["last-delivered-id"] == b"6-0"
    with PseudoTerminal("group", "drop", "devmsg", "workers", server=server) as terminal:
        terminal.await_text("with 1 consumer and 6 entries pending?", "[y/N]")
        terminal.press("n\n")
        assert terminal.await_end() == 1
        assert "Nothing was changed." in terminal.text
    with PseudoTerminal("group", "drop", "devmsg", "workers", server=server) as terminal:
        terminal.await_text("[y/N]")
        terminal.press("y\n")
        assert terminal.await_end() == 0
    assert server.xinfo_groups("devmsg") == []


def test_stale_entries_are_claimed(server: redis.Redis) -> None:
    fill(server)
    assert told("group", "claim", "devmsg", "workers", "--to", "bob", "--idle", "1h", server=server)["claimed"] == []
    done = told("group", "claim", "devmsg", "workers", "--to", "bob", "--idle", "0", "-n", "2", server=server)
    assert done["claimed"] == ["1-0", "2-0"]
    server.xdel("devmsg", "3-0")
    said = output("group", "claim", "devmsg", "workers", "--to", "cid", "--idle", "0ms", server=server)
    assert said == "5 entries are cid's now; 1 were deleted from the stream, and are pending no more.\n"
    owners = {consumer["name"]: consumer["pending"] for consumer in server.xinfo_consumers("devmsg", "workers")}
    assert owners == {b"ann": 0, b"bob": 0, b"cid": 5}


def test_pending_entries_are_listed(server: redis.Redis) -> None:
    fill(server)
    server.xclaim("devmsg", "workers", "bob", 0, ["2-0"])
    listed = told("group", "pending", "devmsg", "workers", server=server)
    assert [(each["id"], each["consumer"], each["deliveries"]) for each in listed[:3]] == [
        ("1-0", "ann", 1),
        ("2-0", "bob", 2),
        ("3-0", "ann", 1),
    ]
    assert [
        each["id"] for each in told("group", "pending", "devmsg", "workers", "--consumer", "bob", server=server)
    ] == ["2-0"]
    short = output("group", "pending", "devmsg", "workers", "-n", "2", server=server)
    assert "and more" in short
    assert len(short.splitlines()) == 4
    assert output("group", "pending", "devmsg", "workers", "--idle", "1d", server=server) == "Nothing is pending.\n"


def test_groups_that_are_not_there_are_told(server: redis.Redis) -> None:
    fill(server)
    for command in ("pending", "drop"):
        sentence = refusal("group", command, "devmsg", "none", server=server)
        assert sentence == "There is no group none in the stream devmsg; it has workers."
    server.xadd("bare", {"n": 1})
    assert refusal("group", "pending", "bare", "g", server=server).endswith("`headrace group create bare g`.")
    for arguments in ([], ["--to", "0", "--lag", "1"]):
        done = headrace("group", "reset", "devmsg", "workers", *arguments, server=server)
        assert done.returncode == 2
