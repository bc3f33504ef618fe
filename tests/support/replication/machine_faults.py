"""What happens to one of three machines, each with a server and a Sentinel; and how long it lasts.

apart               from the other two; clients reach all three
unreachable         for everybody
dumb, deaf          what it sends, or what is sent to it, is lost
killed, power cut   the server, or both processes; started again at the end
frozen, suspended   the server, or both processes, stand still (SIGSTOP)
slow disk           every sync takes long
slow network        little leaves the machine at a time, and some of it is lost
"""

import shutil
import signal
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from random import Random

from support.replication.namespaces import Machine
from support.replication.sentinels import WatchedServers
from support.storage.faulty_disk import FaultyDisk


class Faults:
    """See the module; `clients` is the machine where the clients are."""

    def __init__(
        self, watched: WatchedServers, machines: Sequence[Machine], clients: Machine, disks: Sequence[FaultyDisk]
    ) -> None:
        self._watched = watched
        self._machines = machines
        self._clients = clients
        self._disks = disks
        self.kinds: dict[str, Callable[[int, Random], AbstractContextManager[None]]] = {
            "apart": self._apart,
            "unreachable": self._unreachable,
            "dumb": self._dumb,
            "deaf": self._deaf,
            "killed": self._killed,
            "power cut": self._power_cut,
            "frozen": self._frozen,
            "suspended": self._suspended,
            "slow disk": self._slow_disk,
        }
        if shutil.which("tc") is not None:
            self.kinds["slow network"] = self._slow_network

    # --- the network -----------------------------------------------------------------------------------------------

    def _others(self, number: int) -> list[Machine]:
        return [machine for machine in self._machines if machine is not self._machines[number]]

    def _apart(self, number: int, _chance: Random) -> AbstractContextManager[None]:
        return self._losing(number, self._others(number), sent=True, received=True)

    def _unreachable(self, number: int, _chance: Random) -> AbstractContextManager[None]:
        return self._losing(number, [*self._others(number), self._clients], sent=True, received=True)

    def _dumb(self, number: int, _chance: Random) -> AbstractContextManager[None]:
        return self._losing(number, self._others(number), sent=True, received=False)

    def _deaf(self, number: int, _chance: Random) -> AbstractContextManager[None]:
        return self._losing(number, self._others(number), sent=False, received=True)

    @contextmanager
    def _losing(self, number: int, others: Sequence[Machine], *, sent: bool, received: bool) -> Iterator[None]:
        machine = self._machines[number]
        if sent:
            machine.lose(*others)
        if received:
            for other in others:
                other.lose(machine)
        yield
        machine.reach(*others)
        for other in others:
            other.reach(machine)

    @contextmanager
    def _slow_network(self, number: int, chance: Random) -> Iterator[None]:
        self._machines[number].slow_down(chance.choice(("40kbit", "400kbit")))
        yield
        self._machines[number].speed_up()

    # --- processes -------------------------------------------------------------------------------------------------

    @contextmanager
    def _killed(self, number: int, _chance: Random) -> Iterator[None]:
        self._watched.servers[number].kill()
        yield
        self._watched.servers[number].start()

    @contextmanager
    def _power_cut(self, number: int, _chance: Random) -> Iterator[None]:
        server, sentinel = self._watched.servers[number], self._watched.sentinels[number]
        server.kill()
        sentinel.kill()
        yield
        server.start()
        self._watched.start_sentinel(sentinel)

    @contextmanager
    def _frozen(self, number: int, _chance: Random) -> Iterator[None]:
        self._watched.servers[number].send(signal.SIGSTOP)
        yield
        self._watched.servers[number].send(signal.SIGCONT)

    @contextmanager
    def _suspended(self, number: int, _chance: Random) -> Iterator[None]:
        processes = (self._watched.servers[number], self._watched.sentinels[number])
        for process in processes:
            process.send(signal.SIGSTOP)
        yield
        for process in processes:
            process.send(signal.SIGCONT)

    @contextmanager
    def _slow_disk(self, number: int, chance: Random) -> Iterator[None]:
        self._disks[number].set(sync_delay_ms=chance.choice((20, 200, 1000)))
        yield
        self._disks[number].set(sync_delay_ms=0)
