from libc.stdint cimport int64_t

from headrace.core.stream cimport Stream
from headrace.engine.call cimport Call
from headrace.engine.rules.book cimport StreamRules

# Have nodes freed beside the event loop that went in great number.
cdef int free_dropped(Call call, Stream stream) except -1

# Remove what the rules of a stream do not let it keep, after something was appended, where `engine.rules.kept` is true.
cdef int keep_limits(Call call, bytes key, Stream stream) except -1

# The same for an XADD whose effect says so: how many entries went, or -1 where it has to be an effect of its own, and
# nothing went.
cdef int64_t keep_limits_within(Call call, bytes key, Stream stream) except? -2

# Delete those entries of these IDs that no group has yet to read or to acknowledge. `texts` are the same IDs as the
# client has written them, where it has.
cdef int drop_finished(Call call, bytes key, Stream stream, StreamRules rules, list ids, list texts=*) except -1

# Have a stream looked at again whose limits ACKED has kept it from, now that something was acknowledged.
cdef int plan_trim(Call call, Stream stream, StreamRules rules) except -1
