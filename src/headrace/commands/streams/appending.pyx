# cython: nonecheck=True
"""The one way for a single entry into a stream, whoever adds it.

    XADD           argv ─► options, spans ─┐
                                           ├─► append_entry ─► its effect ─► finish_appending
    in process     rows ─────────► spans ──┘

The callers differ in where names and values lie, and in what is asked for besides: XADD may trim, and may know its
producer. What an entry does to the stream, its key and those who watch it is here, once.
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE

from headrace.commands.streams.arguments cimport id_text
from headrace.commands.streams.effects cimport emit_settings
from headrace.commands.streams.retention cimport keep_limits
from headrace.core.memory cimport allocate, byte_t, release
from headrace.core.stream_id cimport NEW_ID_AUTO, NEW_ID_AUTO_SEQ, generate_id, generate_seq, less, max_id, same
from headrace.engine.pubsub.notifications cimport STREAM

from headrace.core.errors import EntryTooLarge
from headrace.engine.errors import WRONG_TYPE, CommandError

cdef bytes SMALL_ID = b"ERR The ID specified in XADD is equal or smaller than the target stream top item"
cdef bytes EXHAUSTED = b"ERR The stream has exhausted the last possible ID, unable to add more items"
TOO_LARGE = b"ERR Elements are too large to be stored"


def new_stream(Call call) -> Stream:
    """Make an empty stream with the settings of now, which no key has yet; effects say what those are.

    Whoever repeats effects knows no settings: there, a stream begins with the defaults.
    """
    cdef Stream stream = Stream(call.engine.node_limits)
    if not call.engine.applying:
        config = call.engine.config
        stream.producers.set_limits(config["stream-idmp-duration"], config["stream-idmp-maxsize"])
    return stream


def hand_over_settings(Call call, bytes key, Stream stream) -> None:
    """Emit, behind the effect that made a stream, what it was made with; for commands that are not compiled."""
    emit_settings(call, key, stream)


def keep_after_appending(Call call, bytes key, Stream stream) -> None:
    """Remove what a rule does not let a stream keep any longer; for commands that are not compiled."""
    if call.engine.rules.kept and not call.engine.applying:
        keep_limits(call, key, stream)


cpdef bytes append_message(Call call, bytes key, list words):
    """Append a message of names and values (in turn), with an ID of now, to the stream of a key; returns its ID.

    A refusal changes nothing. The effect is an XADD with the ID.
    """
    cdef object value = call.find(key)
    cdef Stream stream
    cdef bint is_new = value is None
    cdef ID id
    cdef Py_ssize_t count = len(words)
    cdef Py_ssize_t i
    cdef Span *pairs
    if is_new:
        stream = new_stream(call)
    elif type(value) is Stream:
        stream = <Stream>value
    else:
        raise CommandError(WRONG_TYPE)
    pairs = <Span *>allocate(count * sizeof(Span))
    if pairs == NULL:
        raise MemoryError
    try:
        for i in range(count):
            pairs[i].data = <const byte_t *>PyBytes_AS_STRING(<bytes>words[i])
            pairs[i].size = PyBytes_GET_SIZE(<bytes>words[i])
        append_entry(call, key, stream, is_new, NEW_ID_AUTO, &id, pairs, count // 2)
        emit_entry(call, key, id, pairs, count // 2)
    except EntryTooLarge:
        raise CommandError(TOO_LARGE) from None
    finally:
        release(pairs)
    finish_appending(call, key, stream, is_new)
    return id_text(id)


cdef int append_entry(Call call, bytes key, Stream stream, bint is_new, NewID kind, ID *id,
                      const Span *pairs, size_t fields) except -1:
    if same(stream.log.last_id, max_id()):
        raise CommandError(EXHAUSTED)
    if kind == NEW_ID_AUTO:
        generate_id(stream.log.last_id, call.now_ms, id)
    elif kind == NEW_ID_AUTO_SEQ and not generate_seq(stream.log.last_id, id.ms, id):
        raise CommandError(SMALL_ID)
    elif not less(stream.log.last_id, id[0]):
        raise CommandError(SMALL_ID)
    stream.log.append(id[0], pairs, fields)
    if is_new:
        call.create(key, stream)
    call.engine.dirty += 1
    if call.db.watchers or call.engine.observers.present:
        call.engine.keyspace.touch(call.db, key)
    call.notify(STREAM, b"xadd", key)
    return 0


cdef int emit_entry(Call call, bytes key, ID id, const Span *pairs, size_t fields) except -1:
    cdef list effect
    cdef size_t i
    if not call.engine.effects.wanted:
        return call.emit_nothing()
    effect = [b"XADD", key, id_text(id)]
    for i in range(2 * fields):
        effect.append(PyBytes_FromStringAndSize(<const char *>pairs[i].data, pairs[i].size))
    return call.emit(effect)


cdef int finish_appending(Call call, bytes key, Stream stream, bint is_new, bint trimmed=False) except -1:
    if is_new:
        emit_settings(call, key, stream)
    if call.engine.rules.kept and not trimmed and not call.engine.applying:
        keep_limits(call, key, stream)
    return call.engine.keyspace.signal(call.db, key)
