"""The console in a real Chromium, against a real server: pages, acts, live tail, hostile values, a server that goes.

Where there is no Chromium or no Playwright, the tests say so. axe-core comes from npm, once, into build/npm.
"""

import json
import re
import shutil
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import redis

from headrace.console.texts import bytes_of, command_line
from support.console_process import ConsoleProcess, console_of
from support.patience import PATIENCE_S, await_that
from support.server_process import ServerProcess

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
CACHE = Path(__file__).parents[2] / "build" / "npm"
HOSTILE = "<script>document.title='owned'</script>"
PAGES = (
    *(
        "#/overview",
        "#/streams",
        "#/stream/orders",
        "#/inside/orders",
        "#/groups",
        "#/group/orders/billing",
        "#/dead",
        "#/dead/orders:dead",
    ),
    *(
        "#/scheduled",
        "#/scheduled/orders",
        "#/pipelines",
        "#/server/info",
        "#/server/slow",
        "#/server/latency",
        "#/server/clients",
        "#/server/settings",
    ),
    "#/server/users",
)
READY = "main#page h1"


@pytest.fixture(scope="module")
def browser() -> "Iterator[Browser]":
    playwright = pytest.importorskip("playwright.sync_api", reason="there is no playwright: pip install playwright")
    if CHROMIUM is None:
        pytest.skip("there is no chromium: apt-get install chromium brings it")
    with playwright.sync_playwright() as tool:
        started = tool.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox", "--disable-dev-shm-usage"])
        yield started
        started.close()


@pytest.fixture(scope="module")
def filled(server: ServerProcess) -> ServerProcess:
    client = server.client()
    pipeline = client.pipeline(transaction=False)
    for number in range(1, 301):
        pipeline.xadd("orders", {"dev": number % 7, "temp": number % 40, "json": json.dumps({"n": number})})
    pipeline.execute()
    client.xgroup_create("orders", "billing", "0")
    client.xreadgroup("billing", "b1", {"orders": ">"}, count=100)
    client.xadd(HOSTILE, {HOSTILE: f'"><img src=x onerror="document.title=1">{HOSTILE}'}, id="1-1")
    client.xgroup_create(HOSTILE, HOSTILE, "0")
    client.xreadgroup(HOSTILE, HOSTILE, {HOSTILE: ">"})
    client.execute_command("HEADRACE", "SCHEDULE", "orders", "DELAY", "1h", "item", HOSTILE)
    origin = {"stream": HOSTILE, "id": "1-1", "group": HOSTILE, "consumer": HOSTILE, "deliveries": 5}
    note = {"started": 1, "batches": 2, "rows": 8, "batch_rows": 4, "at": 3000, "before": 1000, "error": HOSTILE}
    client.hset("headrace:{orders}:queries", mapping={"billing": json.dumps(note), HOSTILE: json.dumps(note)})
    client.hset(f"headrace:{{{HOSTILE}}}:batches", mapping={HOSTILE: "7 1-0 3-0 3"})
    times = {"first-delivery": 1, "last-delivery": 2, "reason": HOSTILE}
    client.xadd("orders:dead", {"n": 1, **{f"headrace-{name}": value for name, value in (origin | times).items()}})
    return server


@pytest.fixture
def page(browser: "Browser", filled: ServerProcess, console: ConsoleProcess) -> "Iterator[Page]":
    """A page that is logged in; what its own console complains of fails the test."""
    assert filled.client().ping()
    context = browser.new_context(viewport={"width": 1440, "height": 900}, locale="en")
    context.set_default_timeout(PATIENCE_S * 1000)
    opened = context.new_page()
    complaints: list[str] = []
    opened.on(
        "console", lambda message: complaints.append(message.text) if message.type in {"error", "warning"} else None
    )
    opened.on("pageerror", lambda error: complaints.append(str(error)))
    opened.on("dialog", lambda dialog: complaints.append(f"a dialog: {dialog.message}"))
    opened.goto(f"http://127.0.0.1:{console.port}/")
    opened.get_by_role("button", name="Log in").click()
    opened.wait_for_selector(READY)
    yield opened
    context.close()
    assert complaints == []


def visit(page: "Page", place: str) -> None:
    page.evaluate("place => { location.hash = ''; location.hash = place; }", place)
    page.wait_for_function("place => document.querySelector('main#page').dataset.shown === place", arg=place)


def confirm(page: "Page", button: str) -> str:
    """Confirm an act, and return the command that was shown."""
    box = page.locator("dialog")
    box.locator(".command code").wait_for()
    command = box.locator(".command code").inner_text()
    box.get_by_role("button", name=button, exact=True).click()
    page.wait_for_function("() => !document.querySelector('dialog')")
    return command


# --- the pages -------------------------------------------------------------------------------------------------------


def test_every_page_is_shown_in_both_themes_and_languages_and_fits_a_phone(page: "Page") -> None:
    for scheme, width, language in (("light", 1440, "en"), ("dark", 375, "zh-CN")):
        page.emulate_media(color_scheme=scheme)  # type: ignore[arg-type]
        page.set_viewport_size({"width": width, "height": 800})
        page.locator("select[aria-label]").first.select_option(language)
        for place in PAGES:
            visit(page, place)
            assert page.locator("main#page .error").count() == 0, place
            assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), f"{place} is wider than {width}"
    assert page.locator("nav.main").inner_text().split()[:2] == ["概览", "流"]
    assert page.evaluate("document.documentElement.lang") == "zh-CN"


def test_a_page_asks_no_other_host(page: "Page", console: ConsoleProcess) -> None:
    asked: set[str] = set()
    page.on("request", lambda request: asked.add(request.url.split("/")[2]))
    page.reload()
    page.wait_for_selector(READY)
    visit(page, "#/group/orders/billing")
    assert asked == {f"127.0.0.1:{console.port}"}


def test_hostile_names_and_values_are_text(page: "Page") -> None:
    visit(page, "#/streams")
    page.get_by_role("link", name=HOSTILE, exact=True).first.click()
    page.get_by_role("button", name="1-1", exact=True).click()
    content = page.locator("dialog .field-view pre")
    assert content.inner_text().startswith('"><img src=x')
    page.keyboard.press("Escape")
    for place in PAGES:
        visit(page, place)
    assert "owned" not in page.title()
    assert page.locator("main img").count() == 0
    for text in ("plain", "two words", 'quo"te\\', "\u202egnp", "\udcff\x00\n", "é€😀", ""):
        written = page.evaluate("async text => (await import('/static/names.js')).word(text)", text)
        assert written == command_line([bytes_of(text)]), "what is copied is what the server would say"
    shown = page.evaluate(
        "async text => (await import('/static/names.js')).shownName(text)", "a\u202e\u200b\ufeffb\x1b"
    )
    assert shown == "a\\u202e\\u200b\\ufeffb\\x1b"
    page.evaluate("() => { location.hash = '#/__proto__'; }")
    page.wait_for_function("() => document.querySelector('main#page').dataset.shown === '#/overview'")


def test_accessibility_has_no_serious_fault(page: "Page") -> None:
    axe = CACHE / "node_modules" / "axe-core" / "axe.min.js"
    if not axe.is_file():
        if shutil.which("npm") is None:
            pytest.skip("there is no npm, which brings axe-core: apt-get install npm")
        CACHE.mkdir(parents=True, exist_ok=True)
        install = ["npm", "install", "--prefix", str(CACHE), "--no-audit", "--no-fund", "axe-core@4"]
        done = subprocess.run(install, capture_output=True, check=False, text=True, timeout=PATIENCE_S)
        if done.returncode:
            pytest.skip(f"npm cannot install axe-core: {done.stderr!r}")
    source = axe.read_text()
    found: list[str] = []
    every_rule = {"resultTypes": ["violations"]}
    places = ("#/overview", "#/streams", "#/stream/orders", "#/inside/orders", "#/group/orders/billing")
    for scheme, shown, options in (
        ("light", (*places, "#/dead/orders:dead"), every_rule),
        ("dark", ("#/stream/orders", "#/group/orders/billing"), every_rule | {"runOnly": ["color-contrast"]}),
    ):
        page.emulate_media(color_scheme=scheme)  # type: ignore[arg-type]
        for place in shown:
            visit(page, place)
            page.evaluate(source)  # the policy of the page lets no script be added to it
            faults = page.evaluate("options => axe.run(document, options).then((told) => told.violations)", options)
            found += [
                f"{place} {scheme} {fault['id']}: {[node['html'][:200] for node in fault['nodes'][:3]]}"
                for fault in faults
                if fault["impact"] in {"serious", "critical"}
            ]
    assert found == []


def test_keys_search_help_and_move(page: "Page") -> None:
    visit(page, "#/streams")
    page.keyboard.press("/")
    page.keyboard.type("ORDERS")
    page.wait_for_function("() => document.querySelectorAll('main#page tbody tr').length === 2")
    page.keyboard.press("Tab")
    page.locator("main#page h1").click()
    page.keyboard.press("?")
    page.locator("dialog kbd").first.wait_for()
    page.keyboard.press("Escape")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    page.wait_for_function("() => location.hash === '#/stream/orders'")


def test_the_rax_is_walked_and_every_byte_says_what_it_means(page: "Page", server: ServerProcess) -> None:
    visit(page, "#/inside/orders")
    masters = page.locator(".rax-box [data-master]")
    assert masters.count() == server.client().xinfo_stream("orders")["radix-tree-keys"] > 1
    last = masters.last.inner_text()
    masters.last.click()
    page.get_by_role("heading", name=f"The listpack of node {last}").wait_for()
    parts = page.locator(".octets .part")
    parts.nth(2).hover()
    assert page.locator(".byte-meaning b").inner_text() == "entries alive"
    parts.nth(2).click()
    page.keyboard.press("End")
    page.get_by_text("end of the listpack").wait_for()
    page.keyboard.press("Home")
    assert page.locator(".byte-meaning b").inner_text() == "bytes in this listpack"
    page.get_by_text("As a table").click()
    page.locator("details table tbody tr").first.wait_for()  # it is drawn when it opens
    assert page.locator("details table tbody tr").count() == parts.count()


def test_a_rate_of_each_consumer_and_what_stands_behind_the_server_are_shown(
    page: "Page", server: ServerProcess
) -> None:
    client = server.client()
    client.delete("rated")
    client.xadd("rated", {"n": 1})
    client.xgroup_create("rated", "g", "0")
    client.xreadgroup("g", "still", {"rated": ">"})
    visit(page, "#/group/rated/g")
    page.get_by_role("columnheader", name="Acknowledged/s").wait_for()
    client.xadd("rated", {"n": 1})
    client.xreadgroup("g", "busy", {"rated": ">"})
    consumers = page.locator("main#page section", has=page.get_by_role("heading", name="Consumers", exact=True))
    busy, still = (consumers.locator("tr", has_text=name).locator("td").nth(3) for name in ("busy", "still"))
    busy.wait_for()
    deadline = time.monotonic() + PATIENCE_S
    while busy.inner_text() in ("0", "–"):
        assert time.monotonic() < deadline
        client.xadd("rated", {"n": 1})
        [[_, entries]] = client.xreadgroup("g", "busy", {"rated": ">"})
        client.xack("rated", "g", *[id for id, _ in entries])
        page.wait_for_timeout(50)
    assert still.inner_text() == "0"
    visit(page, "#/server/info")
    shown = page.locator("main#page").inner_text()
    for text in ("No replica follows this server.", "No journal is written (appendonly no)", "Keyspace", "Database"):
        assert text in shown


# --- acts ------------------------------------------------------------------------------------------------------------


def test_entries_are_added_found_filtered_and_deleted(page: "Page", server: ServerProcess) -> None:
    visit(page, "#/stream/orders")
    page.get_by_role("button", name="Add an entry").click()
    page.locator("dialog input[placeholder=Field]").fill("note")
    page.locator("dialog input[placeholder=Value]").fill("by hand")
    page.get_by_role("button", name="Next", exact=True).click()
    assert confirm(page, "Add") == 'XADD orders * note "by hand"'
    page.get_by_label("Filter by fields").fill('note = "by hand"')
    page.keyboard.press("Enter")
    row = page.locator(".entries tbody tr")
    page.wait_for_function("() => document.querySelectorAll('.entries tbody tr').length === 1")
    with page.expect_download() as export:
        page.get_by_role("button", name="Export all").click()
    [exported] = export.value.path().read_text().splitlines()
    assert json.loads(exported)["fields"] == [["note", "by hand"]]
    row.click()
    page.get_by_role("button", name="Delete", exact=True).click()
    assert confirm(page, "Delete").startswith("XDEL orders ")
    page.get_by_text("No entry here matches").wait_for()
    assert server.client().xlen("orders") == 300
    first = server.client().xrange("orders", count=1)[0][0]
    page.get_by_label("Filter by fields").fill("")
    page.get_by_label("Seek by ID or time").fill(first)
    page.get_by_role("button", name="Go", exact=True).click()
    page.wait_for_function("id => document.querySelector('.entries tbody')?.innerText.startsWith(id)", arg=first)
    assert page.locator(".entries tbody tr").count() == 1


def test_the_tail_shows_new_entries_and_pauses(page: "Page", server: ServerProcess) -> None:
    client = server.client()
    client.delete("live")
    client.xadd("live", {"n": "before"})
    visit(page, "#/stream/live")
    page.get_by_role("button", name="Live tail").click()
    page.get_by_text("Waiting for new entries").wait_for()
    deadline = time.monotonic() + PATIENCE_S
    while page.locator(".entries").get_by_text("first").count() == 0:  # the tail may begin a moment later
        assert time.monotonic() < deadline
        client.xadd("live", {"n": "first"})
        page.wait_for_timeout(200)
    page.get_by_role("button", name="Pause").click()
    client.xadd("live", {"n": "second"})
    page.get_by_role("button", name=re.compile(r"Resume \([1-9]")).click()
    page.locator(".entries").get_by_text("second").wait_for()
    assert page.locator(".entries").get_by_text("before").count() == 0
    page.get_by_role("button", name="Live tail").click()
    page.locator(".entries").get_by_text("before").wait_for()


def test_what_is_pending_is_claimed_acknowledged_and_the_position_set(page: "Page", server: ServerProcess) -> None:
    client = server.client()
    client.delete("jobs")
    for number in range(1, 6):
        client.xadd("jobs", {"n": number}, id=f"{number}-0")
    client.xgroup_create("jobs", "g", "0")
    client.xreadgroup("g", "c1", {"jobs": ">"}, count=3)
    visit(page, "#/group/jobs/g")
    page.get_by_label("Choose 1-0").check()
    page.get_by_role("button", name="Acknowledge").click()
    assert confirm(page, "Acknowledge") == "XACK jobs g 1-0"
    page.get_by_label("Choose 1-0").wait_for(state="detached")
    page.get_by_label("Choose 2-0").check()
    page.get_by_role("button", name="Claim").click()
    page.get_by_label("For which consumer").fill("c2")
    page.get_by_role("button", name="Next", exact=True).click()
    assert confirm(page, "Claim") == "XCLAIM jobs g c2 0 2-0 JUSTID"
    page.get_by_role("button", name="Set the position").click()
    page.get_by_label("By", exact=True).select_option("before_end")
    page.get_by_label("Value", exact=True).fill("1")
    page.get_by_role("button", name="Next", exact=True).click()
    page.get_by_text("1 entries are passed over, and never delivered.").wait_for()
    assert confirm(page, "Set") == "XGROUP SETID jobs g 4-0"
    assert client.xinfo_groups("jobs")[0]["last-delivered-id"] == "4-0"
    assert [each["name"] for each in client.xinfo_consumers("jobs", "g")] == ["c1", "c2"]
    assert client.xpending("jobs", "g")["pending"] == 2


def test_one_dead_letter_is_put_back_and_a_message_rescheduled(page: "Page", server: ServerProcess) -> None:
    client = server.client()
    origin = {"stream": "mail", "id": "1-1", "group": "g", "consumer": "c", "deliveries": 5}
    times = {"first-delivery": 1, "last-delivery": 2, "reason": "fatal"}
    fields = {f"headrace-{name}": value for name, value in (origin | times).items()}
    first, second = (client.xadd("mail:dead", {"n": number, **fields}) for number in (1, 2))
    visit(page, "#/dead/mail:dead")
    page.get_by_label(f"Choose {second}").check()
    page.get_by_role("button", name="Put chosen back").click()
    assert confirm(page, "Put back") == f"HEADRACE REDRIVE mail:dead IDS 1 {second}"
    page.get_by_label(f"Choose {second}").wait_for(state="detached")
    assert [entry for _, entry in client.xrange("mail")] == [{"n": "2"}]
    assert [id for id, _ in client.xrange("mail:dead")] == [first]
    client.execute_command("HEADRACE", "SCHEDULE", "mail", "DELAY", "1h", "n", "3")
    visit(page, "#/scheduled/mail")
    page.get_by_role("button", name="Reschedule").click()
    page.get_by_label("Due", exact=True).fill("2001-02-03T04:05:06")
    page.get_by_role("button", name="Next", exact=True).click()
    assert confirm(page, "Reschedule").startswith("ZADD headrace:{mail}:scheduled XX CH 9811")
    page.get_by_text("Nothing is scheduled for this stream.").wait_for()
    assert client.xlen("mail") == 2
    client.delete("mail", "mail:dead")


def test_what_remains_to_be_done_is_done_from_its_page(page: "Page", server: ServerProcess) -> None:
    client = server.client()
    client.delete("last")
    for number in range(1, 4):
        client.xadd("last", {"n": number}, id=f"{number}-0")
    client.xgroup_create("last", "g", "0")
    client.xreadgroup("g", "c1", {"last": ">"}, count=2)
    client.hset("headrace:{last}:queries", "g", json.dumps({"batches": 1}))
    ticket = client.execute_command("HEADRACE", "SCHEDULE", "last", "DELAY", "1h", "n", "later")
    origin = {"stream": "last", "id": "1-0", "group": "g", "consumer": "c1", "deliveries": 5}
    times = {"first-delivery": 1, "last-delivery": 2, "reason": "fatal"}
    client.xadd("last:dead", {"n": "dead"} | {f"headrace-{name}": value for name, value in (origin | times).items()})
    commands = []

    def act(place: str, button: str, go: str, *before: str) -> None:
        visit(page, place)
        for label in before:
            page.get_by_label(label).first.check()
        page.get_by_role("button", name=button, exact=True).first.click()
        commands.append(confirm(page, go))

    act("#/group/last/g", "Release", "Release", "Choose 1-0")
    act("#/group/last/g", "Delete", "Delete")
    visit(page, "#/stream/last")
    page.get_by_role("button", name="New group").click()
    page.get_by_label("Name", exact=True).fill("fresh")
    page.get_by_role("button", name="Next", exact=True).click()
    commands.append(confirm(page, "Create"))
    act("#/group/last/fresh", "Destroy", "Destroy")
    visit(page, "#/dead/last:dead")
    page.get_by_role("button", name="Put all back").click()
    page.get_by_label("At most so many a second").fill("50")
    page.get_by_role("button", name="Next", exact=True).click()
    commands.append(confirm(page, "Put back"))
    act("#/scheduled/last", "Cancel", "Cancel the message")
    visit(page, "#/pipelines")
    row = page.get_by_role("row").filter(has=page.get_by_role("link", name="last", exact=True))
    row.get_by_role("button", name="Forget").click()
    commands.append(confirm(page, "Forget"))
    with redis.Redis(port=server.port, client_name="victim") as victim:
        number = victim.client_id()
        visit(page, "#/server/clients")
        page.get_by_role("row").filter(has_text="victim").get_by_role("button", name="Disconnect").click()
        commands.append(confirm(page, "Disconnect"))
    await_that(lambda: client.xlen("last") == 4)
    assert not client.exists("headrace:{last}:queries")
    act("#/stream/last", "Delete the stream", "Delete all of it")
    assert commands == [
        "XNACK last g SILENT IDS 1 1-0", "XGROUP DELCONSUMER last g c1", "XGROUP CREATE last fresh $",
        "XGROUP DESTROY last fresh", "HEADRACE REDRIVE last:dead RATE 50", f"HEADRACE UNSCHEDULE last {ticket}",
        "HDEL headrace:{last}:queries g", f"CLIENT KILL ID {number}", "DEL last",
    ]  # fmt: skip
    assert not client.exists("last")


# --- who, and when it goes wrong -------------------------------------------------------------------------------------


def test_a_wrong_password_is_said_and_a_reader_sees_and_cannot_change(
    browser: "Browser", filled: ServerProcess, console: ConsoleProcess
) -> None:
    client = filled.client()
    rights = ("~*", "+@read", "+info", "+ping", "+command", "-@dangerous")
    client.execute_command("ACL", "SETUSER", "viewer", "on", ">pass", *rights)
    context = browser.new_context(locale="en")
    context.set_default_timeout(PATIENCE_S * 1000)
    page = context.new_page()
    page.goto(f"http://127.0.0.1:{console.port}/")
    page.get_by_label("User").fill("viewer")
    page.get_by_label("Password").fill("guess")
    page.get_by_role("button", name="Log in").click()
    page.get_by_text("The server does not accept this user and password.").wait_for()
    page.get_by_label("Password").fill("pass")
    page.get_by_role("button", name="Log in").click()
    page.wait_for_selector(READY)
    visit(page, "#/stream/orders")
    page.get_by_role("button", name="Delete the stream").click()
    page.locator("dialog").get_by_role("button", name="Delete all of it").click()
    page.get_by_text("This user may not do that.").wait_for()
    assert client.exists("orders")
    page.reload()
    page.wait_for_selector(READY)
    page.get_by_role("button", name="Log out").click()
    page.get_by_role("button", name="Log in").wait_for()
    page.reload()
    page.get_by_role("button", name="Log in").wait_for()
    context.close()


def test_a_server_that_goes_away_is_said_and_one_that_comes_back_is_shown(browser: "Browser", tmp_path: Path) -> None:
    with ServerProcess(tmp_path) as first, console_of(first, tmp_path) as console:
        first.client().xadd("kept", {"n": 1})
        context = browser.new_context(locale="en")
        context.set_default_timeout(PATIENCE_S * 1000)
        page = context.new_page()
        page.goto(f"http://127.0.0.1:{console.port}/")
        page.get_by_role("button", name="Log in").click()
        page.wait_for_selector(READY)
        visit(page, "#/streams")
        page.get_by_role("link", name="kept").wait_for()
        first.stop()
        page.get_by_text("The server does not answer").wait_for()
        with ServerProcess(tmp_path, port=first.port) as second:
            second.client().xadd("fresh", {"n": 1})
            page.get_by_role("link", name="fresh").wait_for()
            page.wait_for_function("() => document.querySelector('.banner').hidden")
        context.close()
