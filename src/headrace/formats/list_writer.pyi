from collections import deque

from headrace.formats.rdb_primitives import RdbWriter

def write_list(out: RdbWriter, held: deque[bytes]) -> None: ...
