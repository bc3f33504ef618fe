"""FAILOVER: a master hands its part to a replica, and follows it.

    no-failover ──► waiting-for-sync ──► failover-in-progress ──► no-failover, as a replica
                    writes wait until    we are its replica, and
                    it has everything    ask it to take over

Followers are not asked how far they are meanwhile: the question itself would be an effect that they do not have yet.
They report it each second. If anything goes wrong before the replica has agreed, this server is the master again and
the writes that waited run.
"""

from collections.abc import Callable

from headrace.engine.blocking.pausing import NO_END_MS, Purpose
from headrace.engine.engine import Engine
from headrace.engine.errors import CommandError
from headrace.engine.replication import FailoverRequest
from headrace.replication.parts import Follower, Followers
from headrace.storage.log import Log

NONE = "no-failover"
WAITING = "waiting-for-sync"
IN_PROGRESS = "failover-in-progress"


class Failover:
    """The failover that is under way, if any."""

    def __init__(
        self,
        engine: Engine,
        followers: Followers,
        log: Log,
        *,
        hand_over: Callable[[str, int], None],
        take_back: Callable[[], None],
    ) -> None:
        self.state = NONE
        self._engine = engine
        self._followers = followers
        self._log = log
        self._hand_over = hand_over
        self._take_back = take_back
        self._request = FailoverRequest()
        self._end_ms = 0  # of the steady clock; 0: there is no limit

    @property
    def is_on(self) -> bool:
        """Whether one goes on."""
        return self.state != NONE

    def start(self, request: FailoverRequest) -> None:
        """Hold writes back, and hand over as soon as a replica has everything."""
        if self.is_on:
            raise CommandError(b"ERR FAILOVER already in progress.")
        if self._engine.is_replica:
            raise CommandError(b"ERR FAILOVER is not valid when server is a replica.")
        if not len(self._followers):
            raise CommandError(b"ERR FAILOVER requires connected replicas.")
        if request.force and not (request.timeout_ms and request.target):
            raise CommandError(b"ERR FAILOVER with force option requires both a timeout and target HOST and IP.")
        if request.target is not None:
            target = self._find(request.target)
            if target is None:
                raise CommandError(b"ERR FAILOVER target HOST and PORT is not a replica.")
            if target.state != "online":
                raise CommandError(b"ERR FAILOVER target replica is not online.")
        to = f" to {request.target[0]}:{request.target[1]}" if request.target else ""
        self._log.notice(f"FAILOVER requested{to}.")
        self._request = request
        self._end_ms = self._engine.clocks.steady_now_ms + request.timeout_ms if request.timeout_ms else 0
        self.state = WAITING
        self._engine.pauses.begin(NO_END_MS, writes_only=True, purpose=Purpose.FAILOVER)

    def tick(self) -> None:
        """Hand over where a replica has everything; give up, or hand over nevertheless, where the time is over."""
        if self.state != WAITING:
            return
        target = self._request.target
        if self._end_ms and self._engine.clocks.steady_ms() >= self._end_ms:
            if self._request.force and target is not None:
                self._log.notice(f"Failover to {target[0]}:{target[1]} time out exceeded, failing over.")
                self._begin(target)
            else:
                self.abort("Replica never caught up before timeout")
            return
        for follower in self._followers:
            address = (follower.address, follower.port)
            if target not in (None, address) or follower.offset != self._engine.effects.offset:
                continue
            if follower.state == "online":
                self._log.notice(f"Failover target {address[0]}:{address[1]} is synced, failing over.")
                self._begin(address)
                return

    def _begin(self, target: tuple[str, int]) -> None:
        self.state = IN_PROGRESS
        self._hand_over(*target)

    def answered(self, agreed: bool) -> None:
        """Note whether the replica has become the master."""
        if self.state != IN_PROGRESS:
            return
        if agreed:
            self._end()
        else:
            self.abort("Failover target rejected psync request")

    def abort(self, reason: str) -> None:
        """Remain the master, or be it again."""
        if not self.is_on:
            raise CommandError(b"ERR No failover in progress.")
        self._log.notice(f"Aborting a failover: {reason}.")
        if self.state == IN_PROGRESS:
            self._take_back()
        self._end()

    def _end(self) -> None:
        self.state = NONE
        self._engine.pauses.end(Purpose.FAILOVER)

    def _find(self, target: tuple[str, int]) -> Follower | None:
        for follower in self._followers:
            if (follower.address.lower(), follower.port) == (target[0].lower(), target[1]):
                return follower
        return None
