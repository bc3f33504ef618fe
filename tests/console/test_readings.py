"""What the page reads and does: pages, bounds, any bytes, filters; the command that is shown is that which is sent."""

import json
import re
from pathlib import Path

import pytest
import redis

from headrace.console.api.filters import read_filter
from headrace.console.errors import Refused
from headrace.console.texts import command_line
from headrace.engine.configuration.config import Config
from support.console_process import ConsoleProcess, User, console_of
from support.patience import await_that
from support.replication.server_pair import is_writable
from support.server_process import ServerProcess

BINARY = b"bin\xff\x00ary"


def test_ten_thousand_streams_come_by_pages(server: ServerProcess, user: User) -> None:
    pipeline = server.client().pipeline(transaction=False)
    for number in range(10_000):
        pipeline.xadd(f"stream:{number:05}", {"n": number})
    pipeline.xadd("stream:00007", {"n": "one more"})
    pipeline.xgroup_create("stream:04000", "g", "0")
    pipeline.execute()
    first = user.ask("streams")
    assert (first["total"], len(first["rows"]), first["rows"][0]["name"]) == (10_000, 50, "stream:00000")
    last = user.ask("streams", page=199)
    assert last["rows"][-1]["name"] == "stream:09999"
    assert user.ask("streams", page=10**9)["page"] == 199
    assert user.ask("streams", search="AM:0420", size=200)["total"] == 10
    assert user.ask("streams", search="*:0999?")["total"] == 10
    assert user.ask("streams", sort="length")["rows"][0]["name"] == "stream:00007"
    assert user.ask("streams", sort="lag")["rows"][0]["name"] == "stream:04000"
    assert user.ask("overview")["streams"]["behind"][0]["stream"] == "stream:04000"
    assert [row["stream"] for row in user.ask("groups")["rows"]] == ["stream:04000"]


def test_any_bytes_come_and_go(server: ServerProcess, user: User) -> None:
    server.client().xadd(BINARY, {b"\xfe": b"\x82<script>"})
    [row] = user.ask("streams")["rows"]
    assert row["name"].encode("utf-8", "surrogateescape") == BINARY
    [entry] = user.ask("entries", stream=row["name"])["entries"]
    assert entry["fields"] == [["\udcfe", "\udc82<script>"]]
    told = user.ask("act", kind="add", stream=row["name"], fields=entry["fields"])
    assert told["command"] == 'XADD "bin\\xff\\x00ary" * "\\xfe" "\\x82<script>"'
    raw = server.client()
    raw.connection_pool.connection_kwargs["decode_responses"] = False
    assert [fields for _, fields in raw.xrange(BINARY)] == [{b"\xfe": b"\x82<script>"}] * 2


def test_entries_are_read_from_any_place_in_both_directions(server: ServerProcess, user: User) -> None:
    for number in range(1, 121):
        server.client().xadd("s", {"n": number}, id=f"{number}-0")

    def ids(**question: object) -> list[str]:
        return [entry["id"] for entry in user.ask("entries", stream="s", count=50, **question)["entries"]]

    page = user.ask("entries", stream="s", count=50, backwards=True)
    assert (page["entries"][0]["id"], page["entries"][-1]["id"], page["next"]) == ("120-0", "71-0", "70-0")
    assert ids(backwards=True, end=page["next"])[0] == "70-0"
    assert ids(start="100") == [f"{number}-0" for number in range(100, 121)]
    assert ids(backwards=True, end="50")[:2] == ["50-0", "49-0"]
    assert user.ask("entries", stream="s", count=50, start="(70-0")["next"] is None
    assert user.try_ask("entries", stream="s", start="1; FLUSHALL")[1]["error"] == "id"


def test_a_filter_looks_at_many_entries_and_says_how_far_it_came(server: ServerProcess, user: User) -> None:
    pipeline = server.client().pipeline(transaction=False)
    for number in range(1, 6_001):
        pipeline.xadd("s", {"temp": number % 50, "dev": number}, id=f"{number}-0")
    pipeline.execute()
    page = user.ask("entries", stream="s", filter="temp >= 49 and dev < 200")
    assert [entry["id"] for entry in page["entries"]] == ["49-0", "99-0", "149-0", "199-0"]
    assert (page["looked_at"], page["next"]) == (5000, "(5000-0")
    rest = user.ask("entries", stream="s", filter="temp >= 49 and dev < 200", start=page["next"])
    assert (rest["entries"], rest["next"]) == ([], None)
    found = user.ask("entries", stream="s", filter="temp = 7", count=3)
    assert [entry["id"] for entry in found["entries"]] == ["7-0", "57-0", "107-0"]
    assert found["next"] == "157-0"
    assert user.try_ask("entries", stream="s", filter="temp >")[1]["error"] == "filter"


def test_any_number_of_entries_is_exported_once_and_only_for_who_asked(
    server: ServerProcess, user: User, console: ConsoleProcess
) -> None:
    pipeline = server.client().pipeline(transaction=False)
    for number in range(1, 6_001):
        pipeline.xadd("s", {"n": number, b"\xff": b"\xfe"}, id=f"{number}-0")
    pipeline.execute()

    def load(path: str, cookie: str = user.headers["Cookie"]) -> tuple[int, dict[str, str], bytes]:
        return console.send("GET", path, headers={"Cookie": cookie})

    path = user.ask("export", stream="s", filter="n > 500")["path"]
    assert load(path, User(console).headers["Cookie"])[0] == 404, "another session has not asked for it"
    status, headers, body = load(path)
    rows = [json.loads(line) for line in body.splitlines()]
    assert (status, headers["content-disposition"]) == (200, 'attachment; filename="entries.ndjson"')
    assert (len(rows), rows[0]) == (5_500, {"id": "501-0", "fields": [["n", "501"], ["\udcff", "\udcfe"]]})
    assert load(path)[0] == 404, "it can be loaded once"
    assert len(load(user.ask("export", stream="s", end="10-0")["path"])[2].splitlines()) == 10
    for wrong in ({"filter": "="}, {"end": "x"}, {"stream": "none"}):
        assert load(user.ask("export", **{"stream": "s", **wrong})["path"])[0] in {400, 404}
    assert user.try_ask("export")[0] == 400
    assert console.send("POST", "/api/export", {"stream": "s"})[0] == 401


@pytest.mark.parametrize(
    ("text", "holds"),
    [
        ("", True), ("temp", True), ("other", False), ("temp=26", True), ("temp = 26.0", True), ("temp > 9", True),
        ("temp < 3", False), ("temp != 26", False), ('note = "a b"', True), ("note ~ b", True), ("note > a", True),
        ("temp >= 26 and note ~ x", False), ("temp >= 26 AND note ~ a", True), ('"temp" <= 26', True),
    ],
)  # fmt: skip
def test_what_a_filter_means(text: str, holds: bool) -> None:
    fields = [b"temp", b"26", b"note", b"a b"]
    assert all(condition.holds(fields) for condition in read_filter(text)) is holds


@pytest.mark.parametrize("text", ["=", "temp >", "temp > 1 or x = 2", "temp > 1 and", '"open'])
def test_what_is_no_filter_is_refused(text: str) -> None:
    with pytest.raises(Refused):
        read_filter(text)


def test_an_entry_says_where_it_stands_in_each_group(server: ServerProcess, user: User) -> None:
    client = server.client()
    for number in (1, 2):
        client.xadd("s", {"n": number}, id=f"{number}-0")
    for group in ("done", "has", "waits"):
        client.xgroup_create("s", group, "0")
    client.xreadgroup("done", "c", {"s": ">"}, count=1, noack=True)
    client.xreadgroup("has", "c", {"s": ">"}, count=1)
    places = {place["group"]: place for place in user.ask("entry", stream="s", id="1-0")["places"]}
    assert {name: place["state"] for name, place in places.items()} == {
        "done": "done", "has": "pending", "waits": "waiting",
    }  # fmt: skip
    assert (places["has"]["consumer"], places["has"]["deliveries"]) == ("c", 1)
    told = user.ask("group", stream="s", group="has")
    assert (told["lag"], told["pending"], told["by_deliveries"][0]) == (1, 1, [1, 1])
    assert user.ask("pending", stream="s", group="has")["rows"][0]["id"] == "1-0"
    assert user.try_ask("group", stream="s", group="none")[0] == 404


def test_what_will_happen_is_said_in_numbers_and_then_happens(server: ServerProcess, user: User) -> None:
    client = server.client()
    for number in range(1, 11):
        client.xadd("s", {"n": number}, id=f"{number}-0")
    client.xgroup_create("s", "g", "0")
    client.xreadgroup("g", "c1", {"s": ">"}, count=6)

    def act(kind: str, **body: object) -> tuple[dict[str, object], str, object]:
        shown = user.ask("act", kind=kind, stream="s", preview=True, **body)
        done = user.ask("act", kind=kind, stream="s", **body)
        assert done["command"] == shown["command"]
        return shown["facts"], done["command"], done["reply"]

    assert act("ack", group="g", ids=["1-0"]) == ({"count": 1}, "XACK s g 1-0", 1)
    assert act("claim", group="g", ids=["2-0"], consumer="c2")[1:] == ("XCLAIM s g c2 0 2-0 JUSTID", ["2-0"])
    assert act("release", group="g", ids=["3-0"])[1:] == ("XNACK s g SILENT IDS 1 3-0", 1)
    assert act("delete_consumer", group="g", consumer="c2") == ({"pending": 1}, "XGROUP DELCONSUMER s g c2", 1)
    facts, command, _ = act("set_position", group="g", id="2-0")
    assert (facts["back"], facts["count"], command) == (True, 4, "XGROUP SETID s g 2-0")
    facts, _, _ = act("set_position", group="g", id="$")
    assert (facts["back"], facts["count"], facts["to"]) == (False, 8, "10-0")
    assert act("create_group", group="new", id="0")[1] == "XGROUP CREATE s new 0"
    assert act("destroy_group", group="g")[0] == {"pending": 4, "consumers": 1}
    assert act("delete", ids=["1-0", "2-0"]) == ({"count": 2}, "XDEL s 1-0 2-0", 2)
    assert act("delete_stream")[0] == {"count": 8, "groups": 1, "pending": 0}
    assert not client.exists("s")
    assert user.try_ask("act", kind="flushall", stream="s")[0] == 400


def test_dead_letters_and_scheduled_messages_are_shown_with_their_origin(server: ServerProcess, user: User) -> None:
    client = server.client()
    client.xadd("orders", {"item": "book"}, id="1-1")
    client.xgroup_create("orders", "g", "0")
    client.execute_command("HEADRACE", "POLICY", "SET", "orders", "GROUP", "g", "DEADLETTER", "orders:dead")
    client.xreadgroup("g", "c", {"orders": ">"})
    client.execute_command("XNACK", "orders", "g", "FATAL", "IDS", 1, "1-1")
    [row] = user.ask("dead")["rows"]
    assert row == {"stream": "orders:dead", "length": 1}
    [letter] = user.ask("dead", stream="orders:dead")["rows"]
    assert letter["fields"] == [["item", "book"]]
    assert (letter["origin"]["stream"], letter["origin"]["id"], letter["origin"]["reason"]) == (
        "orders",
        "1-1",
        "fatal",
    )
    chosen = user.ask("act", kind="redrive_chosen", stream="orders:dead", ids=[letter["id"], "1-1"])
    assert chosen == {"command": f"HEADRACE REDRIVE orders:dead IDS 2 {letter['id']} 1-1", "reply": 1}
    assert [fields for _, fields in client.xrange("orders")] == [{"item": "book"}] * 2
    redriven = user.ask("act", kind="redrive", stream="orders:dead", rate=5)
    assert redriven["command"] == "HEADRACE REDRIVE orders:dead RATE 5"
    assert user.ask("act", kind="end_redrive", stream="orders:dead")["reply"] == 0
    ticket = client.execute_command("HEADRACE", "SCHEDULE", "orders", "DELAY", "1h", "item", "pen")
    assert user.ask("scheduled")["rows"][0]["count"] == 1
    [message] = user.ask("scheduled", stream="orders")["rows"]
    assert (message["ticket"], message["fields"]) == (ticket, [["item", "pen"]])
    moved = user.ask("act", kind="reschedule", stream="orders", ticket=ticket, at=4_000_000_000_000)
    assert moved["command"] == f"ZADD headrace:{{orders}}:scheduled XX CH 4000000000000 {ticket}"
    assert user.ask("scheduled", stream="orders")["rows"][0]["due"] == 4_000_000_000_000
    user.ask("act", kind="reschedule", stream="orders", ticket=ticket, at=1)
    await_that(lambda: client.xlen("orders") == 3)
    assert user.ask("act", kind="reschedule", stream="orders", ticket=ticket, at=1)["reply"] == 0
    ticket = client.execute_command("HEADRACE", "SCHEDULE", "orders", "DELAY", "1h", "item", "pen")
    assert user.ask("act", kind="unschedule", stream="orders", ticket=ticket)["reply"] == 1


def test_queries_are_shown_with_what_they_left(server: ServerProcess, user: User) -> None:
    client = server.client()
    for number in range(1, 11):
        client.xadd("s", {"n": number}, id=f"{number}-0")
    client.execute_command("XGROUP", "CREATE", "s", "lake", "8-0", "ENTRIESREAD", 8)
    note = {
        "started": 1,
        "batches": 2,
        "rows": 8,
        "batch_rows": 4,
        "at": 3000,
        "before": 1000,
        "error": "",
        "more": "x",
    }
    client.hset("headrace:{s}:queries", mapping={"lake": json.dumps(note), "bad": "{", "list": "[1]", "gone": "{}"})
    client.hset("headrace:{out}:batches", mapping={"q": "7 1-0 3-0 3", "bad": "x"})
    client.set("headrace:{odd}:queries", "no hash")
    told = user.ask("pipelines")
    [gone, lake] = sorted(told["reading"], key=lambda row: row["query"])
    assert lake == {
        "stream": "s", "query": "lake", "end": "10-0", "last": "8-0", "lag": 2, "read": 8, "started": 1, "batches": 2,
        "rows": 8, "batch_rows": 4, "at": 3000, "before": 1000, "error": "", "error_at": None,
    }  # fmt: skip
    assert (gone["query"], gone["last"], gone["batches"]) == ("gone", None, None)
    assert told["writing"] == [{"stream": "out", "query": "q", "batch": 7, "entries": 3, "first": "1-0", "last": "3-0"}]
    done = user.ask("act", kind="forget_query", stream="s", query="gone")
    assert done == {"command": "HDEL headrace:{s}:queries gone", "reply": 1}
    done = user.ask("act", kind="forget_query", stream="out", query="q", writes=True)
    assert done == {"command": "HEADRACE FORGET out q", "reply": 1}


def test_the_server_is_shown_without_its_secrets(server: ServerProcess, user: User) -> None:
    client = server.client()
    client.execute_command("ACL", "SETUSER", "someone", "on", ">hunter2", "~*")
    client.config_set("slowlog-log-slower-than", "0")
    assert user.ask("slow_log")["rows"]
    client.config_set("slowlog-log-slower-than", "10000")
    client.config_set("latency-monitor-threshold", "1")
    client.execute_command("DEBUG", "SLEEP", "0.02")
    latency = user.ask("latency")
    client.config_set("latency-monitor-threshold", "0")
    slept = next(row for row in latency["commands"] if row["command"] == "debug")
    assert (slept["calls"], slept["failed"], slept["p99"] >= 20_000, slept["each"] >= 20_000) == (1, 0, True, True)
    assert any(event["most"] >= 20 for event in latency["events"])
    assert {row["user"] for row in user.ask("clients")["rows"]} == {"default"}
    users = user.ask("users")["rows"]
    assert "someone" in [row["name"] for row in users]
    assert "#" not in json.dumps(users)
    settings = {row["name"]: row for row in user.ask("settings")["rows"]}
    assert (settings["maxclients"]["value"], settings["maxclients"]["default"]) == ("10000", "10000")
    assert user.ask("server")["sections"][0]["name"] == "server"


def test_what_each_consumer_did_is_counted(server: ServerProcess, user: User) -> None:
    client = server.client()
    for number in range(10):
        client.xadd("s", {"n": number}, id=f"{number + 1}-0")
    client.xgroup_create("s", "g", "0")
    client.xreadgroup("g", "quick", {"s": ">"}, count=6)
    client.xreadgroup("g", "slow", {"s": ">"}, count=2, noack=True)
    client.xack("s", "g", "1-0", "2-0")
    client.xclaim("s", "g", "slow", 0, ["3-0", "4-0"])
    client.xclaim("s", "g", "slow", 0, ["3-0"], justid=True)
    told = user.ask("group", stream="s", group="g")
    counted = {each["name"]: (each["delivered"], each["acknowledged"]) for each in told["consumers"]}
    assert (told["counts"], counted) == (True, {"quick": (6, 2), "slow": (4, 0)})
    assert user.ask("group", stream="s", group="g")["at_ms"] > told["at_ms"]


def test_a_master_and_its_replica_say_what_info_says(tmp_path: Path) -> None:
    for name in ("m", "r"):
        (tmp_path / name).mkdir()
    flags = ("--min-replicas-to-confirm", "1", "--repl-ping-replica-period", "3600")
    with ServerProcess(tmp_path / "m", *flags) as master, master.client() as leader:
        following = ("--replicaof", f"127.0.0.1 {master.port}")
        with (
            ServerProcess(tmp_path / "r", *following) as replica,
            console_of(master, tmp_path / "m") as of_master,
            console_of(replica, tmp_path / "r") as of_replica,
        ):
            await_that(lambda: is_writable(leader))
            for number in range(10):
                leader.xadd("s", {"n": number})
            info = leader.info()
            first, second = User(of_master), User(of_replica)
            told = first.ask("server")
            [shown] = told["replication"]["replicas"]
            assert (told["replication"]["role"], told["replication"]["to_confirm"]) == ("master", "1")
            assert shown["address"] == f"{info['slave0']['ip']}:{replica.port}"
            assert shown["behind"] == info["master_repl_offset"] - info["slave0"]["offset"] == 0
            assert shown["state"] == "online"
            assert told["journal"]["enabled"]
            assert (told["journal"]["policy"], told["journal"]["size"]) == ("always", info["aof_current_size"])
            assert (told["journal"]["syncs"], told["journal"]["base"]) == (
                info["headrace_syncs"],
                info["aof_base_size"],
            )
            assert told["keyspace"] == [{"db": 0, "keys": 2, "expires": 0, "ttl_ms": None}]
            assert first.ask("overview")["server"]["replication"]["replicas"][0]["behind"] == 0
            followed = second.ask("server")["replication"]
            assert (followed["role"], followed["master"]) == ("slave", f"127.0.0.1:{master.port}")
            assert (followed["link"], followed["offset"]) == ("up", info["master_repl_offset"])
            master.process.kill()
            await_that(lambda: second.ask("server")["replication"]["link"] == "down")
            assert second.ask("overview")["server"]["replication"]["down_ms"] is not None


@pytest.mark.parametrize("kind", ["redis", "valkey"])
def test_another_server_is_shown_with_what_it_has(kind: str, request: pytest.FixtureRequest, tmp_path: Path) -> None:
    redis_server: redis.Redis = request.getfixturevalue(f"{kind}_server")
    redis_server.flushall()
    redis_server.xadd("s", {"n": 1}, id="1-1")
    redis_server.xgroup_create("s", "g", "0")
    redis_server.xreadgroup("g", "c", {"s": ">"})
    port = redis_server.connection_pool.connection_kwargs["port"]
    with ConsoleProcess(tmp_path, f"redis://127.0.0.1:{port}") as console:
        user = User(console)
        product = user.about["product"]
        assert (product["name"].lower(), product["headrace"], product["xnack"]) == (kind, False, False)
        assert user.ask("overview")["streams"]["waiting"][0]["pending"] == 1
        assert user.ask("streams")["rows"][0]["groups"][0]["name"] == "g"
        assert user.ask("stream", stream="s")["policy"] is None
        assert user.ask("entry", stream="s", id="1-1")["places"][0]["state"] == "pending"
        group = user.ask("group", stream="s", group="g")
        assert (group["consumers"][0]["name"], group["counts"]) == ("c", False)
        shown = user.ask("server")
        assert (shown["journal"]["enabled"], shown["journal"]["syncs"], shown["segments"]) == (False, None, None)
        assert shown["replication"] | {"offset": 0} == {
            "role": "master",
            "offset": 0,
            "replicas": [],
            "to_confirm": None,
        }
        assert user.ask("settings")["rows"][0]["default"] is None
        assert next(row for row in user.ask("latency")["commands"] if row["command"] == "xadd")["calls"] >= 1
        assert user.ask("pipelines")["reading"] == []
        assert user.ask("inside", stream="s")["rows"][0]["master"] == "1-1"
        assert user.ask("dead")["rows"] == []
        assert user.try_ask("scheduled", stream="s")[0] == 400
        assert user.ask("act", kind="ack", stream="s", group="g", ids=["1-1"])["reply"] == 1


def test_the_nodes_of_a_stream_and_their_bytes_are_shown(
    server: ServerProcess, user: User, redis_server: redis.Redis, tmp_path: Path
) -> None:
    redis_server.flushall()
    for client, length in ((server.client(), 7_000), (redis_server, 250)):
        pipeline = client.pipeline(transaction=False)
        for number in range(1, length + 1):
            pipeline.xadd("s", {"n": number}, id=f"{number}-0")
        pipeline.execute()
        client.xdel("s", "2-0")
        client.xgroup_create("s", "g", "0")
        client.xreadgroup("g", "c", {"s": ">"}, count=20)
    port = redis_server.connection_pool.connection_kwargs["port"]
    with ConsoleProcess(tmp_path, f"redis://127.0.0.1:{port}") as console:
        of_redis = User(console)
        redis_nodes = of_redis.ask("inside", stream="s")
        redis_node = of_redis.ask("node", stream="s", master="1-0")
        assert of_redis.ask("inside", stream="s", start="101-0")["rows"][0]["master"] == "101-0"
        assert of_redis.try_ask("inside", stream="none")[1]["error"] == "no_stream"
        redis_server.xadd("large", {"n": "x" * (9 << 20)})
        assert of_redis.try_ask("inside", stream="large")[1]["error"] == "too_large_inside"
    page = user.ask("inside", stream="s")
    assert (page["whole"], page["nodes"], len(page["rows"])) == (False, 70, 64)
    assert (redis_nodes["whole"], redis_nodes["nodes"], len(redis_nodes["rows"])) == (True, 3, 3)
    assert page["rows"][:2] == redis_nodes["rows"][:2], "both keep the same bytes"
    assert page["rows"][0] == {
        "master": "1-0", "alive": 99, "deleted": 1, "bytes": page["rows"][0]["bytes"],
        "fields": ["n"], "more_fields": 0, "cold": False,
    }  # fmt: skip
    assert redis_nodes["shown_rax_nodes"] == redis_nodes["rax_nodes"]
    rest = user.ask("inside", stream="s", start=page["next"])
    assert (rest["rows"][0]["master"], len(rest["rows"]), rest["next"]) == ("6401-0", 6, None)
    [group] = page["groups"]
    assert (group["pending"], len(group["records"]), group["owners"]) == (20, 12, [["c", 20]])
    node = user.ask("node", stream="s", master="1-0")
    assert node == redis_node
    assert bytes.fromhex("".join(part["hex"] for part in node["parts"]))[:4] == node["bytes"].to_bytes(4, "little")
    assert [part["meaning"] for part in node["parts"]][2:5] == ["entries alive", "entries deleted", "number of fields"]
    assert {part["of"] for part in node["parts"]} == {"", "master", *(f"{number}-0" for number in range(1, 101))}
    assert user.try_ask("node", stream="s", master="2-0")[1]["error"] == "no_node"
    assert user.try_ask("node", stream="s", master="-")[0] == 400


def test_a_command_is_written_as_redis_cli_reads_it() -> None:
    assert command_line([b"XADD", b"a b", b"*", b'q"\\', b"\n\xff", b""]) == 'XADD "a b" * "q\\"\\\\" "\\n\\xff" ""'


def test_every_text_is_there_in_both_languages() -> None:
    static = Path(__file__).parents[2] / "src/headrace/console/static"
    texts = (static / "texts.js").read_text()
    known = dict(re.findall(r'^  "?([\w.]+)"?: \["((?:[^"\\]|\\.)*)", "(?:[^"\\]|\\.)+"\],$', texts, re.MULTILINE))
    assert len(known) > 200
    assert len(re.findall(r'^  "?[\w.]+"?: \[', texts, re.MULTILINE)) == len(known), "each line has two texts"
    for page in static.rglob("*.js"):
        if "vendor" not in page.parts:
            used = re.findall(r'\bt\("([\w.]+)"', page.read_text())
            assert not [key for key in used if key not in known], page
    acts = re.findall(r'^    "(\w+)": \(_', (static.parent / "api/acts.py").read_text(), re.MULTILINE)
    assert all(f"act.{kind}{part}" in known for kind in acts for part in ("", ".title", ".go"))
    sources = static.parent.rglob("*.py")
    codes = {code for source in sources for code in re.findall(r'Refused\(\d+, "(\w+)"', source.read_text())}
    assert all(f"error.{code}" in known for code in codes)


def test_every_setting_that_changes_something_is_explained_in_both_languages() -> None:
    text = (Path(__file__).parents[2] / "src/headrace/console/static/settings_texts.js").read_text()
    explained = set(re.findall(r'^  "([a-z-]+)": \["[^"]+", "[^"]+"\],$', text, re.MULTILINE))
    other = dict(re.findall(r'"?([a-z_-]+)"?: "([a-z-]+)"[,\n]', text))
    settings = [setting for setting in Config().settings.values() if not setting.inert]
    assert [setting.name for setting in settings if other.get(setting.name, setting.name) not in explained] == []
    assert explained | set(other) <= set(Config().settings), "nothing is explained that there is not"
