"""`headrace top`: takes and draws readings until somebody presses q; or takes one and prints it.

When a server stops answering, the last reading stays on the screen with a line that says so, and the next reading is
tried at its usual time.
"""

import json
import sys
import time

import redis
import typer
from rich.console import Console
from rich.live import Live
from rich.text import Text

from headrace.cli.address import ServerAddress
from headrace.cli.connecting import connected, explanation
from headrace.cli.keyboard import Keyboard
from headrace.cli.top.reading import ServerReading, take_reading
from headrace.cli.top.screen import SORTS, View, screen


def run_top(server: ServerAddress, match: str, sort: str, interval_ms: int, *, once: bool, as_json: bool) -> None:
    """Watch a server, or read it once."""
    if sort not in SORTS:
        raise typer.BadParameter(f"{sort!r} is none of {', '.join(SORTS)}.", param_hint="--sort")
    console = Console(highlight=False)
    view = View(sort=sort)
    with connected(server) as client:
        if once or as_json or not (console.is_terminal and sys.stdin.isatty()):
            _print_one(client, match, view, interval_ms, console, as_json=as_json)
        else:
            _watch(client, match, view, interval_ms / 1000, console)


def _print_one(
    client: redis.Redis, match: str, view: View, interval_ms: int, console: Console, *, as_json: bool
) -> None:
    """Print a reading. Rates need an earlier reading, so that one is taken first."""
    before = take_reading(client, match, None)
    reading = before
    if interval_ms:
        time.sleep(interval_ms / 1000)
        reading = take_reading(client, match, before)
    if as_json:
        print(json.dumps(reading.as_json()))  # noqa: T201
    else:
        for part in screen(reading, view, console.width, None).renderables:
            console.print(part, soft_wrap=isinstance(part, Text))


def _watch(client: redis.Redis, match: str, view: View, interval_s: float, console: Console) -> None:
    reading = take_reading(client, match, None)
    trouble = ""
    due = time.monotonic() + min(interval_s, 0.5)  # the first rates come soon
    with Keyboard() as keyboard, Live(console=console, screen=True, auto_refresh=False) as live:
        while True:
            live.update(screen(reading, view, console.width, console.height, trouble), refresh=True)
            key = keyboard.next_key(max(0.0, due - time.monotonic()))
            if key is not None and not view.press(key, console.height // 2):
                return
            if time.monotonic() >= due:
                reading, trouble = _next_reading(client, match, reading)
                due = time.monotonic() + max(interval_s, 0.1)


def _next_reading(client: redis.Redis, match: str, before: ServerReading) -> tuple[ServerReading, str]:
    try:
        return take_reading(client, match, before), ""
    except (redis.ConnectionError, redis.TimeoutError) as error:
        return before, explanation(client, error)
