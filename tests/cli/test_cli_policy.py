"""`policy`: rules are set, shown, listed and taken back; what a server refuses is one sentence."""

import redis

from support.cli.process import output, refusal, told


def test_rules_of_a_stream_are_set_shown_and_taken_back(headrace_server: redis.Redis) -> None:
    server = headrace_server
    said = output(
        *("policy", "set", "orders", "--maxlen", "2", "--maxage", "7d", "--maxbytes", "512mb"),
        *("--refs", "acked", "--drop-acked"),
        server=server,
    )
    assert said == "The rule of orders is in force.\n"
    for _ in range(3):
        server.xadd("orders", {"a": 1})
    shown = output("policy", "get", "orders", server=server).splitlines()
    rows = {name: value.strip() for name, value in (line.split(None, 1) for line in shown)}
    assert rows["maxlen"] == "2"
    assert rows["maxage"] == "7d"
    assert rows["maxbytes"] == "512 MB"
    assert rows["trimmed"] == "1"
    assert told("policy", "get", "orders", server=server)["refs"] == "acked"
    assert output("policy", "del", "orders", server=server) == "The rule of orders is gone.\n"
    assert "There is no rule for orders" in refusal("policy", "get", "orders", server=server)
    assert "There is no rule for orders" in refusal("policy", "del", "orders", server=server)
    assert output("policy", "list", server=server) == "There are no rules.\n"


def test_rules_of_groups_and_patterns_are_listed(headrace_server: redis.Redis) -> None:
    server = headrace_server
    output(
        *("policy", "set", "--match", "jobs:*", "--group", "workers", "--visibility", "30s", "--retry", "1s", "5m"),
        *("--max-deliveries", "5", "--dead-letter", "lost", "--consumer-ttl", "1d", "--create-from", "0"),
        server=server,
    )
    (rule,) = told("policy", "list", server=server)
    assert rule.pop("since") > 0
    assert rule == {
        "match": "jobs:*",
        "group": "workers",
        "visibility": 30_000,
        "retry-min": 1000,
        "retry-max": 300_000,
        "maxdeliveries": 5,
        "consumerttl": 86_400_000,
        "deadletter": "lost",
        "create": "0",
    }
    listed = output("policy", "list", "jobs*", server=server)
    assert "match jobs:*" in listed
    assert "workers" in listed
    assert told("policy", "get", "jobs:1", "--group", "workers", server=server)["match"] == "jobs:*"


def test_what_cannot_be_kept_is_one_sentence(headrace_server: redis.Redis) -> None:
    server = headrace_server
    assert "'7x' is no duration" in refusal("policy", "set", "orders", "--maxage", "7x", server=server)
    assert "a rule must say something" in refusal("policy", "set", "orders", server=server)
    assert "either a stream, or --match" in refusal("policy", "set", "--maxlen", "5", server=server)
    assert "either a stream, or --match" in refusal("policy", "get", "a", "--match", "b", server=server)
