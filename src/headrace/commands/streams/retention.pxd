from headrace.core.stream cimport Stream
from headrace.engine.call cimport Call
from headrace.engine.rules.book cimport StreamRules

# Have nodes freed beside the event loop that went in great number.
cdef int free_dropped(Call call, Stream stream) except -1

# Remove what the rules of a stream do not let it keep; for whatever has appended to it, where `engine.ruled` is true.
cdef int keep_limits(Call call, bytes key, Stream stream) except -1

# Delete those entries of these IDs that no group has yet to read or to acknowledge.
cdef int drop_finished(Call call, bytes key, Stream stream, StreamRules rules, list ids) except -1

# Have a stream looked at again whose limits ACKED has kept it from, now that something was acknowledged.
cdef int plan_trim(Call call, Stream stream, StreamRules rules) except -1
