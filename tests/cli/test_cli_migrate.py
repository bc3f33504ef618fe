"""`headrace migrate` between live servers: no acknowledged write is lost, and what fails is put back."""

import re
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from subprocess import PIPE, Popen
from typing import Any, TypeAlias

import pytest
import redis

from headrace.cli.address import ServerAddress
from headrace.cli.migrate import comparing, following
from headrace.cli.migrate.comparing import Comparison, Outcome
from headrace.cli.migrate.endpoint import Endpoint
from headrace.cli.migrate.facts import COMPARABLE
from headrace.cli.migrate.migrating import MigrateOptions, run_migrate
from support.certificates import issue
from support.cli.examples import examples_of
from support.cli.process import COMMAND, environment, headrace, output, refusal
from support.cli.terminal import PseudoTerminal
from support.patience import PATIENCE_S, await_that
from support.redis_process import RedisProcess
from support.server_process import ServerProcess

Server: TypeAlias = ServerProcess | RedisProcess

AT_ONCE = ("--repl-diskless-sync-delay", "0")
DIRECTIONS = [("redis", "headrace"), ("headrace", "redis"), ("headrace", "headrace")]
BOTH = pytest.mark.parametrize("kinds", [("redis", "headrace"), ("headrace", "redis")], ids="-to-".join)
EVERY = pytest.mark.parametrize("kinds", DIRECTIONS, ids="-to-".join)


def url(server: Server, password: str = "") -> str:
    return f"redis://{f':{password}@' if password else ''}127.0.0.1:{server.port}"


def started(kind: str, directory: Path, *settings: str) -> Server:
    directory.mkdir(exist_ok=True)
    return RedisProcess(directory, *settings) if kind == "redis" else ServerProcess(directory, *AT_ONCE, *settings)


@contextmanager
def two_servers(kinds: tuple[str, str], directory: Path) -> Iterator[tuple[Server, Server]]:
    with started(kinds[0], directory / "old") as old, started(kinds[1], directory / "new") as new:
        yield old, new


def fill(server: Server) -> None:
    """One of each type, a group with something pending, more than a page of entries, and a second database."""
    with server.client() as client:
        pipeline = client.pipeline()
        for number in range(2500):
            pipeline.xadd("orders", {"n": number, "item": "book"}, f"{number + 1}-1")
        pipeline.xgroup_create("orders", "workers", "0")
        pipeline.xdel("orders", "7-1", "8-1")
        pipeline.xadd("trimmed", {"a": 1}, "5-5", maxlen=0)
        pipeline.rpush("list", *range(2500))
        pipeline.sadd("set", *range(2500))
        pipeline.zadd("zset", {f"m{number}": number / 3 for number in range(2500)})
        pipeline.hset("hash", mapping={str(number): number for number in range(2500)})
        pipeline.set("text", "v", px=10_000_000)
        pipeline.function_load("#!lua name=lib\nredis.register_function('f', function() return 1 end)")
        pipeline.execute()
        client.xreadgroup("workers", "ann", {"orders": ">"}, count=20)
        client.xreadgroup("workers", "bob", {"orders": ">"}, count=5)
        client.xack("orders", "workers", "3-1")
    with redis.Redis(port=server.port, db=3) as client:
        client.set("elsewhere", 1)


def migrate(old: Server, new: Server, *options: str) -> tuple[int, str, str]:
    done = headrace("migrate", url(old), url(new), *options)
    return done.returncode, done.stdout.decode(), done.stderr.decode()


def role(server: Server) -> str:
    with server.client() as client:
        return str(client.info("replication")["role"])


def size(server: Server) -> int:
    with server.client() as client:
        return sum(int(facts["keys"]) for facts in client.info("keyspace").values())


def accepts_writes(server: Server) -> bool:
    with redis.Redis(port=server.port, socket_timeout=PATIENCE_S) as client:
        try:
            client.incr("written")
        except redis.ResponseError:
            return False
        return True


def assert_as_before(old: Server, new: Server) -> None:
    assert accepts_writes(old)
    assert role(old) == role(new) == "master"
    assert size(new) == 0
    with old.client() as client:
        assert client.config_get("min-replicas-to-write") == {"min-replicas-to-write": "0"}


class Writer:
    """Adds entries to the old server, one after another, and to the new one as soon as the old one refuses."""

    def __init__(self, old: Server, new: Server) -> None:
        self.acknowledged: list[str] = []
        self.refusals: list[str] = []
        self._servers = [old, new]
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._write, daemon=True)

    def __enter__(self) -> "Writer":
        self._thread.start()
        await_that(lambda: len(self.acknowledged) > 10)
        return self

    def __exit__(self, *_: Any) -> None:
        self._stop.set()
        self._thread.join(PATIENCE_S)
        assert not self._thread.is_alive()

    def _write(self) -> None:
        client = self._servers[0].client()
        number = 0
        while not self._stop.is_set():
            number += 1
            try:
                self.acknowledged.append(client.xadd("written", {"n": number}, f"1-{number}"))
            except redis.ResponseError as error:
                self.refusals.append(str(error))
                assert len(self.refusals) == 1, self.refusals
                client = self._servers[1].client()


# --- moving --------------------------------------------------------------------------------------------------------


@EVERY
def test_no_acknowledged_write_is_lost_while_a_client_writes(kinds: tuple[str, str], tmp_path: Path) -> None:
    with two_servers(kinds, tmp_path) as (old, new):
        fill(old)
        with Writer(old, new) as writer:
            code, said, error = migrate(old, new, "--yes")
            assert code == 0, error
            count = len(writer.acknowledged)
            await_that(lambda: len(writer.acknowledged) > count + 10)
        with new.client() as client:
            assert [id for id, _ in client.xrange("written")] == writer.acknowledged
            assert client.xpending("orders", "workers")["pending"] == 24
            assert client.fcall("f", 0) == 1
        assert len(writer.refusals) == 1
        assert writer.refusals[0].startswith("Not enough good replicas") or "NOREPLICAS" in writer.refusals[0]
        assert role(old) == role(new) == "master"
        assert re.search(r"Equal while nobody writes: 3 streams with [\d,]+ entries, 6 other keys\.", said), said


@BOTH
def test_the_old_server_follows_and_the_way_back_is_short(kinds: tuple[str, str], tmp_path: Path) -> None:
    with two_servers(kinds, tmp_path) as (old, new):
        fill(old)
        with Writer(old, new) as writer:
            code, said, error = migrate(old, new, "--yes", "--reverse")
            assert code == 0, error
            count = len(writer.acknowledged)
            await_that(lambda: len(writer.acknowledged) > count + 10)
        assert "read only" in writer.refusals[0]
        assert (role(old), role(new)) == ("slave", "master")
        code, said, error = migrate(new, old, "--check")
        assert code == 0, said + error
        code, said, error = migrate(new, old, "--yes")
        assert code == 0, error
        assert "follows the old one already" in said
        assert role(old) == "master"
        with old.client() as client:
            assert [id for id, _ in client.xrange("written")] == writer.acknowledged
            assert int(client.info("stats")["sync_full"]) == 1  # there, and nothing for the way back


def test_the_examples_of_the_help_lead_there_and_back(tmp_path: Path) -> None:
    with two_servers(("redis", "headrace"), tmp_path) as (old, new):
        fill(old)
        examples = examples_of("migrate")
        assert len(examples) == 4
        for example in examples:
            line = example.line.replace("redis://old:6379", url(old)).replace("redis://new:6379", url(new))
            assert output(*line.split()[1:]).startswith("The old server at "), line
        assert accepts_writes(old)
        assert not accepts_writes(new)


def test_a_fence_of_an_earlier_move_is_opened(tmp_path: Path) -> None:
    with two_servers(("redis", "headrace"), tmp_path) as (old, new):
        fill(old)
        assert migrate(old, new, "--yes")[0] == 0
        assert not accepts_writes(old)
        assert accepts_writes(new)
        assert migrate(new, old, "--yes", "--replace")[0] == 0
        assert accepts_writes(old)
        assert not accepts_writes(new)


def test_following_first_and_switching_later(tmp_path: Path) -> None:
    with two_servers(("redis", "headrace"), tmp_path) as (old, new):
        fill(old)
        code, said, error = migrate(old, new, "--no-switch")
        assert code == 0, error
        assert "goes on following" in said
        assert (role(old), role(new)) == ("master", "slave")
        assert accepts_writes(old)
        code, said, error = migrate(old, new, "--yes")
        assert code == 0, error
        with new.client() as client:
            assert client.get("written") == "1"


@pytest.mark.parametrize("kinds", [("redis", "headrace"), ("headrace", "redis")], ids="-to-".join)
def test_passwords_are_told_to_the_new_server_and_forgotten(kinds: tuple[str, str], tmp_path: Path) -> None:
    secret = ("--requirepass", "secret")
    with (
        started(kinds[0], tmp_path / "old") as old,
        started(kinds[1], tmp_path / "new") as new,
        old.client() as at_old,
        new.client() as at_new,
    ):
        at_old.xadd("s", {"a": 1})
        for client in (at_old, at_new):
            client.config_set(secret[0].removeprefix("--"), secret[1])
        at_old.auth("secret")
        at_new.auth("secret")
        assert "wants a password" in refusal("migrate", url(old), url(new), "--yes")
        assert "does not accept" in refusal("migrate", url(old, "wrong"), url(new), "--yes")
        done = headrace(*("migrate", url(old, "secret"), url(new), "--yes"), env={"HEADRACE_NEW_PASSWORD": "secret"})
        assert done.returncode == 0, done.stderr
        assert b"secret" not in done.stdout
        assert at_new.xlen("s") == 1
        assert at_new.config_get("masterauth") == {"masterauth": ""}


def test_tls_holds_for_the_link_as_well(tmp_path: Path) -> None:
    issue(tmp_path, "authority", "server")
    paths = {name: str(tmp_path / name) for name in ("authority.crt", "server.crt", "server.key")}
    settings = (
        *("--tls-cert-file", paths["server.crt"], "--tls-key-file", paths["server.key"]),
        *("--tls-ca-cert-file", paths["authority.crt"], "--tls-auth-clients", "no"),
    )
    with started("redis", tmp_path / "plain") as free:
        tls_port = free.port
    with (
        started("headrace", tmp_path / "old", "--tls-port", str(tls_port), *settings) as old,
        started("headrace", tmp_path / "new", *settings) as new,
    ):
        fill(old)
        encrypted = f"rediss://127.0.0.1:{tls_port}?ssl_ca_certs={paths['authority.crt']}"
        done = headrace("migrate", encrypted, url(new), "--yes")
        assert done.returncode == 0, done.stderr
        with new.client() as client:
            assert client.config_get("tls-replication") == {"tls-replication": "no"}
            assert client.xlen("orders") == 2498


# --- putting back --------------------------------------------------------------------------------------------------


def options(**more: Any) -> MigrateOptions:
    given = dict.fromkeys(("check", "reverse", "replace", "leave_out"), False) | {"switch": True, "yes": True}
    addresses = dict.fromkeys(("announce", "announce_new"))
    return MigrateOptions(**{**given, **addresses, "timeout_ms": 0, "pause_ms": 60_000, **more})


def move(old: Server, new: Server, **more: Any) -> int:
    """Move in this process, so that a test can interfere."""
    return run_migrate((url(old), None), (url(new), None), options(**more))


def interfere(monkeypatch: pytest.MonkeyPatch, act: Callable[[], object]) -> None:
    """Do something in the comparison for which writes wait."""
    compare_all, compare_again = Comparison.compare_all, Comparison.compare_again
    calls = []

    def first_all(comparison: Comparison, *arguments: Any) -> Outcome:
        calls.append(1)
        if len(calls) == 2:
            act()
        return compare_all(comparison, *arguments)

    def then_again(comparison: Comparison) -> Outcome:
        act()
        return compare_again(comparison)

    monkeypatch.setattr(Comparison, "compare_all", first_all)
    monkeypatch.setattr(Comparison, "compare_again", then_again)


@BOTH
def test_a_new_server_that_dies_while_writes_wait_leaves_the_old_one_as_it_was(
    kinds: tuple[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with two_servers(kinds, tmp_path) as (old, new):
        fill(old)

        def kill() -> None:
            new.process.kill()
            new.process.wait(PATIENCE_S)

        interfere(monkeypatch, kill)
        assert move(old, new) == 1
        error = capsys.readouterr().err
        assert f"The new server at 127.0.0.1:{new.port} cannot be reached" in error
        assert "REPLICAOF NO ONE" in error
        assert role(old) == "master"
        assert accepts_writes(old)


@BOTH
def test_a_new_server_that_differs_is_not_switched_to(
    kinds: tuple[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with two_servers(kinds, tmp_path) as (old, new), new.client() as client:
        fill(old)
        client.config_set("replica-read-only", "no")
        interfere(monkeypatch, lambda: client.xadd("orders", {"n": "stray"}))
        assert move(old, new) == 3
        said = capsys.readouterr()
        assert "orders: length is 2498, on the new server 2499" in said.out
        assert said.err == "headrace: The servers differ in 1 key. Everything is as before.\n"
        assert_as_before(old, new)


@pytest.mark.parametrize(
    ("number", "line"),
    [
        (signal.SIGINT, "follows the old one"),
        (signal.SIGTERM, "has everything"),
        (signal.SIGINT, "server wait"),
        (signal.SIGTERM, "Equal while"),
        (signal.SIGINT, "is the master now"),
    ],
)
def test_ctrl_c_puts_everything_back(number: signal.Signals, line: str, tmp_path: Path) -> None:
    kinds = ("redis", "headrace") if number == signal.SIGINT else ("headrace", "redis")
    with two_servers(kinds, tmp_path) as (old, new):
        fill(old)
        command = [*COMMAND, "migrate", url(old), url(new), "--yes"]
        with Popen(command, stdout=PIPE, stderr=PIPE, text=True, env=environment(None)) as process:
            assert process.stdout is not None
            assert process.stderr is not None
            while line not in process.stdout.readline():
                assert process.poll() is None
            process.send_signal(number)
            code = process.wait(PATIENCE_S)
            error = process.stderr.read()
        if error.startswith("headrace: Stopped."):
            assert error == "headrace: Stopped. Everything is as before.\n"
            assert code == 128 + number
            assert_as_before(old, new)
        else:  # it came behind the switch
            assert code in {0, 4, -number, 128 + number}, error  # the last two: when Python had nothing left to do
            assert not accepts_writes(old)
            assert accepts_writes(new)
            assert size(new) >= size(old)


def test_a_reader_that_leaves_puts_everything_back(tmp_path: Path) -> None:
    with two_servers(("redis", "headrace"), tmp_path) as (old, new):
        fill(old)
        command = [*COMMAND, "migrate", url(old), url(new), "--yes"]
        with Popen(command, stdout=PIPE, stderr=PIPE, text=True, env=environment(None)) as process:
            assert process.stdout is not None
            process.stdout.readline()
            process.stdout.close()
            assert process.wait(PATIENCE_S) == 141
        assert_as_before(old, new)


def test_a_person_is_asked_before_the_switch(tmp_path: Path) -> None:
    with two_servers(("redis", "headrace"), tmp_path) as (old, new), old.client() as client:
        fill(old)
        with PseudoTerminal("migrate", url(old), url(new), server=client) as terminal:
            terminal.await_text("Equal: 2 streams with 2,498 entries", "Switch to the new server? [y/N]")
            assert role(new) == "slave"
            terminal.press("n\r")
            assert terminal.await_end() == 1
            assert "There was no switch. Everything is as before." in terminal.text
        assert_as_before(old, new)
        with PseudoTerminal("migrate", url(old), url(new), server=client) as terminal:
            terminal.await_text("Switch to the new server? [y/N]")
            terminal.press("y\r")
            assert terminal.await_end() == 0
        assert accepts_writes(new)


def test_a_comparison_that_takes_longer_than_writes_may_wait_ends_the_move(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with two_servers(("redis", "headrace"), tmp_path) as (old, new):
        fill(old)
        interfere(monkeypatch, lambda: accepts_writes(old))  # which returns when the pause has ended
        assert move(old, new, pause_ms=300) == 1
        error = capsys.readouterr().err
        assert "longer than writes may wait (300ms)" in error
        assert "Everything is as before" in error
        assert_as_before(old, new)


# --- refusing ------------------------------------------------------------------------------------------------------


def test_differences_are_listed(tmp_path: Path) -> None:
    with two_servers(("redis", "headrace"), tmp_path) as (old, new), old.client() as at_old, new.client() as at_new:
        for client in (at_old, at_new):
            client.xadd("same", {"a": 1}, "1-1")
            client.sadd("members", *("a", "b", "c"))
        assert migrate(old, new, "--check") == (0, *migrate(old, new, "--check")[1:])
        at_old.xadd("fields", {"a": 1}, "1-1")
        at_new.xadd("fields", {"a": 2}, "1-1")
        at_old.xadd("groups", {"a": 1}, "1-1")
        at_new.xadd("groups", {"a": 1}, "1-1")
        at_old.xgroup_create("groups", "g", "0")
        at_new.xgroup_create("groups", "g", "1-1")
        at_old.set("missing", 1)
        at_new.set("more", 1)
        at_old.set("kind", 1)
        at_new.rpush("kind", 1)
        at_new.sadd("members", "d")
        code, said, error = migrate(old, new, "--check")
        assert code == 3
        assert sorted(said.splitlines()[2:]) == [
            "fields: the entries differ",
            "groups: group g: last delivered ID is 0-0, on the new server 1-1",
            "kind: type is string, on the new server list",
            "members: the content differs",
            "missing: the string is missing on the new server",
            "more: the string is only on the new server",
        ]
        assert error == "headrace: The servers differ in 6 keys.\n"
        assert (at_old.dbsize(), at_new.dbsize()) == (6, 6)


def test_the_short_comparison_finds_what_changed_since_the_long_one(tmp_path: Path) -> None:
    with two_servers(("redis", "headrace"), tmp_path) as (old, new), old.client() as at_old, new.client() as at_new:
        endpoints = [Endpoint(side, ServerAddress(url=url(each)), 60) for side, each in (("old", old), ("new", new))]
        for server in (old, new):
            fill(server)
        comparison = Comparison(endpoints[0], endpoints[1], lambda: None)
        assert [place for each in comparison.compare_all().differences if (place := str(each.place)) != "text"] == []
        assert str(comparison.compare_again()) == "2 streams with 2,498 entries, 6 other keys"
        assert comparison.compare_again().differences == []
        at_old.xadd("orders", {"n": "one"}, "9999-1")
        at_new.xadd("orders", {"n": "two"}, "9999-1")
        at_old.xadd("made since", {"n": 1}, "1-1")
        at_new.set("only here", 1)
        at_new.set("here, too", 1)
        assert sorted(map(str, comparison.compare_again().differences)) == [
            "here, too: the string is only on the new server",
            "made since: the stream is missing on the new server",
            "only here: the string is only on the new server",
            "orders: the entries differ",
        ]
        for endpoint in endpoints:
            endpoint.close()


def test_what_makes_no_sense_is_refused_in_one_sentence(tmp_path: Path) -> None:
    with two_servers(("redis", "headrace"), tmp_path) as (old, new), new.client() as client:
        client.set("k", "v")
        assert "is not empty: say --replace" in refusal("migrate", url(old), url(new), "--yes")
        assert "Both urls lead to the same server" in refusal("migrate", url(old), url(old), "--yes")
        assert "Say --yes" in refusal("migrate", url(old), url(new))
        assert "cannot be reached (Connection refused)" in refusal("migrate", "redis://127.0.0.1:1", url(new), "--yes")
        assert "is no url of a server" in refusal("migrate", "http://x", url(new), "--yes")
        assert "names Sentinels" in refusal("migrate", "sentinel://127.0.0.1:1/mymaster", url(new), "--yes")
        with old.client() as replica:
            replica.replicaof("127.0.0.1", new.port)
        assert f"is itself a replica of 127.0.0.1:{new.port}" in refusal("migrate", url(old), url(new), "--yes")
        assert client.get("k") == "v"
        assert headrace("migrate", url(old), url(new), "--check", "--replace").returncode == 2
        assert headrace("migrate", url(old), url(new), "--announce", "nowhere").returncode == 2


def test_an_address_that_the_new_server_cannot_reach(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(following, "_REACH_S", 0.5)
    with two_servers(("redis", "headrace"), tmp_path) as (old, new):
        fill(old)
        assert move(old, new, announce="127.0.0.1:1") == 1
        error = capsys.readouterr().err
        assert "cannot follow 127.0.0.1:1 (" in error
        assert "--announce HOST:PORT" in error
        assert_as_before(old, new)
        with started("redis", tmp_path / "other") as other:
            assert move(old, new, announce=f"127.0.0.1:{other.port}") == 1
            assert "found another server" in capsys.readouterr().err
            assert_as_before(old, new)


def test_an_old_server_that_cannot_follow_takes_no_writes_and_the_move_stands(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with two_servers(("redis", "headrace"), tmp_path) as (old, new):
        fill(old)
        monkeypatch.setattr(following, "_REACH_S", 2)
        assert move(old, new, reverse=True, announce_new="127.0.0.1:1") == 4
        error = capsys.readouterr().err
        assert "The new server is the master, but the move is not finished: The old server at" in error
        assert "--announce-new HOST:PORT" in error
        assert accepts_writes(new)
        assert not accepts_writes(old)


def test_types_that_the_new_server_does_not_have_are_named_and_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with two_servers(("redis", "headrace"), tmp_path) as (old, new), new.client() as client:
        fill(old)
        assert move(old, new, switch=False) == 0
        client.config_set("replica-read-only", "no")
        client.delete("zset")
        monkeypatch.setattr(comparing, "COMPARABLE", COMPARABLE - {"zset"})
        assert move(old, new) == 3
        said = capsys.readouterr()
        assert "zset: the zset is missing on the new server" in said.out
        assert "say --leave-out to do without" in said.err
        assert role(new) == "slave"
        assert accepts_writes(old)
        assert move(old, new, leave_out=True) == 0
        assert "; 1 key left out." in capsys.readouterr().out
        assert accepts_writes(new)


# --- killed --------------------------------------------------------------------------------------------------------

# Runs `headrace migrate`, which is killed before or after a method of ours: "before switching.Switch._promote".
KILLED = """
import importlib, os, signal, sys
when, point = sys.argv.pop(1).split()
module, kind, name = point.split(".")
owner = getattr(importlib.import_module(f"headrace.cli.migrate.{module}"), kind)
method = getattr(owner, name)
def until_killed(*arguments, **options):
    if when == "after":
        method(*arguments, **options)
    os.kill(os.getpid(), signal.SIGKILL)
setattr(owner, name, until_killed)
from headrace.cli.main import main
main()
"""


def migrate_until(point: str, old: Server, new: Server) -> None:
    command = [sys.executable, "-c", KILLED, point, "migrate", url(old), url(new), "--yes", "--longest-pause", "3s"]
    done = subprocess.run(command, capture_output=True, env=environment(None), timeout=PATIENCE_S, check=False)
    assert done.returncode == -signal.SIGKILL, done.stderr


@pytest.mark.parametrize(
    "point",
    [
        "after following.Following.begin",
        "after following.Following.await_everything",
        "after switching.Switch._pause",
        "before switching.Switch._close_fence",
    ],
)
def test_a_move_that_is_killed_before_the_switch_is_simply_run_again(point: str, tmp_path: Path) -> None:
    kinds = ("redis", "headrace") if "after" in point else ("headrace", "redis")
    with two_servers(kinds, tmp_path) as (old, new):
        fill(old)
        migrate_until(point, old, new)
        assert accepts_writes(old)  # when the pause is over
        with old.client() as ours, new.client() as theirs:
            await_that(lambda: role(new) == "slave" and theirs.get("written") == ours.get("written"))
        assert migrate(old, new, "--yes")[0] == 0
        assert (accepts_writes(old), accepts_writes(new), size(new)) == (False, True, size(old))


def test_a_move_that_is_killed_between_fence_and_promotion_refuses_writes_until_told_otherwise(tmp_path: Path) -> None:
    with two_servers(("headrace", "headrace"), tmp_path) as (old, new):
        fill(old)
        migrate_until("before switching.Switch._promote", old, new)
        assert not accepts_writes(old)
        assert role(new) == "slave"
        with old.client() as client:
            client.config_set("min-replicas-to-write", 0)
        assert accepts_writes(old)
        assert migrate(old, new, "--yes")[0] == 0
        assert (accepts_writes(old), accepts_writes(new), size(new)) == (False, True, size(old))


def test_a_move_that_is_killed_behind_the_promotion_stands(tmp_path: Path) -> None:
    with two_servers(("redis", "headrace"), tmp_path) as (old, new):
        fill(old)
        migrate_until("after switching.Switch._promote", old, new)
        assert (accepts_writes(old), accepts_writes(new), size(new)) == (False, True, size(old) + 1)
