cdef class StandingRefusals:
    cdef list causes                    # of not writing: a sentence, or None, for each Cause
    cdef public bytes writes            # why nothing can be written now: the first of these. None: it can
    cdef public bytes stale             # why even reading is refused; None: it is not
    cdef public bint over_memory        # commands that need memory are refused
