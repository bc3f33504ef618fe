# cython: nonecheck=True
"""The journal: effects on their way to the disk, and the replies that wait for them.

    effects ─► filling ─┬─ commit ─► worker: write, fdatasync ─► safe ─► replies leave
                        └─ meanwhile the next group fills

Under `always`, a reply leaves when every effect before it is on disk. That is group commit: while one group is written
and synced beside the event loop, the next is executed, and one sync covers all of it. Since every reply waits for
whatever was taken before it, a reader is never told of a write that a crash could undo. A group ends with the event
loop's turn, or as soon as the disk is idle and filling it took twice as long as a sync.

Under `everysec` and `no` a reply waits for the write only, which survives the end of the process but not of the
machine; it is made on this thread, also while the worker syncs. A disk that is slower than the clients makes their
requests wait, not the effects pile up.

    position ≥ written ≥ synced         bytes of effects since the start
    safe                                synced under `always`, else written

A rewrite goes from one file to the next without anybody waiting for the disk but writers (`change_file`): what was
taken before the change is synced beside the event loop, and what is taken meanwhile fills the first group of the next
file. So nothing is in the next file unless all of the one before is on disk.

What is written together is a group, and sealed: before it stands an annotation, which Redis skips, with its size, how
much before it was not synced yet when it was written, and its checksum (see formats.aof_seal),

    #HR:00000000ae:00000000:9c3b5f0f5e6f6a11\\r\\n*5\\r\\n$4\\r\\nXADD\\r\\n …

so that a reader can tell what a crash tore from what was written, and that from what a disk lost (see storage.tail).

Under `always` the file is written into space that was filled with zeros before, a megabyte at a time, because to sync
bytes that are there already is cheaper than to sync a file that grows: 110 µs against 175 on an idle ext4, and the
difference is larger on a busy one. What was not used is cut when the journal lets go of the file; after a crash,
recovery cuts it.

Where `min-replicas-to-confirm` is set, a reply waits for replicas as well: until enough of them have told that the
effects before it are on their disks (`confirm`). One acknowledgement covers all that waits for less.

When the disk refuses, the effects come back here. Clients whose replies waited are told that the fate of their writes
is unknown. Then reads go on, while the engine refuses writes, until `retry` has got everything out. After a failed sync
nothing may be written behind what it should have covered: the system may have dropped it. Then, and when memory was too
short to take an effect, the journal is `incomplete`, and only a new file behind a new base mends that. Keys expire
while that base is written: `collect` takes their effects from its moment on, and they are the first in the new file.
"""

cimport cython
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.list cimport PyList_GET_SIZE
from libc.errno cimport ENOMEM
from libc.stdint cimport uint64_t
from libc.string cimport memcpy

from headrace.core.growth cimport grow
from headrace.core.memory cimport byte_t, release as free_block
from headrace.engine.effect_log cimport EffectLog
from headrace.formats.aof cimport place
from headrace.formats.aof_seal cimport SEAL_SIZE, put_seal
from headrace.storage.worker cimport Outcome, Worker, empty

from contextlib import suppress
from time import monotonic

from headrace.formats.aof import encode
from headrace.storage.errors import fate_unknown


cdef uint64_t NOTHING_AWAITED = <uint64_t>-1    # as an offset that replicas have confirmed

cdef dict POLICIES = {"always": ALWAYS, "everysec": EVERYSEC, "no": NEVER}


@cython.final
cdef class Journal(Subscriber):
    """See the module. Everything but the worker's jobs happens on the thread that owns the engine.

    Without `background`, these too: the worker then calls the disk, at once or when `completed` is called.
    """

    def __init__(self, disk, *, background: bool, effects: EffectLog | None = None):
        self.disk = disk
        self.effects = effects if effects is not None else EffectLog()
        self.confirmed = NOTHING_AWAITED
        self.worker = Worker(None if background else disk)
        self.immediate = not background
        self.held = []
        self.stalled = []
        self.policy = ALWAYS
        self.room = 1 << 20
        self.synced_at = monotonic()

    def __dealloc__(self):
        free_block(self.filling.data)
        free_block(self.refused.data)

    @property
    def fileno(self) -> int:
        """What can be read when `completed` should be called."""
        return self.worker.fileno

    @property
    def buffered(self) -> int:
        """How many bytes the system has not been given yet."""
        return self.position - self.written

    @property
    def held_count(self) -> int:
        """How many clients' replies wait: for the disk, for replicas, or for both."""
        return len(self.held)

    @property
    def unconfirmed_count(self) -> int:
        """How many of them wait for replicas."""
        cdef Held held
        cdef Py_ssize_t count = 0
        if self.confirms:
            for held in self.held:
                count += held.offset > self.confirmed
        return count

    @property
    def sync_times(self) -> list[tuple[int, int]]:
        """How long groups took to write and sync: (nanoseconds, how many took at most that), then (sum, count)."""
        return self.worker.seen_sync_times()

    @property
    def group_sizes(self) -> list[tuple[int, int]]:
        """How many units one sync covered, under `always`: (units, how many had at most that), then (sum, count)."""
        return self.worker.seen_group_sizes()

    # --- files -------------------------------------------------------------------------------------------------

    def attach(self, file, size: int) -> None:
        """Write into an open file that has `size` bytes, from now on.

        What was taken before is out, or in its base, but for what was collected: that is written first.
        """
        self.await_worker()
        if self.worker is not None:
            self.worker.forget()
        if not self.collecting:
            empty(&self.filling)
            self.starts_anew = True
        empty(&self.refused)
        self.file = file
        self.size = size
        self.prepared = False
        self.written = self.synced = self.safe = self.position - self.filling.size
        self.failing = self.incomplete = False
        if file is not None:
            self.collecting = False
        self.send_safe()
        self.resume_stalled()
        if self.filling.size:
            self.commit_soon()

    def detach(self):
        """Write nowhere from now on; returns the file, which is the caller's to close."""
        file = self.file
        self.await_worker()             # it writes into what is about to be cut
        with suppress(OSError):
            self.unprepare()            # where the disk refuses even that, zeros remain, which is no harm
        self.attach(None, 0)
        return file

    @property
    def changes_file(self) -> bool:
        """Whether the disk does not have all yet that belongs to the file before the next one."""
        return self.next_file is not None

    def change_file(self, file, changed) -> None:
        """Write what is taken from now on into another open file, which is empty.

        When the disk has what was taken before, `changed` is called with the file of before, which is the caller's to
        close. Where the disk refuses that, it is called with None: what was taken goes on in the file of before.
        """
        self.commit()
        if self.filling.size:
            self.drain()                # memory is too short to give it to the worker
        if self.failing:
            changed(None)
            return
        self.next_file = file
        self.on_changed = changed
        self.starts_anew = True
        self.advance_change()

    cdef int advance_change(self) except -1:
        """Write into the next file, if the disk has what was taken before; else have that synced."""
        if self.next_file is None or self.busy:
            return 0
        if self.written != self.synced:
            return self.begin_sync()
        before = self.file
        with suppress(OSError):
            self.unprepare()            # as in `detach`
        self.file = self.next_file
        self.size = 0
        self.prepared = False
        self.safe = self.written
        self.end_change(before)
        self.send_safe()
        if self.filling.size:
            self.commit_soon()
        return 0

    cdef int end_change(self, object before) except -1:
        changed = self.on_changed
        self.next_file = self.on_changed = None
        changed(before)
        return 0

    cdef int await_worker(self) except -1:
        """Let the worker end what it does, whatever comes of it."""
        while self.busy:
            self.busy = self.worker.collect().more
        return 0

    def set_policy(self, name: str) -> None:
        """Follow `appendfsync`; an OSError where the file cannot be made ready for it, and nothing has changed."""
        cdef int policy = POLICIES[name]
        if policy == self.policy:
            return
        if self.file is not None and not self.failing:
            self.drain()
            self.unprepare()
        self.policy = policy

    def cut_unused(self) -> None:
        """Cut what was prepared and not used; the next commit prepares again."""
        self.unprepare()

    cdef int prepare(self) except -1:
        """Write at places from now on, not at the end: the end is behind the zeros."""
        if not self.prepared:
            self.disk.write_anywhere(self.file)
            self.prepared = True
            self.zeroed = self.size
        return 0

    cdef int unprepare(self) except -1:
        """Cut the zeros, and write at the end again."""
        if self.prepared:
            self.disk.truncate(self.file, self.size)
            self.disk.write_at_end(self.file)
            self.prepared = False
        return 0

    # --- effects -----------------------------------------------------------------------------------------------

    cdef int begin(self, EffectLog log) except -1:
        """Say in the file which database and which place of which history what follows is at.

        This SELECT is the file's own, so that it stands before the place, and does not count.
        """
        cdef bytes text = place(log.history, log.offset)
        if log.selected >= 0:
            text = encode([b"SELECT", b"%d" % log.selected]) + text
        return self.take(<const byte_t *>PyBytes_AS_STRING(text), PyBytes_GET_SIZE(text))

    cdef int take(self, const byte_t *data, size_t size) except -1:
        """Take the effects of one command or transaction, behind room for the seal."""
        cdef size_t before = self.filling.size
        cdef size_t begin = before or SEAL_SIZE
        if self.incomplete and not self.collecting:
            return 0
        if not grow(&self.filling.data, &self.filling.capacity, begin + size):
            return self.miss()
        memcpy(self.filling.data + begin, data, size)
        self.filling.size = begin + size
        self.filling.units += 1
        self.position += self.filling.size - before
        return self.commit_soon()

    cdef int miss(self) except -1:
        """There is no memory for an effect: the file will not have it."""
        self.incomplete = True
        self.collecting = False
        self.position += 1              # so that the reply is held, and `commit` can fail it
        return self.commit_soon()

    # --- committing --------------------------------------------------------------------------------------------

    cdef int commit_soon(self) except -1:
        if not self.scheduled and not self.unscheduled and self.schedule is not None:
            self.scheduled = True
            # A sync covers what comes meanwhile: let in clients that were woken by the replies of the last one.
            self.schedule(self.commit, self.policy == ALWAYS)
        return 0

    def commit(self) -> None:
        """Bring out what was taken: beside this thread under `always`, else at once."""
        self.scheduled = False
        if self.failing or self.file is None:
            return
        if self.incomplete:
            self.fail(ENOMEM, False)
        elif self.filling.size == 0 or self.next_file is not None:
            return
        elif self.policy == ALWAYS:
            self.give()
        else:
            self.write_out()

    cdef int seal(self) except -1:
        """Put the seal before what is filled; again, where the disk refused it and more was taken since."""
        put_seal(self.filling.data, self.filling.size - SEAL_SIZE, self.written - self.synced)
        return 0

    cdef int give(self) except -1:
        """Let the worker write and sync what is filled."""
        if not self.busy:
            if self.room:
                self.prepare()
            self.set_target()
        self.busy = True
        self.filled_since = 0
        try:
            self.worker.give(&self.filling)
        except MemoryError:
            pass                        # to put it behind what waits; when that is written, the worker can take this
        if self.immediate:
            self.completed()
        return 0

    cpdef int commit_here(self) except -1:
        """Write and sync on this thread what a lone client has had done: nobody is there to be served meanwhile.

        Without handing it to the worker and hearing of it, one client that waits for each XADD gets 1.1 to 1.3 times as
        many as from redis-server, in place of 0.96, and the system works a third less.
        """
        self.unscheduled = False
        if not self.filling.size or self.scheduled:
            return 0
        if (
            self.policy != ALWAYS or self.busy or self.failing or self.incomplete or self.confirms
            or self.file is None or self.next_file is not None or self.sync_took > SHORT_SYNC
        ):
            return self.commit_soon()
        if self.room:
            self.prepare()
        self.set_target()
        self.busy = True
        self.filled_since = 0
        self.worker.give_here(&self.filling)
        self.completed()
        return 0

    cdef int begin_sync(self) except -1:
        """Let the worker sync what was written."""
        self.set_target()
        self.busy = True
        self.sync_end = self.written
        self.synced_at = monotonic()
        self.worker.sync()
        if self.immediate:
            self.completed()
        return 0

    cdef int set_target(self) except -1:
        """Tell the worker, which does nothing now, where to write."""
        self.worker.target.file = self.file
        self.worker.target.in_place = self.prepared
        self.worker.target.end = self.size
        self.worker.target.zeroed = self.zeroed
        self.worker.target.room = self.room
        return 0

    def write_out(self) -> None:
        """Give the system what was taken, on this thread."""
        cdef int error
        self.seal()
        error = self.worker.write_now(self.file, &self.filling)
        if error:
            self.fail(error, False)
            return
        self.size += self.filling.size
        self.written += self.filling.size
        empty(&self.filling)
        self.safe = self.written
        self.send_safe()
        self.resume_stalled()

    def completed(self) -> None:
        """Take what the worker has done."""
        cdef Outcome outcome
        if not self.busy:
            return                      # the event loop saw that there is something, and `drain` took it first
        outcome = self.worker.collect()
        self.busy = outcome.more
        self.size += outcome.written
        self.written += outcome.written
        self.syncs += outcome.syncs
        self.sync_took = outcome.took
        if not self.busy and self.prepared:
            self.zeroed = self.worker.target.zeroed
        if outcome.error:
            self.take_back()
            self.fail(outcome.error, outcome.sync_failed)
            return
        if self.policy == ALWAYS:
            self.synced = self.safe = self.written
        else:
            self.synced = self.sync_end
            self.safe = self.written
        self.send_safe()
        if self.on_synced is not None:
            self.on_synced()
        self.advance_change()
        if self.filling.size:
            self.commit_soon()
        self.resume_stalled()

    cdef int take_back(self) except -1:
        """Have what the worker did not write, before what was taken since."""
        try:
            self.worker.take_back(&self.refused)
        except MemoryError:
            self.incomplete = True
        return 0

    def sync_due(self) -> None:
        """Under `everysec`: sync what was written, where the last time is a second ago."""
        if (self.policy == EVERYSEC and self.written != self.synced and not self.busy and not self.failing
                and monotonic() - self.synced_at >= 1.0):
            self.begin_sync()

    def sync_beside(self) -> None:
        """Sync what was written, whatever the policy, beside this thread; nothing where it does something already."""
        if self.written != self.synced and not self.busy and not self.failing:
            self.begin_sync()

    def drain(self) -> None:
        """Have everything on disk, whatever the policy, unless the disk fails."""
        while self.file is not None and not self.failing:
            if self.busy:
                self.completed()
            elif self.next_file is not None:
                self.advance_change()
            elif self.filling.size:
                self.commit()
            elif self.written == self.synced:
                break
            else:
                self.begin_sync()

    # --- failing -----------------------------------------------------------------------------------------------

    cdef int fail(self, int error, bint sync_failed) except -1:
        """The disk refuses: tell the clients whose replies wait, and the host."""
        self.failing = True
        if sync_failed:
            self.incomplete = True
        if self.next_file is not None:
            self.end_change(None)
        if self.on_failure is not None:
            self.on_failure(error, sync_failed)
        waiting = self.held
        self.held = []
        for held in waiting:
            (<Held>held).channel.fail(fate_unknown(error))
        self.resume_stalled()
        return 0

    def fail_file(self, error: int) -> None:
        """The file is not what a start would find: only a new one behind a new base will do."""
        self.incomplete = True
        self.fail(error, False)

    def retry(self) -> bool:
        """Try to bring out what the disk refused, and tell whether it took it; `incomplete` needs a new file."""
        cdef bint written = False
        if self.busy:
            return False                # a sync goes on
        try:
            self.unprepare()
            self.disk.truncate(self.file, self.size)
            self.disk.append(self.file, PyBytes_FromStringAndSize(<char *>self.refused.data, self.refused.size))
            written = True
            self.disk.sync(self.file)
        except OSError:
            self.incomplete = self.incomplete or written
            return False
        self.size += self.refused.size
        self.written += self.refused.size
        empty(&self.refused)
        self.synced = self.safe = self.written
        self.failing = False
        self.drain()                    # what was taken since, such as keys that expired
        return not self.failing

    def collect(self) -> None:
        """Take effects again, which are written nowhere yet: a base of the data of now is made, and they follow it."""
        self.stop_collecting()
        self.collecting = True

    def stop_collecting(self) -> None:
        """Drop what was collected: there will be no such base."""
        if self.incomplete:
            empty(&self.filling)
            self.starts_anew = True
        self.collecting = False

    # --- replies -----------------------------------------------------------------------------------------------

    cdef int hold(self, object channel, uint64_t told, list chunks) except -1:
        """Keep replies, which may tell of data up to an offset, until the effects before them are safe."""
        cdef Held held = Held.__new__(Held)
        held.position = 0 if self.failing else self.position
        held.channel = channel
        held.chunks = chunks
        if self.confirms:
            held.offset = told
            held.since = monotonic()
        self.held.append(held)
        return 0

    cdef int send_safe(self) except -1:
        """Send the replies that wait for nothing any more."""
        cdef Py_ssize_t count = 0
        cdef list held = self.held
        cdef Held first
        if not held:
            return 0
        if self.confirms:
            return self.send_confirmed()
        while count < PyList_GET_SIZE(held):
            first = <Held>held[count]
            if first.position > self.safe:
                break
            count += 1
        self.held = held[count:]
        for first in held[:count]:
            first.channel.send(first.chunks)
        return 0

    # --- replicas ----------------------------------------------------------------------------------------------

    cdef int send_confirmed(self) except -1:
        """Send the replies that wait for nothing any more, each client's in their order.

        Others are not waited for: a reply to a replica that comes back must not wait for what only it can confirm.
        """
        cdef Held held
        cdef double now
        cdef list sent = []
        cdef list kept = []
        cdef set waiting = set()
        for held in self.held:
            if held.position > self.safe or held.offset > self.confirmed or held.channel in waiting:
                waiting.add(held.channel)
                kept.append(held)
            else:
                sent.append(held)
        self.held = kept
        now = monotonic()
        for held in sent:
            if held.since:              # else it was held before replies began to wait for replicas
                self.confirm_waits += 1
                self.confirm_waited += now - held.since
            held.channel.send(held.chunks)
        return 0

    def await_replicas(self, wanted: bool, confirmed: int = 0) -> None:
        """Let replies wait for replicas, too, from now on, which have everything up to an offset; or no longer."""
        self.confirms = wanted
        self.confirmed = confirmed if wanted else NOTHING_AWAITED
        self.send_safe()
        self.resume_stalled()

    def confirm(self, offset: int) -> None:
        """Note that enough replicas have the effects up to an offset on their disks."""
        if self.confirms and <uint64_t>offset > self.confirmed:
            self.confirmed = offset
            self.send_safe()
            self.resume_stalled()

    def give_up(self, since: float, text: bytes) -> int:
        """End the connections whose replies have waited for replicas since a time or before; returns how many."""
        cdef Held held
        overdue = {held.channel for held in self.held if held.offset > self.confirmed and held.since <= since}
        if overdue:
            self.held = [held for held in self.held if held.channel not in overdue]
            for channel in overdue:
                channel.fail(text)
            self.send_safe()
        return len(overdue)

    cdef int stall(self, object channel) except -1:
        """Resume a channel, whose requests wait, when the disk has taken something."""
        self.stalled.append(channel)
        return 0

    cdef int resume_stalled(self) except -1:
        """Resume the channels whose requests wait."""
        cdef list stalled = self.stalled
        if stalled:
            self.stalled = []
            for channel in stalled:
                channel.resume_stalled()
        return 0

    def close(self) -> None:
        """Bring out everything and end the worker; the file stays the caller's."""
        self.drain()
        if self.worker is not None:
            self.worker.stop()
            self.worker = None
