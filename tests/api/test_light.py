"""What `pip install headrace` brings is enough for a library; what needs more says so in one sentence."""

import subprocess
import sys
from pathlib import Path

# As in an environment without the extras: nothing of them can be found.
WITHOUT_EXTRAS = """
import sys
class Nothing:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in "greenlet lupa redis rich typer uvloop pyarrow pandas pyspark".split():
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
sys.meta_path.insert(0, Nothing())
"""

LIBRARY = (
    WITHOUT_EXTRAS
    + """
import headrace
assert "asyncio" not in sys.modules and "headrace.api.stream" not in sys.modules  # `import headrace` costs nothing
with headrace.open(sys.argv[1]) as db:
    db.stream("s").add(n=1)
    for act in (db.redis, db.aredis, lambda: db.execute("EVAL", "return 1", 0), db.stream("s").to_arrow):
        try:
            act()
        except headrace.HeadraceError as error:
            print(error)
"""
)

SERVED = (
    WITHOUT_EXTRAS
    + """
import subprocess, time, headrace
from headrace.cli.main import main
if sys.argv[1] == "serve":
    main()
options = ["--port", "0", "--unixsocket", "s", "--appendonly", "no"]
process = subprocess.Popen([sys.executable, "-c", sys.argv[2], "serve", *options])
try:
    while True:
        try:
            db = headrace.connect("unix://s")
            break
        except headrace.CannotConnect:
            assert process.poll() is None
            time.sleep(0.02)
    db.stream("s").add(n=1)
    print(len(db.stream("s")))
finally:
    process.kill()
    process.wait()
"""
)

COMMAND = WITHOUT_EXTRAS + "from headrace.cli.main import main; main()"


def run(program: str, *words: str, directory: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", program, *words]
    return subprocess.run(command, cwd=directory, capture_output=True, text=True, check=False)


def test_a_library_works_without_the_extras_and_names_those_that_it_lacks(tmp_path: Path) -> None:
    done = run(LIBRARY, str(tmp_path / "data"), directory=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    one, two, three, four = done.stdout.splitlines()
    assert one == "redis() needs redis-py, which is not installed: pip install 'headrace[redis]'"
    assert two == "aredis() needs redis-py, which is not installed: pip install 'headrace[redis]'"
    assert "pip install 'headrace[lua]'" in three
    assert four == "to_arrow() needs pyarrow, which is not installed: pip install pyarrow"


def test_a_server_works_without_them_and_other_commands_say_what_they_need(tmp_path: Path) -> None:
    done = run(SERVED, "connect", SERVED, directory=tmp_path)
    assert (done.returncode, done.stdout.splitlines()[-1:]) == (0, ["1"]), done.stderr
    refused = run(COMMAND, "top", directory=tmp_path)
    assert (refused.returncode, refused.stdout) == (1, "")
    assert refused.stderr == (
        "headrace: This command needs typer, which is not installed: pip install 'headrace[cli]' brings it.\n"
    )
