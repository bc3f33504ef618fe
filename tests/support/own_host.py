"""The host of a database that is open in this process."""

from headrace import Database
from headrace.embedded.host import Host
from headrace.embedded.local_client import LocalClient


def host_of(db: Database) -> Host:
    runner = db._runner
    assert isinstance(runner, LocalClient)
    return runner.host
