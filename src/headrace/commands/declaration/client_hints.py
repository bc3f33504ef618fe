"""What only proxies, routers and clients of clusters ask of a command: how it treats its keys, and tips for them.

Both are in the words of COMMAND INFO. How a key is treated begins with RO, RW, OW (overwritten) or RM (removed); then
whether its value is shown to the client (access), and what may happen to it (insert, update, delete).
"""

from typing import Final

from headrace.engine.command import Command, Flag

_UNREAD = ("RO",)
_SHOWN = ("RO", "access")
_ADDED_TO = ("RW", "insert")
_CHANGED = ("RW", "update")
_TAKEN_FROM = ("RW", "delete")
_TAKEN_AND_SHOWN = ("RW", "access", "delete")
_CHANGED_AND_SHOWN = ("RW", "access", "update")
_OVERWRITTEN = ("OW", "update")
_NEWLY_WRITTEN = ("OW", "insert")

KeyAccess = tuple[str, ...]
NOT_KEY: Final = ("not_key",)  # what only looks like one, so that a cluster sends it to the right shard

# One for all keys of the command, or one for each. Others: SHOWN where the command reads, CHANGED where it writes.
_KEY_ACCESS: Final[dict[bytes, tuple[KeyAccess, ...]]] = {
    b"append": (_ADDED_TO,),
    b"bitfield": (("RW", "access", "update", "variable_flags"),),
    b"bitop": (_OVERWRITTEN, _SHOWN),
    b"blmove": (_TAKEN_AND_SHOWN, _ADDED_TO),
    b"blmpop": (_TAKEN_AND_SHOWN,),
    b"blpop": (_TAKEN_AND_SHOWN,),
    b"brpop": (_TAKEN_AND_SHOWN,),
    b"brpoplpush": (_TAKEN_AND_SHOWN, _ADDED_TO),
    b"bzmpop": (_TAKEN_AND_SHOWN,),
    b"bzpopmax": (_TAKEN_AND_SHOWN,),
    b"bzpopmin": (_TAKEN_AND_SHOWN,),
    b"copy": (_SHOWN, _OVERWRITTEN),
    b"decr": (_CHANGED_AND_SHOWN,),
    b"decrby": (_CHANGED_AND_SHOWN,),
    b"del": (("RM", "delete"),),
    b"eval": (_CHANGED_AND_SHOWN,),
    b"evalsha": (_CHANGED_AND_SHOWN,),
    b"exists": (_UNREAD,),
    b"fcall": (_CHANGED_AND_SHOWN,),
    b"georadius": (_SHOWN, _OVERWRITTEN, _OVERWRITTEN),
    b"georadiusbymember": (_SHOWN, _OVERWRITTEN, _OVERWRITTEN),
    b"geosearchstore": (_OVERWRITTEN, _SHOWN),
    b"getdel": (_TAKEN_AND_SHOWN,),
    b"getex": (_CHANGED_AND_SHOWN,),
    b"getset": (_CHANGED_AND_SHOWN,),
    b"hdel": (_TAKEN_FROM,),
    b"headrace|commit": (_ADDED_TO, _CHANGED_AND_SHOWN),
    b"headrace|forget": (_CHANGED, _TAKEN_AND_SHOWN),
    b"headrace|policy": (_CHANGED_AND_SHOWN, _ADDED_TO),
    b"hexists": (_UNREAD,),
    b"hincrby": (_CHANGED_AND_SHOWN,),
    b"hincrbyfloat": (_CHANGED_AND_SHOWN,),
    b"hlen": (_UNREAD,),
    b"hsetnx": (_ADDED_TO,),
    b"hstrlen": (_UNREAD,),
    b"incr": (_CHANGED_AND_SHOWN,),
    b"incrby": (_CHANGED_AND_SHOWN,),
    b"incrbyfloat": (_CHANGED_AND_SHOWN,),
    b"linsert": (_ADDED_TO,),
    b"llen": (_UNREAD,),
    b"lmove": (_TAKEN_AND_SHOWN, _ADDED_TO),
    b"lmpop": (_TAKEN_AND_SHOWN,),
    b"lpop": (_TAKEN_AND_SHOWN,),
    b"lpush": (_ADDED_TO,),
    b"lpushx": (_ADDED_TO,),
    b"lrem": (_TAKEN_FROM,),
    b"ltrim": (_TAKEN_FROM,),
    b"memory|usage": (_UNREAD,),
    b"move": (_CHANGED_AND_SHOWN,),
    b"mset": (_OVERWRITTEN,),
    b"msetnx": (_NEWLY_WRITTEN,),
    b"object|encoding": (_UNREAD,),
    b"object|freq": (_UNREAD,),
    b"object|idletime": (_UNREAD,),
    b"object|refcount": (_UNREAD,),
    b"pfadd": (_ADDED_TO,),
    b"pfcount": (("RW", "access"),),  # keeps the number that it computed
    b"pfmerge": (("RW", "access", "insert"), _SHOWN),
    b"psetex": (_OVERWRITTEN,),
    b"rename": (_TAKEN_AND_SHOWN, _OVERWRITTEN),
    b"renamenx": (_TAKEN_AND_SHOWN, _NEWLY_WRITTEN),
    b"restore": (_OVERWRITTEN,),
    b"rpop": (_TAKEN_AND_SHOWN,),
    b"rpoplpush": (_TAKEN_AND_SHOWN, _ADDED_TO),
    b"rpush": (_ADDED_TO,),
    b"rpushx": (_ADDED_TO,),
    b"sadd": (_ADDED_TO,),
    b"scard": (_UNREAD,),
    b"sdiffstore": (_OVERWRITTEN, _SHOWN),
    b"set": (("RW", "access", "update", "variable_flags"),),
    b"setbit": (_CHANGED_AND_SHOWN,),
    b"setex": (_OVERWRITTEN,),
    b"setnx": (_NEWLY_WRITTEN,),
    b"sinterstore": (_CHANGED, _SHOWN),
    b"sismember": (_UNREAD,),
    b"smove": (_TAKEN_AND_SHOWN, _ADDED_TO),
    b"sort": (_SHOWN, _OVERWRITTEN),
    b"spop": (_TAKEN_AND_SHOWN,),
    b"spublish": (NOT_KEY,),
    b"srem": (_TAKEN_FROM,),
    b"ssubscribe": (NOT_KEY,),
    b"strlen": (_UNREAD,),
    b"sunionstore": (_OVERWRITTEN, _SHOWN),
    b"sunsubscribe": (NOT_KEY,),
    b"touch": (_UNREAD,),
    b"type": (_UNREAD,),
    b"unlink": (("RM", "delete"),),
    b"watch": (_UNREAD,),
    b"xackdel": (_TAKEN_FROM,),
    b"xautoclaim": (_TAKEN_FROM,),
    b"xdel": (_TAKEN_FROM,),
    b"xdelex": (_TAKEN_FROM,),
    b"xgroup|create": (_ADDED_TO,),
    b"xgroup|createconsumer": (_ADDED_TO,),
    b"xgroup|delconsumer": (_TAKEN_FROM,),
    b"xgroup|destroy": (_TAKEN_FROM,),
    b"xlen": (_UNREAD,),
    b"xreadgroup": (_SHOWN,),
    b"xtrim": (_TAKEN_FROM,),
    b"zcard": (_UNREAD,),
    b"zdiffstore": (_OVERWRITTEN, _SHOWN),
    b"zincrby": (_CHANGED_AND_SHOWN,),
    b"zinterstore": (_OVERWRITTEN, _SHOWN),
    b"zmpop": (_TAKEN_AND_SHOWN,),
    b"zpopmax": (_TAKEN_AND_SHOWN,),
    b"zpopmin": (_TAKEN_AND_SHOWN,),
    b"zrangestore": (_OVERWRITTEN, _SHOWN),
    b"zrem": (_TAKEN_FROM,),
    b"zremrangebylex": (_TAKEN_FROM,),
    b"zremrangebyrank": (_TAKEN_FROM,),
    b"zremrangebyscore": (_TAKEN_FROM,),
    b"zunionstore": (_OVERWRITTEN, _SHOWN),
}

# Commands whose keys follow a word: the word, and from where to look for it.
_KEYWORDS: Final[dict[bytes, tuple[bytes, int]]] = {b"xread": (b"STREAMS", 1), b"xreadgroup": (b"STREAMS", 4)}

# Commands that may have more keys, each behind a word: from where to look for these words.
_STORE_WORDS: Final[dict[bytes, int]] = {b"georadius": 6, b"georadiusbymember": 5}

# Commands whose keys, or the last of them, follow their number: its place.
_KEY_NUMBERS: Final[dict[bytes, int]] = {
    b"blmpop": 2,
    b"bzmpop": 2,
    b"eval": 2,
    b"eval_ro": 2,
    b"evalsha": 2,
    b"evalsha_ro": 2,
    b"fcall": 2,
    b"fcall_ro": 2,
    b"lmpop": 1,
    b"sintercard": 1,
    b"zdiff": 1,
    b"zdiffstore": 2,
    b"zinter": 1,
    b"zintercard": 1,
    b"zinterstore": 2,
    b"zmpop": 1,
    b"zunion": 1,
    b"zunionstore": 2,
}

# Keys that no rule finds, because a pattern names them or their word may stand anywhere.
_UNPLACED_KEYS: Final[dict[bytes, tuple[KeyAccess, ...]]] = {b"sort": (_SHOWN, _OVERWRITTEN), b"sort_ro": (_SHOWN,)}

_VARIES = "nondeterministic_output"
_ANY_ORDER = "nondeterministic_output_order"
_ALL_NODES = "request_policy:all_nodes"
_ALL_SHARDS = "request_policy:all_shards"
_BY_SHARD = "request_policy:multi_shard"
_ALL_SUCCEEDED = "response_policy:all_succeeded"
_SUM = "response_policy:agg_sum"
_LEAST = "response_policy:agg_min"
_SPECIAL = "response_policy:special"

_TIPS: Final[dict[bytes, tuple[str, ...]]] = {
    b"client|info": (_VARIES,),
    b"client|list": (_VARIES,),
    b"cluster|getkeysinslot": (_VARIES,),
    b"cluster|info": (_VARIES,),
    b"cluster|links": (_VARIES,),
    b"cluster|nodes": (_VARIES,),
    b"cluster|shards": (_VARIES,),
    b"cluster|slots": (_VARIES,),
    b"command": (_ANY_ORDER,),
    b"command|docs": (_ANY_ORDER,),
    b"command|info": (_ANY_ORDER,),
    b"command|list": (_ANY_ORDER,),
    b"config|set": (_ALL_NODES, _ALL_SUCCEEDED),
    b"dbsize": (_ALL_SHARDS, _SUM),
    b"del": (_BY_SHARD, _SUM),
    b"dump": (_VARIES,),
    b"exists": (_BY_SHARD, _SUM),
    b"flushall": (_ALL_SHARDS, _ALL_SUCCEEDED),
    b"flushdb": (_ALL_SHARDS, _ALL_SUCCEEDED),
    b"function|delete": (_ALL_SHARDS, _ALL_SUCCEEDED),
    b"function|flush": (_ALL_SHARDS, _ALL_SUCCEEDED),
    b"function|kill": (_ALL_SHARDS, "response_policy:one_succeeded"),
    b"function|list": (_ANY_ORDER,),
    b"function|load": (_ALL_SHARDS, _ALL_SUCCEEDED),
    b"function|restore": (_ALL_SHARDS, _ALL_SUCCEEDED),
    b"function|stats": (_VARIES, _ALL_SHARDS, _SPECIAL),
    b"hgetall": (_ANY_ORDER,),
    b"hkeys": (_ANY_ORDER,),
    b"hrandfield": (_VARIES,),
    b"hscan": (_VARIES,),
    b"hvals": (_ANY_ORDER,),
    b"info": (_VARIES, _ALL_SHARDS, _SPECIAL),
    b"keys": (_ALL_SHARDS, _ANY_ORDER),
    b"lastsave": (_VARIES,),
    b"latency|doctor": (_VARIES, _ALL_NODES, _SPECIAL),
    b"latency|graph": (_VARIES, _ALL_NODES, _SPECIAL),
    b"latency|histogram": (_VARIES, _ALL_NODES, _SPECIAL),
    b"latency|history": (_VARIES, _ALL_NODES, _SPECIAL),
    b"latency|latest": (_VARIES, _ALL_NODES, _SPECIAL),
    b"latency|reset": (_ALL_NODES, _ALL_SUCCEEDED),
    b"memory|doctor": (_VARIES, _ALL_SHARDS, _SPECIAL),
    b"memory|malloc-stats": (_VARIES, _ALL_SHARDS, _SPECIAL),
    b"memory|purge": (_ALL_SHARDS, _ALL_SUCCEEDED),
    b"memory|stats": (_VARIES, _ALL_SHARDS, _SPECIAL),
    b"mget": (_BY_SHARD,),
    b"module|list": (_ANY_ORDER,),
    b"mset": (_BY_SHARD, _ALL_SUCCEEDED),
    b"msetnx": (_BY_SHARD, _LEAST),
    b"object|encoding": (_VARIES,),
    b"object|freq": (_VARIES,),
    b"object|idletime": (_VARIES,),
    b"object|refcount": (_VARIES,),
    b"ping": (_ALL_SHARDS, _ALL_SUCCEEDED),
    b"pttl": (_VARIES,),
    b"randomkey": (_ALL_SHARDS, _VARIES),
    b"scan": (_VARIES, "request_policy:special"),
    b"script|exists": (_ALL_SHARDS, "response_policy:agg_logical_and"),
    b"script|flush": (_ALL_NODES, _ALL_SUCCEEDED),
    b"script|kill": (_ALL_SHARDS, "response_policy:one_succeeded"),
    b"script|load": (_ALL_NODES, _ALL_SUCCEEDED),
    b"sdiff": (_ANY_ORDER,),
    b"sinter": (_ANY_ORDER,),
    b"slowlog|get": (_ALL_NODES, _VARIES),
    b"slowlog|len": (_ALL_NODES, _SUM, _VARIES),
    b"slowlog|reset": (_ALL_NODES, _ALL_SUCCEEDED),
    b"smembers": (_ANY_ORDER,),
    b"spop": (_VARIES,),
    b"srandmember": (_VARIES,),
    b"sscan": (_VARIES,),
    b"sunion": (_ANY_ORDER,),
    b"time": (_VARIES,),
    b"touch": (_BY_SHARD, _SUM),
    b"ttl": (_VARIES,),
    b"unlink": (_BY_SHARD, _SUM),
    b"wait": (_ALL_SHARDS, _LEAST),
    b"xadd": (_VARIES,),
    b"xautoclaim": (_VARIES,),
    b"xclaim": (_VARIES,),
    b"xinfo|consumers": (_VARIES,),
    b"xpending": (_VARIES,),
    b"xtrim": (_VARIES,),
    b"zrandmember": (_VARIES,),
    b"zscan": (_VARIES,),
}


def tips_of(command: Command) -> tuple[str, ...]:
    """Tell what to mind when the command is sent to several servers, or its reply compared."""
    return _TIPS.get(command.name, ())


def key_access(command: Command) -> tuple[KeyAccess, ...]:
    """How the command treats its keys: one for all of them, or one for each; empty where it has none."""
    if command.keys is None and command.find_keys is None:
        return ()
    return _KEY_ACCESS.get(command.name, (_CHANGED if command.flags & Flag.WRITE else _SHOWN,))


def unplaced_keys(command: Command) -> tuple[KeyAccess, ...]:
    """Tell how keys are treated that no rule finds; they follow one that has its place."""
    return _UNPLACED_KEYS.get(command.name, ())


def key_word(command: Command) -> tuple[bytes, int] | None:
    """Find the word in front of the keys, and from where to look for it; None where keys have fixed places."""
    return _KEYWORDS.get(command.name)


def store_words(command: Command) -> tuple[tuple[bytes, int], ...]:
    """Find the words behind which a command may have one more key each, and from where to look for them."""
    start = _STORE_WORDS.get(command.name)
    return () if start is None else ((b"STORE", start), (b"STOREDIST", start))


def key_number(command: Command) -> int | None:
    """Find the place of the number in front of the keys; None where they have fixed places."""
    return _KEY_NUMBERS.get(command.name)
