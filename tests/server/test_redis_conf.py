"""redis.conf and the command line: what redis-server accepts is accepted, the rest named with its file and line."""

import os
from pathlib import Path

import pytest
import redis

from headrace.engine.configuration.config import Config
from headrace.server.redis_conf import BadConfiguration, load, read_command_line, rewrite_file, rewritten
from support.server_process import ServerProcess, run_to_its_end


def loaded(tmp_path: Path, text: str, *flags: str) -> Config:
    path = tmp_path / "redis.conf"
    path.write_text(text)
    config = Config()
    assert load(config, [str(path), *flags]) == path
    return config


# --- reading -------------------------------------------------------------------------------------------------------


def test_a_file_has_comments_quotes_and_names_in_any_case(tmp_path: Path) -> None:
    config = loaded(
        tmp_path,
        "# a comment that isn't closed\n\n  PORT 7000  \r\n\tloglevel 'debug'\nmaxmemory 2gb\n"
        'requirepass "a b\\x21\\n"\n',
    )
    assert (config["port"], config["loglevel"], config["maxmemory"]) == (7000, "debug", 2 << 30)
    assert config["requirepass"] == b"a b!\n"


def test_bytes_that_are_no_text_are_kept(tmp_path: Path) -> None:
    path = tmp_path / "redis.conf"
    path.write_bytes(b'requirepass "\\xff\\x00"\nlogfile "caf\xe9"\n')
    config = Config()
    load(config, [str(path)])
    assert config["requirepass"] == b"\xff\x00"
    assert os.fsencode(config["logfile"]) == b"caf\xe9"


def test_repeated_output_limits_each_change_their_class(tmp_path: Path) -> None:
    config = loaded(
        tmp_path, "client-output-buffer-limit normal 1mb 2kb 3\nclient-output-buffer-limit replica 4 5 6\nsave ''\n"
    )
    assert config.shown(["client-output-buffer-limit"]) == {
        "client-output-buffer-limit": "normal 1048576 2048 3 slave 4 5 6 pubsub 33554432 8388608 60"
    }


def test_save_points_add_up_line_by_line_until_an_empty_one(tmp_path: Path) -> None:
    text = "save 900 1\nsave 300 10 60 10000\n"
    assert loaded(tmp_path, text).shown(["save"]) == {"save": "900 1 300 10 60 10000"}
    assert loaded(tmp_path, text, "--save", "", "--save", "5 1").shown(["save"]) == {"save": "5 1"}


def test_includes_are_read_in_place_and_a_pattern_may_match_nothing(tmp_path: Path) -> None:
    (tmp_path / "one.inc").write_text("port 1\ntimeout 1\n")
    (tmp_path / "two.inc").write_text("timeout 2\n")
    config = loaded(tmp_path, f"include {tmp_path}/*.inc\ninclude {tmp_path}/*.none\nport 3\n")
    assert (config["port"], config["timeout"]) == (3, 2)


def test_a_file_may_be_included_by_a_flag(tmp_path: Path) -> None:
    (tmp_path / "more.inc").write_text("timeout 9\nhz 20\n")
    config = loaded(tmp_path, "timeout 1\n", "--include", f"{tmp_path}/more.inc", "--hz", "30")
    assert (config["timeout"], config["hz"]) == (9, 30)


def test_flags_come_after_the_file(tmp_path: Path) -> None:
    config = loaded(tmp_path, "port 1\ntimeout 1\n", "--port", "2", "--bind", "127.0.0.1", "-::1")
    assert (config["port"], config["timeout"], config["bind"]) == (2, 1, ("127.0.0.1", "-::1"))


@pytest.mark.parametrize(
    ("arguments", "directives"),
    [
        (["--port", "7000", "--save", ""], ["port 7000", "save "]),
        (["--save", "--port", "7000"], ["save ", "port 7000"]),
        (["--port", "7000", "--save"], ["port 7000", "save "]),
        (["--port 7000", "--hz", "5"], ["port 7000", "hz 5"]),
        (["--requirepass", "--secret", "--hz", "5"], ["requirepass --secret", "hz 5"]),
        (["--bind", "127.0.0.1", "-::1"], ["bind 127.0.0.1 -::1"]),
    ],
)
def test_flags_are_cut_as_redis_server_cuts_them(arguments: list[str], directives: list[str]) -> None:
    assert [directive.shown for directive in read_command_line(arguments).directives] == directives


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("port 1\n# c\nfoo bar\n", "There is no setting 'foo', named in line 3 of {path}."),
        ('port "1\n', 'Unbalanced quotes in line 1 of {path}: port "1'),
        ("\nport abc", "The setting 'port abc' in line 2 of {path} is refused: argument couldn't be parsed"),
        ("port\n", "The setting 'port' in line 1 of {path} is refused: wrong number of arguments."),
        ("port 1 2\n", "The setting 'port 1 2' in line 1 of {path} is refused: wrong number of arguments."),
        ("aof-use-rdb-preamble no\n", "The setting 'aof-use-rdb-preamble no' in line 1 of {path} is refused: Headrace"),
        ("include /nosuch.conf\n", "The configuration file /nosuch.conf cannot be read: No such file or directory."),
        ("include\n", "An include takes one path in line 1 of {path}."),
        ("include {path}\n", "The configuration file {path} is included by itself."),
    ],
)
def test_what_cannot_be_read_is_named_with_file_and_line(tmp_path: Path, text: str, sentence: str) -> None:
    path = tmp_path / "redis.conf"
    with pytest.raises(BadConfiguration) as refusal:
        loaded(tmp_path, text.replace("{path}", str(path)))
    assert str(refusal.value).startswith(sentence.replace("{path}", str(path)))


@pytest.mark.parametrize(
    ("arguments", "stdin", "sentence"),
    [
        (["--nosuch", "1"], b"", "There is no setting 'nosuch', named on the command line."),
        (["--port", "abc"], b"", "The setting 'port abc' on the command line is refused: argument couldn't be"),
        (["nosuch.conf"], b"", "nosuch.conf cannot be read: No such file or directory."),
        (["-"], b"port 1\nnosuch 1\n", "There is no setting 'nosuch', named in line 2 of standard input."),
    ],
)
def test_the_command_says_it_in_one_sentence_and_ends_with_1(
    tmp_path: Path, arguments: list[str], stdin: bytes, sentence: str
) -> None:
    ended = run_to_its_end("serve", *arguments, directory=tmp_path, stdin=stdin)
    assert ended.returncode == 1
    assert ended.stdout == b""
    (line,) = ended.stderr.decode().splitlines()
    assert line.startswith("headrace: ")
    assert sentence in line


# --- writing back --------------------------------------------------------------------------------------------------


def test_rewriting_keeps_comments_order_and_what_it_does_not_know(tmp_path: Path) -> None:
    config = loaded(tmp_path, "")
    config.load("port", ["7001"])
    config.load("maxmemory", ["64mb"])
    config.load("requirepass", ['a "b"'])
    config.load("client-output-buffer-limit", ["normal", "1", "2", "3"])
    text = "# first\nport 7000\n\n# don't\ninclude other.conf\nhz 50\nport 7002\n"
    assert rewritten(text, config) == (
        "# first\nport 7001\n\n# don't\ninclude other.conf\nhz 10\n"
        '# Generated by CONFIG REWRITE\nrequirepass "a \\"b\\""\n'
        "client-output-buffer-limit normal 1 2 3\nmaxmemory 64mb\n"
    )


def test_what_was_rewritten_reads_back_the_same(tmp_path: Path) -> None:
    config = loaded(tmp_path, "port 7000\nsave ''\nbind 127.0.0.1\n", "--requirepass", "\x01é", "--maxmemory", "1500")
    path = tmp_path / "redis.conf"
    rewrite_file(path, config)
    again = Config()
    load(again, [str(path)])
    assert again.shown(["*"]) == config.shown(["*"])
    once = path.read_bytes()
    rewrite_file(path, again)
    assert path.read_bytes() == once


def test_what_an_included_file_sets_is_overruled_by_what_is_in_force(tmp_path: Path) -> None:
    (tmp_path / "more.inc").write_text("hz 50\n")
    text = f"include {tmp_path}/more.inc\n"
    config = loaded(tmp_path, text)
    config.set_many([("hz", "10")])  # the default, which alone would not be written
    rewrite_file(tmp_path / "redis.conf", config)
    assert loaded(tmp_path, (tmp_path / "redis.conf").read_text())["hz"] == 10


def test_a_link_to_the_file_stays_a_link(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "real" / "headrace.conf").write_text("hz 10\n")
    link = tmp_path / "headrace.conf"
    link.symlink_to(tmp_path / "real" / "headrace.conf")
    config = Config()
    load(config, [str(link)])
    config.set_many([("hz", "11")])
    rewrite_file(link, config)
    assert link.is_symlink()
    assert (tmp_path / "real" / "headrace.conf").read_text() == "hz 11\n"


def test_a_rewrite_that_fails_leaves_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = loaded(tmp_path, "port 7000\n")
    path = tmp_path / "redis.conf"

    def no_space(_descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", no_space)
    with pytest.raises(OSError, match="No space left"):
        rewrite_file(path, config)
    assert path.read_text() == "port 7000\n"
    assert list(tmp_path.iterdir()) == [path]


def test_config_rewrite_writes_the_file_that_the_server_was_started_with(tmp_path: Path) -> None:
    path = tmp_path / "redis.conf"
    path.write_text("# mine\nhz 20\n")
    with ServerProcess(tmp_path, str(path)) as server:
        client = server.client()
        client.config_set("hz", 30)
        client.config_set("timeout", 7)
        client.config_rewrite()
        assert path.read_text() == (f"# mine\nhz 30\n# Generated by CONFIG REWRITE\nport {server.port}\ntimeout 7\n")
        assert client.info("server")["config_file"] == str(path)
        path.unlink()
        with pytest.raises(redis.ResponseError, match="Rewriting config file: No such file or directory"):
            client.config_rewrite()
