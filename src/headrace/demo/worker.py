"""A worker of the group, `python -m headrace.demo.worker PORT NAME`: read, process, and settle, exactly once.

    XREADGROUP GROUP workers worker-1 COUNT 100 BLOCK 500 CLAIM 2000 STREAMS devmsg >

gives messages that another worker has had in hand for two seconds, then new ones. One script on the server acknowledges
a message and writes its result: only the worker that takes the message off the pending list writes it. Two workers may
have the same message in hand, and a worker may run the script twice because the server died before it answered. There
is one result nevertheless.
"""

import sys
import time
from typing import Any, Final

from headrace.demo.children import end_with_parent
from headrace.demo.patience import connect, retry
from headrace.demo.plan import GROUP, PROCESSED, STALE_MS, STREAM

_AT_ONCE: Final = 100
_BLOCK_MS: Final = 500
_WORK_S: Final = 0.0001  # for each message

SETTLE: Final = """
for place = 3, #ARGV, 3 do
    local id, took, deliveries = ARGV[place], ARGV[place + 1], ARGV[place + 2]
    if redis.call('XACK', KEYS[1], ARGV[1], id) == 1 then
        redis.call('XADD', KEYS[2], '*', 'id', id, 'worker', ARGV[2], 'took', took, 'deliveries', deliveries)
    end
end
"""


def main(port: int, name: str) -> None:
    """Work until the demo ends this process."""
    end_with_parent()
    client = connect(port)
    settle = client.register_script(SETTLE)
    while True:
        reply: Any = retry(
            lambda: client.xreadgroup(
                GROUP, name, {STREAM: ">"}, count=_AT_ONCE, block=_BLOCK_MS, claim_min_idle_time=STALE_MS
            )
        )
        if not reply:
            continue
        time.sleep(_WORK_S * len(reply[0][1]))
        now = time.time_ns() // 1000
        arguments: list[str | int] = [GROUP, name]
        for id, fields, _idle, deliveries in reply[0][1]:
            arguments += (id, now - int(fields["at"]), int(deliveries) + 1)
        retry(lambda arguments=arguments: settle(keys=[STREAM, PROCESSED], args=arguments))  # type: ignore[misc]


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2])
