"""Every code block of the README and of the guides is run, and prints what the page shows."""

import re
import shutil
import tempfile
from pathlib import Path

import pytest

from support.guides import PAGES, PROJECT, PageRun, _alike, _commands, blocks_of, why_not_run
from support.spark.queries import ATTEMPTS, is_sparks_own


@pytest.mark.timeout(3600)  # which only a fault reaches, also where Spark runs on a busy machine
@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(PROJECT)))
def test_every_block_prints_what_the_page_shows(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    why = why_not_run(page)
    if why is not None:
        pytest.skip(why)
    blocks = blocks_of(page)
    if any("redis-cli" in block.text for block in blocks) and shutil.which("redis-cli") is None:
        pytest.skip("there is no redis-cli: apt-get install redis-tools brings it")
    if any(re.search("SparkSession|spark_session", block.text) and block.reason is None for block in blocks):
        request.getfixturevalue("spark")
    for attempt in range(ATTEMPTS):
        directory = tmp_path / str(attempt)
        directory.mkdir()
        monkeypatch.chdir(directory)
        run = PageRun(directory, {"__name__": page.stem})
        try:
            for block in blocks:
                run.run(block)
        except AssertionError as failed:
            if attempt + 1 == ATTEMPTS or not is_sparks_own(str(failed)):
                raise
        else:
            return
        finally:
            run.close()


def test_no_page_is_skipped_because_of_a_test_that_only_reads_it() -> None:
    for page in PAGES:
        assert not (why_not_run(page) or "").startswith("tests/docs/"), page.name


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(PROJECT)))
def test_links_to_files_of_ours_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)|<img[^>]* src=\"([^\"]+)\"", page.read_text()):
        name = target[0] or target[1]
        if not name.startswith(("http://", "https://", "mailto:")):
            there = (page.parent / name).resolve()
            made = str(there.relative_to(PROJECT)) in (PROJECT / "Makefile").read_text()  # by a run on this machine
            assert there.exists() or made, f"{page.name}: {name}"


def test_pages_tell_nothing_of_the_machine_they_were_written_on() -> None:
    for page in PAGES:
        for word in (f"{tempfile.gettempdir()}/", f"{Path.home()}/", str(PROJECT)):
            assert word not in page.read_text(), f"{page.name}: {word}"


def test_the_guide_has_every_option_of_the_source_and_the_sink() -> None:
    pytest.importorskip("pyspark")
    from headrace.spark import options  # noqa: PLC0415  (it needs pyspark)

    text = (PROJECT / "docs" / "spark.md").read_text()
    shown = set(re.findall(r"^\| `(\w+)` \|", text, re.MULTILINE))
    assert {*options._BOTH, *options._READING, *options._WRITING} <= shown


def test_a_page_that_shows_something_else_is_noticed() -> None:
    assert _alike(
        ["a … c", "…", "12:M 15 Nov 2026 09:01:30.281 * x"], ["a b c", "1", "2", "9:M 01 Jan 2027 00:00:00.000 * x"]
    )
    assert not _alike(["a b"], ["a c"])
    assert not _alike(["a"], ["a", "b"])
    assert list(_commands("$ one \\\n  two\nout\n127.0.0.1:7777> PING\nPONG\n")) == [
        ("one two", ["out"]),
        ("127.0.0.1:7777> PING", ["PONG"]),
    ]
