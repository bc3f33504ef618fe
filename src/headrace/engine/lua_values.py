"""Replies of commands as values of Lua, by Redis's rules.

:1              1                   _ (RESP3)             nil
$3 abc          "abc"               #t                    true
$-1, *-1        false               ,1.5                  {double=1.5}
*2 …            {…, …}              %1 key value          {map={key=value}}
+OK             {ok="OK"}           ~1 member             {set={member=true}}
-ERR no         {err="ERR no"}      (123                  {big_number="123"}
=7 txt:abc            {verbatim_string={format="txt", string="abc"}}
"""

from collections.abc import Callable
from typing import Any


class ReplyReader:
    """Reads one reply; `table` makes a table of Lua from a list or a dictionary."""

    def __init__(self, data: bytes, table: Callable[[Any], Any]) -> None:
        self._data = data
        self._table = table
        self._at = 0

    def read(self) -> Any:
        """Return the value at the place, and go behind it."""
        mark = self._data[self._at : self._at + 1]
        end = self._data.index(b"\r\n", self._at)
        text = self._data[self._at + 1 : end]
        self._at = end + 2
        return _READERS[mark](self, text)

    def _integer(self, text: bytes) -> Any:
        return int(text)

    def _status(self, text: bytes) -> Any:
        return self._table({b"ok": text})

    def _error(self, text: bytes) -> Any:
        return self._table({b"err": text})

    def _bulk(self, size: bytes) -> Any:
        return False if size == b"-1" else self._take(int(size))

    def _take(self, size: int) -> bytes:
        text = self._data[self._at : self._at + size]
        self._at += size + 2
        return text

    def _array(self, length: bytes) -> Any:
        return False if length == b"-1" else self._table([self.read() for _ in range(int(length))])

    def _null(self, _: bytes) -> Any:
        return None

    def _boolean(self, text: bytes) -> Any:
        return text == b"t"

    def _double(self, text: bytes) -> Any:
        return self._table({b"double": float(text)})

    def _big_number(self, text: bytes) -> Any:
        return self._table({b"big_number": text})

    def _verbatim(self, size: bytes) -> Any:
        form, _, text = self._take(int(size)).partition(b":")
        return self._table({b"verbatim_string": self._table({b"format": form, b"string": text})})

    def _map(self, pairs: bytes) -> Any:
        content = {}
        for _ in range(int(pairs)):
            key = self.read()
            content[key] = self.read()
        return self._table({b"map": self._table(content)})

    def _set(self, length: bytes) -> Any:
        return self._table({b"set": self._table({self.read(): True for _ in range(int(length))})})


_READERS: dict[bytes, Callable[[ReplyReader, bytes], Any]] = {
    b":": ReplyReader._integer,
    b"+": ReplyReader._status,
    b"-": ReplyReader._error,
    b"$": ReplyReader._bulk,
    b"*": ReplyReader._array,
    b"_": ReplyReader._null,
    b"#": ReplyReader._boolean,
    b",": ReplyReader._double,
    b"(": ReplyReader._big_number,
    b"=": ReplyReader._verbatim,
    b"%": ReplyReader._map,
    b"~": ReplyReader._set,
}
