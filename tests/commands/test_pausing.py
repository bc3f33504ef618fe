"""CLIENT PAUSE WRITE holds back what a live redis-server holds back, and WATCH minds only what changes after it."""

import time

import pytest
import redis

from support.in_process import InProcess
from support.patience import PATIENCE_S
from support.raw_client import RawClient

WRITES = "#!lua\nreturn redis.call('SET', KEYS[1], 1)"
READS = "#!lua flags=no-writes\nreturn redis.call('GET', KEYS[1])"

# Requests, and whether a pause of writes holds back the last of them.
HELD: dict[str, list[tuple[str, ...]]] = {
    "a write": [("SET", "k", "v")],
    "a message": [("PUBLISH", "channel", "text")],
    "a message of the shard": [("SPUBLISH", "channel", "text")],
    "a script": [("EVAL", "return 1", "0")],
    "a script that may write": [("EVAL", WRITES, "1", "k")],
    "an unknown script": [("EVALSHA", "0" * 40, "0")],
    "a transaction that writes": [("MULTI",), ("SET", "k", "v"), ("EXEC",)],
    "a transaction with a script": [("MULTI",), ("EVAL", "return 1", "0"), ("EXEC",)],
    "a write that is queued": [("MULTI",), ("SET", "k", "v")],
    "a function": [("FCALL", "nosuch", "0")],
}
NOT_HELD: dict[str, list[tuple[str, ...]]] = {
    "a look": [("GET", "k")],
    "a script that may not write": [("EVAL", READS, "1", "k")],
    "a read-only script": [("EVAL_RO", "return 1", "0")],
    "a transaction that looks": [("MULTI",), ("GET", "k"), ("EVAL", READS, "1", "k"), ("EXEC",)],
    "a subscription": [("SUBSCRIBE", "channel")],
}


def is_held(server: redis.Redis, requests: list[tuple[str, ...]]) -> bool:
    """Whether the last request blocks its client while writes are paused."""
    with RawClient.of(server) as client, RawClient.of(server) as steering:
        number = client.number("CLIENT", "ID")
        for request in requests[:-1]:
            client.run(*request)
        steering.run("CLIENT", "PAUSE", int(PATIENCE_S * 1000), "WRITE")
        try:
            client.send_words(*requests[-1])
            client.send_words("PING")
            deadline = time.monotonic() + PATIENCE_S
            while time.monotonic() < deadline:
                line = steering.run("CLIENT", "LIST", "ID", number)
                if b"flags=b" in line or b"flags=xb" in line:
                    return True
                if b"cmd=ping" in line or b"cmd=subscribe" in line:
                    return False
            pytest.fail("neither held nor answered")
        finally:
            steering.run("CLIENT", "UNPAUSE")


@pytest.mark.parametrize("name", [*HELD, *NOT_HELD])
def test_a_pause_of_writes_holds_what_redis_holds(
    name: str, headrace_server: redis.Redis, redis_server: redis.Redis
) -> None:
    requests = HELD.get(name) or NOT_HELD[name]
    assert is_held(headrace_server, requests) == is_held(redis_server, requests) == (name in HELD)


def test_a_key_that_had_expired_before_it_was_watched_does_not_abort() -> None:
    engine = InProcess()
    engine.set_clock(1_700_000_000_000)
    engine.run("SET", "k", "v", "PX", 10)
    engine.set_clock(1_700_000_000_100)
    engine.run("WATCH", "k")
    engine.run("MULTI")
    engine.run("PING")
    assert engine.run("EXEC") == b"*1\r\n+PONG\r\n"


def test_a_key_that_expires_after_it_was_watched_aborts() -> None:
    engine = InProcess()
    engine.set_clock(1_700_000_000_000)
    engine.run("SET", "k", "v", "PX", 10)
    engine.run("WATCH", "k")
    engine.set_clock(1_700_000_000_100)
    engine.run("MULTI")
    engine.run("PING")
    assert engine.run("EXEC") == b"*-1\r\n"


@pytest.mark.parametrize("watched_first", [True, False])
def test_a_key_that_expires_during_a_pause_is_watched_as_in_redis(
    headrace_server: redis.Redis, redis_server: redis.Redis, watched_first: bool
) -> None:
    """No key expires while writes pause, but its time comes: a client that watched it before sees a change."""
    answers = []
    for server in (headrace_server, redis_server):
        with RawClient.of(server) as client, RawClient.of(server) as steering:
            steering.run("SET", "k", "v", "PX", 200)
            steering.run("CLIENT", "PAUSE", 100_000, "WRITE")
            if watched_first:
                client.run("WATCH", "k")
            while steering.run("PTTL", "k")[:2] not in (b":0", b":-"):
                time.sleep(0.01)
            time.sleep(0.01)
            if not watched_first:
                client.run("WATCH", "k")
            replies = [client.run(*words) for words in (["MULTI"], ["GET", "k"], ["EXEC"])]
            steering.run("CLIENT", "UNPAUSE")
            replies += [client.run("GET", "k"), client.run("WATCH", "k"), client.run("MULTI"), client.run("EXEC")]
        answers.append(replies)
    assert answers[0] == answers[1]


def test_calls_that_time_out_are_counted(headrace_server: redis.Redis, redis_server: redis.Redis) -> None:
    counted = []
    for server in (headrace_server, redis_server):
        server.config_resetstat()
        with RawClient.of(server) as client, RawClient.of(server) as steering:
            client.run("BLPOP", "nothing", "0.01")
            client.run("XREAD", "BLOCK", 10, "STREAMS", "nothing", "$")
            number = client.number("CLIENT", "ID")
            client.send_words("BRPOP", "nothing", 0)
            while steering.run("CLIENT", "UNBLOCK", number, "ERROR") == b":0\r\n":
                time.sleep(0.01)
            client.reply()
        stats = server.info("commandstats")
        counted.append(
            [
                (stats[f"cmdstat_{name}"]["calls"], stats[f"cmdstat_{name}"]["failed_calls"])
                for name in ("blpop", "xread", "brpop")
            ]
        )
    assert counted[0] == counted[1] == [(1, 0), (1, 0), (1, 1)]
    timed = headrace_server.info("latencystats").keys()
    assert {f"latency_percentiles_usec_{name}" for name in ("blpop", "xread", "brpop")} <= timed


def test_a_user_is_reset_to_the_channels_of_now(headrace_server: redis.Redis, redis_server: redis.Redis) -> None:
    answers = []
    for server in (headrace_server, redis_server):
        server.config_set("acl-pubsub-default", "resetchannels")
        server.execute_command("ACL", "SETUSER", "u", "on")
        server.config_set("acl-pubsub-default", "allchannels")
        server.execute_command("ACL", "SETUSER", "u", "reset")
        found = [server.acl_getuser("u")["channels"]]
        server.config_set("acl-pubsub-default", "resetchannels")
        server.execute_command("ACL", "SETUSER", "u", "reset", "(+get ~k)")
        found.append(server.acl_getuser("u")["channels"])
        server.acl_deluser("u")
        answers.append(found)
    assert answers[0] == answers[1]
