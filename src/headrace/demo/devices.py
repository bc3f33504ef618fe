"""The devices: each a thread that sends its telemetry at its pace, `python -m headrace.demo.devices PORT COUNT …`.

    XADD devmsg IDMP device-3 1741 * dev 3 temp 26 n 1741 at 1794743447595123

A pipeline that was not answered is sent again, unchanged, until it is answered. The server recognises messages that it
has by their producer and number, and does not add them again. A resend is therefore safe, although nobody can tell
whether the request was lost or the reply.
"""

import json
import math
import random
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Final

from headrace.demo.children import end_with_parent
from headrace.demo.patience import GONE, connect, retry
from headrace.demo.plan import PRODUCER, STREAM

_AT_ONCE: Final = 100
_BEAT_S: Final = 0.05

Message = tuple[int, dict[str, int]]


class Device:
    """One device: how warm it is, what it has sent."""

    def __init__(self, port: int, number: int) -> None:
        self._client = connect(port)
        self._number = number
        self._chance = random.Random(number)
        self._unanswered = False
        self.acknowledged = 0
        self.repeated = 0

    def send_all(self, messages: int, seconds: float) -> None:
        """Send so many messages, evenly over so many seconds; after an interruption, catch up."""
        began = time.monotonic()
        sent = 0
        while sent < messages:
            due = min(messages, 1 + int(messages * (time.monotonic() - began) / seconds))
            batch = [(number, self._reading(number)) for number in range(sent, min(due, sent + _AT_ONCE))]
            if batch:
                retry(lambda batch=batch: self._send(batch))  # type: ignore[misc]
                sent += len(batch)
            if sent >= due:
                time.sleep(_BEAT_S)

    def _send(self, batch: list[Message]) -> None:
        with self._client.pipeline(transaction=False) as pipeline:
            for number, reading in batch:
                once = (f"{PRODUCER}{self._number}", str(number).encode())
                pipeline.xadd(STREAM, reading, idmp=once)  # type: ignore[arg-type]
            try:
                self.acknowledged += len(pipeline.execute())
            except GONE:
                self._unanswered = True
                raise
            self.repeated += len(batch) if self._unanswered else 0
            self._unanswered = False

    def _reading(self, number: int) -> dict[str, int]:
        swing = 5 * math.sin(time.time() / 6 + self._number) + self._chance.gauss(0, 1)
        temperature = round(20 + self._number + swing)
        return {"dev": self._number, "temp": temperature, "n": number, "at": time.time_ns() // 1000}


def main(port: int, seconds: float, shares: list[int]) -> None:
    """Run the devices; print how much they have sent when the demo asks, and at the end."""
    devices = [Device(port, number) for number in range(1, len(shares) + 1)]

    def report() -> None:
        told = {
            "acknowledged": sum(device.acknowledged for device in devices),
            "repeated": sum(device.repeated for device in devices),
        }
        print(json.dumps(told), flush=True)  # noqa: T201  (to the demo)

    end_with_parent(asked=report)
    with ThreadPoolExecutor(len(devices)) as threads:
        for sending in [
            threads.submit(device.send_all, share, seconds) for device, share in zip(devices, shares, strict=True)
        ]:
            sending.result()
    report()


if __name__ == "__main__":
    main(int(sys.argv[1]), float(sys.argv[2]), [int(share) for share in sys.argv[3:]])
