"""Keyspace events: what happens to keys, published to clients that listen.

`notify-keyspace-events` names classes by letters (in the .pxd); `A` stands for all that say what was done, without
those that only say how a key was met: n, o, c and m. A command says `call.notify(class, event, key)`, which is one
comparison where the class is not asked for. An event follows the reply of its command, like every message.
"""

_LETTERS = {
    "g": GENERIC, "$": STRING, "l": LIST, "s": SET, "h": HASH, "z": SORTED_SET, "x": EXPIRED, "e": EVICTED, "t": STREAM,
    "d": MODULE, "n": NEW, "o": OVERWRITTEN, "c": TYPE_CHANGED, "K": KEYSPACE, "E": KEYEVENT, "m": KEY_MISS,
}
_ALL = GENERIC | STRING | LIST | SET | HASH | SORTED_SET | EXPIRED | EVICTED | STREAM | MODULE
_ALWAYS_SHOWN = "KEm"           # the others are not beside an A: Redis prints KEAn as AKE

# Commands that write, and yet read a key that they do not find; and those that read, and yet do not mind.
READERS = frozenset((
    b"bitop", b"georadius", b"georadiusbymember", b"geosearchstore", b"getdel", b"getex", b"getset", b"pfmerge",
    b"sdiffstore", b"sinterstore", b"sunionstore", b"xack", b"xackdel", b"xautoclaim", b"xclaim", b"xreadgroup",
    b"zdiffstore", b"zinterstore", b"zrangestore", b"zunionstore",
))
NO_READERS = frozenset((
    b"keys", b"memory|usage", b"object|encoding", b"object|freq", b"object|idletime", b"object|refcount", b"randomkey",
    b"scan",
))


def read_classes(letters: str) -> int | None:
    """Read classes from their letters; None where one is no letter of a class."""
    classes = 0
    for letter in list(letters):
        if letter != "A" and letter not in _LETTERS:
            return None
        classes |= _ALL if letter == "A" else _LETTERS[letter]
    return classes


def show_classes(classes: int) -> str:
    """Print the letters of classes as Redis does."""
    whole = classes & _ALL == _ALL
    shown = [
        letter for letter, bit in _LETTERS.items() if classes & bit and (not whole or letter in _ALWAYS_SHOWN)
    ]
    return "A" * whole + "".join(shown)
