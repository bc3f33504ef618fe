"""CLIENT TRACKING tells what a live redis-server tells, of the same keys and in the same order."""

import re

import pytest
import redis
from redis.cache import CacheConfig

from support.patience import await_that
from support.raw_client import RawClient, port_of

# Each step is a connection and its request: r reads and is tracked, w writes, o may get the messages for another.
Step = tuple[str, str]
SESSIONS: dict[str, list[Step]] = {
    "a key that was read": [
        ("r", "CLIENT TRACKING ON"),
        ("r", "GET a"),
        ("w", "SET a 1"),
        ("w", "SET a 2"),
        ("r", "PING"),
    ],
    "its own change": [("r", "CLIENT TRACKING ON"), ("r", "GET a"), ("r", "SET a 1"), ("r", "PING")],
    "its own change, which it does not want to hear of": [
        ("r", "CLIENT TRACKING ON NOLOOP"),
        ("r", "GET a"),
        ("r", "SET a 1"),
        ("r", "GET a"),
        ("w", "DEL a"),
        ("r", "PING"),
    ],
    "several keys": [
        ("r", "CLIENT TRACKING ON"),
        ("r", "MGET a b c"),
        ("w", "MSET a 1 b 2 d 3"),
        ("w", "DEL c"),
        ("w", "LPUSH c 1"),
        ("r", "LRANGE c 0 -1"),
        ("w", "RENAME c e"),
        ("r", "PING"),
    ],
    "opting in": [
        ("r", "CLIENT TRACKING ON OPTIN"),
        ("r", "GET a"),
        ("r", "CLIENT CACHING YES"),
        ("r", "CLIENT TRACKINGINFO"),
        ("r", "GET b"),
        ("r", "GET c"),
        ("w", "MSET a 1 b 1 c 1"),
        ("r", "PING"),
        ("r", "CLIENT CACHING NO"),
    ],
    "opting out": [
        ("r", "CLIENT TRACKING ON OPTOUT"),
        ("r", "GET a"),
        ("r", "CLIENT CACHING NO"),
        ("r", "CLIENT TRACKINGINFO"),
        ("r", "GET b"),
        ("r", "GET c"),
        ("w", "MSET a 1 b 1 c 1"),
        ("r", "PING"),
        ("r", "CLIENT CACHING YES"),
    ],
    "caching for a transaction": [
        ("r", "CLIENT TRACKING ON OPTIN"),
        ("r", "CLIENT CACHING YES"),
        ("r", "MULTI"),
        ("r", "GET a"),
        ("r", "GET b"),
        ("r", "EXEC"),
        ("r", "GET c"),
        ("w", "MSET a 1 b 1 c 1"),
        ("r", "PING"),
    ],
    "a transaction and a script that write": [
        ("r", "CLIENT TRACKING ON"),
        ("r", "MGET a b"),
        ("w", "MULTI"),
        ("w", "SET a 1"),
        ("w", "EXEC"),
        ("w", "EVAL redis.call('set',KEYS[1],'1') 1 b"),
        ("r", "PING"),
    ],
    "a script that reads": [
        ("r", "CLIENT TRACKING ON"),
        ("r", "EVAL return(redis.call('get',KEYS[1])) 1 a"),
        ("w", "SET a 1"),
        ("r", "PING"),
    ],
    "what is flushed": [
        ("r", "CLIENT TRACKING ON"),
        ("r", "GET a"),
        ("w", "FLUSHALL"),
        ("r", "PING"),
        ("r", "FLUSHDB"),
        ("r", "PING"),
    ],
    "all keys": [
        ("r", "CLIENT TRACKING ON BCAST"),
        ("w", "SET z 1"),
        ("r", "PING"),
        ("w", "MSET b 1 a 1"),
        ("r", "PING"),
        ("r", "SET own 1"),
        ("r", "PING"),
    ],
    "prefixes": [
        ("r", "CLIENT TRACKING ON BCAST PREFIX user: PREFIX app: NOLOOP"),
        ("w", "MSET user:1 1 app:1 1 other 1"),
        ("r", "PING"),
        ("r", "SET user:2 1"),
        ("r", "PING"),
        ("r", "CLIENT TRACKINGINFO"),
        ("w", "DEL user:1"),
        ("r", "PING"),
    ],
    "told elsewhere": [
        ("r", "CLIENT TRACKING ON REDIRECT $o"),
        ("r", "CLIENT GETREDIR"),
        ("r", "GET a"),
        ("w", "SET a 1"),
        ("o", "PING"),
        ("r", "PING"),
    ],
    "reset": [
        ("r", "CLIENT TRACKING ON"),
        ("r", "GET a"),
        ("r", "RESET"),
        ("r", "CLIENT TRACKINGINFO"),
        ("w", "SET a 1"),
        ("r", "PING"),
    ],
    "an empty list and a key that is moved on": [
        ("w", "RPUSH q 1"),
        ("r", "CLIENT TRACKING ON"),
        ("r", "LLEN q"),
        ("w", "LPOP q"),
        ("r", "LLEN q"),
        ("w", "XADD q * f v"),
        ("r", "XLEN q"),
        ("w", "EXPIRE q 100"),
        ("r", "PING"),
    ],
    "off": [
        ("r", "CLIENT TRACKING ON"),
        ("r", "GET a"),
        ("r", "CLIENT TRACKING OFF"),
        ("w", "SET a 1"),
        ("r", "PING"),
        ("r", "CLIENT GETREDIR"),
    ],
}

REFUSED = (
    "CLIENT TRACKING",
    "CLIENT TRACKING MAYBE",
    "CLIENT TRACKING ON PREFIX a",
    "CLIENT TRACKING ON BCAST OPTIN",
    "CLIENT TRACKING ON OPTIN OPTOUT",
    "CLIENT TRACKING ON REDIRECT x",
    "CLIENT TRACKING ON REDIRECT 123456789",
    "CLIENT TRACKING ON BCAST PREFIX ab PREFIX a",
    "CLIENT TRACKING ON NONSENSE",
    "CLIENT CACHING YES",
    "CLIENT TRACKINGINFO",
    "CLIENT TRACKING ON BCAST PREFIX ab",
    "CLIENT TRACKING ON BCAST PREFIX abc",
    "CLIENT TRACKING ON",
    "CLIENT TRACKING ON BCAST PREFIX x",
    "CLIENT TRACKINGINFO",
    "CLIENT TRACKING OFF",
    "CLIENT TRACKING ON OPTIN",
    "CLIENT TRACKING ON OPTOUT",
    "CLIENT CACHING NO",
    "CLIENT CACHING MAYBE",
    "CLIENT TRACKING OFF",
    "CLIENT TRACKINGINFO",
    "CLIENT TRACKING ON NOLOOP",
    "CLIENT TRACKINGINFO",
)


def told(server: redis.Redis, steps: list[Step]) -> list[tuple[str, bytes]]:
    """Everything that each connection of a session was sent, up to the reply of its last request."""
    server.flushall()
    clients = {name: RawClient.of(server, 3) for name in "rwo"}
    try:
        ids = {f"${name}": client.run("CLIENT", "ID")[1:-2].decode() for name, client in clients.items()}
        heard: list[tuple[str, bytes]] = []
        for name, words in steps:
            client = clients[name]
            client.send_words(*(ids.get(word, word) for word in words.split()))
            while True:
                reply = client.reply()
                for known, number in ids.items():
                    reply = reply.replace(f":{number}\r\n".encode(), known.encode())
                heard.append((name, re.sub(rb"\d{13}-0", b"ID", reply)))
                if not reply.startswith(b">"):
                    break
            if name == "w" and any("BCAST" in each for _, each in steps):
                clients["w"].run("PING")  # lets the turn of the event loop end
        return heard
    finally:
        for client in clients.values():
            client.close()


def by_client(heard: list[tuple[str, bytes]]) -> dict[str, list[bytes]]:
    found: dict[str, list[bytes]] = {}
    for name, reply in heard:
        found.setdefault(name, []).append(reply)
    return found


@pytest.mark.parametrize("session", SESSIONS)
def test_a_session_is_told_what_redis_tells(
    session: str, headrace_server: redis.Redis, redis_server: redis.Redis
) -> None:
    ours, theirs = (by_client(told(server, SESSIONS[session])) for server in (headrace_server, redis_server))
    assert ours == theirs


def test_what_does_not_go_together_is_refused_alike(headrace_server: redis.Redis, redis_server: redis.Redis) -> None:
    answers = []
    for server in (headrace_server, redis_server):
        with RawClient.of(server, 3) as client:
            answers.append([client.run(*request.split()) for request in REFUSED])
    assert answers[0] == answers[1]


def test_a_listener_of_resp2_is_told_by_the_channel(headrace_server: redis.Redis, redis_server: redis.Redis) -> None:
    answers = []
    for server in (headrace_server, redis_server):
        server.flushall()
        with RawClient.of(server) as reader, RawClient.of(server) as listener, RawClient.of(server) as writer:
            number = listener.run("CLIENT", "ID")[1:-2].decode()
            replies = [listener.run("SUBSCRIBE", "__redis__:invalidate")]
            replies.append(reader.run("CLIENT", "TRACKING", "ON", "REDIRECT", number))
            reader.run("GET", "a")
            writer.run("SET", "a", 1)
            replies.append(listener.reply())
            writer.run("FLUSHALL")
            replies.append(listener.reply())
            info = re.search(rb"flags=(\w+) ", reader.run("CLIENT", "INFO"))
            assert info is not None
            replies.append(info[1])
        answers.append(replies)
    assert answers[0] == answers[1]


def test_keys_that_expire_and_those_beyond_the_limit_are_told_of(headrace_server: redis.Redis) -> None:
    with RawClient.of(headrace_server, 3) as reader, RawClient.of(headrace_server) as writer:
        reader.run("CLIENT", "TRACKING", "ON")
        writer.run("SET", "a", 1, "PX", 20)
        reader.run("GET", "a")
        assert reader.reply() == b">2\r\n$10\r\ninvalidate\r\n*1\r\n$1\r\na\r\n"
        headrace_server.config_set("tracking-table-max-keys", 2)
        reader.run("MGET", "a", "b", "c", "d")
        heard = {reader.reply() for _ in range(2)}
        assert heard <= {b">2\r\n$10\r\ninvalidate\r\n*1\r\n$1\r\n%c\r\n" % key for key in b"abcd"}
        assert headrace_server.info("stats")["tracking_total_keys"] == 2
        assert headrace_server.info("clients")["tracking_clients"] == 1


def test_a_script_is_remembered_for_what_it_reads_not_for_what_it_names(headrace_server: redis.Redis) -> None:
    """As Redis does from 7.2 on; 7.0 remembers what is named."""
    with RawClient.of(headrace_server, 3) as reader, RawClient.of(headrace_server) as writer:
        reader.run("CLIENT", "TRACKING", "ON")
        reader.run("EVAL_RO", "return redis.call('GET', 'read')", 1, "named")
        writer.run("MSET", "named", 1, "read", 1)
        assert reader.reply() == b">2\r\n$10\r\ninvalidate\r\n*1\r\n$4\r\nread\r\n"


def test_the_cache_of_redis_py_stays_true(headrace_server: redis.Redis) -> None:
    port = port_of(headrace_server)
    with redis.Redis(port=port, protocol=3, cache_config=CacheConfig(), decode_responses=True) as cached:
        headrace_server.set("a", 1)
        assert cached.get("a") == "1"
        cache = cached.get_cache()
        assert cache is not None
        assert cache.size == 1
        assert cached.get("a") == "1"
        headrace_server.set("a", 2)
        await_that(lambda: cached.get("a") == "2")
        headrace_server.flushall()
        await_that(lambda: cached.get("a") is None)
