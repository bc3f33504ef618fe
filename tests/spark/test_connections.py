"""The option url: TLS, unix sockets, users, several servers, a cluster; and one sentence for each that is wrong."""

import shutil
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import redis
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import types as t

from headrace.spark.errors import BadOption
from headrace.spark.options import read_options
from headrace.spark.servers import Server
from headrace.spark.stream_reader import StreamStreamReader
from headrace.spark.transport import XRangeTransport
from support.ports import free_port
from support.server_process import ServerProcess
from support.spark.frames import rows, sentence, url_of
from support.starting import wait_for

PASSWORD = "a b:c/d@e"  # noqa: S105
QUOTED = "a%20b%3Ac%2Fd%40e"


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with a certificate for 127.0.0.1, signed by itself, and its key."""
    if shutil.which("openssl") is None:
        pytest.skip("there is no openssl to make a certificate")
    directory = tmp_path_factory.mktemp("certificate")
    command = (
        "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj /CN=here "
        "-addext subjectAltName=IP:127.0.0.1 -keyout key.pem -out cert.pem"
    )
    subprocess.run(command.split(), cwd=directory, check=True, capture_output=True)
    return directory


class Guarded(ServerProcess):
    """A server that speaks TLS on one port, listens on a socket, and wants a password."""

    def __init__(self, directory: Path, certificate: Path) -> None:
        self.tls_port = free_port()
        self.socket = directory / "socket"
        self.certificate = certificate / "cert.pem"
        super().__init__(
            directory,
            *("--tls-port", str(self.tls_port), "--tls-auth-clients", "no", "--unixsocket", str(self.socket)),
            *("--tls-cert-file", str(self.certificate), "--tls-key-file", str(certificate / "key.pem")),
            *("--tls-ca-cert-file", str(self.certificate), "--requirepass", PASSWORD),
        )


@pytest.fixture
def guarded(tmp_path: Path, certificate: Path) -> Iterator[Guarded]:
    with Guarded(tmp_path, certificate) as server:
        yield server


def copy(spark: SparkSession, url: str, keys: str = "in") -> DataFrame:
    """Read, and write what was read beside it."""
    frame = spark.read.format("headrace").options(url=url, keys=keys).schema("_key string, n int").load()
    sink = frame.selectExpr("concat('copy of ', _key) AS out", "n").write.format("headrace").mode("append")
    sink.options(url=url, keyColumn="out").save()
    return spark.read.format("headrace").options(url=url, keys="copy of *").schema("_key string, n int").load()


def test_tls_and_a_unix_socket_with_a_password(spark: SparkSession, guarded: Guarded) -> None:
    client = redis.Redis(port=guarded.port, password=PASSWORD)
    client.xadd("in", {"n": 7})
    urls = [
        f"rediss://:{QUOTED}@127.0.0.1:{guarded.tls_port}/0?ssl_ca_certs={guarded.certificate}",
        f"unix://:{QUOTED}@{guarded.socket}",
    ]
    for count, url in enumerate(urls, 1):
        assert rows(copy(spark, url)) == [("copy of in", 7)] * count
    client.close()


def test_what_can_be_wrong_with_a_url_is_one_sentence(spark: SparkSession, guarded: Guarded, tmp_path: Path) -> None:
    tls = f"127.0.0.1:{guarded.tls_port}"
    wrong = {
        f"rediss://:{QUOTED}@{tls}": (
            f"option 'url' is 'rediss://:***@{tls}': the server does not answer: ",
            "certificate verify failed",
        ),
        f"redis://:{QUOTED}@{tls}": (
            f"option 'url' is 'redis://:***@{tls}': the server does not answer: ",
            "",
        ),
        f"rediss://:{QUOTED}@127.0.0.1:{guarded.port}?socket_timeout=1": (
            f"option 'url' is 'rediss://:***@127.0.0.1:{guarded.port}?socket_timeout=1': the server does not answer: ",
            "",
        ),
        f"unix://:guess@{guarded.socket}": (
            f"option 'url' is 'unix://:***@{guarded.socket}': the server refuses: ",
            "check the user and the password in the url",
        ),
        f"redis://127.0.0.1:{guarded.port}": (
            f"option 'url' is 'redis://127.0.0.1:{guarded.port}': the server refuses: ",
            "check the user and the password in the url",
        ),
        f"unix://{tmp_path}/nowhere": (
            f"option 'url' is 'unix://{tmp_path}/nowhere': the server does not answer: ",
            "No such file",
        ),
        f"redis://:{QUOTED}@127.0.0.1:{guarded.port}/x?socket_timeout=soon": (
            f"option 'url' is 'redis://:***@127.0.0.1:{guarded.port}/x?socket_timeout=soon': cannot be understood: ",
            "socket_timeout",
        ),
        f"redis://:{QUOTED}@127.0.0.1:{guarded.port}/99": (
            f"option 'url' is 'redis://:***@127.0.0.1:{guarded.port}/99': the server answers: ",
            "DB index is out of range",
        ),
    }
    for place, (url, (beginning, also)) in enumerate(wrong.items()):
        with pytest.raises(PySparkException) as refused:
            (write_once if place % 2 else read_once)(spark, url)
        said = sentence(refused.value)
        assert said.startswith(beginning), url
        assert also in said
        assert QUOTED not in str(refused.value)
        assert PASSWORD not in str(refused.value)


def read_once(spark: SparkSession, url: str) -> None:
    spark.read.format("headrace").options(url=url, keys="in").load().count()


def write_once(spark: SparkSession, url: str) -> None:
    spark.range(1).write.format("headrace").mode("append").options(url=url, key="out", retryTimeout=0).save()


def test_one_server_of_several_that_is_away_is_named(spark: SparkSession, headrace_server: redis.Redis) -> None:
    with pytest.raises(PySparkException) as refused:
        read_once(spark, f"{url_of(headrace_server)},redis://127.0.0.1:1")
    assert sentence(refused.value).startswith("option 'url' is 'redis://127.0.0.1:1': the server does not answer")


def test_a_user_who_may_not_is_told_what(spark: SparkSession, server: redis.Redis) -> None:
    server.xadd("in", {"n": 1})
    server.acl_setuser("reader", enabled=True, passwords=["+p"], keys=["other"], commands=["+@all"], reset=True)
    try:
        url = url_of(server).replace("//", "//reader:p@")
        with pytest.raises(PySparkException) as refused:
            read_once(spark, url)
        said = sentence(refused.value)
        assert said.startswith(f"option 'url' is '{url.replace(':p@', ':***@')}': the server refuses: ")
        assert "(key 'in')" in said
    finally:
        server.acl_deluser("reader")


def test_a_user_who_may_only_read_reads(spark: SparkSession, server: redis.Redis) -> None:
    server.xadd("in", {"n": 1})
    server.acl_setuser("reader", enabled=True, passwords=["+p"], keys=["*"], commands=["+@read"], reset=True)
    try:
        url = url_of(server).replace("//", "//reader:p@")
        frame = spark.read.format("headrace").options(url=url, keys="i*").schema("n int").load()
        assert rows(frame) == [(1,)]
    finally:
        server.acl_deluser("reader")


class OldServer(Server):
    """Answers as Redis 6.2 does, of which there is none to run."""

    def read_all(self, _: object) -> list[object]:
        return [[b"length", 1, b"last-generated-id", b"1-0", b"first-entry", [b"1-0", [b"n", b"1"]]]]


def test_a_server_before_redis_7_is_refused_in_a_sentence() -> None:
    with pytest.raises(BadOption) as refused:
        XRangeTransport(OldServer("redis://127.0.0.1:1", 0)).describe([b"s"])
    assert str(refused.value).startswith("option 'url' is 'redis://127.0.0.1:1': the server is older than Redis 7.0")


# --- Redis Cluster ---------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[redis.RedisCluster]:
    """Three nodes of redis-server, each with a third of the slots."""
    binary = shutil.which("redis-server")
    if binary is None:
        pytest.skip("there is no redis-server to make a cluster of")
    nodes: list[tuple[subprocess.Popen[bytes], redis.Redis, int]] = []
    try:
        for _ in range(3):
            port, bus = free_port(), free_port()
            command = [binary, "--port", str(port), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no"]
            command += ["--cluster-enabled", "yes", "--cluster-port", str(bus)]
            directory = tmp_path_factory.mktemp("node")
            process = subprocess.Popen(command, cwd=directory, stdout=subprocess.DEVNULL)
            client = redis.Redis(port=port, protocol=2)
            nodes.append((process, client, bus))
            wait_for(process, client)
        bounds = [0, 5461, 10923, 16384]
        for place, (_, client, _) in enumerate(nodes):
            client.execute_command("CLUSTER", "ADDSLOTSRANGE", bounds[place], bounds[place + 1] - 1)
            for _, other, bus in nodes[:place]:
                port = other.connection_pool.connection_kwargs["port"]
                client.execute_command("CLUSTER", "MEET", "127.0.0.1", port, bus)
        for _, client, _ in nodes:
            await_cluster(client)
        whole = redis.RedisCluster(
            host="127.0.0.1", port=nodes[0][1].connection_pool.connection_kwargs["port"], protocol=2
        )
        yield whole
        whole.close()
    finally:
        for process, client, _ in nodes:
            client.close()
            process.kill()
            process.wait(10)


def await_cluster(client: redis.Redis) -> None:
    for _ in range(600):
        state = client.execute_command("CLUSTER", "INFO")
        if b"cluster_state:ok" in state and b"cluster_known_nodes:3" in state:
            return
        time.sleep(0.1)
    pytest.fail("the nodes do not become a cluster")


def cluster_url(cluster: redis.RedisCluster) -> str:
    return f"redis://127.0.0.1:{cluster.get_default_node().port}"


def test_a_cluster_is_read_and_written_whichever_node_has_the_key(
    spark: SparkSession, cluster: redis.RedisCluster
) -> None:
    cluster.flushall(target_nodes=redis.RedisCluster.PRIMARIES)
    keys = [f"in{number}" for number in range(12)]
    assert len({cluster.get_node_from_key(key).port for key in keys}) == 3
    for number, key in enumerate(keys):
        cluster.xadd(key, {"n": number})
    expected = [(f"copy of {key}", number) for number, key in enumerate(keys)]
    assert sorted(rows(copy(spark, cluster_url(cluster), "in*"))) == sorted(expected)
    assert cluster.xlen("copy of in7") == 1


def test_a_query_follows_streams_on_every_node_of_a_cluster(cluster: redis.RedisCluster) -> None:
    cluster.flushall(target_nodes=redis.RedisCluster.PRIMARIES)
    options = {"url": cluster_url(cluster), "keys": "in*", "startingId": "earliest", "group": "g"}
    reader = StreamStreamReader(t.StructType().add("_key", t.StringType()), read_options(options, streaming=True))
    start = reader.initialOffset()
    found: list[str] = []
    for step in range(1, 4):
        for number in range(12):
            cluster.xadd(f"in{number}", {"n": step}, id=f"{step}-0")
        reader._looked_around = float("inf") if step == 3 else float("-inf")
        end = reader.latestOffset(start, reader.getDefaultReadLimit())
        for partition in reader.partitions(start, end):
            found += [key for batch in reader.read(partition) for key in batch.column(0).to_pylist()]
        reader.commit(end)
        start = end
    assert sorted(found) == sorted(f"in{number}" for number in range(12) for _ in range(3))
    assert [cluster.xinfo_groups(f"in{number}")[0]["lag"] for number in range(12)] == [0] * 12
