"""Calls every function that a script reaches with hostile arguments: `python -m support.lua_fuzz seed rounds file`.

It runs in a process of its own, because the faults that it looks for end the process. The file then holds the script.
"""

import random
import sys
from pathlib import Path

from headrace.commands.all import make_engine
from headrace.engine.configuration.config import Config
from support.in_process import InProcessClient

LIST = """
local names = {}
for library in string.gmatch('string table math coroutine redis bit cjson cmsgpack struct os', '%a+') do
    for name, value in pairs(_G[library]) do
        if type(value) == 'function' then names[#names + 1] = library .. '.' .. name end
    end
end
for name, value in pairs(_G) do if type(value) == 'function' then names[#names + 1] = name end end
table.sort(names)
return names
"""

HEAD = """
local long, pattern = string.rep('a', 20000), string.rep('a?', 3000)
local cycle = {} cycle[1] = cycle cycle.x = cycle
local deep = {} for i = 1, 3000 do deep = {deep} end
local weird = setmetatable({}, {__index = function(t, k) return k end, __tostring = function() error('y') end,
    __len = function() return -1 end, __call = function(...) return ... end, __eq = function() error('z') end})
local thread = coroutine.create(function(...) coroutine.yield(...) error('w') end)
local r
"""

NUMBERS = (
    *(
        "0",
        "1",
        "-1",
        "2",
        "7",
        "255",
        "-2",
        "0.5",
        "2^31",
        "2^31-1",
        "-2^31",
        "2^32",
        "2^53",
        "-2^53",
        "2^63",
        "1e308",
    ),
    *("-1e308", "math.huge", "-math.huge", "0/0", "'10'", "'0x7f'"),
)
TEXTS = (
    *(
        "''",
        "'a'",
        "'%'",
        "'%s%d%q'",
        "'[a'",
        "'(a*)-.?'",
        r"'\0'",
        "'>I4c0s'",
        "'!8i8'",
        "'[[[1,2'",
        "long",
        "pattern",
    ),
    *(r"'\221\255\255\255\255'", "'collect'", "'count'", "'return 1'", "'set'", "'get'"),
)
OTHERS = (
    *("nil", "true", "false", "{}", "{1,2,3}", "cycle", "deep", "{[2^31]=1}", "{n=1,err='x'}", "weird", "cjson.null"),
    *("function(...) return ... end", "function() error('x') end", "function() error({}) end", "thread", "_G", "redis"),
    *("string", "KEYS"),
)
VALUES = (*NUMBERS, *TEXTS, *OTHERS)


def stop(name: bytes, bug: Exception) -> None:
    """End with what went wrong in our own code."""
    sys.exit(f"{name!r}: {bug!r}")


def main(seed: int, rounds: int, last: Path) -> None:
    """Run so many scripts of up to four calls."""
    choose = random.Random(seed)
    engine = make_engine(Config())
    engine.hooks.failure = stop
    client = InProcessClient(engine)
    client.run("CONFIG", "SET", "lua-memory-limit", "16mb", "busy-reply-threshold", "300")
    names = [line.decode() for line in client.run("EVAL", LIST, 0).split(b"\r\n") if line[:1].isalpha()]
    assert len(names) > 100, names
    for _ in range(rounds):
        script = HEAD
        for _ in range(choose.randrange(1, 5)):
            words = [choose.choice(names), *choose.choices(VALUES, k=choose.randrange(0, 6))]
            script += f"r = {{pcall({', '.join(words)})}} if type(r[2]) == 'table' then cycle.y = r[2] end\n"
        script += "return type(r)"
        last.write_text(script)
        reply = client.run("EVAL", script, 0)
        assert b"internal error" not in reply, reply
        assert reply[:1] in b"$-", reply
        assert client.run("EVAL", "return ('x'):rep(3)", 0) == b"$3\r\nxxx\r\n"


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), Path(sys.argv[3]))
