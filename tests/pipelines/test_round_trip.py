"""From files to streams to an archive, back to streams, and compared: what comes back is what was there."""

import json
from pathlib import Path

import pytest
import redis
from pyspark.sql import SparkSession

from headrace.pipelines.archive import archive_streams
from headrace.pipelines.audit import audit_archive
from headrace.pipelines.errors import CannotReplay, PipelineError
from headrace.pipelines.load import load_files
from headrace.pipelines.replay import replay_archive
from headrace.pipelines.running import Progress
from support.nasty_streams import FIRST_MS, LAST_ID, fill, picture
from support.spark.frames import url_of


def test_load_archive_replay_audit(spark: SparkSession, server: redis.Redis, tmp_path: Path) -> None:
    """Also streams that no file can bring: bytes that are no text, repeated fields, the greatest IDs."""
    url = url_of(server)
    rows = [f"{FIRST_MS + number}-{number},d{number % 3},{number / 8:.3f}\n" for number in range(300)]
    rows[1] = f'{FIRST_MS + 1}-1,"d1","0.125 ""C"", warm\\"\n'  # quotes are doubled, and a backslash is a backslash
    source = tmp_path / "in"
    source.mkdir()
    (source / "1.csv").write_text("id,device,temp\n" + "".join(reversed(rows)))
    load = {"url": url, "key_column": "device", "id_column": "id"}
    assert load_files(spark, str(source), **load).entries == 300  # type: ignore[arg-type]
    assert load_files(spark, str(source), **load).entries == 0  # type: ignore[arg-type]
    assert server.xrange("d1", count=1) == [(b"%d-1" % (FIRST_MS + 1), {b"temp": b'0.125 "C", warm\\'})]
    fill(server)
    before = picture(server)
    lake = str(tmp_path / "lake")
    assert archive_streams(spark, "*", lake, url=url).entries == 300 + 403
    server.flushall()
    done = replay_archive(spark, lake, url=url, step_entries=250)
    assert (done.entries, done.skipped) == (703, 0)
    assert picture(server) == before
    audit = audit_archive(spark, lake, url=url, whole=True)
    assert (audit.equal, audit.entries, audit.archived) == (True, 703, 703)
    # What is there already is left out; a run that was stopped half-way goes on.
    server.delete("plain", b"k\xff:/")
    done = replay_archive(spark, lake, url=url)
    assert (done.entries, done.skipped) == (201, 502)
    assert picture(server) == before


def test_an_audit_names_every_planted_difference(
    spark: SparkSession, headrace_server: redis.Redis, url: str, tmp_path: Path
) -> None:
    fill(headrace_server, 100)
    headrace_server.xadd("sole", {"n": 1}, id="5-5")
    lake = str(tmp_path / "lake")
    archive_streams(spark, "*", lake, url=url)
    # Trimmed since, and not archived yet: counted, no difference.
    headrace_server.xtrim("plain", maxlen=90, approximate=False)
    headrace_server.xadd("plain", {"n": "new"})
    assert audit_archive(spark, lake, url=url).equal
    # The stream loses one of its middle, gets one with other fields, and its archive loses a file.
    headrace_server.xdel("plain", f"{FIRST_MS + 50_000}-2")
    id = f"{FIRST_MS + 30 * 3_600_000}-0"
    held = headrace_server.xrange("a,b*[x]\\")
    headrace_server.delete("a,b*[x]\\")
    for each, fields in held:
        headrace_server.xadd("a,b*[x]\\", {"n": "other"} if each == id.encode() else fields, id=each)
    log = tmp_path / "lake" / "_spark_metadata" / "0.compact"
    log.write_text("\n".join(line for line in log.read_text().splitlines() if "key=sole" not in line))
    audit = audit_archive(spark, lake, url=url)
    assert [(each.key, each.id, each.kind) for each in audit.differences] == [
        ("a,b*[x]\\", id, "changed"),
        ("plain", f"{FIRST_MS + 50_000}-2", "extra"),
        ("sole", "5-5", "missing"),
    ]
    assert (audit.equal, audit.trimmed, audit.waiting) == (False, 10, 1)
    assert audit_archive(spark, lake, url=url, keys="plain", end=str(FIRST_MS + 50_000)).equal
    whole = audit_archive(spark, lake, url=url, keys="plain", whole=True)
    kinds = [each.kind for each in whole.differences]
    assert (kinds.count("extra"), kinds.count("missing")) == (11, 1)


def test_replay_by_time_to_another_key_at_a_speed(
    spark: SparkSession, headrace_server: redis.Redis, url: str, tmp_path: Path
) -> None:
    fill(headrace_server, 20)
    lake = str(tmp_path / "lake")
    archive_streams(spark, "*", lake, url=url)
    steps: list[Progress] = []
    done = replay_archive(
        spark,
        lake,
        url=url,
        keys="plain",
        to_key="again",
        start=str(FIRST_MS + 5000),
        end=str(FIRST_MS + 15_000),
        speed=10,
        watch=steps.append,
    )
    assert (done.entries, done.streams, steps[-1].total) == (10, ["again"], 10)
    expected = headrace_server.xrange("plain", min=FIRST_MS + 5000, max=FIRST_MS + 14_999)
    assert headrace_server.xrange("again") == expected
    assert len(steps) > 1
    with pytest.raises(CannotReplay, match=rf"^the stream 'again' has entries behind {FIRST_MS}-0, which is not in it"):
        replay_archive(spark, lake, url=url, keys="plain", to_key="again")
    with pytest.raises(PipelineError, match=r"^the time 'from' is 'soon': expected a time such as"):
        replay_archive(spark, lake, url=url, start="soon")
    assert headrace_server.xinfo_stream(b"")["last-generated-id"] == LAST_ID.encode()


def test_json_lines_and_parquet_are_loaded(
    spark: SparkSession, headrace_server: redis.Redis, url: str, tmp_path: Path
) -> None:
    lines = [{"user": f"u{number % 5}", "n": number, "price": 1.50} for number in range(40)]
    (tmp_path / "a.jsonl").write_text("\n".join(map(json.dumps, lines)))
    done = load_files(
        spark, str(tmp_path / "a.jsonl"), url=url, key="j", partitions=2, partition_by="user", fields=["n", "user"]
    )
    assert done.entries == 40
    assert headrace_server.xlen("j:0") + headrace_server.xlen("j:1") == 40
    spark.range(7).coalesce(1).write.parquet(str(tmp_path / "p"))
    assert load_files(spark, str(tmp_path / "p"), url=url, key="p").entries == 7
    assert [entry for _, entry in headrace_server.xrange("p")] == [{b"id": b"%d" % number} for number in range(7)]


@pytest.mark.parametrize(
    ("name", "text", "options", "sentence"),
    [
        ("no.csv", None, {"key": "s"}, r"there is no file or directory '.*no.csv'"),
        ("a.txt", "x", {"key": "s"}, r"the name '.*a.txt' does not tell the format: give csv, json or parquet"),
        (
            "a.csv",
            "n\n1\n",
            {},
            r"option 'key' a stream is named by the option key or by keyColumn, and neither is given",
        ),
        ("a.csv", "n\n1\n", {"key_column": "k"}, r"option 'keyColumn' is 'k': there is no such column; there are n"),
        ("a.csv", "n\n1,2\n", {"key": "s"}, r"the line '1,2' of /.*/a.csv has more or fewer columns than the header.*"),
        ("a.csv", "n\n1\n", {"key": "s", "fields": ["m"]}, r"the files have no column 'm'; they have n"),
    ],
)
def test_what_cannot_be_loaded_is_one_sentence(  # noqa: PLR0917
    spark: SparkSession, url: str, tmp_path: Path, name: str, text: str | None, options: dict[str, str], sentence: str
) -> None:
    if text is not None:
        (tmp_path / name).write_text(text)
    with pytest.raises(Exception, match=rf"^{sentence}$"):
        load_files(spark, str(tmp_path / name), url=url, **options)  # type: ignore[arg-type]
