"""`headrace serve --policies FILE`: rules in a file, taken over at the start, when it changes, and at SIGHUP."""

import os
import signal
from pathlib import Path

import pytest
import redis

from headrace.server.policy_file import BadPolicies, read_policies
from support.patience import await_that
from support.server_process import ServerProcess, run_to_its_end

BOTH = """
[[policy]]
key = "orders"
maxlen = 3
refs = "acked"

[[policy]]
match = "jobs:*"
db = 1
group = "workers"
visibility = "30s"
retry = ["1s", "5m"]
max-deliveries = 5
dead-letter = "lost"
consumer-ttl = "1d"
create-from = "0"
"""
ONE = """
[[policy]]
key = "orders"
maxlen = 4
drop = "acked"
"""


def listed(client: redis.Redis) -> list[dict[bytes, object]]:
    rows = client.execute_command("HEADRACE", "POLICY", "LIST")
    return [row if isinstance(row, dict) else dict(zip(row[::2], row[1::2], strict=True)) for row in rows]


def test_rules_follow_their_file(tmp_path: Path) -> None:
    file = tmp_path / "rules.toml"
    file.write_text(BOTH)
    with ServerProcess(tmp_path, "--policies", "rules.toml") as server:
        client = redis.Redis(port=server.port)
        other = redis.Redis(port=server.port, db=1)
        await_that(lambda: len(listed(client)) == len(listed(other)) == 1)
        assert listed(client)[0][b"maxlen"] == 3
        assert listed(other)[0][b"retry-max"] == 300_000
        client.execute_command("HEADRACE", "POLICY", "SET", "own", "MAXLEN", 7)
        file.write_text(ONE)
        await_that(lambda: listed(client)[0].get(b"maxlen") == 4)
        assert listed(other) == []
        assert [row[b"key"] for row in listed(client)] == [b"orders", b"own"]
        file.write_text("[[policy]]\nkey = 'orders'\nmaxage = '7x'\n")
        await_that(lambda: "'7x' is no duration" in server.log)
        assert listed(client)[0][b"maxlen"] == 4
        file.write_text(ONE)
        client.execute_command("HEADRACE", "POLICY", "DEL", "orders")
        os.kill(server.process.pid, signal.SIGHUP)
        await_that(lambda: [row[b"key"] for row in listed(client)] == [b"orders", b"own"])


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("maxlen = 3", "something else than [[policy]]"),
        ("[[policy]]\nmaxlen = 3", "either a key, or match"),
        ("[[policy]]\nkey = 'a'\nmaxlen = true", "True is neither a text nor a number"),
        ("[[policy]]\nkey = 'a'\nmaxlen = 3\ndb = 99", "there is no database 99"),
        ("[[policy]]\nkey = 'a'\nlimit = 3", "'limit' is no option of a rule"),
        ("[[policy]]\nkey = 'a'\nvisibility = 3", "'VISIBILITY' is no rule of a stream"),
        ("[[policy]]\nkey = 'a'\nmaxlen = 3\n[[policy]]\nkey = 'a'\nmaxlen = 4", "for the same target"),
        ("[[policy]", "is no TOML"),
    ],
)
def test_a_file_with_a_mistake_is_refused_in_one_sentence(tmp_path: Path, text: str, said: str) -> None:
    file = tmp_path / "rules.toml"
    file.write_text(text)
    with pytest.raises(BadPolicies) as refused:
        read_policies(str(file), 16)
    assert said in str(refused.value)


def test_a_server_does_not_start_with_a_file_that_it_cannot_read(tmp_path: Path) -> None:
    done = run_to_its_end("serve", "--port", "0", "--unixsocket", "s", "--policies", "none.toml", directory=tmp_path)
    assert done.returncode == 1
    assert b"The file of policies none.toml cannot be read: No such file or directory." in done.stderr
