"""LATENCY: spikes that `latency-monitor-threshold` let the engine note, and how long commands take."""

from math import log
from typing import Final

from headrace.commands.declaration.help import reply_help
from headrace.commands.declaration.table import TABLE, command, container
from headrace.commands.server.command_table import find_command
from headrace.engine.call import Call
from headrace.engine.command import Command, Flag
from headrace.engine.errors import CommandError, quoted
from headrace.engine.latency import LatencyEvent

_FLAGS = Flag.ADMIN | Flag.NO_SCRIPT | Flag.LOADING | Flag.STALE

_GRAPH_WIDTH: Final = 80
_GRAPH_ROWS: Final = 4
_GRAPH_LEVELS: Final = "_o#"  # what tops a column, by how far it reaches into its row

_DISABLED: Final = (
    "I'm sorry, Dave, I can't do that. Latency monitoring is disabled in this Redis instance. You may use "
    '"CONFIG SET latency-monitor-threshold <milliseconds>." in order to enable it. If we weren\'t in a deep space '
    "mission I'd suggest to take a look at https://redis.io/topics/latency-monitor.\n"
)
_NO_SPIKES: Final = (
    "Dave, no latency spike was observed during the lifetime of this Redis instance, not in the slightest bit. "
    "I honestly think you ought to sit down calmly, take a stress pill, and think things over.\n"
)
_SPIKES: Final = (
    "Dave, I have observed latency spikes in this Redis instance. You don't mind talking about it, do you Dave?\n\n"
)
_ADVICE: Final = (
    "\nI have a few advices for you:\n\n- Check your Slow Log to understand what are the commands you are running "
    "which are too slow to execute. Please check https://redis.io/commands/slowlog for more information.\n"
)

container("latency", since="2.8.13", group="server", summary="See spikes of latency, and how long commands take.")


# --- spikes ----------------------------------------------------------------------------------------------------


@command("latency|latest", arity=2, flags=_FLAGS, since="2.8.13", group="server")
def latency_latest(call: Call) -> None:
    """Reply of each kind of spike the latest: its name, when it was, how many ms it took, and the most there were."""
    events = call.engine.latency.events
    call.reply.array(len(events))
    for name, event in events.items():
        second, ms = event.samples[-1]
        call.reply.array(4)
        call.reply.bulk(name)
        call.reply.integer(second)
        call.reply.integer(ms)
        call.reply.integer(event.worst)


@command("latency|history event", arity=3, flags=_FLAGS, since="2.8.13", group="server")
def latency_history(call: Call) -> None:
    """Reply the spikes of a kind, up to 160: when each was, and how many ms it took."""
    event = call.engine.latency.events.get(call.argv[2])
    samples = event.samples if event is not None else ()
    call.reply.array(len(samples))
    for second, ms in samples:
        call.reply.array(2)
        call.reply.integer(second)
        call.reply.integer(ms)


@command("latency|reset [event ...]", arity=-2, flags=_FLAGS, since="2.8.13", group="server")
def latency_reset(call: Call) -> None:
    """Forget the spikes of these kinds, or all, and reply how many kinds that were."""
    call.reply.integer(call.engine.latency.reset(call.argv[2:]))


@command("latency|graph event", arity=3, flags=_FLAGS, since="2.8.13", group="server")
def latency_graph(call: Call) -> None:
    """Reply a drawing of the spikes of a kind."""
    event = call.engine.latency.events.get(call.argv[2])
    if event is None:
        raise CommandError(b"ERR No samples available for event '%s'" % quoted(call.argv[2]))
    call.reply.verbatim(_drawing(call.argv[2].decode(), event, call.now_ms // 1000).encode(), b"txt")


def _drawing(name: str, event: LatencyEvent, now_second: int) -> str:
    """Draw a column for each spike, on a logarithmic scale, over how long ago it was."""
    samples = list(event.samples)[-_GRAPH_WIDTH:]
    lowest, highest = min(ms for _, ms in samples), max(ms for _, ms in samples)
    levels = len(_GRAPH_LEVELS) * _GRAPH_ROWS
    scale = log(highest - lowest + 1) or 1.0
    heights = [min(int(log(ms - lowest + 1) * levels / scale), levels - 1) for _, ms in samples]
    lines = [f"{name} - high {highest} ms, low {lowest} ms (all time high {event.worst} ms)", "-" * _GRAPH_WIDTH]
    lines += ["".join(_cell(height, row) for height in heights) for row in reversed(range(_GRAPH_ROWS))]
    lines.append(" " * len(samples))
    labels = [_age(now_second - second) for second, _ in samples]
    lines += ["".join(label[i : i + 1] or " " for label in labels) for i in range(max(map(len, labels)))]
    return "\n".join(lines) + "\n"


def _cell(height: int, row: int) -> str:
    level = height - row * len(_GRAPH_LEVELS)
    if level < 0:
        return " "
    return _GRAPH_LEVELS[level] if level < len(_GRAPH_LEVELS) else "|"


def _age(seconds: int) -> str:
    for unit, size in (("d", 86400), ("h", 3600), ("m", 60)):
        if seconds >= size:
            return f"{seconds // size}{unit}"
    return f"{seconds}s"


@command("latency|doctor", arity=2, flags=_FLAGS, since="2.8.13", group="server")
def latency_doctor(call: Call) -> None:
    """Reply a report on the spikes, for people."""
    monitor = call.engine.latency
    report = _NO_SPIKES if monitor.threshold_ms else _DISABLED
    if monitor.events:
        diagnoses = [
            f"{number}. {name.decode()}: {_diagnosis(event, call.now_ms // 1000)}\n"
            for number, (name, event) in enumerate(sorted(monitor.events.items()), 1)
        ]
        report = _SPIKES + "".join(diagnoses) + _ADVICE
    call.reply.verbatim(report.encode(), b"txt")


def _diagnosis(event: LatencyEvent, now_second: int) -> str:
    spikes = [ms for _, ms in event.samples]
    average = sum(spikes) // len(spikes)
    deviation = sum(abs(ms - average) for ms in spikes) // len(spikes)
    period = (now_second - event.samples[0][0]) / len(spikes)
    return (
        f"{len(spikes)} latency spikes (average {average}ms, mean deviation {deviation}ms, period {period:.2f} sec). "
        f"Worst all time event {event.worst}ms."
    )


# --- how long commands take ------------------------------------------------------------------------------------


@command("latency|histogram [command ...]", arity=-2, flags=_FLAGS, since="7.0.0", group="server")
def latency_histogram(call: Call) -> None:
    """Reply of commands that ran how many calls took at most 1, 2, 4 … microseconds."""
    named = [find_command(name) for name in call.argv[2:]] if call.argc > 2 else list(TABLE.values())
    ran = [each for found in named if found is not None for each in _with_subcommands(found) if each.calls]
    call.reply.map(len(ran))
    for each in ran:
        counts = _steps(each)
        call.reply.bulk(each.name)
        call.reply.map(2)
        call.reply.bulk(b"calls")
        call.reply.integer(each.calls)
        call.reply.bulk(b"histogram_usec")
        call.reply.map(len(counts))
        for microseconds, calls in counts:
            call.reply.integer(microseconds)
            call.reply.integer(calls)


def _with_subcommands(command: Command) -> list[Command]:
    return [command, *command.subcommands.values()]


def _steps(command: Command) -> list[tuple[int, int]]:
    """Keep the bounds where the count grows, in µs; a bound is shown with the width of Redis's buckets, 1/128 of it."""
    steps = []
    before = 0
    for nanoseconds, calls in command.latencies():
        if calls > before:
            steps.append(((nanoseconds + nanoseconds // 128 - 1) // 1000, calls))
            before = calls
    return steps


@command("latency|help", arity=2, flags=Flag.LOADING | Flag.STALE, since="2.8.13", group="server")
def latency_help(call: Call) -> None:
    """Reply what LATENCY can do."""
    reply_help(call)
