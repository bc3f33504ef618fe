"""The core in figures: `python -m bench.core`, or `make bench`.

Rates against their targets, whether a message costs the same in a long stream as in a short one, and what entries and
pending entries weigh beside redis-server's. A target that is missed is marked, not an error: the machine may be busy.
"""

from __future__ import annotations

from itertools import product

from bench import core_memory, core_rates
from bench.harness import Report, Row, report
from bench.redis_reference import redis_version

SIZES = [10_000, 100_000, 1_000_000, 10_000_000]
CONSUMERS = [1, 10]
A_MILLISECOND = [1, 1000]
PENDING_TARGET = 60


def show_rates(run: Report) -> None:
    """Show operations a second."""
    measurements = {
        "append and visit": core_rates.append_and_visit,
        "deliver and acknowledge": core_rates.deliver_and_acknowledge,
        "claim and list": core_rates.claim_and_list,
        "trim and delete": core_rates.trim_and_delete,
    }
    rows = [row for what, measure in measurements.items() for row in run.measure(what, measure)]
    run.table(
        "Rates, called from Python",
        rows,
        f"{core_rates.ENTRIES:,} entries; medians of {core_rates.ROUNDS} rounds, of 3 where entries go",
    )


def show_flatness(run: Report) -> None:
    """Show the cost of a message as streams grow."""
    rows = [run.measure(f"a stream of {size:,} messages", core_rates.cost_at, size) for size in SIZES]
    ratio: Row = {column: rows[-1][column] / rows[0][column] for column in rows[0]}
    run.table("Cost of a message by length of the stream", [*rows, {**ratio, "messages": "longest : shortest"}])


def show_entry_memory(run: Report, version: str | None) -> None:
    """Show bytes a stored entry."""
    rows: list[Row] = []
    for shape in core_memory.SHAPES:
        ours = run.measure(f"entries, {shape}", core_memory.our_entries, shape)
        theirs: Row = {}
        if version:
            theirs = run.measure(f"entries in redis-server, {shape}", core_memory.redis_entries, shape)
        rows.append(
            {
                "message": shape,
                "ours": ours["counted"],
                "ours, RSS": ours["resident"],
                "redis MEMORY USAGE": theirs.get("counted"),
                "redis used_memory": theirs.get("heap"),
                "redis RSS": theirs.get("resident"),
                "ours : theirs": ours["counted"] / theirs["heap"] if theirs else None,
            }
        )
    run.table(
        f"Bytes an entry: {core_memory.MESSAGES:,} messages of dev and temp, beside redis-server {version or '(none)'}",
        rows,
        "ours: Stream.memory_usage; RSS: growth of resident memory; ours : theirs compares it with used_memory",
    )


def show_pending_memory(run: Report, version: str | None) -> None:
    """Show bytes a pending entry."""
    rows: list[Row] = []
    for a_millisecond, consumers in product(A_MILLISECOND, CONSUMERS):
        who = f"{consumers} consumer{'s'[: consumers > 1]}"
        ours = run.measure(f"pending, {who}", core_memory.our_pending, consumers, a_millisecond)
        theirs: list[Row] = [{}, {}]
        if version:
            theirs = run.measure(f"pending in redis-server, {who}", core_memory.redis_pending, consumers, a_millisecond)
        for state, our, their in zip(["all pending", "half acknowledged"], ours, theirs, strict=True):
            rows.append(
                {
                    "IDs a ms": a_millisecond,
                    "consumers": consumers,
                    "state": state,
                    "ours": our["counted"],
                    "ours, RSS": our["resident"],
                    "redis used_memory": their.get("heap"),
                    "redis RSS": their.get("resident"),
                    "target": PENDING_TARGET,
                    "met": our["counted"] <= PENDING_TARGET,
                }
            )
    run.table(
        f"Bytes a pending entry: {core_memory.MESSAGES:,} delivered, beside redis-server {version or '(none)'}",
        rows,
        "ours: Group.memory_usage; half acknowledged: bytes for each entry that is still pending",
    )


def main() -> None:
    """Measure everything and say it."""
    version = redis_version()
    servers = 2 if version else 1
    steps = 4 + len(SIZES) + servers * (len(core_memory.SHAPES) + len(A_MILLISECOND) * len(CONSUMERS))
    with report("core", steps) as run:
        if version is None:
            run.say(
                "There is no redis-server here, so only our side is weighed; apt-get install redis-server brings one."
            )
        show_rates(run)
        show_flatness(run)
        show_entry_memory(run, version)
        show_pending_memory(run, version)


if __name__ == "__main__":
    main()
