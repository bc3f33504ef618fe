"""Three machines, each a network namespace with a server and one of Debian's Sentinels; clients work from a fourth.

One or two machines at a time are cut off, killed, frozen, or slow. When all are well again, nothing that was
acknowledged may be lost, and all servers must be equal.

HEADRACE_SEED=n      draw the faults of that seed
HEADRACE_LONG=1      200 faults, drawn anew each time
"""

import re
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from itertools import count
from pathlib import Path
from random import Random, SystemRandom

import pytest
import redis

from support.acknowledged_load import Producer, Transactor, prepare, workers
from support.campaign import LONG, SEED
from support.patience import await_that
from support.replication.lasting_load import LastingLoad, WorkingClient
from support.replication.machine_faults import Faults
from support.replication.namespaces import machines
from support.replication.sentinels import MASTER, WatchedServers, watched_servers
from support.replication.server_pair import await_same
from support.storage.faulty_disk import FaultyDisk

FAULTS = 20 if LONG else 5
ROUNDS = 10 if LONG else 1
LASTS_S = (0.1, 1.0, 3.0, 6.0)  # a failover begins after 1.5 seconds
DROPPED = re.compile(r"never got [1-9]\d* effects of ours \(\d+ bytes\): they are dropped with our data")

SETTINGS = {
    "min_replicas_to_confirm": "2",  # whom a Sentinel chooses has everything
    "repl_confirm_timeout": "3",
    "repl_timeout": "5",
    "repl_ping_replica_period": "1",
    "repl_diskless_sync_delay": "0",
}


class Cluster:
    """The machines, and the clients at work on them."""

    def __init__(self, watched: WatchedServers, faults: Faults, chance: Random) -> None:
        self.watched = watched
        self.faults = faults
        self._chance = chance
        with watched.servers[0].client() as client:
            prepare(client)
        clients: list[WorkingClient] = [*workers(), Producer("p1"), Producer("p2"), Transactor("t1"), Transactor("t2")]
        self._connections = count()
        self.load = LastingLoad(self._connect, clients, seed=chance.randrange(2**32), pause_s=0.02)

    def _connect(self) -> redis.Redis:
        """Return a client that asks its own Sentinel first; that one may not have heard the news."""
        manager = self.watched.manager(timeout_s=1.0)
        first = next(self._connections) % 3
        manager.sentinels = manager.sentinels[first:] + manager.sentinels[:first]
        return manager.master_for(MASTER)

    def live_through(self, *drawn: tuple[str, int], wait: Callable[[], object]) -> None:
        """Let machines have faults while something is waited for, and see that nothing is lost."""
        with ExitStack() as stack:
            for kind, number in drawn:
                stack.enter_context(self.faults.kinds[kind](number, self._chance))
            wait()
        await_that(self.watched.is_settled, pause_s=0.1)
        self.load.await_more()
        with self.load.paused():
            await_that(self._is_sound, pause_s=0.1)

    def _is_sound(self) -> bool:
        """Check everything; False where a Sentinel has other plans just now."""
        master = self.watched.master()
        if master is None:
            return False
        try:
            with master.client() as leader:
                self.load.check(leader)
                for server in self.watched.servers:
                    if server is not master:
                        with server.client() as follower:
                            await_same(follower, leader)
        except redis.RedisError:
            return False
        return True

    def number_of_master(self) -> int:
        master = self.watched.master()
        assert master is not None
        return self.watched.servers.index(master)

    @property
    def logs(self) -> str:
        return "".join(server.log for server in self.watched.servers)


@contextmanager
def started(directory: Path, seed: int) -> Iterator[Cluster]:
    disks = []
    for number in range(3):
        (directory / f"disk{number}").mkdir()
        disks.append(FaultyDisk(directory / f"disk{number}"))
    with machines(4) as (*served, clients), clients.entered():
        hosts = [machine.host for machine in served]
        environments = [disk.environment(Path("/nowhere")) for disk in disks]
        with watched_servers(
            directory, hosts=hosts, priorities=(100, 100, 100), environments=environments, **SETTINGS
        ) as watched:
            cluster = Cluster(watched, Faults(watched, served, clients, disks), Random(seed))
            with cluster.load:
                cluster.load.await_more()
                yield cluster


@pytest.mark.slow
@pytest.mark.skipif(LONG, reason="the campaign below draws more")
def test_five_faults_lose_nothing_and_the_former_master_says_what_it_drops(tmp_path: Path) -> None:
    seed = SEED or 0
    chance = Random(seed)
    with started(tmp_path, seed) as cluster:
        former = cluster.number_of_master()
        successor = partial(cluster.watched.await_master_other_than, cluster.watched.servers[former])
        cluster.live_through(("apart", former), wait=successor)
        assert DROPPED.search(cluster.logs)
        later = ["killed", "frozen", "slow disk", chance.choice(("dumb", "deaf"))]
        chance.shuffle(later)
        for kind in later:
            cluster.live_through((kind, chance.randrange(3)), wait=partial(time.sleep, chance.choice(LASTS_S[:3])))


@pytest.mark.long
@pytest.mark.timeout(7200)
@pytest.mark.skipif(not LONG, reason="a campaign: HEADRACE_LONG=1")
@pytest.mark.parametrize("_round", range(ROUNDS))
def test_a_campaign_of_faults(tmp_path: Path, _round: int) -> None:
    seed = SystemRandom().randrange(2**32) if SEED is None else SEED
    print(f"HEADRACE_SEED={seed} draws these faults")
    chance = Random(seed)
    with started(tmp_path, seed) as cluster:
        for _ in range(FAULTS):
            kinds = list(cluster.faults.kinds)
            numbers = chance.sample(range(3), chance.choice((1, 1, 2)))
            if chance.random() < 0.5:
                numbers[0] = cluster.number_of_master()
            drawn = [(chance.choice(kinds), number) for number in set(numbers)]
            lasts_s = chance.choice(LASTS_S)
            print(f"{time.monotonic():.1f} {drawn} for {lasts_s} s")
            cluster.live_through(*drawn, wait=partial(time.sleep, lasts_s))
