"""Nodes that are not in memory: runs of them in a file, the parts of runs that logs refer to, and a cache.

    run     neighbouring nodes of one stream in a file, some 2 MB; nothing in it ever changes
    index   a record of 56 bytes for each node of a run: its IDs, where it lies, how many entries are alive
    block   neighbouring nodes of a run, some 128 KB: what is read, and cached, at once
    part    the nodes of a run that one log still refers to, without a gap; the rest of the run is dead for it

    log ─► part ─► run ┄┄► index, blocks            ┄┄► while the cache has them

A log holds a part in the place of its nodes, so that the memory for history is a few hundred bytes for each run. To
delete in the middle of a part makes two parts of it; a copy of a log has parts of its own of the same runs.

This module reads no file. Whoever keeps the files derives a class from ColdRun that does.

What is not in memory is read at once, or, where the cache says so (`may_wait`), not at all: ColdMiss then tells what
is missing. `fetch` reads it, in any thread; `ColdCache.admit` takes what it has read; and then the same request
succeeds. The cache forgets what was used longest ago. Who holds a `Loaded` keeps its bytes nevertheless.
"""

cimport cython
from collections import OrderedDict

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE

from headrace.core.listpack cimport LP_EMPTY
from headrace.core.node cimport NodeFacts, node_well_formed
from headrace.core.rax_shape cimport extend_shape, shape_is_possible, shape_of_one
from headrace.core.stream_id cimport is_zero, less, same, unwrap_id

from headrace.core.errors import ColdReadError

cdef enum:
    BLOCK_BYTES = 128 * 1024
    INDEX = -1
    RECORD_BYTES = sizeof(ColdNode)
    LOADED_OVERHEAD = 200       # of the objects around the bytes, about

NODE_RECORD_BYTES = RECORD_BYTES


class ColdMiss(Exception):
    """A node, or an index (`node` is -1), that is not in memory."""

    def __init__(self, run: ColdRun, node: int) -> None:
        super().__init__(run, node)
        self.run = run
        self.node = node


@cython.final
@cython.no_gc
cdef class Loaded:
    """Bytes of a run in memory. They go with their last holder."""

    def __len__(self) -> int:
        return PyBytes_GET_SIZE(self.data)


cdef Loaded make_loaded(ColdRun run, int64_t number, uint64_t offset, bytes data):
    cdef Loaded loaded = Loaded.__new__(Loaded)
    loaded.run = run
    loaded.number = number
    loaded.offset = offset
    loaded.data = data
    return loaded


cdef class ColdRun:
    """A run, whose bytes a derived class reads.

    `first` is the master ID of the first node and `last` the ID of the last entry, tombstones included.
    """

    def __init__(self, cache: ColdCache, nodes: int, live: int, size: int, first: StreamID, last: StreamID) -> None:
        self.cache = cache
        self.nodes = nodes
        self.live = live
        self.size = size
        self.first = unwrap_id(first)
        self.last = unwrap_id(last)
        self.blocks = [None] * (size // BLOCK_BYTES + 1)

    def read_index(self) -> bytes:
        """Return the records of all nodes, which `index_well_formed` accepts. Raises ColdReadError. In any thread."""
        raise NotImplementedError

    def read_block(self, records: bytes) -> bytes:
        """Return the listpacks of neighbouring nodes, given their records. Raises ColdReadError. In any thread.

        Each is checked by its checksum and by `first_damaged`.
        """
        raise NotImplementedError

    def keep(self, nodes: int, size: int) -> None:
        """Note that a log refers to so many more nodes, of so many bytes."""

    def drop(self, nodes: int, size: int) -> None:
        """Note that a log does not refer any more to so many nodes; in any thread, and without an exception."""

    cdef Loaded get_index(self):
        cdef Loaded index = self.index
        if index is None:
            if self.cache.may_wait:
                raise ColdMiss(self, INDEX)
            index = make_loaded(self, INDEX, 0, self.read_index())
            self.cache.admit_one(index)
        else:
            self.cache.touch(index)
        return index

    cdef Loaded get_block(self, uint32_t number):
        cdef Loaded index = self.get_index()
        cdef const ColdNode *records = records_of(index)
        cdef int64_t place = place_of(records, number)
        cdef Loaded block = self.blocks[place]
        if block is not None:
            self.cache.touch(block)
            return block
        if self.cache.may_wait:
            raise ColdMiss(self, number)
        try:
            block = read_one(self, index, place)
        except ColdReadError:
            # Another node of the block may be the one that is damaged.
            record = index.data[number * RECORD_BYTES:(number + 1) * RECORD_BYTES]
            return make_loaded(self, place, records[number].offset, self.read_block(record))
        self.cache.admit_one(block)
        return block

    cdef uint32_t locate(self, ID id, uint32_t begin, uint32_t end) except? 0xFFFFFFFF:
        cdef Loaded index = self.get_index()
        cdef const ColdNode *records = records_of(index)
        cdef uint32_t middle
        while end - begin > 1:
            middle = begin + (end - begin) // 2
            if less(id, records[middle].master):
                end = middle
            else:
                begin = middle
        return begin


cdef inline int64_t place_of(const ColdNode *records, uint32_t number) noexcept nogil:
    """The block in which a node begins."""
    return (records[number].offset - records[0].offset) // BLOCK_BYTES


cdef uint32_t block_begin(const ColdNode *records, uint32_t nodes, int64_t place) noexcept nogil:
    """The first node that begins in a block or behind it: block n holds the nodes that begin in its 128 KB."""
    cdef uint32_t low = 0, high = nodes, middle
    while low < high:
        middle = low + (high - low) // 2
        if place_of(records, middle) < place:
            low = middle + 1
        else:
            high = middle
    return low


cdef bint has_nodes(const ColdNode *records, uint32_t nodes, int64_t place) noexcept nogil:
    """Whether a node begins in a block: one that is larger than a block reaches over others."""
    return block_begin(records, nodes, place) < block_begin(records, nodes, place + 1)


cdef Loaded read_one(ColdRun run, Loaded index, int64_t place):
    """Read a block, in any thread."""
    cdef const ColdNode *records = records_of(index)
    cdef uint32_t begin = block_begin(records, run.nodes, place)
    cdef uint32_t end = block_begin(records, run.nodes, place + 1)
    data = run.read_block(index.data[begin * RECORD_BYTES:end * RECORD_BYTES])
    return make_loaded(run, place, records[begin].offset, data)


def fetch(run: ColdRun, node: int, ahead: int = 0) -> list[Loaded]:
    """Read what a ColdMiss misses; in any thread, whatever the cache has.

    Where the block before it is in memory, or the one behind it, somebody reads on in that direction, and so many bytes
    more are read; a run is entered at its first block. What cannot be read of these is left out.
    """
    cdef Loaded index = run.index
    cdef list found = []
    cdef const ColdNode *records
    cdef int64_t place, left, blocks = len(run.blocks), step
    cdef uint32_t begin, end
    if index is None:
        index = make_loaded(run, INDEX, 0, run.read_index())
        found.append(index)
    if node < 0:
        return found
    records = records_of(index)
    place = place_of(records, node)
    found.append(read_one(run, index, place))
    begin = block_begin(records, run.nodes, place)
    end = block_begin(records, run.nodes, place + 1)
    if begin == 0 or run.blocks[place_of(records, begin - 1)] is not None:
        step = 1
    elif end < run.nodes and run.blocks[place_of(records, end)] is not None:
        step = -1
    else:
        return found
    left = ahead // BLOCK_BYTES
    place += step
    while left > 0 and 0 <= place < blocks:
        if run.blocks[place] is None and has_nodes(records, run.nodes, place):
            try:
                found.append(read_one(run, index, place))
            except ColdReadError:
                break
        place += step
        left -= 1
    return found


@cython.final
cdef class ColdCache:
    """What of the runs is in memory: at most about `limit` bytes, and at least what was asked for last."""

    def __init__(self, limit: int) -> None:
        self.most = limit
        self.order = OrderedDict()

    @property
    def limit(self) -> int:
        """Bytes; with a smaller one, what is too much goes at once."""
        return self.most

    @limit.setter
    def limit(self, limit: int) -> None:
        self.most = limit
        self.evict()

    cdef void touch(self, Loaded loaded):
        self.hits += 1
        self.order.move_to_end(loaded)

    cdef int admit_one(self, Loaded loaded) except -1:
        cdef ColdRun run = loaded.run
        if loaded.number == INDEX:
            if run.index is not None:
                return 0
            run.index = loaded
        else:
            if run.blocks[loaded.number] is not None:
                return 0
            run.blocks[loaded.number] = loaded
        self.reads += 1
        self.order[loaded] = None
        self.used += PyBytes_GET_SIZE(loaded.data) + LOADED_OVERHEAD
        self.evict()
        return 0

    cdef int evict(self) except -1:
        cdef Loaded oldest
        while self.used > self.most and len(self.order) > 1:
            oldest = self.order.popitem(last=False)[0]
            self.used -= PyBytes_GET_SIZE(oldest.data) + LOADED_OVERHEAD
            if oldest.number == INDEX:
                oldest.run.index = None
            else:
                oldest.run.blocks[oldest.number] = None
        return 0

    def admit(self, loaded: list[Loaded]) -> None:
        """Take what `fetch` has read."""
        for each in loaded:
            self.admit_one(each)

    def forget(self, run: ColdRun) -> None:
        """Drop all that is in memory of a run that no log refers to."""
        cdef ColdRun forgotten = run
        for loaded in [forgotten.index, *forgotten.blocks]:
            if loaded is not None:
                del self.order[loaded]
                self.used -= PyBytes_GET_SIZE((<Loaded>loaded).data) + LOADED_OVERHEAD
        forgotten.index = None
        forgotten.blocks = [None] * len(forgotten.blocks)


@cython.final
@cython.no_gc
cdef class ColdPart:
    """See the module. It tells its run when it comes and when it goes."""

    def __dealloc__(self):
        if self.run is not None:
            self.run.drop(self.end - self.begin, self.size)

    cdef ColdPart cut(self, uint32_t begin, uint32_t end):
        """Some of the nodes, at least one, as a part of their own."""
        return make_part(self.run, begin, end)

    cdef ColdPart twin(self):
        """The same nodes for another log; reads nothing."""
        cdef ColdPart part = ColdPart.__new__(ColdPart)
        part.begin = self.begin
        part.end = self.end
        part.live = self.live
        part.size = self.size
        part.last = self.last
        part.shape = self.shape
        self.run.keep(self.end - self.begin, self.size)
        part.run = self.run
        return part


cdef ColdPart make_part(ColdRun run, uint32_t begin, uint32_t end):
    cdef ColdPart part = ColdPart.__new__(ColdPart)
    cdef Loaded index = run.get_index()
    cdef const ColdNode *records = records_of(index)
    cdef uint32_t i
    part.begin = begin
    part.end = end
    part.shape = shape_of_one(records[begin].master)
    for i in range(begin, end):
        part.live += records[i].live
        part.size += records[i].size
        if i > begin:
            extend_shape(&part.shape, records[i].master)
    part.last = records[end - 1].last
    run.keep(end - begin, part.size)
    part.run = run
    return part


cdef ColdPart make_known_part(
    ColdRun run, uint32_t begin, uint32_t end, uint64_t live, uint64_t size, ID last, const Shape *shape
):
    cdef ColdPart part = ColdPart.__new__(ColdPart)
    cdef uint64_t nodes = end - begin
    cdef bint at_front = begin == 0, at_back = end == run.nodes
    if begin >= end or end > run.nodes or live < nodes or size < nodes * LP_EMPTY or less(last, shape.last):
        return None
    # What is left of the run, too, holds nodes with entries alive.
    if live > run.live or run.live - live < run.nodes - nodes or size > run.size:
        return None
    if run.size - size < (run.nodes - nodes) * LP_EMPTY:
        return None
    if same(shape.first, run.first) != at_front or same(last, run.last) != at_back:
        return None
    if less(shape.first, run.first) or less(run.last, last):
        return None
    if at_front and at_back and (live != run.live or size != run.size):
        return None
    if not shape_is_possible(shape, nodes):
        return None
    part.begin = begin
    part.end = end
    part.live = live
    part.size = size
    part.last = last
    part.shape = shape[0]
    run.keep(nodes, size)
    part.run = run
    return part


def part_matches(part: ColdPart) -> bool:
    """Compare the figures of a part, which may come from a base, with the index of its run, which may be read."""
    cdef ColdPart given = part
    cdef ColdPart found = make_part(given.run, given.begin, given.end)
    return (
        given.live == found.live
        and given.size == found.size
        and same(given.last, found.last)
        and same(given.shape.first, found.shape.first)
        and same(given.shape.last, found.shape.last)
        and given.shape.nodes == found.shape.nodes
        and given.shape.left == found.shape.left
        and given.shape.right == found.shape.right
    )


# --- checks for those who read files ---------------------------------------------------------------------------

cdef bint node_matches(const ColdNode *record, const byte_t *lp, size_t size) noexcept nogil:
    """Whether bytes from outside are a node, and the one that its record describes."""
    cdef NodeFacts facts
    return (
        size == record.size
        and node_well_formed(lp, size, record.master, &facts)
        and not facts.old
        and facts.live == record.live
        and facts.live > 0
        and same(facts.last, record.last)
        and not is_zero(facts.first)
    )


def index_well_formed(index: bytes, nodes: int) -> bool:
    """Check records from outside: nodes that lie one behind the other, under rising IDs, with entries alive."""
    cdef const ColdNode *records = <const ColdNode *>PyBytes_AS_STRING(index)
    cdef Py_ssize_t count = nodes, i
    if count < 1 or PyBytes_GET_SIZE(index) != count * <Py_ssize_t>RECORD_BYTES:
        return False
    for i in range(count):
        if records[i].size < LP_EMPTY or records[i].live == 0 or less(records[i].last, records[i].master):
            return False
        if i and (records[i].offset != records[i - 1].offset + records[i - 1].size
                  or not less(records[i - 1].last, records[i].master)):
            return False
    return records[0].offset <= records[count - 1].offset


def first_damaged(records: bytes, data: bytes) -> int:
    """Check the bytes of neighbouring nodes against their records: the number of the first that is wrong, or -1."""
    cdef const ColdNode *each = <const ColdNode *>PyBytes_AS_STRING(records)
    cdef const byte_t *lp = <const byte_t *>PyBytes_AS_STRING(data)
    cdef Py_ssize_t count = PyBytes_GET_SIZE(records) // <Py_ssize_t>RECORD_BYTES, i, left = PyBytes_GET_SIZE(data)
    with nogil:
        for i in range(count):
            if left < <Py_ssize_t>each[i].size or not node_matches(&each[i], lp, each[i].size):
                break
            lp += each[i].size
            left -= each[i].size
        else:
            i = count
    return -1 if i == count and left == 0 else i
