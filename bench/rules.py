"""`python -m bench.rules`: what the rules of a queue cost: XADD, and XREADGROUP + XACK, with rules against none.

Rounds with rules and without take turns, and figures are middles: of rates, and of the server's processor time for each
entry, which says more on a machine that others use, too. `python -m bench.rule_turns` measures what is done by time.
"""

from __future__ import annotations

import argparse
import sys
from statistics import median
from typing import NamedTuple

from rich.console import Console
from rich.table import Table

from bench.delays import EVERYSEC, IN_MEMORY
from headrace.measuring.targets import Target, private_headrace
from headrace.measuring.workloads import GROUP, Streams, Workload, consume, xadd

AGES = "36500d"  # the messages of these streams have IDs of long ago

EVERY_LIMIT = ("MAXLEN", "100000000", "MAXAGE", AGES, "MAXBYTES", "100gb", "ACKED", "DROP", "ACKED")
EVERY_RULE = (
    "VISIBILITY",
    "30s",
    "RETRY",
    "1s",
    "5m",
    "MAXDELIVERIES",
    "5",
    "CONSUMERTTL",
    "1d",
    "CREATE",
    "FROM",
    "0",
)


class Rules(NamedTuple):
    """What is set on a server before a round."""

    name: str
    stream: tuple[str, ...] = ()
    group: tuple[str, ...] = ()

    def apply(self, target: Target) -> None:
        """Set them for all streams of the measurement."""
        pattern = target.prefix + b"*"
        if self.stream:
            target.execute("HEADRACE", "POLICY", "SET", "MATCH", pattern, *self.stream)
        if self.group:
            target.execute("HEADRACE", "POLICY", "SET", "MATCH", pattern, "GROUP", GROUP, *self.group)


NONE = Rules("no rule")
EVERY = Rules("every rule", EVERY_LIMIT, EVERY_RULE)
GROUPS = Rules("every rule of a group", group=EVERY_RULE)
DROPS = Rules("DROP ACKED", ("DROP", "ACKED"))
SHORT = Rules("MAXLEN 1000, which trims at each append", ("MAXLEN", "1000"))
SHORT_ACKED = Rules("MAXLEN 1000 ACKED", ("MAXLEN", "1000", "ACKED"))


def costs(rounds: int, seconds: float, messages: int) -> Table:
    """Compare rates and processor time with rules and without."""
    table = Table("journal", "what", "rules", "a second", "kept", "processor, µs", "kept")
    works: tuple[tuple[Workload, tuple[Rules, ...]], ...] = (
        (xadd(pipeline=16), (NONE, EVERY, SHORT, SHORT_ACKED)),
        (consume(Streams(messages), 16), (NONE, GROUPS, DROPS, EVERY)),
    )
    for journal, settings in (("none", IN_MEMORY), ("everysec", EVERYSEC)):
        for workload, variants in works:
            found: dict[str, list[tuple[float, float]]] = {rules.name: [] for rules in variants}
            for _ in range(rounds):
                for rules in variants:
                    with private_headrace(settings) as target:
                        workload.prepare(target)
                        rules.apply(target)
                        sample = workload.measure(target, seconds)
                        found[rules.name].append((sample["rate"], sample["processor"]))
            rate, processor = (median(each[index] for each in found[NONE.name]) for index in (0, 1))
            for name, samples in found.items():
                its_rate, its_processor = (median(each[index] for each in samples) for index in (0, 1))
                table.add_row(
                    *(journal, workload.name, name),
                    *(f"{its_rate:,.0f}", f"{its_rate / rate:.2f}", f"{its_processor:.2f}"),
                    f"{processor / its_processor:.2f}",
                )
    return table


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="python -m bench.rules")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=1.0, help="of each round")
    parser.add_argument("--messages", type=int, default=200_000, help="that groups read")
    options = parser.parse_args()
    console = Console(highlight=False, width=120)
    console.print(costs(options.rounds, options.seconds, options.messages))
    return 0


if __name__ == "__main__":
    sys.exit(main())
