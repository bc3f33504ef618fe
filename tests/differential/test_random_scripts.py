"""The same random commands inside scripts to Headrace and to a live redis-server 7.0.15: the same replies, to the byte.

    HEADRACE_SEED=n      run only the episode of that seed
    HEADRACE_LONG=1      many more

Commands travel as arguments, and the script runs them one after the other. Replies go through Lua and back, so that
conversion both ways is compared too; what may differ is what may differ outside of scripts.
"""

import random

import pytest
import redis

from support.campaign import LONG, SEED
from support.companion_commands import Command, CompanionCommands
from support.companion_replies import CHANCE, SCANS, WAITING, alike
from support.raw_client import RawClient, parse

SCRIPT = b"""
redis.setresp(tonumber(ARGV[1]))
local replies, at = {}, 2
while at <= #ARGV do
    local count = tonumber(ARGV[at])
    local reply = redis.pcall(unpack(ARGV, at + 1, at + count))
    replies[#replies + 1] = reply == nil and 'nothing' or reply
    at = at + count + 1
end
return replies
"""
EPISODES = 2000 if LONG else 40
SCRIPTS_OF_EPISODE = 60


def in_a_script(commands: list[Command], protocol: int) -> Command:
    words = [word for command in commands for word in (b"%d" % len(command), *command)]
    return [b"EVAL", SCRIPT, b"0", b"%d" % protocol, *words]


def may_be_asked(command: Command) -> bool:
    """Leave out what waits, what chance decides, ranges that scores may forbid, and what 7.2 answers otherwise."""
    name = command[0].lower()
    by_member = b"lex" in name or any(word.lower() == b"bylex" for word in command)
    newer = (name in (b"zrank", b"zrevrank") and len(command) != 3) or b"-9223372036854775808" in command
    return name not in WAITING | CHANCE | SCANS.keys() and not by_member and not newer


@pytest.mark.parametrize("seed", [SEED] if SEED is not None else range(EPISODES))
def test_random_commands_in_scripts_are_answered_as_by_redis(
    headrace_server: redis.Redis, redis_server: redis.Redis, seed: int
) -> None:
    chance, writer = random.Random(~seed), CompanionCommands(seed)
    ours, theirs = RawClient.of(headrace_server), RawClient.of(redis_server)
    for client in (ours, theirs):
        client.run("HELLO", 2 + seed % 2)
    for number in range(SCRIPTS_OF_EPISODE):
        drawn = (writer.valid() for _ in range(chance.randrange(1, 12)))
        commands = [writer.spoil(each) if chance.random() < 0.15 else each for each in drawn]
        commands = [each for each in commands if each and may_be_asked(each)]
        request = in_a_script(commands, chance.choice((2, 3)))
        replies = [parse(client.run(*request)) for client in (theirs, ours)]
        context = f"HEADRACE_SEED={seed}, script {number}: {request[3:]!r}"
        assert len(replies[0]) == len(replies[1]) == len(commands) + 1, context
        for command, expected, found in zip(commands, *(reply[1:] for reply in replies), strict=True):
            assert alike(command, expected, found), f"{context}\n{command!r}\nRedis    {expected}\nHeadrace {found}"
    for client in (ours, theirs):
        client.close()
