"""Machines with a network of their own: a network namespace each, and one for the bridge that joins them.

    hub         a bridge, and nothing else
    machines    10.0.0.1, 10.0.0.2 …, each with one cable to the hub; the host sees none of it

Every machine is told the Ethernet addresses of all others. With a wrong one, what it sends to another machine is lost,
and nobody is told: loss has a direction.

A namespace lives as long as a process that is in it. The processes that hold them end when the test process does,
however it ends, as do all that a test starts in them: nothing is left behind, and runs do not meet.
"""

import ctypes
import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from support.replication.sentinels import Host

PROGRAMS = ("ip", "unshare", "nsenter", "setpriv")
_CLONE_NEWNET = 0x40000000


class Namespace:
    """A network namespace, with the process that holds it."""

    def __init__(self) -> None:
        holder = ["unshare", "--net", "sh", "-c", "echo; exec cat"]  # cat ends with its input
        self._holder = subprocess.Popen(
            holder, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        assert self._holder.stdout is not None
        self.pid = self._holder.pid
        self.path = Path(f"/proc/{self.pid}/ns/net")
        if not self._holder.stdout.readline():
            _, why = self._holder.communicate()
            raise OSError(why.strip())

    def close(self) -> None:
        self._holder.communicate()

    def run(self, program: str, *arguments: str, given: str = "") -> None:
        """Run a program that sets up the network."""
        command = ["nsenter", f"--net={self.path}", program, *arguments]
        done = subprocess.run(command, input=given, capture_output=True, text=True, check=False)
        if done.returncode:
            raise OSError(done.stderr.partition("\n")[0])

    def set_up(self, *lines: str) -> None:
        self.run("ip", "-batch", "-", given="\n".join(lines))

    @contextmanager
    def entered(self) -> Iterator[None]:
        """Let this thread, and all threads and processes that it starts, be on the machine."""
        with Path("/proc/thread-self/ns/net").open() as before, self.path.open() as ours:
            _enter(ours.fileno())
            try:
                yield
            finally:
                _enter(before.fileno())


def _enter(file: int) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.setns(file, _CLONE_NEWNET) != 0:
        error = ctypes.get_errno()
        raise OSError(error, os.strerror(error))


class Machine(Namespace):
    """A namespace with an address."""

    def __init__(self, number: int) -> None:
        super().__init__()
        self._number = number
        self.address = f"10.0.0.{number}"
        self.host = Host(
            self.address, ("nsenter", f"--net={self.path}", "setpriv", "--pdeathsig", "KILL"), has_own_ports=True
        )

    def connect(self, hub: Namespace) -> None:
        hub.set_up(
            f"link add cable{self._number} type veth peer name eth0 netns {self.pid}",
            f"link set cable{self._number} master bridge up",
        )
        self.set_up(
            "link set lo up",
            f"link set eth0 address {_ethernet(self._number)}",
            f"addr add {self.address}/24 dev eth0",
            "link set eth0 up",
        )

    def reach(self, *others: "Machine") -> None:
        """Let what is sent to others arrive."""
        self._tell(others, lost=False)

    def lose(self, *others: "Machine") -> None:
        """Let what is sent to others be lost."""
        self._tell(others, lost=True)

    def _tell(self, others: "tuple[Machine, ...]", *, lost: bool) -> None:
        self.set_up(
            *(
                f"neigh replace {each.address} lladdr {_ethernet(each._number, lost=lost)} dev eth0 nud permanent"
                for each in others
            )
        )

    def slow_down(self, rate: str) -> None:
        """Let no more than so much leave at a time; what does not fit is lost."""
        self.run("tc", *f"qdisc replace dev eth0 root tbf rate {rate} burst 4kb latency 200ms".split())

    def speed_up(self) -> None:
        self.run("tc", "qdisc", "del", "dev", "eth0", "root")


def _ethernet(number: int, *, lost: bool = False) -> str:
    return f"02:00:00:00:{1 if lost else 0:02x}:{number:02x}"


@contextmanager
def machines(count: int) -> Iterator[list[Machine]]:
    """So many machines that reach each other; the test is skipped where they cannot be made."""
    missing = [program for program in PROGRAMS if shutil.which(program) is None]
    if missing:
        pytest.skip(f"network namespaces need {', '.join(missing)}: apt-get install iproute2 util-linux brings them")
    with ExitStack() as stack:
        try:
            hub = Namespace()
            stack.callback(hub.close)
            hub.set_up("link add bridge type bridge", "link set bridge up")
            made = []
            for number in range(1, count + 1):
                machine = Machine(number)
                stack.callback(machine.close)
                machine.connect(hub)
                made.append(machine)
            with made[0].entered():
                pass
        except OSError as error:
            pytest.skip(f"no network namespaces can be made here: {error}")
        for machine in made:
            machine.reach(*(other for other in made if other is not machine))
        yield made
