# Classes of keyspace events; the first two say where events are published.
cpdef enum Event:
    KEYSPACE = 1                # K   __keyspace@db__:key    the event
    KEYEVENT = 2                # E   __keyevent@db__:event  the key
    GENERIC = 4                 # g   of keys of any type: del, expire, rename_from …
    STRING = 8                  # $
    LIST = 16                   # l
    SET = 32                    # s
    HASH = 64                   # h
    SORTED_SET = 128            # z
    EXPIRED = 256               # x   a key's time has come
    EVICTED = 512               # e   memory was short
    STREAM = 1024               # t
    MODULE = 2048               # d
    NEW = 4096                  # n   a key that was not there
    OVERWRITTEN = 8192          # o   another value took the place of one
    TYPE_CHANGED = 16384        # c   and it was one of another type
    KEY_MISS = 32768            # m   a read found no key
