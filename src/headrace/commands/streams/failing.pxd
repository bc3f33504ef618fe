from libc.stdint cimport int64_t, uint32_t, uint64_t

from headrace.core.group cimport Consumer, Group, Verdict
from headrace.core.stream cimport Stream
from headrace.core.stream_id cimport ID, StreamID
from headrace.engine.call cimport Call
from headrace.engine.rules.book cimport GroupRules

# The rules of a group, or None. Only where `engine.rules.kept` is true, and no effect is repeated.
cdef GroupRules rules_of(Call call, bytes key, bytes group)

# The IDs of entries that a plain read gets again, `most` of them at most (0: all). What was delivered too often has
# become a dead letter, and what has to wait for its next delivery waits, when this returns.
cdef list take_due(Call call, bytes key, Group group, GroupRules rules, uint64_t most)
# Deliver one of these to a consumer; `before` is how far the group had read. False where it is not to be had any more.
cdef bint redeliver(Call call, bytes key, Group group, GroupRules rules, Consumer consumer, StreamID id,
                    ID before) except -1
# Make dead letters of what a consumer reads once more behind an ID, `most` entries at most (0: all), and has got too
# often already: a worker that dies of an entry, and reads it first when it is back, would get it for ever.
cdef int give_up_owned(Call call, bytes key, Group group, GroupRules rules, Consumer consumer, ID behind,
                       uint64_t most) except -1
# Make a dead letter of a record that a consumer claims, if it was delivered too often already; whether it is one.
cdef bint give_up_claimed(Call call, bytes key, Group group, GroupRules rules, uint32_t slot) except -1
# The same for all that XREADGROUP with CLAIM would get, `most` entries at most (0: all).
cdef int give_up_idle(Call call, bytes key, Group group, GroupRules rules, int64_t min_idle, uint64_t most) except -1
# Put back what was taken and not delivered.
cdef int return_due(Call call, GroupRules rules, list ids) except -1
# When a read may get something again that it does not get now, in Unix ms; -1: never, as far as is known.
cdef int64_t next_due(Call call, Group group, GroupRules rules) except? -2
# Have the group looked at in time, now that something was delivered or a consumer was seen.
cdef int expect_failures(Call call, GroupRules rules) except -1

# What XNACK asks for: the record is released, waits, or has become a dead letter. `deliveries` is what it counts then.
cdef int reject(Call call, bytes key, Group group, GroupRules rules, uint32_t slot, Verdict verdict,
                uint64_t deliveries) except -1
# What follows an acknowledgement: nothing waits for these IDs, and entries that everybody has finished may go.
cdef int settle_acknowledged(Call call, bytes key, Stream stream, bytes group, list ids, list texts) except -1

# Make a group that is missing, and its stream, where a rule says so; None where none does.
cdef Group create_missing(Call call, bytes key, Stream stream, bytes group)
