"""What the tests of the jobs share: an empty server, its url, and no state of the user's."""

from pathlib import Path

import pytest
import redis

from support.spark.frames import url_of


def pytest_pycollect_makemodule() -> None:
    """Skip the directory where there is no pyspark; with one, pytest goes on by itself."""
    pytest.importorskip("pyspark", reason="there is no pyspark: pip install 'headrace[spark]' brings it")


@pytest.fixture
def url(headrace_server: redis.Redis) -> str:
    """The url of an empty Headrace server."""
    return url_of(headrace_server)


@pytest.fixture(params=["headrace", "redis"])
def server(request: pytest.FixtureRequest) -> redis.Redis:
    """A client of an empty server: ours, then the original."""
    client: redis.Redis = request.getfixturevalue(f"{request.param}_server")
    return client


@pytest.fixture(autouse=True)
def _own_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
