"""Users over real sockets: files, directives, names of commands, and redis-py."""

from pathlib import Path

import pytest
import redis

from support.server_process import ServerProcess, run_to_its_end


def write(path: Path, *lines: str) -> Path:
    path.write_text("".join(line + "\n" for line in lines))
    return path


def user_of(server: ServerProcess, name: str, password: str, protocol: int = 2) -> redis.Redis:
    return redis.Redis(port=server.port, username=name, password=password, protocol=protocol, decode_responses=True)


def test_redis_py_is_a_user(tmp_path: Path) -> None:
    with ServerProcess(tmp_path) as server, server.client() as admin:
        admin.acl_setuser(
            "alice", enabled=True, passwords=["+secret"], keys=["a*"], commands=["+get", "+set", "+@stream"]
        )
        for protocol in (2, 3):
            with user_of(server, "alice", "secret", protocol) as alice:
                assert alice.set("a1", "v")
                with pytest.raises(redis.exceptions.NoPermissionError, match="No permissions to access a key"):
                    alice.get("b1")
                with pytest.raises(redis.exceptions.NoPermissionError, match="no permissions to run the 'del' command"):
                    alice.delete("a1")
        with (
            user_of(server, "alice", "wrong") as stranger,
            pytest.raises(redis.exceptions.AuthenticationError),
        ):
            stranger.ping()
        assert admin.acl_getuser("alice")["keys"] == ["~a*"]
        assert admin.acl_users() == ["alice", "default"]
        assert admin.acl_log()[0]["username"] == "alice"
        assert admin.acl_dryrun("alice", "get", "a1") == "OK"
        assert admin.acl_deluser("alice") == 1


def test_a_guesser_waits_and_the_server_does_not(tmp_path: Path) -> None:
    with ServerProcess(tmp_path, "--requirepass", "secret") as server, server.raw() as guesser, server.raw() as honest:
        assert honest.run("AUTH", "secret") == b"+OK\r\n"
        guesser.send(*[[b"AUTH", b"guess"]] * 10, [b"AUTH", b"secret"], [b"PING"])
        for _ in range(8):
            assert guesser.reply().startswith(b"-WRONGPASS")
        assert honest.run("PING") == b"+PONG\r\n"
        for _ in range(2):
            assert guesser.reply().startswith(b"-WRONGPASS")
        assert guesser.reply() == b"+OK\r\n"
        assert guesser.reply() == b"+PONG\r\n"


def test_an_acl_file_is_loaded_saved_and_refused_whole(tmp_path: Path) -> None:
    path = write(
        tmp_path / "users.acl", "# who may what", "", "user alice on >pw ~a* +get", "user default on >admin ~* &* +@all"
    )
    with ServerProcess(tmp_path, "--aclfile", str(path)) as server:
        with user_of(server, "alice", "pw") as alice:
            assert alice.get("a") is None
        with user_of(server, "default", "admin") as admin:
            admin.acl_setuser("bob", enabled=True, nopass=True, commands=["+ping"])
            assert admin.acl_save()
            saved = path.read_text()
            assert "user bob on nopass sanitize-payload resetchannels -@all +ping\n" in saved
            assert "pw" not in saved
            write(path, "user carol on nopass +@all", "user dan +nosuch")
            with pytest.raises(redis.ResponseError, match=r"users.acl:2: .*Unknown command or category name in ACL"):
                admin.acl_load()
            assert admin.acl_users() == ["alice", "bob", "default"]
            write(path, "user default on >admin ~* &* +@all", "user bob on nopass +ping")
            bob = server.raw()
            with bob as client:
                client.run("AUTH", "bob", "x")
                write(path, "user default on >admin ~* &* +@all")
                assert admin.acl_load()
                assert admin.acl_users() == ["default"]
                with pytest.raises(ConnectionError):
                    client.run("PING")


def test_users_of_a_redis_conf_are_there_from_the_start_and_written_back(tmp_path: Path) -> None:
    conf = write(
        tmp_path / "redis.conf",
        "requirepass admin",
        "user alice on >pw ~a* +get (~b* +set)",
        'rename-command FLUSHALL ""',
        "rename-command CONFIG hidden-config",
    )
    with ServerProcess(tmp_path, str(conf)) as server, server.raw() as client:
        assert client.run("GET", "a") == b"-NOAUTH Authentication required.\r\n"
        assert client.run("AUTH", "alice", "pw") == b"+OK\r\n"
        assert client.run("GET", "a") == b"$-1\r\n"
        assert client.run("SET", "b", "v") == b"+OK\r\n"
        assert client.run("AUTH", "admin") == b"+OK\r\n"
        assert client.run("FLUSHALL").startswith(b"-ERR unknown command 'FLUSHALL'")
        assert client.run("CONFIG", "GET", "port").startswith(b"-ERR unknown command 'CONFIG'")
        assert client.run("hidden-CONFIG", "GET", "timeout") == b"*2\r\n$7\r\ntimeout\r\n$1\r\n0\r\n"
        assert client.run("ACL", "SETUSER", "bob", "+config|get") == b"+OK\r\n"
        assert client.run("HIDDEN-CONFIG", "REWRITE") == b"+OK\r\n"
    text = conf.read_text()
    assert "user alice on sanitize-payload #" in text
    assert "user bob off sanitize-payload resetchannels -@all +config|get\n" in text
    assert "user default on sanitize-payload #" in text
    with ServerProcess(tmp_path, str(conf)) as server, server.raw() as client:
        assert client.run("AUTH", "alice", "pw") == b"+OK\r\n"
        assert client.run("AUTH", "admin") == b"+OK\r\n"
        assert client.run("ACL", "USERS") == b"*3\r\n$5\r\nalice\r\n$3\r\nbob\r\n$7\r\ndefault\r\n"


@pytest.mark.parametrize(
    ("lines", "why"),
    [
        (["user alice +nosuch"], "Unknown command or category name in ACL"),
        (["user alice on", "user alice off"], "Duplicate user 'alice'"),
        (["user alice on", "aclfile users.acl"], "both in the configuration and in an aclfile"),
        (["aclfile missing.acl"], "opening file 'missing.acl': No such file or directory"),
        (["rename-command nosuch x"], "there is no such command"),
        (["rename-command get set"], "there is a command of the new name"),
        (["user"], "user"),
    ],
)
def test_what_is_wrong_with_users_is_one_sentence(tmp_path: Path, lines: list[str], why: str) -> None:
    conf = write(tmp_path / "redis.conf", *lines)
    ended = run_to_its_end("serve", str(conf), "--port", "0", "--unixsocket", "s", directory=tmp_path)
    assert ended.returncode != 0
    said = (ended.stdout + ended.stderr).decode()
    assert why in said
    assert "Traceback" not in said
    assert len(said.strip().splitlines()) == 1
