"""What Spark says becomes one sentence, and numbers become what a person reads."""

import pytest

from headrace.pipelines.errors import sentence_of, with_causes
from headrace.pipelines.report.shapes import amount, byte_size, ceiling, duration, moment

WRAPPED = """[STREAM_FAILED] Query [id = 1, runId = 2] terminated with exception: [PYTHON_DATA_SOURCE_ERROR] Failed when
Python data source instance latestOffset: Traceback (most recent call last):
  File "servers.py", line 1, in ask
headrace.spark.errors.ServerUnreachable: option 'url' is 'redis://127.0.0.1:1': the server does not answer: refused
. SQLSTATE: 38000
\tat org.apache.spark"""


@pytest.mark.parametrize(
    ("said", "sentence"),
    [
        (WRAPPED, "option 'url' is 'redis://127.0.0.1:1': the server does not answer: refused"),
        ("[PARSE_SYNTAX_ERROR] Syntax error at or near 'x'. SQLSTATE: 42601 (line 1)", "Syntax error at or near 'x'."),
        (
            "Job failed\n\tat a\nCaused by: java.io.IOException: No space left on device\n\tat b",
            "No space left on device",
        ),
        ("", "Spark failed and does not say why"),
    ],
)
def test_the_line_that_matters(said: str, sentence: str) -> None:
    assert sentence_of(said) == sentence


class Told(Exception):
    """An error as PySpark makes them of Java's: the cause is an attribute of its own."""

    def __init__(self, text: str, cause: Exception | None = None) -> None:
        super().__init__(text)
        self._cause = cause


def test_why_a_commit_failed_is_said_by_the_causes() -> None:
    failed = Told("Writing job failed.", Told("Job aborted", Told("Python worker exited unexpectedly (crashed)")))
    assert with_causes(failed) == "Writing job failed.\nJob aborted\nPython worker exited unexpectedly (crashed)"


def test_numbers_as_a_person_reads_them() -> None:
    assert [amount(number) for number in (0, 7, 0.25, 999, 1234, 2_000_000)] == [
        "0",
        "7",
        "0.25",
        "999",
        "1.2 k",
        "2 M",
    ]
    assert [byte_size(size) for size in (0, 512, 2048, 3 << 30)] == ["0 B", "512 B", "2 KB", "3 GB"]
    assert [duration(ms) for ms in (5, 1500, 90_000, 7_200_000, 3 * 86_400_000)] == [
        *("5 ms", "1.5 s", "1.5 min", "2 h", "3 d")
    ]
    assert [ceiling(number) for number in (0, 14.2, 16, 1000)] == [1, 16, 16, 1000]
    assert moment(1_763_200_000_000, 60_000) == "09:46:40"
    assert moment(2**63, 60_000) == "9223372036854775808 ms"
