"""Which version of Redis brought an option to a command that was there before it, and which commands are not here.

An option that is not named is as old as its command. What redis-server 7.0 tells of itself (COMMAND DOCS) is compared
with this by the tests; what came later is from the release notes of Redis.
"""

from typing import Final

_ANY: Final = {"ANY": "6.2.0"}
_BIT_RANGE: Final = dict.fromkeys(("BYTE", "BIT"), "7.0.0")
_EXPIRE: Final = dict.fromkeys(("NX", "XX", "GT", "LT"), "7.0.0")
_FLUSH: Final = {"ASYNC": "4.0.0", "SYNC": "6.2.0"}
_POLICIES: Final = dict.fromkeys(("KEEPREF", "DELREF", "ACKED"), "8.2.0")
_READ_LIMITS: Final = dict.fromkeys(("MAXCOUNT", "MAXSIZE"), "8.10.0")
_TRIMMING: Final = {"MINID": "6.2.0", "LIMIT": "6.2.0", **_POLICIES}

OPTIONS_SINCE: Final[dict[str, dict[str, str]]] = {
    "bgsave": {"SCHEDULE": "3.2.2"},
    "bitcount": _BIT_RANGE,
    "bitop": dict.fromkeys(("DIFF", "DIFF1", "ANDOR", "ONE"), "8.2.0"),
    "bitpos": _BIT_RANGE,
    "client|kill": {
        **dict.fromkeys(("ID", "TYPE", "ADDR", "SKIPME", "NORMAL", "PUBSUB", "YES", "NO"), "2.8.12"),
        "MASTER": "3.2.0",
        "REPLICA": "5.0.0",
        "USER": "6.0.0",
        "LADDR": "6.2.0",
        "MAXAGE": "7.4.0",
    },
    "client|list": {**dict.fromkeys(("TYPE", "NORMAL", "MASTER", "REPLICA", "PUBSUB"), "5.0.0"), "ID": "6.2.0"},
    "client|pause": dict.fromkeys(("WRITE", "ALL"), "6.2.0"),
    "expire": _EXPIRE,
    "expireat": _EXPIRE,
    "flushall": _FLUSH,
    "flushdb": _FLUSH,
    "hscan": {"NOVALUES": "7.4.0"},
    "pexpire": _EXPIRE,
    "pexpireat": _EXPIRE,
    "restore": {"REPLACE": "3.0.0", "ABSTTL": "5.0.0", "IDLETIME": "5.0.0", "FREQ": "5.0.0"},
    "scan": {"TYPE": "6.0.0"},
    "script|flush": dict.fromkeys(("ASYNC", "SYNC"), "6.2.0"),
    "geoadd": dict.fromkeys(("NX", "XX", "CH"), "6.2.0"),
    "georadius": _ANY,
    "georadius_ro": _ANY,
    "georadiusbymember": _ANY,
    "georadiusbymember_ro": _ANY,
    "set": {
        **dict.fromkeys(("EX", "PX", "NX", "XX"), "2.6.12"),
        "KEEPTTL": "6.0.0",
        **dict.fromkeys(("GET", "EXAT", "PXAT"), "6.2.0"),
        **dict.fromkeys(("IFEQ", "IFNE"), "8.4.0"),
    },
    "shutdown": dict.fromkeys(("NOW", "FORCE", "ABORT"), "7.0.0"),
    "xadd": {"NOMKSTREAM": "6.2.0", **_TRIMMING, "IDMP": "8.6.0", "IDMPAUTO": "8.6.0"},
    "xgroup|create": {"ENTRIESREAD": "7.0.0"},
    "xgroup|setid": {"ENTRIESREAD": "7.0.0"},
    "xinfo|stream": {"FULL": "6.0.0", "COUNT": "6.0.0"},
    "xpending": {"IDLE": "6.2.0"},
    "xread": _READ_LIMITS,
    "xreadgroup": {**_READ_LIMITS, "CLAIM": "8.4.0"},
    "xsetid": {"ENTRIESADDED": "7.0.0", "MAXDELETEDID": "7.0.0"},
    "xtrim": _TRIMMING,
    "zadd": {
        **dict.fromkeys(("NX", "XX", "CH", "INCR"), "3.0.2"),
        **dict.fromkeys(("GT", "LT"), "6.2.0"),
    },
    **{name: {"COUNT": "8.8.0"} for name in ("zinter", "zinterstore", "zunion", "zunionstore")},
    "zrange": dict.fromkeys(("BYSCORE", "BYLEX", "REV", "LIMIT"), "6.2.0"),
    "zrangebyscore": {"WITHSCORES": "2.0.0"},
    "zrank": {"WITHSCORE": "7.2.0"},
    "zrevrank": {"WITHSCORE": "7.2.0"},
}

# What a command takes or answers since a later version, and is no option.
FORMS_SINCE: Final[dict[str, dict[str, str]]] = {
    "xadd": {"an ID `ms-*`": "7.0.0"},
    "xautoclaim": {"deleted IDs in the reply": "7.0.0"},
    "xinfo|consumers": {"`inactive` in the reply": "7.2.0"},
    "xinfo|groups": {"`entries-read` and `lag` in the reply": "7.0.0"},
    "xpending": {"exclusive bounds `(id`": "6.2.0"},
    "xrange": {"exclusive bounds `(id`": "6.2.0"},
    "xread": {"the ID `+`, the last entry": "7.4.0"},
    "xrevrange": {"exclusive bounds `(id`": "6.2.0"},
}

# Commands of redis-server 7.0 that Headrace does not have, by what they are for.
NOT_HERE: Final[dict[str, str]] = {
    "looking into a HyperLogLog": "pfdebug pfselftest",
    "being a node of a cluster": (
        "asking cluster|addslots cluster|addslotsrange cluster|bumpepoch cluster|count-failure-reports "
        "cluster|delslots cluster|delslotsrange cluster|failover cluster|flushslots cluster|forget cluster|meet "
        "cluster|replicas cluster|replicate cluster|reset cluster|saveconfig cluster|set-config-epoch cluster|setslot "
        "cluster|slaves restore-asking migrate"
    ),
    "modules": "module|load module|loadex module|unload",
    "looking on": "script|debug",
}

# What came after 7.0 and is not here; of module commands, what their names begin with.
NOT_HERE_LATER: Final[dict[str, str]] = {
    "fields of hashes that expire (7.4, 8.0)": (
        "hexpire hexpireat hexpiretime hgetdel hgetex hpersist hpexpire hpexpireat hpexpiretime hpttl hsetex httl"
    ),
    "strings (8.4 and later)": "delex digest increx msetex",
    "lists and sets (8.x)": "blmovem lmovem sdiffcard sunioncard",
    "hashes of one template (8.10)": "himport|discard himport|discardall himport|prepare himport|set",
    "arrays (8.8)": (
        "arcount ardel ardelrange arget argetrange argrep arinfo arinsert arlastitems arlen armget armset arnext arop "
        "arring arscan arseek arset"
    ),
    "vector sets (8.0)": ("vadd vcard vdim vemb vgetattr vinfo vismember vlinks vrandmember vrange vrem vsetattr vsim"),
    "hot keys (8.6)": "hotkeys hotkeys|get hotkeys|reset hotkeys|start hotkeys|stop",
    "being a node of a cluster (8.2 and later)": "cluster|migration cluster|slot-stats cluster|syncslots",
    "backups (8.10)": "backup",
    "modules that Redis 8 took in": "bf.* cf.* cms.* ft.* json.* tdigest.* topk.* ts.*",
    "redis-sentinel, which is a server of its own": "sentinel",
    "what Redis 7.0 itself no longer has": "stralgo",
}

# Options that a command of these tables has in some version of Redis, and not here.
OPTIONS_NOT_HERE: Final[dict[str, tuple[str, ...]]] = {"set": ("IFDEQ", "IFDNE")}

# Commands that are answered with a sentence which says that they cannot be used here.
ROWS_REFUSED: Final[tuple[str, ...]] = ()
