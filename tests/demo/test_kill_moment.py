"""The server of the demo is killed when it has written what it has not answered, and recognises it afterwards."""

import threading
from pathlib import Path

import pytest

from headrace.demo.children import end_session, start_child
from headrace.demo.kill_moment import stop_with_answers_owed
from headrace.demo.patience import connect, retry
from headrace.demo.plan import PRODUCER, STREAM
from support.ports import free_port

ENDLESS = 10**9


class Sender:
    """A device that sends pipelines of ten until it is stopped, and each until it is answered."""

    def __init__(self, port: int) -> None:
        self._client = connect(port)
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._send, daemon=True)
        self.acknowledged = 0
        self._thread.start()

    def _send(self) -> None:
        number = 0
        while not self._ended.is_set():
            self.acknowledged += retry(lambda first=number: self._send_ten(first))  # type: ignore[misc]
            number += 10

    def _send_ten(self, first: int) -> int:
        with self._client.pipeline(transaction=False) as pipeline:
            for number in range(first, first + 10):
                pipeline.xadd(STREAM, {"n": number}, idmp=(f"{PRODUCER}1", str(number).encode()))
            return len(pipeline.execute())

    def end(self) -> int:
        self._ended.set()
        self._thread.join()
        return self.acknowledged


@pytest.mark.timeout(300)
def test_what_was_written_and_not_answered_is_recognised_when_it_is_sent_again(tmp_path: Path) -> None:
    port = free_port()
    settings = ("--port", port, "--dir", tmp_path, "--logfile", tmp_path / "log")
    client = connect(port)
    server = start_child("headrace.demo.children", *settings, log=tmp_path / "log")
    try:
        retry(client.ping)
        sender = Sender(port)
        owed = stop_with_answers_owed(
            server.pid, tmp_path / "appendonlydir", lambda: sender.acknowledged, messages=ENDLESS
        )
        assert owed > 0
        end_session(server)
        told = sender.acknowledged
        server = start_child("headrace.demo.children", *settings, log=tmp_path / "log")
        assert retry(lambda: client.xlen(STREAM)) >= told
        everything = sender.end()
        assert client.xlen(STREAM) == everything
        assert client.xinfo_stream(STREAM)["iids-duplicates"] == owed
    finally:
        client.close()
        end_session(server)
