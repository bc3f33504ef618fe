"""The life of three servers: a master, two replicas, clients, an operator, and much that goes wrong.

    faults       connections are cut, machines are apart, power fails anywhere, the master is isolated
    operator     when the master is gone, makes that replica the master which has the most of its history, and lets the
                 others follow, it or one another; the old one when it comes back. Sees all replicas, of which one may
                 have to be started. Now and then has the master hand over (FAILOVER), and looks who is the master then.
    queue        in some lives, there are a queue and a log with rules, see simulated_queue
    clients      write to the master, and to an isolated one that still takes itself for it, and read there; they note
                 what was acknowledged: an entry under its ID, a delivery, an XACK; and which entries a read has shown

A schedule is some faults and writes, and an end to them: the master stays, or another one is made. What was
acknowledged or shown must be there (or is counted as lost, where the servers do not confirm). A promoted server may
show what no replica has yet: that counts when replicas have confirmed everything from before the promotion. Always:
nobody writes at a place of a history what another did not write there. Now and then everything heals, and all servers
must be equal.

Servers may sync each second only. After a power cut, such a master may lack what replicas have confirmed, so that the
operator never starts it again as the master. With one confirmation, a write would be on one disk only, perhaps that of
the next master: two are asked for there, so that one of any two servers has it.

Everything is drawn from the seed, and time is a number: a seed lives the same life again.
"""

from collections import Counter
from collections.abc import Callable
from functools import partial
from random import Random
from typing import Any, Final

from headrace.core.stream import Stream
from headrace.engine.engine import Engine
from support.replay.whole_state import State, differences, take_state
from support.replication.simulated_client import Client
from support.replication.simulated_queue import Queue
from support.replication.simulated_server import PORT, Machine, Process, World, living_in

HOSTS: Final = ("10.0.0.1", "10.0.0.2", "10.0.0.3")
KEYS: Final = (b"a", b"b")
GROUP: Final = b"group"
ENDLESS: Final = 1 << 62
PATIENCE_S: Final = 120.0  # of the time of the simulation, to become equal

Place = tuple[int, bytes, bytes]  # database, key, ID


class LostData(AssertionError):
    """Servers that do not have what they should."""


class Acknowledged:
    """What clients were told."""

    def __init__(self) -> None:
        self.entries: dict[Place, bytes] = {}
        self.deliveries: dict[Place, bytes] = {}  # the consumer
        self.ended: set[Place] = set()  # XACK was acknowledged
        self.perhaps_ended: set[Place] = set()  # XACK was sent

    def lost(self, engine: Engine) -> list[str]:
        """Name what a server does not have, and forget it."""
        lost: list[str] = []
        found = _Found(engine)
        for place, value in list(self.entries.items()):
            if found.entries.get(place) != value:
                lost.append(f"the entry {place} with {value!r}")
                del self.entries[place]
        for place, consumer in list(self.deliveries.items()):
            was_delivered = _read_id(place[2]) <= found.reached.get(place[:2], (-1, 0))
            if place in self.ended:
                is_there = was_delivered and place not in found.pending
            elif place in self.perhaps_ended:
                is_there = was_delivered
            else:
                is_there = found.pending.get(place) == consumer
            if not is_there:
                lost.append(f"the delivery {place} to {consumer!r}" + " and its end" * (place in self.ended))
                del self.deliveries[place]
                self.ended.discard(place)
        return lost


class _Found:
    """What a server has."""

    def __init__(self, engine: Engine) -> None:
        self.entries: dict[Place, bytes] = {}
        self.pending: dict[Place, Any] = {}
        self.reached: dict[tuple[int, bytes], tuple[int, int]] = {}  # how far the group has read
        for db in engine.databases:
            for key, value in db.values.items():
                if isinstance(value, Stream):
                    where = db.number, key
                    self.entries |= {(*where, str(id).encode()): fields[1] for id, fields in value.range()}
                    for group in value.group_list():
                        records = group.pending_records()
                        self.pending |= {(*where, str(id).encode()): consumer for id, consumer, *_ in records}
                        self.reached[where] = _read_id(str(group.last_delivered_id).encode())


def _leads_after(machine: Machine, history: bytes) -> bool:
    """Whether a server is a master that has gone on from a history, or was it when its power was cut."""
    known = machine.known
    return known.leads and known.history != history and history in known.places


def _read_id(text: bytes) -> tuple[int, int]:
    milliseconds, _, number = text.partition(b"-")
    return int(milliseconds), int(number)


class Life:
    """See the module."""

    def __init__(self, seed: str, *, confirms: bool) -> None:
        self.seed = seed
        self.random = Random(seed)  # of those who act
        self.tally = Counter[str]()
        self._confirms = confirms
        self._world = World(seed)
        self._world.on_said = self._hear
        self._timeline = self._world.timeline
        self._network = self._world.network
        self._machines = [Machine(host, self._world) for host in HOSTS]
        self._master = self._machines[0]
        self._lineage: dict[bytes, int] = {}
        self._leaders: dict[Machine, Machine] = {}  # whom a replica follows
        self._policies = dict.fromkeys(self._machines, "always")
        self._confirmations = 1
        self._pauses_s = [0.0, 0.0002, 0.001, 0.003, 0.02, 0.15]
        if self.random.random() < 0.3:
            self.tally["lives with everysec"] += 1
            self._policies = {machine: self.random.choice(("always", "everysec")) for machine in self._machines}
            self._confirmations = 2
            self._pauses_s.append(1.2)
        self._is_isolated = False
        self._clients: dict[tuple[Machine, bool], Client] = {}  # of a machine, one that writes and one that reads
        self._acknowledged = Acknowledged()
        self._count = 0
        self._queue = Queue(self.random) if self.random.random() < 0.5 else None
        self.tally["lives with a queue"] += self._queue is not None

    def live(self, schedules: int) -> Counter[str]:
        """Live through so many schedules; how often what happened."""
        with living_in(self._world):
            try:
                self._begin()
                for _ in range(schedules):
                    self._live_schedule()
                    self.tally["schedules"] += 1
                self._heal()
            except Exception as error:
                error.add_note(f"in the life {self.seed!r}, confirms: {self._confirms}, where the last events were")
                error.add_note("\n".join(self._world.events[-100:]))
                raise
            finally:
                for machine in self._machines:
                    machine.end()
        for machine in self._machines:
            self.tally += machine.tally
        return self.tally

    def _note(self, action: str) -> None:
        self._world.events.append(f"{self._timeline.now % 1000:.4f} {action}")

    def _hear(self, text: str) -> None:
        """Cut connections now and then when a server has taken over and its answer is on its way."""
        if "failover request from" in text and self.random.random() < 0.4:
            self._note("cut all connections")
            self.tally["failovers whose answer was lost"] += 1
            self._network.cut_all()

    # --- one schedule ----------------------------------------------------------------------------------------------

    def _begin(self) -> None:
        for machine in self._machines:
            self._start(machine)
        commands: list[tuple[bytes, ...]] = [(b"XGROUP", b"CREATE", key, GROUP, b"0", b"MKSTREAM") for key in KEYS]
        if self._queue is not None:
            commands += self._queue.first_commands()
        missing = [(db, command) for db in (0, 1) for command in commands]

        def run_first(db: int, command: tuple[bytes, ...]) -> None:
            def done(reply: Any) -> None:
                if reply == b"+OK":
                    missing.remove((db, command))

            self._send(self._master, db, done, *command)

        while missing:
            self._await_equal()
            for db, command in list(missing):
                run_first(db, command)
            self._await_equal()

    def _live_schedule(self) -> None:
        for _ in range(self.random.randint(2, 6)):
            self._step()
        if self.random.random() < 0.3:
            self._black_out()
        if not self._master.is_up or self._is_isolated or self.random.random() < 0.3:
            self._replace_master()
        else:
            self._check_acknowledged()
        if self.random.random() < 0.4:
            self._heal()

    def _step(self) -> None:
        roll = self.random.random()
        if roll < 0.7:
            for _ in range(self.random.choice((1, 2, 4))):
                self._write()
        elif roll < 0.78:
            self._note("cut a connection")
            self._network.cut_one()
        elif roll < 0.82:
            one, other = self.random.sample(self._machines, 2)
            self._note(f"part {one.host} and {other.host}")
            self._network.part(one.host, other.host)
        elif roll < 0.85:
            self._note("heal the network")
            self._network.heal()
            self._is_isolated = False
        elif roll < 0.87:
            self._note(f"isolate {self._master.host}")
            self._network.isolate(self._master.host)
            self._is_isolated = True
        elif roll < 0.94:
            machine = self.random.choice(self._machines)
            self._note(f"end {machine.host}")
            if self.random.random() < 0.3:
                machine.end()
            else:
                machine.end_soon(self.random.randrange(8))
        elif roll < 0.96:
            for machine in self._machines:
                if not machine.is_up:
                    self._bring_back(machine)
        elif roll < 0.98:
            self._fail_over()
        else:
            machine = self.random.choice(self._machines)
            if machine.process is not None:
                machine.process.run("BGREWRITEAOF")
        self._timeline.run_for(self.random.choice(self._pauses_s))

    def _black_out(self) -> None:
        """Cut the power of the master and a replica at a moment when much is on its way, perhaps to that one alone."""
        one, other = self.random.sample([machine for machine in self._machines if machine is not self._master], 2)
        if self.random.random() < 0.5:
            self._network.part(self._master.host, other.host)
        for _ in range(6):
            self._write()
            self._timeline.run_for(self.random.choice((0.0, 0.0005, 0.001, 0.002)))
        self._note("black out")
        self._master.end()
        one.end()

    # --- servers ---------------------------------------------------------------------------------------------------

    def _bring_back(self, machine: Machine) -> None:
        """Start a machine that is down, or replace it: a master that may lack what others confirmed."""
        if machine is self._master and self._policies[machine] == "everysec":
            self._replace_master()
        else:
            self._start(machine)

    def _start(self, machine: Machine) -> None:
        """Start a machine, however often that takes."""
        settings = {"appendfsync": self._policies[machine]}
        if self._confirms:
            settings["min-replicas-to-confirm"] = str(self._confirmations)
        if machine is not self._master:
            leader = self._leaders.get(machine) or self._choose_leader(machine)
            settings["replicaof"] = f"{leader.host} {PORT}"
        self._note(f"start {machine.host} {settings.get('replicaof', 'as master')}")
        while not machine.start(settings):
            self.tally["ended while starting"] += 1
        self.tally["starts"] += 1
        if machine is self._master:
            self._learn_lineage()

    def _choose_leader(self, machine: Machine) -> Machine:
        """Choose whom a replica follows: the master, or now and then one that follows the master."""
        leader = self._master
        may_chain = self._confirmations == 1  # else writes need both
        for other in self._machines:
            is_led = other is not machine and self._leaders.get(other) is self._master
            if may_chain and is_led and self.random.random() < 0.2:
                leader = other
                self.tally["chains"] += 1
        self._leaders[machine] = leader
        return leader

    def _lead(self, machine: Machine) -> None:
        """Tell a server that is up whom it follows."""
        if machine.process is not None:
            leader = self._choose_leader(machine)
            machine.process.run("REPLICAOF", leader.host, PORT)

    def _fail_over(self) -> None:
        """Have the master hand over to a replica while clients write and things go wrong, and see who is it then."""
        old = self._master
        if old.process is None:
            return
        history = old.process.engine.effects.history
        replicas = [machine for machine in self._machines if machine is not old and not _leads_after(machine, history)]
        target = self.random.choice([(), ("TO", self.random.choice(HOSTS), PORT), ("TIMEOUT", 1500)])
        self._note(f"{old.host} fails over, {target}: {old.process.run('FAILOVER', *target)!r}")
        for _ in range(self.random.randint(1, 4)):
            self._write()
            self._timeline.run_for(self.random.choice((0.001, 0.1, 0.5, 1.0)))
            if self.random.random() < 0.1:
                self._network.cut_one()
            if self.random.random() < 0.05:
                self.random.choice(self._machines).end_soon(self.random.randrange(8))
        successors = [machine for machine in replicas if _leads_after(machine, history)]
        if successors:
            self.tally["failovers"] += 1
            (self._master,) = successors
            self._note(f"{self._master.host} has taken over")
            self._learn_lineage()
            self._leaders.clear()
        if old.process is not None:
            old.process.run("FAILOVER", "ABORT")
        if not self._master.is_up:
            self._replace_master()
        elif successors:
            for machine in self._machines:
                if machine is not self._master:
                    self._lead(machine)
        else:
            self._learn_lineage()

    def _replace_master(self) -> None:
        """Make the server the master that has most of what the master had; where none has anything, keep the master.

        An offset alone does not tell: a former master may have more, of a history that was left.
        """
        old = self._master
        others = [machine for machine in self._machines if machine is not old]
        for machine in others:
            if not machine.is_up:
                self._start(machine)
        candidates = [(offset, machine) for machine in others if (offset := self._offset_of(machine)) >= 0]
        if not candidates:
            self.tally["masters without a replica to replace them"] += 1
            self._network.heal()
            self._is_isolated = False
            if not old.is_up:
                self._start(old)
            self._check_acknowledged()
            return
        _, chosen = max(candidates, key=lambda each: each[0])
        self._note(f"promote {chosen.host}")
        assert chosen.process is not None
        chosen.process.run("REPLICAOF", "NO", "ONE")
        if chosen.process is None:
            self.tally["promotions that ended in a power cut"] += 1
            self._replace_master()
            return
        self.tally["promotions"] += 1
        self._master = chosen
        self._leaders.clear()
        self._learn_lineage()
        keeps = old.is_up and self._is_isolated and self.random.random() < 0.5
        self.tally["masters that do not know yet"] += keeps
        for machine in self._machines:
            if machine is not chosen and not (machine is old and keeps):
                self._lead(machine)
        self._check_acknowledged()

    def _learn_lineage(self) -> None:
        """Note the histories that led to the master's, and where each was left."""
        known = self._master.known
        self._lineage = {**known.places, known.history: ENDLESS}

    def _offset_of(self, machine: Machine) -> int:
        """How much a server has of what led to the master's data; -1: nothing."""
        if machine.process is None:
            return -1
        has = machine.known.places.items()
        return max((min(offset, self._lineage.get(history, -1)) for history, offset in has), default=-1)

    # --- clients ---------------------------------------------------------------------------------------------------

    def _has_confirmed_its_beginning(self, process: Process) -> bool:
        """Whether replicas have all that a server had when it became the master."""
        ancestors = process.engine.effects.ancestors
        return not ancestors or process.followers.offset_synced_by(self._confirmations) >= ancestors[0][1]

    def _write(self) -> None:
        """Send a command to a server that takes itself for the master: one that writes, or shows what was written."""
        machines = [
            machine
            for machine in self._machines
            if machine.process is not None and not machine.process.engine.is_replica
        ]
        if not machines:
            return
        machine = self.random.choice(machines)
        db, key = self.random.randrange(2), self.random.choice(KEYS)
        if self._queue is not None and self.random.random() < 0.6:
            self._queue.write(db, partial(self._send, machine))
            return
        roll = self.random.random()
        told = self._acknowledged
        if roll < 0.15:
            process = machine.process
            assert process is not None

            def shown(reply: Any) -> None:
                if isinstance(reply, list) and self._has_confirmed_its_beginning(process):
                    told.entries.update({(db, key, id): fields[1] for id, fields in reply})
                    self.tally["entries shown"] += len(reply)

            self._send(machine, db, shown, b"XREVRANGE", key, b"+", b"-", b"COUNT", b"3")
        elif roll < 0.65:
            self._count += 1
            value = b"%d" % self._count

            def added(reply: Any) -> None:
                if not reply.startswith(b"-"):
                    told.entries[db, key, reply] = value

            self._send(machine, db, added, b"XADD", key, b"*", b"v", value)
        elif roll < 0.85:
            consumer = self.random.choice((b"x", b"y"))

            def delivered(reply: Any) -> None:
                if isinstance(reply, list):
                    told.deliveries.update({(db, key, id): consumer for id, _ in reply[0][1]})

            self._send(
                machine, db, delivered, b"XREADGROUP", b"GROUP", GROUP, consumer, b"COUNT", b"2", b"STREAMS", key, b">"
            )
        else:
            places = [place for place in told.deliveries if place[:2] == (db, key) and place not in told.perhaps_ended]
            if places:
                place = self.random.choice(places)
                told.perhaps_ended.add(place)

                def ended(reply: Any) -> None:
                    if reply == 1:
                        told.ended.add(place)

                self._send(machine, db, ended, b"XACK", key, GROUP, place[2])

    def _send(self, machine: Machine, db: int, then: Callable[[Any], None], *words: bytes) -> None:
        place = machine, words[0] == b"XREVRANGE"
        client = self._clients.get(place)
        if client is None or client.is_gone or client.process is not machine.process:
            assert machine.process is not None
            client = self._clients[place] = Client(machine.process)
        self._note(f"to {machine.host}: {b' '.join(words).decode()}")

        def replied(reply: Any) -> None:
            self._note(f"from {machine.host}: {reply!r} to {b' '.join(words).decode()}")
            self.tally[words[0].decode() + (" refused" if isinstance(reply, bytes) and reply[:1] == b"-" else "")] += 1
            then(reply)

        client.send(b"SELECT", b"%d" % db)
        client.send(*words, then=replied)

    # --- what must hold --------------------------------------------------------------------------------------------

    def _check_acknowledged(self) -> None:
        assert self._master.process is not None
        engine = self._master.process.engine
        lost = self._acknowledged.lost(engine)
        if self._queue is not None:
            doubled, missing = self._queue.find_faults(engine, self.tally)
            if doubled:
                raise LostData(f"{self._master.host} has something twice:\n" + "\n".join(doubled))
            lost += missing
        self.tally["lost"] += len(lost)
        self.tally["checked"] += len(self._acknowledged.entries)
        if lost and self._confirms:
            raise LostData(f"{self._master.host} does not have what was acknowledged:\n" + "\n".join(lost))

    def _heal(self) -> None:
        """Let everything be well again, and all servers be equal."""
        self._note("heal everything")
        self._network.heal()
        self._is_isolated = False
        for machine in self._machines:
            if not machine.is_up:
                self._bring_back(machine)
        for machine in self._machines:
            process = machine.process
            if process is not None and machine is not self._master and not process.engine.is_replica:
                self._lead(machine)
        self._await_equal()
        self._check_acknowledged()
        self.tally["healed"] += 1

    def _await_equal(self) -> None:
        deadline = self._timeline.now + PATIENCE_S
        while not self._are_in_step():
            if self._timeline.now > deadline:
                raise LostData(f"The servers do not become equal: {[self._shown(m) for m in self._machines]}")
            for machine in self._machines:
                if not machine.is_up:
                    self._bring_back(machine)
            self._timeline.run_for(0.02)
        states = [self._state(machine) for machine in self._machines]
        for machine, state in zip(self._machines[1:], states[1:], strict=True):
            if state != states[0]:
                raise LostData(f"{machine.host} differs from {HOSTS[0]}:\n{differences(state, states[0])}")

    def _state(self, machine: Machine) -> State:
        assert machine.process is not None
        return take_state(machine.process.engine)

    def _are_in_step(self) -> bool:
        processes = [machine.process for machine in self._machines]
        if not all(map(self._is_idle, self._machines)):
            return False
        places = {(process.engine.effects.history, process.engine.effects.offset) for process in processes if process}
        return len(places) == 1 and not any(
            client.waits
            for (machine, _), client in self._clients.items()
            if client.process is machine.process and not client.is_gone
        )

    def _is_idle(self, machine: Machine) -> bool:
        process = machine.process
        if process is None or process.journal.busy or process.journal.buffered:
            return False
        led = sum(leader is machine for leader in self._leaders.values())
        return len(process.followers) == led and (process.link.is_up or not process.engine.is_replica)

    def _shown(self, machine: Machine) -> str:
        process = machine.process
        if process is None:
            return f"{machine.host} is down"
        effects = process.engine.effects
        role = process.link.state if process.engine.is_replica else f"master of {len(process.followers)}"
        return f"{machine.host} {role} {effects.history[:8].decode()} {effects.offset}"
