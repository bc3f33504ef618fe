"""Rules against a plain model, and a clock that jumps by hours: replies, streams, pending records, dead letters.

Time moves in whole seconds, and what rules say in fractions of them: the few milliseconds that the chores take in
between decide nothing. Rules are set, changed and removed while messages are pending; the server starts again from its
data, and follows and is promoted.
"""

from hypothesis import settings, strategies
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from headrace.engine.applier import Applier
from support.campaign import BRIEF, LONG
from support.queue_model import Group, Id, QueueModel, Rules
from support.ruled_engine import START_MS, RuledEngine

SECONDS = strategies.sampled_from([1, 1, 2, 2, 3, 5, 8, 20, 3600, 26 * 3600])
CONSUMERS = strategies.sampled_from(["ann", "bob", "cid"])
STREAM_RULES = strategies.fixed_dictionaries(
    {
        "max_length": strategies.sampled_from([0, 1, 3, 7]),
        "max_age_ms": strategies.sampled_from([0, 0, 6_300]),
        "references": strategies.sampled_from(["KEEPREF", "DELREF", "ACKED"]),
        "drops_acked": strategies.booleans(),
    }
)
GROUP_RULES = strategies.fixed_dictionaries(
    {
        "visibility_ms": strategies.sampled_from([0, 1_300, 4_300, 50_300]),
        "retry": strategies.sampled_from([None, (1_100, 1_100), (1_100, 60_200), (1_100, 60_200)]),
        "max_deliveries": strategies.sampled_from([0, 1, 3, 5]),
        "dead_letter": strategies.booleans(),
        "consumer_ttl_ms": strategies.sampled_from([0, 0, 7_600, 90_600]),
        "create_from": strategies.sampled_from([None, "0", "$"]),
    }
)


def text(entry: Id) -> bytes:
    return b"%d-%d" % entry


def parsed(word: bytes) -> Id:
    ms, _, seq = word.partition(b"-")
    return int(ms), int(seq)


class QueueRules(RuleBasedStateMachine):
    """Does the same to an engine and to the model."""

    @initialize(of_stream=STREAM_RULES, of_group=GROUP_RULES)
    def start(self, of_stream: dict[str, object], of_group: dict[str, object]) -> None:
        self.engine = RuledEngine()
        self.model = QueueModel()
        self.model.awake_ms = START_MS
        self.create_group("g")
        self.set_stream_rule(of_stream)
        self.set_group_rule(of_group, by_pattern=False)
        self.add(5)

    @rule(
        consumer=CONSUMERS,
        most=strategies.integers(1, 5),
        fates=strategies.lists(strategies.sampled_from(["acked", "FAIL", "FATAL", "held", "held"]), max_size=5),
        seconds=SECONDS,
        more=strategies.integers(0, 3),
    )
    def work(self, consumer: str, most: int, fates: list[str], seconds: int, more: int) -> None:
        """Let a consumer read, and finish some, fail at some and hold the others; let time pass, and others add."""
        given = self.take("g", consumer, most)
        for entry, fate in zip(given, fates, strict=False):
            if fate == "acked":
                assert self.engine.ask("XACK", "q", "g", text(entry)) == self.model.acknowledge("g", [entry])
            elif fate != "held":
                reply = self.engine.ask("XNACK", "q", "g", fate, "IDS", 1, text(entry))
                assert reply == self.model.reject(fate, entry, self.engine.now_ms)
        if more:
            self.add(more)
        self.wait(seconds)

    # --- what clients do -----------------------------------------------------------------------------------------

    @rule(count=strategies.integers(1, 4))
    def add(self, count: int) -> None:
        for _ in range(count):
            self.model.add(parsed(self.engine.ask("XADD", "q", "*", "n", "1")), self.engine.now_ms)

    @rule(group=strategies.sampled_from("ggggh"), consumer=CONSUMERS, most=strategies.integers(1, 5))
    def read(self, group: str, consumer: str, most: int) -> None:
        self.take(group, consumer, most)

    def take(self, group: str, consumer: str, most: int) -> list[Id]:
        """Read with both, and return what the consumer got."""
        reply = self.engine.ask("XREADGROUP", "GROUP", group, consumer, "COUNT", most, "STREAMS", "q", ">")
        try:
            expected = self.model.read(group, consumer, most, self.engine.now_ms)
        except KeyError:
            assert str(reply).startswith("NOGROUP")
            return []
        assert [parsed(entry[0]) for entry in (reply[0][1] if reply else [])] == expected
        return expected

    @rule(consumer=CONSUMERS, choice=strategies.integers(0, 3), most=strategies.integers(1, 5))
    def read_own(self, consumer: str, choice: int, most: int) -> None:
        if "g" in self.model.groups:
            behind = sorted([(0, 0), *self.model.groups["g"].pending])[min(choice, len(self.model.groups["g"].pending))]
            reply = self.engine.ask("XREADGROUP", "GROUP", "g", consumer, "COUNT", most, "STREAMS", "q", text(behind))
            shown = [(parsed(entry[0]), entry[1] is not None) for entry in reply[0][1]]
            assert shown == self.model.read_own(consumer, behind, most, self.engine.now_ms)

    @rule(
        how=strategies.sampled_from(["XCLAIM", "XCLAIM", "XAUTOCLAIM", "XAUTOCLAIM", "CLAIM"]),
        consumer=CONSUMERS,
        idle_ms=strategies.sampled_from([0, 0, 1_400, 60_000]),
        most=strategies.integers(1, 5),
        counts=strategies.booleans(),
    )
    def claim(self, how: str, consumer: str, idle_ms: int, most: int, counts: bool) -> None:
        """Take over what others have left, in each of the ways that Redis has for it."""
        if "g" not in self.model.groups:
            return
        now = self.engine.now_ms
        just_id = [] if counts else ["JUSTID"]
        pending = sorted(self.model.groups["g"].pending)
        if how == "CLAIM":
            options = ("COUNT", most, "CLAIM", idle_ms, "STREAMS", "q", ">")
            reply = self.engine.ask("XREADGROUP", "GROUP", "g", consumer, *options)
            claimed = [entry[0] for entry in reply[0][1]] if reply else []
            expected = self.model.claim_longest(consumer, idle_ms, most, now)
        elif how == "XCLAIM":
            ids = pending[-most:] or [(1, 1)]
            reply = self.engine.ask("XCLAIM", "q", "g", consumer, idle_ms, *map(text, ids), *just_id)
            claimed = [entry[0] for entry in reply] if counts else reply
            expected = self.model.claim(consumer, idle_ms, ids, now, counts=counts)
        else:
            _, reply, _ = self.engine.ask("XAUTOCLAIM", "q", "g", consumer, idle_ms, "0", "COUNT", 1000, *just_id)
            claimed = [entry[0] for entry in reply] if counts else reply
            expected = self.model.claim(consumer, idle_ms, pending, now, counts=counts)
        assert [parsed(id) for id in claimed] == expected

    @rule(group=strategies.sampled_from("ggh"), choices=strategies.lists(strategies.integers(0, 9), max_size=4))
    def acknowledge(self, group: str, choices: list[int]) -> None:
        if group in self.model.groups and self.model.entries:
            known = sorted({*self.model.groups[group].pending, *self.model.entries})
            ids = [known[choice % len(known)] for choice in choices] or known[:1]
            assert self.engine.ask("XACK", "q", group, *map(text, ids)) == self.model.acknowledge(group, ids)

    @rule(verdict=strategies.sampled_from(["FAIL", "FAIL", "FATAL", "SILENT"]), choice=strategies.integers(0, 9))
    def reject(self, verdict: str, choice: int) -> None:
        pending = sorted(self.model.groups["g"].pending) if "g" in self.model.groups else []
        if pending:
            entry = pending[choice % len(pending)]
            reply = self.engine.ask("XNACK", "q", "g", verdict, "IDS", 1, text(entry))
            assert reply == self.model.reject(verdict, entry, self.engine.now_ms)

    @rule(group=strategies.sampled_from("ggggh"))
    def create_group(self, group: str) -> None:
        if group not in self.model.groups:
            self.engine.ask("XGROUP", "CREATE", "q", group, 0, "MKSTREAM")
            self.model.groups[group] = Group()

    @rule(chance=strategies.integers(0, 3))
    def lose_the_key(self, chance: int) -> None:
        if chance == 0:
            self.engine.ask("DEL", "q")
            self.model.remove()

    # --- rules ---------------------------------------------------------------------------------------------------

    def set_rules(self, **changed: object) -> None:
        self.model.rules = Rules(**{**vars(self.model.rules), **changed})
        self.model.trim_soon = True
        self.wait(0)

    @rule(said=STREAM_RULES)
    def set_stream_rule(self, said: dict[str, object]) -> None:
        if self.model.rules.visibility_ms or self.model.rules.consumer_ttl_ms:
            said = {
                **said,
                "max_age_ms": 0,
            }  # which of both is first, within one jump of the clock, is nobody's promise
        if not (said["max_length"] or said["max_age_ms"]):
            said = {**said, "references": "KEEPREF"}
        words: list[str | int] = []
        if said["max_length"]:
            words += ["MAXLEN", int(str(said["max_length"]))]
        if said["max_age_ms"]:
            words += ["MAXAGE", int(str(said["max_age_ms"]))]
        if words:
            words.append(str(said["references"]))
        if said["drops_acked"]:
            words += ["DROP", "ACKED"]
        if words:
            assert self.engine.policy("SET", "q", *words) == b"OK"
        else:
            self.engine.policy("DEL", "q")
        self.set_rules(**said)

    @rule(said=GROUP_RULES, by_pattern=strategies.booleans())
    def set_group_rule(self, said: dict[str, object], by_pattern: bool) -> None:
        if self.model.rules.max_age_ms:
            said = {**said, "visibility_ms": 0, "consumer_ttl_ms": 0}
        words: list[str | int] = []
        for option, name in (
            ("VISIBILITY", "visibility_ms"),
            ("MAXDELIVERIES", "max_deliveries"),
            ("CONSUMERTTL", "consumer_ttl_ms"),
        ):
            if said[name]:
                words += [option, int(str(said[name]))]
        if isinstance(said["retry"], tuple):
            words += ["RETRY", *said["retry"]]
        if said["dead_letter"]:
            words += ["DEADLETTER", "letters"]
        if said["create_from"]:
            words += ["CREATE", "FROM", str(said["create_from"])]
        self.engine.policy("DEL", "q", "GROUP", "g")
        self.engine.policy("DEL", "MATCH", "q", "GROUP", "g")
        if words:
            target = ("MATCH", "q") if by_pattern else ("q",)
            assert self.engine.policy("SET", *target, "GROUP", "g", *words) == b"OK"
        self.set_rules(**said)

    # --- time and failures ---------------------------------------------------------------------------------------

    @rule(seconds=SECONDS)
    def pass_time(self, seconds: int) -> None:
        self.wait(seconds)

    def wait(self, seconds: int) -> None:
        """Go to a whole second, so much later; all that is due is done then."""
        whole, passed = divmod(self.engine.now_ms - START_MS, 1000)
        whole += max(seconds, int(passed > 30))
        self.engine.wait(max(START_MS + 1000 * whole - self.engine.now_ms, 0))
        self.model.pass_time(self.engine.now_ms)
        dead = -1
        while self.model.rules.references == "ACKED" and dead != len(self.model.dead):
            # What was acknowledged, or given up just now, lets the stream be trimmed a second later.
            dead = len(self.model.dead)
            self.engine.wait(2000 - (self.engine.now_ms - START_MS) % 1000)
            self.model.pass_time(self.engine.now_ms)
        self.adopt_age()
        assert (self.engine.now_ms - START_MS) % 1000 < 90, "the chores took too long for this test's arithmetic"

    def adopt_age(self) -> None:
        """Entries that are just too old may be there for a second more, so that several go at once."""
        rules, held = self.model.rules, self.held()
        if rules.max_age_ms and held and self.model.entries != held:
            missing = [entry for entry in held if entry not in self.model.entries]
            assert all(self.engine.now_ms - entry[0] <= rules.max_age_ms + 1100 for entry in missing)

    @rule(kind=strategies.sampled_from(["start again", "be promoted"]))
    def wake_anew(self, kind: str) -> None:
        if kind == "be promoted":
            self.engine.engine.begin_following()
            self.engine.engine.end_following()
        else:
            other = RuledEngine(self.engine.now_ms)
            applier = Applier(other.engine, other.now_ms)
            other.engine.begin_loading()
            for key in self.engine.engine.databases[0].values:
                assert applier.run([b"RESTORE", key, b"0", self.engine.ask("DUMP", key)]) is None
            other.engine.end_loading()
            self.engine = other
            self.model.reload()
        self.model.awake_ms = self.engine.now_ms
        self.model.trim_soon = True
        self.wait(0)

    # --- what must be equal --------------------------------------------------------------------------------------

    def held(self) -> list[Id]:
        return [parsed(entry[0]) for entry in self.engine.ask("XRANGE", "q", "-", "+")]

    @invariant()
    def same(self) -> None:
        if not hasattr(self, "model"):
            return
        assert self.held() == self.model.entries
        letters = [
            (
                parsed(fields[b"headrace-id"]),
                int(fields[b"headrace-deliveries"]),
                fields[b"headrace-reason"].decode(),
                fields[b"headrace-consumer"].decode(),
            )
            for key in ("q:dead", "letters")
            for _, fields in self.engine.entries(key)
        ]
        assert sorted(letters) == sorted(self.model.dead)
        for name, group in self.model.groups.items():
            assert self.engine.pending("q", name) == {
                text(each.id): ((each.owner or "").encode(), each.deliveries) for each in group.pending.values()
            }
            rows = self.engine.ask("XINFO", "CONSUMERS", "q", name)
            assert sorted(row[1].decode() for row in rows) == sorted(group.seen)


TestQueueRules = QueueRules.TestCase
TestQueueRules.settings = settings(
    max_examples=5 if BRIEF else 3000 if LONG else 100, stateful_step_count=30, deadline=None
)
