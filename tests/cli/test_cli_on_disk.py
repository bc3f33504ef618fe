"""`top` and `inspect` tell what of a stream is on disk."""

import re
from pathlib import Path

from support.cli.process import output, told
from support.patience import await_that
from support.server_process import ServerProcess

LAUNCHER = (str(Path(__file__).parents[1] / "support" / "cold_launcher.py"),)
FLAGS = ("--maxmemory", "1", "--maxmemory-policy", "offload", "--stream-node-max-entries", "5")


def test_top_and_inspect_tell_what_is_on_disk(tmp_path: Path) -> None:
    with ServerProcess(tmp_path, *FLAGS, launcher=LAUNCHER) as server, server.client() as client:
        for number in range(103):
            client.xadd("history", {"n": number})
        client.xadd("short", {"n": 1})
        await_that(lambda: client.execute_command("HEADRACE", "MEMORY", "history")[1] == 3)
        client.bgrewriteaof()
        await_that(lambda: not client.info("persistence")["aof_rewrite_in_progress"])

        reading = told("top", "--once", "--interval", "0", server=client)
        history, short = reading["streams"]
        assert (history["disk_entries"], short["disk_entries"]) == (100, 0)
        assert history["disk_bytes"] == reading["disk_bytes"] > 0
        printed = output("top", "--interval", "0", server=client)
        assert re.search(r" KB on disk in \d+ segments$", printed, re.MULTILINE)
        assert re.search(r"^stream▼ .* disk$", printed, re.MULTILINE)
        assert re.search(r"^history .* KB$", printed, re.MULTILINE)

        inspected = told("inspect", "history", server=client)
        on_disk = inspected["on_disk"]
        assert (on_disk["entries"], on_disk["nodes"], len(inspected["nodes"])) == (100, 20, 21)
        assert re.search(r"on disk +100 entries in 20 nodes, ", output("inspect", "history", server=client))
        assert told("inspect", "short", server=client)["on_disk"]["nodes"] == 0
        assert told("inspect", "history", "--file", str(tmp_path))["on_disk"]["entries"] == 100
