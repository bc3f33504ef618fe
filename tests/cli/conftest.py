"""Every command that talks to a server is tested with Headrace and with a real redis-server."""

import pytest
import redis


@pytest.fixture(params=["headrace", "redis"])
def server(request: pytest.FixtureRequest) -> redis.Redis:
    client: redis.Redis = request.getfixturevalue(f"{request.param}_server")
    return client
