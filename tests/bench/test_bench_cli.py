"""`headrace bench`: any server, JSON, a chart, and one sentence for a mistake."""

import json
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest
import redis

from headrace.measuring.errors import NoSuchTarget
from headrace.measuring.targets import Target


def bench(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "headrace.cli.main", "bench", *arguments],
        capture_output=True,
        check=False,
        text=True,
        timeout=240,
    )


TINY = ("--seconds", "0.01", "--rounds", "2", "--messages", "1000", "--clients", "3")


def url_of(client: redis.Redis) -> str:
    return f"redis://127.0.0.1:{client.connection_pool.connection_kwargs['port']}/0"


def test_a_server_at_a_url_is_measured_and_left_as_it_was(redis_server: redis.Redis, tmp_path: Path) -> None:
    redis_server.set("mine", "1")
    chart = tmp_path / "chart.svg"
    url = url_of(redis_server)
    done = bench("--url", url, "xadd", "xrange-100", "consume-4", *TINY, "--json", "--chart", str(chart))
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    name = url.removeprefix("redis://").removesuffix("/0")
    assert told["servers"] == {name: f"redis {redis_server.info('server')['redis_version']}"}
    rounds = {finding["workload"]: finding["rounds"][name] for finding in told["findings"]}
    assert "XRANGE COUNT 100" in rounds
    assert all(len(each) == 2 and min(each) > 0 for each in rounds.values())
    assert redis_server.keys() == [b"mine"]
    assert ET.fromstring(chart.read_text()).tag.endswith("svg")  # noqa: S314 — ours


def test_a_comparison_starts_headrace_beside_the_server(redis_server: redis.Redis) -> None:
    done = bench("--compare", "--url", url_of(redis_server), "xlen", *TINY)
    assert done.returncode == 0, done.stderr
    assert "XLEN, pipeline 16" in done.stdout
    assert "×" in done.stdout
    assert "Medians of 2 rounds" in done.stdout


def test_a_server_with_a_password_is_measured(redis_server: redis.Redis) -> None:
    redis_server.config_set("requirepass", "secret")
    try:
        port = redis_server.connection_pool.connection_kwargs["port"]
        done = bench("--url", f"redis://:secret@127.0.0.1:{port}/3", "xadd", *TINY, "--json")
        refused = bench("--url", f"redis://127.0.0.1:{port}/3", "xadd", *TINY)
    finally:
        redis_server.config_set("requirepass", "")
    assert done.returncode == 0, done.stderr
    assert "secret" not in done.stdout
    assert refused.returncode == 1
    assert refused.stderr.count("\n") == 1


def test_mistakes_get_one_sentence() -> None:
    for arguments, told in (
        (["--url", "redis://127.0.0.1:1"], "Nothing that can be measured answers at 127.0.0.1:1:"),
        (["get"], "There is no workload 'get'"),
    ):
        done = bench(*arguments)
        assert done.returncode == 1
        assert told in done.stderr
        assert done.stderr.startswith("headrace: ")
        assert done.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("url", "told"), [("rediss://:secret@127.0.0.1:1", "asks for TLS"), ("telnet://x", "is no URL of a server")]
)
def test_a_url_that_cannot_be_measured_is_told(url: str, told: str) -> None:
    with pytest.raises(NoSuchTarget, match=told) as refusal:
        Target.at_url(url)
    assert "secret" not in str(refusal.value)
