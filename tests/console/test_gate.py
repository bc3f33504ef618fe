"""Who may: sessions, tokens, hosts, origins, headers, read-only, users with few rights, servers without a password."""

import http.client
import json
import re
import socket
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import uvicorn

from headrace.console import prompt_protocol
from headrace.console.api import READINGS, acts
from headrace.console.prompt_protocol import PromptProtocol
from support.console_process import ConsoleProcess, User, console_of
from support.patience import PATIENCE_S
from support.server_process import ServerProcess, run_to_its_end


def test_every_answer_has_the_content_security_policy(console: ConsoleProcess) -> None:
    for path in ("/", "/static/main.js", "/nothing"):
        _, headers, _ = console.send("GET", path)
        assert headers["content-security-policy"].startswith("default-src 'self'; ")
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["x-frame-options"] == "DENY"


@pytest.mark.parametrize("host", ["evil.example", "127.0.0.1.evil.example", "", "[::2]"])
def test_a_host_name_that_is_not_its_own_is_refused(console: ConsoleProcess, host: str) -> None:
    for method, path in (("GET", "/"), ("POST", "/api/session")):
        assert console.send(method, path, {}, {"Host": host})[0] == 421


def test_its_own_names_are_not(console: ConsoleProcess) -> None:
    for host in (f"localhost:{console.port}", f"127.0.0.1:{console.port}", f"[::1]:{console.port}", "LOCALHOST"):
        assert console.send("GET", "/", headers={"Host": host})[0] == 200


def test_another_origin_is_refused(user: User) -> None:
    for origin in ("http://evil.example", "null", f"http://localhost:{user.console.port}"):
        headers = {**user.headers, "Origin": origin}
        assert user.console.send("POST", "/api/overview", {}, headers)[0] == 403
    headers = {**user.headers, "Origin": f"http://127.0.0.1:{user.console.port}"}
    assert user.console.send("POST", "/api/overview", {}, headers)[0] == 200


def test_the_cookie_is_for_this_site_and_not_for_scripts(user: User) -> None:
    attributes = {part.strip().lower() for part in user.cookie.split(";")[1:]}
    assert {"httponly", "samesite=strict", "path=/"} <= attributes
    assert not any(each.startswith(("domain", "expires", "max-age")) for each in attributes)


def test_the_token_is_needed_with_the_cookie_and_the_other_way_round(user: User) -> None:
    console = user.console
    cookie, token = user.headers["Cookie"], user.headers["X-CSRF-Token"]
    for name in ("overview", "act", "tail", "logout"):
        assert console.send("POST", f"/api/{name}", {}, {"Cookie": cookie})[0] == 403
        assert console.send("POST", f"/api/{name}", {}, {"Cookie": cookie, "X-CSRF-Token": "é"})[0] == 403
        assert console.send("POST", f"/api/{name}", {}, {"X-CSRF-Token": token})[0] == 401
    assert console.send("GET", "/api/overview", headers=user.headers)[0] in {404, 405}


def test_a_session_that_was_ended_is_over(user: User) -> None:
    user.ask("logout")
    assert user.try_ask("overview") == (401, {"error": "session", "text": ""})


@pytest.mark.parametrize(
    ("body", "kind", "status"),
    [
        (b"{", "application/json", 400),
        (b"[]", "application/json", 400),
        (b"{}", "text/plain", 415),
        (b"{}", "application/x-www-form-urlencoded", 415),
        (b'"' + b"x" * (1 << 20) + b'"', "application/json", 413),
    ],
)
def test_a_body_that_is_no_question_is_refused(user: User, body: bytes, kind: str, status: int) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", user.console.port, timeout=60)
    connection.request("POST", "/api/streams", body, {**user.headers, "Content-Type": kind})
    assert connection.getresponse().status == status
    connection.close()


def test_a_user_can_do_in_the_console_what_the_server_permits_and_nothing_else(
    server: ServerProcess, user: User
) -> None:
    client = server.client()
    client.xadd("open", {"n": 1})
    client.xadd("secret", {"n": 2})
    rights = ("resetkeys", "~open", "+@read", "+info", "+command", "+ping", "-@dangerous")
    client.execute_command("ACL", "SETUSER", "reader", "on", ">pass", *rights)
    for name, password in (("reader", "wrong"), ("reader", ""), ("nobody", "pass")):
        status, _, body = user.console.send("POST", "/api/login", {"user": name, "password": password})
        assert (status, json.loads(body)["error"]) == (401, "password")
    reader = User(user.console, "reader", "pass")
    assert [entry["fields"] for entry in reader.ask("entries", stream="open")["entries"]] == [[["n", "1"]]]
    for name in ("entries", "stream"):
        status, answer = reader.try_ask(name, stream="secret")
        assert (status, answer["error"]) == (403, "permission")
    status, answer = reader.try_ask("act", kind="add", stream="open", fields=[["n", "3"]])
    assert (status, answer["error"]) == (403, "permission")
    assert reader.try_ask("settings")[0] == 403
    assert client.xlen("open") == 1


def test_passwords_cannot_be_guessed_many_at_a_time(user: User) -> None:
    def guess(number: int) -> int:
        return user.console.send("POST", "/api/login", {"user": "nobody", "password": f"guess {number}"})[0]

    seen: set[int] = set()
    with ThreadPoolExecutor(12) as threads:
        deadline = time.monotonic() + PATIENCE_S
        while 429 not in seen and time.monotonic() < deadline:
            seen |= set(threads.map(guess, range(12)))
    assert seen == {401, 429}
    assert User(user.console).about["user"] == "default"


def test_read_only_shows_what_would_be_sent_and_sends_nothing(server: ServerProcess, tmp_path: Path) -> None:
    server.client().flushall()
    server.client().xadd("s", {"n": 1}, id="1-1")
    with console_of(server, tmp_path, "--read-only") as console:
        user = User(console)
        assert user.about["read_only"]
        assert user.try_ask("act", kind="delete", stream="s", ids=["1-1"])[1]["error"] == "read_only"
        shown = user.ask("act", kind="delete", stream="s", ids=["1-1"], preview=True)
        assert shown["command"] == "XDEL s 1-1"
    assert server.client().xlen("s") == 1


def test_from_other_machines_nobody_logs_in_to_a_server_without_a_password(tmp_path: Path) -> None:
    with (
        ServerProcess(tmp_path, "--appendonly", "no") as server,
        console_of(server, tmp_path, "--bind", "0.0.0.0") as console,  # noqa: S104
    ):
        status, _, body = console.send("POST", "/api/login", {"user": "default", "password": ""})
        assert (status, json.loads(body)["error"]) == (403, "open_server")
        server.client().config_set("requirepass", "long")
        assert console.send("POST", "/api/login", {"user": "default", "password": ""})[0] == 401
        assert User(console, "default", "long").ask("streams")["total"] == 0


def test_a_url_or_a_port_that_cannot_be_used_is_one_sentence(console: ConsoleProcess, tmp_path: Path) -> None:
    ended = run_to_its_end("console", "--url", "http://u:secret@x", directory=tmp_path)
    assert (ended.returncode, ended.stdout) == (1, b"")
    assert ended.stderr.startswith(b"headrace: 'x' is no url of a server")
    ended = run_to_its_end("console", "--port", str(console.port), directory=tmp_path)
    assert (
        ended.stderr
        == (
            f"headrace: The console cannot listen on 127.0.0.1:{console.port} (Address already in use): "
            "choose another with --port.\n"
        ).encode()
    )


def test_half_a_character_or_a_border_for_an_id_is_refused_and_fills_no_log(user: User) -> None:
    half = dict.fromkeys(("stream", "group", "consumer", "search", "filter", "ticket", "query"), "�")
    border = {"stream": "s", "group": "g", "ids": ["-"], "id": "-", "master": "(1-1", "at": 0}
    kinds = re.findall(r'^    "(\w+)": \(_', Path(acts.__file__).read_text(), re.MULTILINE)
    questions = [*READINGS, *(("act", kind) for kind in kinds)]
    user.console.send("POST", "/api/login", {"user": "\ud800", "password": "\ud800"})
    for question in questions:
        name, kind = (question, "") if isinstance(question, str) else question
        for body in ({**half, "ids": ["\ud800"], "id": "\ud800", "fields": [["\ud800", "x"]]}, border):
            status, answer = user.try_ask(name, kind=kind, preview=True, **body)
            assert status < 500, (question, body, answer)
    assert user.console.complaints == ""


def test_connections_that_do_not_come_to_the_point_lock_nobody_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two hundred connections that sent half of a request had everybody answered 503, for as long as they liked."""
    monkeypatch.setattr(prompt_protocol, "REQUEST_S", 0.5)

    async def answer(_scope: Any, _receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"2")]})
        await send({"type": "http.response.body", "body": b"ok"})

    config = uvicorn.Config(
        answer, http=PromptProtocol, ws="none", lifespan="off", limit_concurrency=20, log_level="error"
    )
    server = uvicorn.Server(config)
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        port = listener.getsockname()[1]
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
        thread.start()
        try:
            whole = b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"
            rude = [socket.create_connection(("127.0.0.1", port), PATIENCE_S) for _ in range(40)]
            for number, connection in enumerate(rude):  # some of them had asked something before
                connection.sendall(whole + b"GET / HT" if number % 2 else b"GET")
            for connection in rude:
                while connection.recv(4096):
                    pass
                connection.close()
            with socket.create_connection(("127.0.0.1", port), PATIENCE_S) as polite:
                for _ in range(3):  # one that keeps asking is kept
                    polite.sendall(whole)
                    assert polite.recv(4096).startswith(b"HTTP/1.1 200")
        finally:
            server.should_exit = True
            thread.join(PATIENCE_S)
