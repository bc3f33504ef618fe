"""A server whose machine's clock is set while clients wait: each waits as long as it asked for, no more, no less."""

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.patience import PATIENCE_S
from support.server_process import ServerProcess

LAUNCHER = str(Path(__file__).parents[1] / "support" / "clock_step_launcher.py")
BACK_MS, AHEAD_MS = -3_600_000, 3_600_000


@pytest.fixture
def step(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The file that sets the clock."""
    monkeypatch.setenv("CLOCK_STEP_FILE", str(tmp_path / "step"))
    return tmp_path / "step"


@pytest.fixture
def server(tmp_path: Path, step: Path) -> Iterator[ServerProcess]:
    assert not step.exists()
    with ServerProcess(tmp_path, "--hz", "50", launcher=(LAUNCHER,)) as server:
        yield server


def await_blocked(server: ServerProcess, clients: int) -> None:
    deadline = time.monotonic() + PATIENCE_S
    with server.client() as client:
        while client.info("clients")["blocked_clients"] != clients:
            assert time.monotonic() < deadline
            time.sleep(0.01)


@pytest.mark.parametrize("step_ms", [BACK_MS, AHEAD_MS])
def test_timeouts_end_though_the_clock_was_set(server: ServerProcess, step: Path, step_ms: int) -> None:
    with server.raw() as before, server.raw() as later:
        began = time.monotonic()
        before.send(b"XREAD BLOCK 500 STREAMS s $".split())
        await_blocked(server, 1)
        step.write_text(str(step_ms))
        assert before.reply() == b"*-1\r\n"
        assert time.monotonic() - began >= 0.49  # the server counts milliseconds
        began = time.monotonic()
        later.send(b"BLPOP l 0.3".split())
        await_blocked(server, 1)
        step.write_text("0")
        assert later.reply() == b"*-1\r\n"
        assert time.monotonic() - began >= 0.29


def test_an_idle_client_is_closed_after_its_time_and_not_when_the_clock_is_set(
    server: ServerProcess, step: Path
) -> None:
    with server.client() as client, server.raw() as idle:
        assert idle.run("PING") == b"+PONG\r\n"
        client.config_set("timeout", "3600")
        step.write_text(str(2 * AHEAD_MS))
        time.sleep(1.2)  # the idle are looked for once a second
        assert idle.run("PING") == b"+PONG\r\n"
        client.config_set("timeout", "1")
        step.write_text(str(BACK_MS))
        assert idle.is_closed()


def test_a_claim_is_served_once_a_step_makes_the_entry_idle(server: ServerProcess, step: Path) -> None:
    with server.client() as client, server.raw() as waiter:
        client.xgroup_create("s", "g", "0", mkstream=True)
        client.xadd("s", {"f": "v"}, "1-0")
        client.xreadgroup("g", "a", {"s": ">"})
        waiter.send(b"XREADGROUP GROUP g b BLOCK 0 CLAIM 3000000 STREAMS s >".split())
        await_blocked(server, 1)
        step.write_text(str(AHEAD_MS))
        assert b"1-0" in waiter.reply()
