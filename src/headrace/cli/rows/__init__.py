"""Entries as rows of files: JSON lines, CSV, Parquet.

    rows                                            JSON lines       CSV              Parquet
    the ID                                          "_id"            column _id       column _id
    a field that an entry does not have             no such name     empty            null
    an empty value                                  ""               `""`             empty
    bytes that are no UTF-8                         lone surrogates  as they are      a binary column
    a name twice in an entry, or a field `_id`      "_fields"        refused          refused

Files that are written can be read again: the same IDs, names and bytes. JSON lines keep the order of the fields of each
entry, the others have one order for all.
"""
