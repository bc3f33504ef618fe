"""The errors of jobs, and those of Spark, in one sentence.

Spark's error    a Java stack, a Python traceback inside it, and somewhere the line that matters:
                   headrace.spark.errors.ServerUnreachable: option 'url' is …      ours: taken as it is
                   [UNRESOLVED_COLUMN] A column, variable …                        Spark's: its first sentence
"""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from headrace.core.errors import HeadraceError

_OURS: Final = re.compile(r"^\s*(?:[\w.]+: )*headrace\.[\w.]+\.(?:errors|arrow_columns)\.\w+: (.+)$", re.MULTILINE)
_CONDITION: Final = re.compile(r"^\[[A-Z0-9_.]+\]\s*")
_STATE: Final = re.compile(r"\s*SQLSTATE: \w+.*$")
_CAUSE: Final = re.compile(r"^Caused by: [\w.$]+: (.+)$", re.MULTILINE)
_UNREADABLE: Final = re.compile(r"Encountered error while reading file (\S+?)\.?\s")
_MALFORMED: Final = re.compile(
    r"\[MALFORMED_CSV_RECORD\] Malformed CSV record: (.*?)(?:\s*SQLSTATE: \w+)?$", re.MULTILINE
)
_LONGEST: Final = 400


class PipelineError(HeadraceError):
    """A job cannot be done as it was asked for."""


class NoSpark(PipelineError, ImportError):
    """There is no pyspark."""


class NoArchive(PipelineError, FileNotFoundError):
    """There is no archive where one was looked for."""


class ArchiveInUse(PipelineError):
    """Another run writes the same archive."""


class CannotReplay(PipelineError):
    """The target has entries behind those that would be replayed, and IDs only rise."""


@contextmanager
def explained() -> Iterator[None]:
    """Raise what Spark raises as a PipelineError of one sentence."""
    from py4j.protocol import Py4JError  # noqa: PLC0415  (both may be missing where only the class is wanted)
    from pyspark.errors import PySparkException  # noqa: PLC0415

    try:
        yield
    except (PySparkException, Py4JError) as error:
        raise PipelineError(sentence_of(str(error))) from error


def with_causes(failed: BaseException) -> str:
    """Return what an error of Spark's says, and what its causes say: a failed commit is "Writing job failed." alone."""
    texts = []
    cause: BaseException | None = failed
    while cause is not None:
        texts.append(str(cause))
        cause = getattr(cause, "_cause", None)
    return "\n".join(texts)


def sentence_of(text: str) -> str:
    """Return the line of an error of Spark's that says what is wrong."""
    ours = _OURS.findall(text)
    if ours:
        return str(ours[-1]).strip()
    malformed, file = _MALFORMED.search(text), _UNREADABLE.search(text)
    if malformed is not None and file is not None:
        return (
            f"the line {_cut(malformed[1])!r} of {file[1].removeprefix('file://')} has more or fewer columns than the "
            "header, or a quote that is not closed there (--option multiLine=true takes quoted values of several lines)"
        )
    causes = [cause for cause in _CAUSE.findall(text) if not cause.startswith(("Job aborted", "org.apache."))]
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    line = causes[-1] if causes else lines[0] if lines else "Spark failed and does not say why"
    line = _STATE.sub("", _CONDITION.sub("", line)).strip()
    return _cut(line)


def _cut(line: str) -> str:
    return line if len(line) <= _LONGEST else f"{line[:_LONGEST]}…"
