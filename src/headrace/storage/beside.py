"""Jobs beside the event loop: what waits for the disk runs in a thread, and what follows it on the loop.

Ticking       for a host that has no event loop: what follows a job runs in a tick
DiskSteps     several jobs, one after the other, with code between them that runs on the loop
"""

from collections.abc import Callable, Generator
from concurrent.futures import Future, ThreadPoolExecutor
from threading import Lock
from typing import Any

from headrace.engine.history import Beside

Steps = Generator[Callable[[], None], None, None]


class Ticking:
    """Does something in a thread, and what follows in a tick: for a host that has no event loop."""

    def __init__(self) -> None:
        self._threads = ThreadPoolExecutor(1, "headrace-beside")
        self._jobs: list[tuple[Future[Any], Callable[[Any], None]]] = []

    def __call__(self, job: Callable[[], Any], done: Callable[[Any], None]) -> None:
        """Begin a job."""
        self._jobs.append((self._threads.submit(job), done))

    def tick(self, *, wait: bool) -> None:
        """Do what follows the jobs that are over; or, where others shall wait, all that there are."""
        while self._jobs and (wait or self._jobs[0][0].done()):
            job, done = self._jobs.pop(0)
            done(job.result())

    def close(self) -> None:
        """Wait for the jobs that go on; nothing follows them."""
        self._threads.shutdown(cancel_futures=True)


class _DiskJob:
    """A job that runs once: in the thread that has begun it, or in the one that cannot wait for that."""

    def __init__(self, work: Callable[[], None]) -> None:
        self.refused: OSError | None = None
        self._work = work
        self._lock = Lock()
        self._is_over = False

    def run(self) -> None:
        """Run it, or wait until the thread has done so that runs it."""
        with self._lock:
            if not self._is_over:
                try:
                    self._work()
                except OSError as error:
                    self.refused = error
                finally:
                    self._is_over = True


class DiskSteps:
    """Runs the jobs that `steps` yields, beside the loop where `beside` is given, and then calls `on_end`.

    What the disk refuses is raised in `steps` where it has yielded the job, and if it comes out of it, given to
    `on_end`.
    """

    def __init__(self, steps: Steps, beside: Beside | None, on_end: Callable[[OSError | None], None]) -> None:
        self._steps = steps
        self._beside = beside
        self._on_end = on_end
        self._job: _DiskJob | None = None

    def start(self) -> None:
        """Begin the first job; without a thread, do everything."""
        self._advance(None)

    def finish(self) -> None:
        """Do everything that is left, and return then."""
        self._beside = None
        if self._job is not None:
            self._job.run()
            self._follow(self._job)

    def _advance(self, refused: OSError | None) -> None:
        try:
            work = next(self._steps) if refused is None else self._steps.throw(refused)
        except StopIteration:
            self._on_end(None)
        except OSError as error:
            self._on_end(error)
        else:
            self._begin(_DiskJob(work))

    def _begin(self, job: _DiskJob) -> None:
        self._job = job
        if self._beside is None:
            job.run()
            self._follow(job)
        else:
            self._beside(job.run, lambda _: self._follow(job))

    def _follow(self, job: _DiskJob) -> None:
        if self._job is job:  # else it was followed already, by `finish`
            self._job = None
            self._advance(job.refused)


def run_now(steps: Steps) -> None:
    """Run every job at once; raises what the disk refuses."""
    ends: list[OSError | None] = []
    DiskSteps(steps, None, ends.append).start()
    if ends[0] is not None:
        raise ends[0]
