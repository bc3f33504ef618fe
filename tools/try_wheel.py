"""Try a wheel and an sdist as strangers do: in environments that hold nothing else.

    python tools/try_wheel.py dist/headrace-….whl dist/headrace-….tar.gz

    the wheel alone             open a directory, add, open it again; every extra that is missing is one sentence
    the wheel with [server]     serve, connect, add, restart, and find everything
    the sdist                   is built, imported, and used in memory

Prints how many megabytes and seconds each takes.
"""

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

LIBRARY = """
import time; begin = time.perf_counter()
import headrace
imported = time.perf_counter() - begin
with headrace.open("data") as db:
    db.stream("s").add(n=1)
opened = time.perf_counter() - begin
with headrace.open("data") as db:
    assert [message["n"] for message in db.stream("s")] == ["1"]
    for act, sentence in (
        (lambda: db.redis(), "pip install 'headrace[redis]'"),
        (lambda: db.execute("EVAL", "return 1", 0), "pip install 'headrace[lua]'"),
        (lambda: db.stream("s").to_arrow(), "pip install pyarrow"),
    ):
        try:
            act()
        except headrace.HeadraceError as error:
            assert sentence in str(error), error
        else:
            raise SystemExit(f"nothing says {sentence}")
print(f"imported in {imported:.3f} s, opened after {opened:.3f} s")
"""
IN_MEMORY = (
    "import headrace; db = headrace.open(None); db.stream('s').add(n=1); assert len(db.stream('s')) == 1; db.close()"
)
SERVED = """
import headrace, subprocess, sys, time
def serve():
    process = subprocess.Popen([sys.executable, "-m", "headrace.cli.main", "serve", "--port", "0", "--unixsocket", "s"])
    for _ in range(600):
        try:
            return process, headrace.connect("unix://s")
        except headrace.CannotConnect:
            time.sleep(0.1)
    raise SystemExit("the server does not start")
process, db = serve()
ids = [db.stream("s").add(n=n) for n in range(10)]
assert db.execute("EVAL", "return 7", 0) == 7
process.kill(); process.wait()
process, again = serve()
assert [message.id for message in again.stream("s")] == ids
process.terminate(); process.wait()
"""


def main() -> None:
    wheel, sdist = (Path(name).resolve() for name in sys.argv[1:3])
    if "manylinux" not in wheel.name:
        sys.exit(f"{wheel.name} has no tag of manylinux")
    with tempfile.TemporaryDirectory() as place:
        directory = Path(place)
        library = environment(directory / "library", str(wheel))
        run(library, "-c", LIBRARY, directory=directory)
        refused = run(library, "-m", "headrace.cli.main", "top", directory=directory, code=1)
        if "pip install 'headrace[cli]'" not in refused:
            sys.exit(f"the command line does not say what it lacks: {refused}")
        server = environment(directory / "server", f"{wheel}[server]")
        run(server, "-c", SERVED, directory=directory)
        run(server, "-m", "headrace.cli.main", "--help", directory=directory)
        source = environment(directory / "source", str(sdist))
        run(source, "-c", IN_MEMORY, directory=directory)


def environment(place: Path, *wanted: str) -> Path:
    """Make an environment with nothing but what is wanted; return its Python."""
    subprocess.run([sys.executable, "-m", "venv", place], check=True)
    python = place / "bin" / "python"
    before, begin = size_of(place), time.perf_counter()
    subprocess.run([python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *wanted], check=True)
    print(
        f"{place.name}: {size_of(place) - before:.1f} MB, installed in {time.perf_counter() - begin:.1f} s", flush=True
    )
    return python


def size_of(place: Path) -> float:
    return sum(path.stat().st_size for path in place.rglob("*") if path.is_file() and not path.is_symlink()) / 1e6


def run(python: Path, *words: str, directory: Path, code: int = 0) -> str:
    clean = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    done = subprocess.run([python, *words], cwd=directory, env=clean, capture_output=True, text=True, check=False)
    if done.returncode != code:
        sys.exit(f"{words} ended with {done.returncode}:\n{done.stdout}{done.stderr}")
    print(done.stdout if code == 0 and "-c" in words else "", end="")
    return done.stdout + done.stderr


if __name__ == "__main__":
    main()
