"""The same random commands to Headrace and to a live redis-server 7.0.15: the same replies, to the byte.

    HEADRACE_SEED=n      run only the episode of that seed; a failure prints its seed, step and last commands
    HEADRACE_LONG=1      millions of commands, of seeds never used before

An episode begins with no data and follows from its seed. Several clients take turns, in RESP2 and RESP3, in and out of
transactions. Replies that are not equal byte for byte must be so by a rule of `version_rules.py`.
"""

import pytest
import redis

from support.campaign import LONG, SEED
from support.episode import Answers, Campaign
from support.stream_episode import StreamEpisode

STREAM_COMMANDS = (
    *(b"xadd", b"xlen", b"xrange", b"xrevrange", b"xread", b"xreadgroup", b"xgroup", b"xack", b"xdel", b"xtrim"),
    *(b"xpending", b"xclaim", b"xautoclaim", b"xinfo", b"xsetid"),
)
OTHER_COMMANDS = (
    *(b"multi", b"exec", b"discard", b"watch", b"unwatch", b"del", b"rename", b"renamenx", b"copy", b"move", b"swapdb"),
    *(b"expire", b"pexpire", b"ttl", b"persist", b"type", b"exists", b"dump", b"restore", b"keys", b"scan", b"select"),
)

STREAMS = Campaign(StreamEpisode, episodes=80)


@pytest.mark.parametrize("seed", STREAMS.seeds)
def test_random_commands_are_answered_as_by_redis(
    headrace_server: redis.Redis, redis_server: redis.Redis, seed: int
) -> None:
    STREAMS.run(headrace_server, redis_server, seed)


@pytest.mark.skipif(SEED is not None, reason="one seed is replayed")
def test_the_random_commands_reach_every_command_with_and_without_success(
    headrace_server: redis.Redis, redis_server: redis.Redis
) -> None:
    answers = Answers()
    episodes = STREAMS.episodes // 4
    for seed in range(episodes):
        answers += STREAMS.run(headrace_server, redis_server, ~seed)
    assert sum(answers.values()) > 0.9 * StreamEpisode.commands * episodes
    for name in STREAM_COMMANDS:
        assert answers[name, True] >= 30, f"{name!r} was answered {answers[name, True]} times"
        assert answers[name, False] >= 5, f"{name!r} was refused {answers[name, False]} times"
    for name in OTHER_COMMANDS:
        assert answers[name, True] >= 5, f"{name!r} was answered {answers[name, True]} times"


@pytest.mark.long
@pytest.mark.timeout(7200)
@pytest.mark.skipif(not LONG or SEED is not None, reason="a campaign: HEADRACE_LONG=1")
def test_millions_of_random_commands_are_answered_as_by_redis(
    headrace_server: redis.Redis, redis_server: redis.Redis
) -> None:
    STREAMS.run_millions(headrace_server, redis_server)
