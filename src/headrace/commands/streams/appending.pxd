from headrace.core.memory cimport Span
from headrace.core.stream cimport Stream
from headrace.core.stream_id cimport ID, NewID
from headrace.engine.call cimport Call

# Append an entry of `fields` names and values (in turn) to the stream of a key. `kind` says how far `id` is given; it
# receives the ID that the entry has got. `is_new`: no key has the stream yet, and this key gets it.
# Counts the change, fails transactions that watch the key, and announces the entry. A refusal changes nothing; an entry
# that is too large is refused by the log, with EntryTooLarge.
cdef int append_entry(Call call, bytes key, Stream stream, bint is_new, NewID kind, ID *id,
                      const Span *pairs, size_t fields) except -1

# Note as its effect that an entry was appended, where nothing was asked for besides.
cdef int emit_entry(Call call, bytes key, ID id, const Span *pairs, size_t fields) except -1

# End a command that has appended: settings that a new stream was made with become an effect, what a rule of the stream
# does not let it keep goes (`trimmed`: it has gone), and readers wake.
cdef int finish_appending(Call call, bytes key, Stream stream, bint is_new, bint trimmed=*) except -1

# Append a message of names and values (in turn) with an ID of now; the key is made where it is missing.
cpdef bytes append_message(Call call, bytes key, list words)
