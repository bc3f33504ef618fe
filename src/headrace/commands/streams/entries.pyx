# cython: nonecheck=True
"""Commands on the entries of a stream: adding, trimming, reading by ID, and the counters of history."""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE
from cpython.list cimport PyList_GET_ITEM, PyList_GetSlice, PyList_New, PyList_SET_ITEM
from cpython.ref cimport Py_INCREF
from libc.stdint cimport int64_t, uint64_t
from libc.string cimport memset

from headrace.commands.streams.appending cimport append_entry, finish_appending
from headrace.commands.streams.arguments cimport (
    id_text, is_word, lower_bound, number, policy_word, reply_entry, strict_id, upper_bound,
)
from headrace.commands.streams.effects cimport (
    emit_acked_trim, emit_acknowledged, emit_duplicate, emit_record, knows_policies, knows_producers,
)
from headrace.commands.streams.retention cimport free_dropped, keep_limits_within
from headrace.commands.streams.history cimport expect_range, expect_trim
from headrace.core.entry_log cimport EntryCursor, open_cursor
from headrace.core.group cimport Group
from headrace.core.memory cimport Span, allocate, byte_t, release
from headrace.core.stream cimport ACKED, KEEPREF, Policy, Stream, TrimGoal, TrimRecord
from headrace.core.stream_id cimport (
    NEW_ID_AUTO, NEW_ID_BAD, NEW_ID_GIVEN, ID, NewID, StreamID, is_zero, less, make_id, max_id, parse_new, same,
    wrap_id,
)
from headrace.engine.call cimport Call
from headrace.engine.command cimport DENY_OOM, FAST, READ, READS_HISTORY, WRITE
from headrace.engine.pubsub.notifications cimport STREAM

from headrace.commands.streams.idempotence import automatic_id
from headrace.commands.streams.appending import TOO_LARGE, new_stream
from headrace.commands.streams.arguments import INVALID_ID
from headrace.commands.declaration.table import FIRST, command
from headrace.core.errors import ColdReadError, EntryTooLarge
from headrace.engine.errors import NO_SUCH_KEY, SYNTAX, CommandError, wrong_arity

cdef enum:
    SPANS_ON_STACK = 64
    COUNT_FIRST = 1000          # a longer reply is counted before it is written, so that it can leave in parts

cdef uint64_t recent_length = 0
cdef bytes recent_length_text = b"0"

cdef bytes ZERO_ID = b"ERR The ID specified in XADD must be greater than 0-0"


# --- XADD and XTRIM --------------------------------------------------------------------------------------------

# What stands between the key and the ID of XADD, or behind the key of XTRIM.
ctypedef struct Options:
    bint trims
    TrimGoal goal
    Py_ssize_t threshold        # where the threshold stands
    bint limit_given
    Py_ssize_t policy           # where the policy stands; 0: it was not given
    ID reached                  # how far the trim has looked
    bint no_make
    Py_ssize_t producer         # where the producer's name stands; 0: not idempotent
    bint automatic              # IDMPAUTO: the idempotent ID comes from the fields
    NewID kind
    ID id


cdef Py_ssize_t parse_trim(Call call, Py_ssize_t i, Options *options) except -1:
    """MAXLEN or MINID with its threshold; the index of the threshold."""
    cdef Py_ssize_t more = call.argc - 1 - i
    if options.trims:
        raise CommandError(b"ERR syntax error, MAXLEN and MINID options at the same time are not compatible")
    options.goal.by_length = is_word(call.argv[i], b"maxlen")
    if more >= 2 and call.argv[i + 1] == b"~":
        options.goal.approximate = True
        i += 1
    elif more >= 2 and call.argv[i + 1] == b"=":
        i += 1
    i += 1
    if options.goal.by_length:
        length = call.integer(i)
        if length < 0:
            raise CommandError(b"ERR The MAXLEN argument must be >= 0.")
        options.goal.length = length
    else:
        options.goal.min_id = strict_id(call, i)
    options.trims = True
    options.threshold = i
    return i


cdef Py_ssize_t parse_idempotence(Call call, Py_ssize_t i, Options *options) except -1:
    """IDMPAUTO producer, or IDMP producer id; the index of the last of them."""
    cdef bint automatic = is_word(call.argv[i], b"idmpauto")
    word = b"IDMPAUTO" if automatic else b"IDMP"
    if options.producer:
        raise CommandError(b"ERR syntax error, IDMP/IDMPAUTO specified multiple times")
    if not call.argv[i + 1]:
        raise CommandError(b"ERR syntax error, %s requires a non-empty producer ID" % word)
    if not automatic and not call.argv[i + 2]:
        raise CommandError(b"ERR syntax error, IDMP requires a non-empty idempotent ID")
    options.producer = i + 1
    options.automatic = automatic
    return i + 1 if automatic else i + 2


cdef Py_ssize_t parse_options(Call call, bint adds, Options *options) except -1:
    """Read the options of XADD (up to its ID, whose index is returned) or of XTRIM."""
    cdef Py_ssize_t i = 2
    cdef Py_ssize_t more
    cdef bytes text
    cdef int64_t entries
    memset(options, 0, sizeof(Options))
    while i < call.argc:
        more = call.argc - 1 - i
        text = <bytes>call.argv[i]
        if adds and len(text) == 1 and text[0] == c"*":
            options.kind = NEW_ID_AUTO
            break
        elif more >= 1 and (is_word(text, b"maxlen") or is_word(text, b"minid")):
            i = parse_trim(call, i, options)
        elif more >= 1 and is_word(text, b"limit"):
            i += 1
            limit = call.integer(i)
            if limit < 0:
                raise CommandError(b"ERR The LIMIT argument must be >= 0.")
            options.goal.limit = limit
            options.limit_given = True
        elif not options.policy and policy_word(text, &options.goal.policy):
            options.policy = i
        elif adds and is_word(text, b"nomkstream"):
            options.no_make = True
        elif adds and more >= 1 and is_word(text, b"idmpauto"):
            i = parse_idempotence(call, i, options)
        elif adds and more >= 2 and is_word(text, b"idmp"):
            i = parse_idempotence(call, i, options)
        elif adds:
            options.kind = parse_new(text, len(text), &options.id)
            if options.kind == NEW_ID_BAD:
                raise CommandError(INVALID_ID)
            if options.producer and not call.engine.applying:
                raise CommandError(b"ERR syntax error, IDMP/IDMPAUTO can be used only with auto-generated IDs")
            break
        else:
            raise CommandError(SYNTAX)
        i += 1

    if options.goal.limit and not options.trims:
        raise CommandError(b"ERR syntax error, LIMIT cannot be used without specifying a trimming strategy")
    if not adds and not options.trims:
        raise CommandError(b"ERR syntax error, XTRIM must be called with a trimming strategy")
    if call.engine.applying:
        options.goal.limit = 0
    elif options.limit_given:
        if not options.goal.approximate:
            raise CommandError(b"ERR syntax error, LIMIT cannot be used without the special ~ option")
    elif options.goal.approximate:
        entries = 100 * <int64_t>call.engine.node_limits.max_entries
        options.goal.limit = min(entries if entries > 0 else 10000, 1000000)
    return i


cdef list exact_trim(Call call, Stream stream, const Options *options):
    """The command as its repetition removes what it removed here, whatever the nodes then are.

    Redis rewrites every policy as KEEPREF. ACKED may end before it has reached a length, where a node ends, and starts
    from another place when it is repeated: it is told how far it has looked.
    """
    cdef list argv = PyList_GetSlice(call.argv, 0, call.argc)
    cdef Policy policy = options.goal.policy
    cdef ID bound = options.reached
    if not options.goal.approximate and not (options.goal.by_length and policy == ACKED):
        return argv
    if options.goal.approximate:
        argv[options.threshold - 1] = b"="
    if options.goal.by_length and policy != ACKED:
        argv[options.threshold] = number(stream.log.length)
    elif options.goal.by_length and same(bound, max_id()) and not stream.log.contains(bound):
        argv[options.threshold] = b"0"          # no ID is greater, so that MINID could not tell that all were looked at
    else:
        if policy == KEEPREF and not stream.log.first_stored(&bound):
            bound = max_id()
        argv[options.threshold - (2 if is_mark(argv[options.threshold - 1]) else 1)] = b"MINID"
        argv[options.threshold] = id_text(bound)
    return argv


cdef list with_length(Call call, Py_ssize_t at, ID id, uint64_t length):
    """An XADD without a trim as it is repeated with one, which leaves so many entries; its ID stands at `at`.

    Items of the new list are set once: 500 instructions less than a copy into which others are inserted.
    """
    cdef list argv = PyList_New(call.argc + 3)
    cdef Py_ssize_t i
    for i in range(call.argc):
        put_item(argv, i if i < 2 else i + 3, id_text(id) if i == at else <object>PyList_GET_ITEM(call.argv, i))
    put_item(argv, 2, b"MAXLEN")
    put_item(argv, 3, b"=")
    put_item(argv, 4, decimal_of(length))
    return argv


cdef inline void put_item(list items, Py_ssize_t at, object item):
    Py_INCREF(item)
    PyList_SET_ITEM(items, at, item)


cdef inline bytes decimal_of(uint64_t length):
    """The number as text, which is that of the call before where a stream is kept at one length."""
    global recent_length, recent_length_text
    if length != recent_length:
        recent_length_text = number(<int64_t>length)
        recent_length = length
    return recent_length_text


cdef bint is_mark(bytes text):
    return text == b"=" or text == b"~"


cdef TrimRecord record_for(Call call, const Options *options):
    """Where a trim by a policy notes what it does, if servers shall repeat it that know no policies; else None."""
    if not options.policy or not call.engine.effects.wanted or knows_policies(call):
        return None
    return TrimRecord()


cdef uint64_t trim_stream(Call call, Stream stream, Options *options, TrimRecord record) except? 0:
    """Trim, count the changes, fail watchers; how many entries went."""
    cdef uint64_t removed = stream.trim(&options.goal, &options.reached, record)
    if removed:
        free_dropped(call, stream)
        call.changed(removed)
        call.touch(<bytes>call.argv[1])
        call.notify(STREAM, b"xtrim", <bytes>call.argv[1])
    return removed


cdef int append_fields(Call call, bytes key, Stream stream, bint is_new, NewID kind, ID *id,
                       Py_ssize_t first) except -1:
    """Append the arguments from `first` on as names and values."""
    cdef Span spans[SPANS_ON_STACK]
    cdef Span *pairs = spans
    cdef Py_ssize_t count = call.argc - first
    cdef Py_ssize_t i
    cdef object text
    if count > SPANS_ON_STACK:
        pairs = <Span *>allocate(count * sizeof(Span))
        if pairs == NULL:
            raise MemoryError
    try:
        for i in range(count):
            text = call.argv[first + i]
            pairs[i].data = <const byte_t *>PyBytes_AS_STRING(text)
            pairs[i].size = PyBytes_GET_SIZE(text)
        append_entry(call, key, stream, is_new, kind, id, pairs, count // 2)
    except EntryTooLarge:
        raise CommandError(TOO_LARGE) from None
    finally:
        if pairs != spans:
            release(pairs)
    return 0


@command(
    "xadd key [NOMKSTREAM] [KEEPREF|DELREF|ACKED] [IDMPAUTO producer | IDMP producer id] "
    "[MAXLEN|MINID [=|~] threshold [LIMIT count]] *|id field value [field value ...]",
    arity=-5, flags=WRITE | DENY_OOM | FAST | READS_HISTORY, keys=FIRST, since="5.0.0", group="stream",
)
def xadd(Call call) -> None:
    """Append an entry to a stream, which is created where it is missing, and reply its ID.

    Nil where NOMKSTREAM forbids creating. A message that its producer sent before is not added again; the reply is the
    ID that it got then.
    """
    cdef Options options
    cdef Py_ssize_t at = parse_options(call, True, &options)
    cdef Stream stream
    cdef bytes key = <bytes>call.argv[1]
    cdef bytes producer = None
    cdef bytes idempotent_id = None
    cdef bint is_new = False
    cdef list effect
    cdef TrimRecord record = record_for(call, &options)
    cdef Py_ssize_t pairs = call.argc - at - 1
    cdef int64_t over_limits = -1           # entries that went by a rule; -1: nobody has looked
    if pairs < 2 or pairs % 2:
        raise wrong_arity(b"xadd")
    if options.kind == NEW_ID_GIVEN and is_zero(options.id):
        raise CommandError(ZERO_ID)
    stream = call.stream(1)
    if stream is None:
        if options.no_make:
            call.reply.null()
            return
        if call.rehearses:
            return
        stream = new_stream(call)
        is_new = True
    if call.rehearses:
        if options.trims:
            can_trim(call, stream, &options)
        return
    if options.producer:
        producer = call.argv[options.producer]
        if options.automatic:
            idempotent_id = automatic_id(call.argv[at + 1:])
        else:
            idempotent_id = call.argv[options.producer + 1]
        if is_duplicate(call, stream, producer, idempotent_id, &options):
            return

    if options.trims and not can_trim(call, stream, &options):
        at = leave_out_trim(call, &options, at)
        record = None
    append_fields(call, key, stream, is_new, options.kind, &options.id, at + 1)
    if options.producer:
        stream.producers.record(producer, idempotent_id, wrap_id(options.id))
        if key not in call.db.producing:        # else an older message is forgotten first
            call.db.expect_forgetting(key, stream)
    call.reply.bulk_id(options.id)
    if options.trims:
        trim_stream(call, stream, &options, record)
    elif call.engine.rules.kept and not options.producer and not options.policy and not call.engine.applying:
        over_limits = keep_limits_within(call, key, stream)     # a policy of the command is not that of the rule
    if call.engine.effects.wanted:
        if over_limits > 0:
            effect = with_length(call, at, options.id, stream.log.length)
        else:
            effect = exact_trim(call, stream, &options)
            effect[at] = id_text(options.id)
        if options.producer and not knows_producers(call):
            emit_without_policy(call, stream, key, &options, record, effect, at)
            emit_record(call, key, producer, idempotent_id, options.id)
        elif record is not None:
            emit_without_policy(call, stream, key, &options, record, effect, at)
        else:
            call.emit(effect)
    finish_appending(call, key, stream, is_new, over_limits != -1)


cdef bint can_trim(Call call, Stream stream, const Options *options) except -1:
    """Whether what the trim of an XADD looks at can be read."""
    try:
        expect_trim(call, stream, &options.goal, 1, True)
    except ColdReadError:
        return False
    return True


cdef Py_ssize_t leave_out_trim(Call call, Options *options, Py_ssize_t at) except -1:
    """Make an XADD one that does not trim, because a producer is not stopped by a damaged entry; where its ID is now.

    The stream keeps a few entries too many, until the node that cannot be read goes as a whole.
    """
    cdef list argv = [call.argv[0], call.argv[1]]
    cdef list rest = call.argv[at:]
    if options.producer:
        argv += call.argv[options.producer - 1:options.producer + (1 if options.automatic else 2)]
        options.producer = 3
    at = len(argv)
    call.argv = argv + rest
    call.argc = len(call.argv)
    options.trims = False
    options.policy = 0
    memset(&options.goal, 0, sizeof(options.goal))
    return at


cdef int emit_without_policy(Call call, Stream stream, bytes key, const Options *options, TrimRecord record,
                             list effect, Py_ssize_t at) except -1:
    """What an XADD (whose ID stands at `at`) or an XTRIM did, for servers that know neither policies nor producers.

    ACKED is the entries that went; DELREF a plain trim behind the pending records that went.
    """
    cdef Py_ssize_t last = options.producer + (0 if options.automatic else 1)
    if record is not None:
        for group, id in record.dropped:
            emit_acknowledged(call, <Group>group, key, (<StreamID>id).id)
    if options.trims and options.goal.policy == ACKED:
        if at:
            call.emit([b"XADD", key, *effect[at:]])
        return emit_acked_trim(call, stream, key, record.removed)
    return call.emit([
        word for i, word in enumerate(effect)
        if not (options.policy and i == options.policy)
        and not (options.producer and options.producer - 1 <= i <= last)
    ])


cdef bint is_duplicate(Call call, Stream stream, bytes producer, bytes idempotent_id, const Options *options) except -1:
    """Whether a message was sent before; then it is counted, and the reply is the ID that it got.

    Whether it is one is decided once. An effect without an ID is how Redis writes that it was, and one with an ID that
    it was not, whatever is remembered when it is repeated.
    """
    cdef StreamID known
    cdef bint repeated = call.engine.applying
    if repeated and options.kind == NEW_ID_GIVEN:
        return False
    known = stream.producers.find(producer, idempotent_id)
    if known is None and not repeated:
        return False
    stream.producers.duplicates += 1
    call.changed()
    emit_duplicate(call, <bytes>call.argv[1])
    if known is None:
        call.reply.null()
    else:
        call.reply.bulk_id(known.id)
    return True


@command(
    "xtrim key MAXLEN|MINID [=|~] threshold [LIMIT count] [KEEPREF|DELREF|ACKED]",
    arity=-4, flags=WRITE | READS_HISTORY, keys=FIRST, since="5.0.0", group="stream",
)
def xtrim(Call call) -> None:
    """Remove the oldest entries of a stream, down to a length or up to an ID, and reply how many went."""
    cdef Options options
    cdef Stream stream
    cdef TrimRecord record
    cdef uint64_t removed
    parse_options(call, False, &options)
    stream = call.stream(1)
    if stream is None:
        call.reply.integer(0)
        return
    record = record_for(call, &options)
    expect_trim(call, stream, &options.goal, 0, True)
    if call.rehearses:
        return
    removed = trim_stream(call, stream, &options, record)
    if removed and record is not None:
        emit_without_policy(call, stream, <bytes>call.argv[1], &options, record, exact_trim(call, stream, &options), 0)
    elif removed and call.engine.effects.wanted:
        call.emit(exact_trim(call, stream, &options))
    call.reply.integer(removed)


# --- reading ---------------------------------------------------------------------------------------------------

@command("xlen key", arity=2, flags=READ | FAST, keys=FIRST, since="5.0.0", group="stream")
def xlen(Call call) -> None:
    """Reply how many entries the stream holds; 0 where there is no such key."""
    cdef Stream stream = call.stream(1)
    call.reply.integer(stream.log.length if stream is not None else 0)


@command(
    "xrange key start end [COUNT count]",
    arity=-4, flags=READ | READS_HISTORY, keys=FIRST, since="5.0.0", group="stream",
)
def xrange(Call call) -> None:
    """Reply the entries whose IDs lie between start and end, both included."""
    reply_range(call, 2, 3, False)


@command(
    "xrevrange key end start [COUNT count]",
    arity=-4, flags=READ | READS_HISTORY, keys=FIRST, since="5.0.0", group="stream",
)
def xrevrange(Call call) -> None:
    """Reply the entries whose IDs lie between end and start, both included, the newest first."""
    reply_range(call, 3, 2, True)


cdef int reply_range(Call call, Py_ssize_t start_at, Py_ssize_t end_at, bint backwards) except -1:
    cdef ID start = lower_bound(call, start_at)
    cdef ID end = upper_bound(call, end_at)
    cdef int64_t count = -1
    cdef Py_ssize_t i = 4
    cdef Stream stream
    cdef EntryCursor cursor
    cdef int64_t written = 0
    cdef size_t mark
    while i < call.argc:
        if not is_word(call.argv[i], b"count") or i + 1 == call.argc:
            raise CommandError(SYNTAX)
        count = max(call.integer(i + 1), 0)
        i += 2
    stream = call.stream(1)
    if stream is None:
        return call.reply.array(0)
    if count == 0:
        return call.reply.null_array()
    expect_range(call, stream.log, start, end, count, backwards)
    if call.rehearses:
        return 0
    if count == -1 or count > COUNT_FIRST:
        written = count_range(stream, start, end, count)
        call.reply.array(written)
        cursor = open_cursor(stream.log, start, end, backwards)
        while written > 0 and cursor.next():
            reply_entry(call.reply, &cursor.node)
            written -= 1
        return 0
    cursor = open_cursor(stream.log, start, end, backwards)
    mark = call.reply.defer()
    while written < count and cursor.next():
        reply_entry(call.reply, &cursor.node)
        written += 1
    return call.reply.settle_array(mark, written)


cdef int64_t count_range(Stream stream, ID start, ID end, int64_t most):
    """How many entries a range has, up to `most` (-1: all). Visiting is much cheaper than replying."""
    cdef EntryCursor cursor
    cdef int64_t count = 0
    cursor = open_cursor(stream.log, start, end, False)
    while count != most and cursor.next():
        count += 1
    return count


# --- history ---------------------------------------------------------------------------------------------------

@command(
    "xsetid key last-id [ENTRIESADDED entries-added] [MAXDELETEDID max-deleted-id]",
    arity=-3, flags=WRITE | DENY_OOM | FAST, keys=FIRST, since="5.0.0", group="stream",
)
def xsetid(Call call) -> None:
    """Set the last ID of a stream, and the counters of its history."""
    cdef ID last = strict_id(call, 2)
    cdef ID deleted = make_id(0, 0)
    cdef ID top
    cdef int64_t added = -1
    cdef Py_ssize_t i = 3
    cdef Stream stream
    while i < call.argc:
        if is_word(call.argv[i], b"entriesadded") and i + 1 < call.argc:
            added = call.integer(i + 1)
            if added < 0:
                raise CommandError(b"ERR entries_added must be positive")
        elif is_word(call.argv[i], b"maxdeletedid") and i + 1 < call.argc:
            deleted = strict_id(call, i + 1)
            if less(last, deleted):
                raise CommandError(
                    b"ERR The ID specified in XSETID is smaller than the provided max_deleted_entry_id")
        else:
            raise CommandError(SYNTAX)
        i += 2
    stream = call.stream(1)
    if stream is None:
        raise CommandError(NO_SUCH_KEY)
    if less(last, stream.log.max_deleted_id) and not call.engine.applying:       # Redis 7.0 takes it
        raise CommandError(b"ERR The ID specified in XSETID is smaller than current max_deleted_entry_id")
    if stream.log.last_alive(&top):
        if less(last, top):
            raise CommandError(b"ERR The ID specified in XSETID is smaller than the target stream top item")
        if added != -1 and <uint64_t>added < stream.log.length:
            raise CommandError(b"ERR The entries_added specified in XSETID is smaller than the target stream length")
    stream.set_history(last, added, deleted)
    call.notify(STREAM, b"xsetid", <bytes>call.argv[1])
    call.changed()
    call.reply.ok()
