"""The servers that are compared: Headrace, and this machine's redis-server where there is one."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from bench.run import Run
from headrace.measuring.targets import IN_MEMORY, Target, private_headrace, private_redis, redis_command

ALONE = "There is no redis-server here, so that Headrace is measured alone; apt-get install redis-server brings one."


@contextmanager
def servers(run: Run, settings: tuple[str, ...] = IN_MEMORY) -> Iterator[list[Target]]:
    """Start both with the same settings; print a sentence where there is no redis-server."""
    with ExitStack() as stack:
        targets = [stack.enter_context(private_headrace(settings))]
        if redis_command() is None:
            run.note(ALONE)
        else:
            targets.append(stack.enter_context(private_redis(settings)))
        yield targets
