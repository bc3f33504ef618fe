"""`headrace demo`: the whole road in two minutes, with two kills on the way, and every message counted at the end.

devices ──XADD IDMP──► server ──XREADGROUP──► three workers ──► stream `processed`
                         │ killed with -9        one is killed
                         └──format("headrace")──► Spark ──► archive (Parquet), windows per device

plan         what is sent, how fast, and when something is killed
server       the process that serves       ┐
devices      the process that sends        ├ each in a session of its own, started by `children`
worker       a process that processes      │
pipeline     the process that runs Spark   ┘
show         what the terminal shows meanwhile
lag          how far the readers are behind, sampled and drawn; `lag_picture` has the PNG
tally        at the end: what was sent, processed, archived, and whether it is the same
kill_moment  when the server is killed: while it owes answers
conductor    starts all of it, kills, waits, counts
"""
