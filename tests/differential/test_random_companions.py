"""The same random commands on strings, lists, sets, sorted sets and hashes to Headrace and a live redis-server 7.0.15.

    HEADRACE_SEED=n      run only the episode of that seed; a failure prints its seed, step and last commands
    HEADRACE_LONG=1      millions of commands, of seeds never used before

An episode begins with no data and follows from its seed. Replies are equal to the byte, except for what `alike` names:
unordered replies, digits of doubles that 7.2 no longer prints, and chance.
"""

from contextlib import ExitStack
from typing import Any

import pytest
import redis

from support.campaign import LONG, SEED
from support.companion_commands import Command, CompanionCommands
from support.companion_replies import (
    CHANCE,
    WAITING,
    alike,
)
from support.episode import Answers, Campaign, Episode
from support.raw_client import RawClient, parse

SHORT_WAITS = {b"0.001", b"0.002", b".001", b"1e-9", b"0x0.001"}
READS = {
    "+string": [b"GET"],
    "+list": [b"LRANGE", b"0", b"-1"],
    "+set": [b"SMEMBERS"],
    "+zset": [b"ZRANGE", b"0", b"-1", b"WITHSCORES"],
    "+hash": [b"HGETALL"],
}

FAMILIES = (
    b"set get mget mset msetnx setnx setex psetex getset getdel getex append strlen incr decr incrby decrby "
    b"incrbyfloat setrange getrange substr getbit setbit bitcount bitpos bitop bitfield bitfield_ro "
    b"pfadd pfcount pfmerge lpush rpush lpushx rpushx lpop rpop lrange lindex linsert lrem lset "
    b"ltrim llen lpos lmove rpoplpush lmpop blpop brpop blmove brpoplpush blmpop sadd srem smembers sismember "
    b"smismember scard spop srandmember smove sscan sunion sinter sdiff sunionstore sinterstore sdiffstore "
    b"sintercard zadd zrange zrevrange zrangebyscore zrevrangebyscore zrangebylex zrevrangebylex zrangestore "
    b"zrem zremrangebyrank zremrangebyscore zremrangebylex zcard zcount zlexcount zscore zmscore zincrby zrank "
    b"zrevrank zpopmin zpopmax bzpopmin bzpopmax zmpop bzmpop zrandmember zscan zunion zinter zdiff zunionstore "
    b"zinterstore zdiffstore zintercard hset hmset hget hmget hgetall hdel hincrby hincrbyfloat hlen hexists "
    b"hkeys hvals hsetnx hstrlen hrandfield hscan "
    b"geoadd geopos geohash geodist geosearch geosearchstore georadius georadius_ro georadiusbymember "
    b"georadiusbymember_ro"
).split()


# --- an episode ------------------------------------------------------------------------------------------------------


class CompanionEpisode(Episode):
    """Commands of one client on strings, lists, sets, sorted sets and hashes."""

    commands = 1200

    def __init__(self, seed: int, headrace_port: int, redis_port: int, stack: ExitStack) -> None:
        super().__init__(seed, CompanionCommands(seed))
        protocol = 2 + seed % 2
        self.ours = stack.enter_context(RawClient(headrace_port, protocol))
        self.theirs = stack.enter_context(RawClient(redis_port, protocol))
        for client in (self.ours, self.theirs):
            client.run("FLUSHALL")

    def take_step(self) -> None:
        roll = self.random.random()
        command = self.write(roll)
        if not self.may_be_asked(command):
            return
        name = command[0].lower()
        wraps = name in WAITING and not SHORT_WAITS & {command[1:2][0] if command[1:] else b"", command[-1]}
        if wraps or roll < 0.05:
            self.ask([b"MULTI"])
            self.ask(command)
            reply = self.ask([b"EXEC"], command)
            reply = reply[1] if isinstance(reply, list) else reply
        else:
            reply = self.ask(command)
        self.count(command, reply)
        if name == b"spop" and len(command) > 1:
            self.agree_on_set(command[1])

    def may_be_asked(self, command: Command) -> bool:
        """Whether both can be asked this: not what later versions answer otherwise, or what has no one answer."""
        name = command[0].lower()
        if name in (b"zrank", b"zrevrank"):
            return len(command) == 3  # 7.2: WITHSCORE
        if name.startswith((b"zinter", b"zunion")) and b"count" in (word.lower() for word in command):
            return False  # 8.8: AGGREGATE COUNT
        if name in (b"lrem", b"lpos"):
            return b"-9223372036854775808" not in command  # 7.2: refused, where 7.0 overflows
        if b"lex" in name or any(word.lower() == b"bylex" for word in command):
            return all(map(self.has_equal_scores, command[1:3]))
        return name not in CHANCE or b"-9223372036854775807" not in command  # nobody waits for that

    def has_equal_scores(self, key: bytes) -> bool:
        """Whether ranges by member have a meaning for what a key holds."""
        reply = parse(self.theirs.run("ZRANGE", key, 0, -1, "WITHSCORES"))
        if not isinstance(reply, list):
            return True
        scores = [pair[2] for pair in reply[1:]] if isinstance(reply[-1], list) else reply[2::2]
        return len(set(scores)) < 2

    def ask(self, command: Command, queued: Command | None = None) -> Any:
        """Send a command to both and compare; the reply of 7.0.15, parsed."""
        self.latest.append(" ".join(map(repr, command)))
        for client in (self.ours, self.theirs):
            client.send(command)
        theirs, ours = parse(self.theirs.reply()), parse(self.ours.reply())
        if queued is not None and isinstance(theirs, list) and isinstance(ours, list):
            agree = alike(queued, theirs[1], ours[1])
        else:
            agree = alike(command, theirs, ours)
        assert agree, f"{command}\nHeadrace {ours}\nRedis    {theirs}"
        return theirs

    def agree_on_set(self, key: bytes) -> None:
        """Give Headrace the members that chance left on the other side."""
        if parse(self.theirs.run("TYPE", key)) == "+set":
            members = [member[1:].encode("latin-1") for member in parse(self.theirs.run("SMEMBERS", key))[1:]]
            assert self.ours.run("SCARD", key) == self.theirs.run("SCARD", key)
            held = [member[1:].encode("latin-1") for member in parse(self.ours.run("SMEMBERS", key))[1:]]
            self.ours.run("SADD", key, *members)
            for member in set(held) - set(members):
                self.ours.run("SREM", key, member)

    def compare_everything(self) -> None:
        """Compare all that there is."""
        ours, theirs = (sorted(parse(client.run("KEYS", "*"))[1:]) for client in (self.ours, self.theirs))
        assert ours == theirs
        for key in (key[1:].encode("latin-1") for key in theirs):
            self.ask([b"PTTL", key])
            name, *words = READS[self.ask([b"TYPE", key])]
            self.ask([name, key, *words])


COMPANIONS = Campaign(CompanionEpisode, episodes=24)
ANSWERS = Answers()


@pytest.mark.parametrize("seed", COMPANIONS.seeds)
def test_random_commands_on_companions_are_answered_as_by_redis(
    headrace_server: redis.Redis, redis_server: redis.Redis, seed: int
) -> None:
    ANSWERS.update(COMPANIONS.run(headrace_server, redis_server, seed))


@pytest.mark.skipif(SEED is not None, reason="one seed is replayed")
def test_the_random_commands_reach_every_command_with_and_without_success(
    headrace_server: redis.Redis, redis_server: redis.Redis
) -> None:
    answers = ANSWERS
    for seed in COMPANIONS.seeds if not answers else ():
        answers.update(COMPANIONS.run(headrace_server, redis_server, seed))
    for name in FAMILIES:
        assert answers[name, True] >= 10, f"{name!r} was answered {answers[name, True]} times"
        assert answers[name, False] >= 1, f"{name!r} was refused {answers[name, False]} times"


@pytest.mark.long
@pytest.mark.timeout(7200)
@pytest.mark.skipif(not LONG or SEED is not None, reason="a campaign: HEADRACE_LONG=1")
def test_millions_of_random_commands_on_companions_are_answered_as_by_redis(
    headrace_server: redis.Redis, redis_server: redis.Redis
) -> None:
    COMPANIONS.run_millions(headrace_server, redis_server)
