"""The load generator against redis-benchmark: the same XADD by both, on the same servers.

A generator that is slower than the server measures itself. Where both give the same rate, the server is what they see;
the processor time of the generator tells how much it had left.
"""

from __future__ import annotations

import csv
import resource
import shutil
import subprocess

from bench.run import Run
from bench.servers import servers
from headrace.measuring.rounds import alternated
from headrace.measuring.samples import Finding, Sample
from headrace.measuring.targets import Target
from headrace.measuring.workloads import Shape, xadd

OURS = "headrace bench"
THEIRS = "redis-benchmark"
CLIENTS = 50


def generator(run: Run) -> None:
    """Compare rates and costs at pipeline 1 and 16."""
    if shutil.which(THEIRS) is None:
        run.note("There is no redis-benchmark here to compare the load generator with.")
        return
    with servers(run) as targets:
        for target in targets:
            for pipeline in (1, 16):
                _compare(run, target, pipeline)


def _compare(run: Run, target: Target, pipeline: int) -> None:
    workload = xadd(pipeline=pipeline, clients=CLIENTS)
    found: dict[str, list[Sample]] = {OURS: [], THEIRS: []}
    for turn in range(run.scale.rounds):
        for who in alternated([OURS, THEIRS], turn):
            run.told(f"XADD, pipeline {pipeline}, by {who}: {target.name}")
            workload.prepare(target)
            if who == OURS:
                sample = workload.measure(target, run.scale.seconds)
                found[who].append(sample | {"cost": 1e6 * sample["load busy"] / sample["rate"]})
            else:
                requests = int(run.scale.seconds * found[OURS][0]["rate"]) if found[OURS] else 20_000
                found[who].append(_benchmarked(target, pipeline, requests))
    for figure, unit, more in (("rate", "requests/s", True), ("cost", "µs", False)):
        rounds = {who: [sample[figure] for sample in samples] for who, samples in found.items()}
        what = "" if figure == "rate" else ", of the generator's processor a request"
        name = f"{target.name}: XADD, pipeline {pipeline}{what}"
        run.keep(Finding(name, unit, more_is_better=more, table="The load generator", rounds=rounds))


def _benchmarked(target: Target, pipeline: int, requests: int) -> Sample:
    port = target.client.connection_pool.connection_kwargs["port"]
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    answer = subprocess.run(
        [
            *(THEIRS, "-p", str(port), "-c", str(CLIENTS), "-n", str(requests), "-P", str(pipeline), "--csv"),
            *(b"XADD", target.key("written"), b"*", *Shape().words()),
        ],
        capture_output=True,
        text=True,
        check=True,
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cost = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    rate = float(list(csv.DictReader(answer.stdout.splitlines()))[-1]["rps"])
    return {"rate": rate, "cost": 1e6 * cost / requests}
