"""Nodes that are on disk: pages and metrics say so, with the figures of the commands."""

from pathlib import Path

from support.console_process import User, console_of
from support.metered_server import MeteredServer, at
from support.patience import await_that

LAUNCHER = (str(Path(__file__).parents[1] / "support" / "cold_launcher.py"),)
FLAGS = ("--maxmemory", "1", "--maxmemory-policy", "offload", "--stream-node-max-entries", "5")


def test_pages_and_metrics_say_what_is_on_disk(tmp_path: Path) -> None:
    with MeteredServer(tmp_path, *FLAGS, launcher=LAUNCHER) as server, console_of(server, tmp_path) as console:
        client, user = server.client(), User(console)
        for number in range(1, 404):
            client.xadd("history", {"n": number}, id=f"{number}-0")
        await_that(lambda: client.execute_command("HEADRACE", "MEMORY", "history")[1] == 3)
        on_disk = dict(zip(*[iter(client.execute_command("HEADRACE", "MEMORY", "history"))] * 2, strict=True))
        first = user.ask("inside", stream="history")
        assert len(first["rows"]) == 64
        assert all(row["cold"] for row in first["rows"])
        rest = user.ask("inside", stream="history", start=first["next"])
        assert [row["cold"] for row in rest["rows"]] == [True] * 16 + [False], "400 entries of 403"
        [row] = user.ask("streams")["rows"]
        assert row["disk"] == on_disk["disk-bytes"] > 0
        assert user.ask("stream", stream="history")["where"] == on_disk
        samples = server.await_samples(
            lambda seen: seen[at("headrace_cold_bytes")] == client.info("persistence")["headrace_cold_bytes"]
        )
        told = client.info("persistence")
        for field in ("headrace_cold_bytes", "headrace_segments", "headrace_segment_bytes"):
            assert samples[at(field)] == told[field] > 0
        assert samples[at("headrace_offloaded_bytes_total")] == told["headrace_offloaded_bytes"] > 0
        segments = user.ask("server")["segments"]
        assert (segments["files"], segments["bytes"]) == (told["headrace_segments"], told["headrace_segment_bytes"])
        assert (segments["alive"], segments["problem"]) == (told["headrace_cold_bytes"], "")
