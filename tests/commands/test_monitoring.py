"""MONITOR shows what a live redis-server shows."""

import re

import redis

from support.raw_client import RawClient

SESSION = [
    ("SET", "key", 'a "quoted" \\ \n\r\t\a\b\x00\xff text'),
    ("get", "key"),
    ("NOSUCH", "x"),
    ("SET", "key"),
    ("MULTI",),
    ("INCR", "n"),
    ("GET", "n"),
    ("EXEC",),
    ("EVAL", "redis.call('SET', KEYS[1], ARGV[1]) return redis.call('GET', KEYS[1])", "1", "k", "v"),
    ("CONFIG", "GET", "maxmemory"),
    ("CLIENT", "LIST"),
    ("AUTH", "user", "secret"),
    ("AUTH", "secret"),
    ("HELLO", "2", "AUTH", "default", "secret", "SETNAME", "x"),
    ("SELECT", "3"),
    ("PING",),
    ("SELECT", "0"),
    ("PUBLISH", "channel", "text"),
]


def seen_by_monitor(server: redis.Redis) -> list[bytes]:
    with RawClient.of(server) as monitor, RawClient.of(server) as client:
        assert monitor.run("MONITOR") == b"+OK\r\n"
        for words in SESSION:
            client.run(*words)
        client.run("ECHO", "the end")
        lines: list[bytes] = []
        while not lines or b"the end" not in lines[-1]:
            lines.append(monitor.reply())
        assert monitor.run("RESET") == b"+RESET\r\n"
        client.run("ECHO", "not seen")
        assert monitor.run("PING") == b"+PONG\r\n"
    return [
        re.sub(
            rb"^\+\d+\.\d{6} \[(\d) 127.0.0.1:\d+\]", rb"\1", re.sub(rb"^\+\d+\.\d{6} \[(\d) lua\]", rb"\1 lua", line)
        )
        for line in lines
    ]


def test_lines_are_those_of_redis(headrace_server: redis.Redis, redis_server: redis.Redis) -> None:
    assert seen_by_monitor(headrace_server) == seen_by_monitor(redis_server)


def test_a_monitor_is_marked_and_may_not_be_inside_a_transaction(
    headrace_server: redis.Redis, redis_server: redis.Redis
) -> None:
    answers = []
    for server in (headrace_server, redis_server):
        with RawClient.of(server) as client:
            replies = [client.run(*words) for words in (("MULTI",), ("MONITOR",), ("EXEC",))]
            replies.append(client.run("MONITOR"))
            flags = re.search(rb" flags=(\w+) ", client.run("CLIENT", "INFO"))
            assert flags is not None
            replies.append(flags[1])
        answers.append(replies)
    assert answers[0] == answers[1]
