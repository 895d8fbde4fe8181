"""Who is answered: a local page, from its own address, with the token."""

import json

import pytest
from starlette.testclient import TestClient
from starlette.websockets import WebSocketDisconnect

from neft.explore import _app, _page
from neft.explore._guard import HEADERS, TOKEN
from neft.explore._jobs import Busy, Workers
from neft.explore._limits import MOST_BYTES, MOST_JOBS
from neft.explore._worker import NO_MEMORY

PORT, SECRET = 4711, "a-token-of-this-test"
HOME = f"http://127.0.0.1:{PORT}"
PASS = {"origin": HOME, TOKEN: SECRET}


class Full(Workers):
    """As busy as can be, without a process."""

    def __init__(self):
        super().__init__(most=0)


@pytest.fixture
def client():
    return TestClient(_app.application(port=PORT, token=SECRET, workers=Full()), base_url=HOME)


def ask(client, record, path="/api/code", **headers):
    return client.post(path, json=record, headers=PASS | headers)


def test_the_page_is_answered_with_a_policy_that_lets_nothing_in_from_outside(client):
    answer = client.get("/")
    assert answer.status_code == 200 and "At initialization" in answer.text
    policy = answer.headers["content-security-policy"]
    assert (
        policy.startswith("default-src 'none'")
        and "http" not in policy
        and "unsafe" not in policy
        and "*" not in policy
    )
    assert all(answer.headers[name] == value for name, value in HEADERS.items())
    assert SECRET not in answer.text and not answer.cookies


def test_every_file_of_the_page_is_there_and_asks_for_nothing_outside(client):
    for name in (*_page.STYLES, *_page.SCRIPTS, *_page.LICENCES):
        answer = client.get(f"/{name}")
        assert answer.status_code == 200 and answer.text == _page.text(name), name
    own = [_page.text(name) for name in (*_page.STYLES, *_page.OWN, "body.html")]
    outside = [text for text in own if "//" in text.replace("http://www.w3.org/", "") and "https:" in text]
    assert not outside and not any("url(" in text or "@import" in text for text in own)


@pytest.mark.parametrize(
    "host", ["example.org", f"example.org:{PORT}", "127.0.0.1", f"127.0.0.1:{PORT + 1}", "", "[::1]:4711"]
)
@pytest.mark.parametrize("path", ["/", "/alive", "/explore.css"])
def test_another_host_is_refused(client, host, path):
    answer = client.get(path, headers={"host": host})
    assert answer.status_code == 421 and "host must be" in answer.json()["error"]


def test_localhost_is_this_machine_too(client):
    assert client.get("/alive", headers={"host": f"localhost:{PORT}"}).status_code == 200
    origin = {"host": f"localhost:{PORT}", "origin": f"http://localhost:{PORT}"}
    assert ask(client, {}, **origin).status_code == 200
    assert ask(client, {}, host=f"localhost:{PORT}").status_code == 403


def test_a_websocket_from_elsewhere_is_refused(client):
    for headers in ({"host": "example.org"}, {"origin": "http://example.org"}, {"origin": HOME}):
        with pytest.raises(WebSocketDisconnect) as refused, client.websocket_connect("/", headers=headers):
            pass
        assert refused.value.code == 1008


def test_an_event_stream_from_elsewhere_is_refused(client):
    job = {"name": "draw", "settings": {}}
    for headers in ({"host": "example.org"}, {"origin": "http://example.org"}, {TOKEN: "another"}):
        answer = ask(client, job, "/api/run", **headers, accept="text/event-stream")
        assert answer.status_code in (403, 421) and set(answer.json()) == {"error"}


@pytest.mark.parametrize(
    "origin", ["http://example.org", "null", f"http://127.0.0.1:{PORT + 1}", f"https://127.0.0.1:{PORT}"]
)
def test_another_origin_is_refused(client, origin):
    answer = ask(client, {}, origin=origin)
    assert answer.status_code == 403 and "origin" in answer.json()["error"]
    assert client.post("/api/code", json={}, headers={TOKEN: SECRET}).status_code == 403


@pytest.mark.parametrize("token", ["", "another", SECRET[:-1], SECRET + "x"])
def test_another_token_is_refused(client, token):
    answer = ask(client, {}, **{TOKEN: token})
    assert answer.status_code == 403 and "token" in answer.json()["error"]


def test_what_computes_is_posted(client):
    for name in (*_app.AT_ONCE, "run"):
        assert client.get(f"/api/{name}").status_code == 405
    for method in ("PUT", "DELETE", "OPTIONS", "PATCH"):
        assert client.request(method, "/api/flow", headers=PASS).status_code == 405


def test_a_long_body_is_refused_whether_or_not_it_says_so(client):
    answer = client.post("/api/code", content=b" " * (MOST_BYTES + 1), headers=PASS)
    assert answer.status_code == 413 and "too long" in answer.json()["error"]

    def pieces():
        yield from [b" " * 5000] * 20

    answer = client.post("/api/code", content=pieces(), headers=PASS)
    assert answer.status_code == 413 and "too long" in answer.json()["error"]


def test_a_header_that_stands_twice_is_refused(client):
    headers = [("host", f"127.0.0.1:{PORT}"), ("host", "example.org")]
    assert client.get("/alive", headers=headers).status_code == 400


def test_what_is_no_record_gets_a_sentence(client):
    for body in (b"{", b"[1]", b"3", b'"x"', b"\xff", b"[" * 16_000):
        answer = client.post("/api/code", content=body, headers=PASS)
        assert set(answer.json()) == {"fields"} and next(iter(answer.json()["fields"].values())).endswith(".")


@pytest.mark.parametrize(
    ("error", "says"),
    [
        (OverflowError("too large."), "this could not be computed (OverflowError): too large."),
        (ZeroDivisionError(), "this could not be computed (ZeroDivisionError)."),
        (MemoryError(), NO_MEMORY),
        (RuntimeError("RESOURCE_EXHAUSTED: Out of memory"), NO_MEMORY),
        (ValueError("depth is wrong."), "depth is wrong."),
    ],
)
def test_what_fails_unexpectedly_gets_a_sentence(client, monkeypatch, error, says):
    def fail(*_):
        raise error

    monkeypatch.setattr(_app, "at_once", fail)
    answer = ask(client, {}, "/api/flow")
    assert answer.status_code == 200 and answer.json() == {"error": says}


def test_sentences_about_an_own_function_are_left_to_a_process_with_a_limit(client, monkeypatch):
    monkeypatch.setattr(_app, "at_once", lambda *_: {"here": True})
    assert ask(client, {}, "/api/words").json() == {"here": True}
    assert "running already" in ask(client, {"activation": "z*tanh(z)"}, "/api/words").json()["error"]


def test_simultaneous_jobs_are_limited(client):
    answer = ask(client, {"name": "draw", "settings": {}}, "/api/run")
    assert answer.headers["content-type"] == "application/x-ndjson" and "running already" in answer.json()["error"]
    assert MOST_JOBS >= 4 and issubclass(Busy, ValueError)
    answer = ask(client, {"name": "../../etc/passwd", "settings": {}}, "/api/run")
    assert "one of draw" in answer.json()["fields"][""]


@pytest.mark.parametrize(
    "path", ["/../pyproject.toml", "/page/body.html", "/..%2f..%2fpyproject.toml", "/vendor/", "/body.html"]
)
def test_no_file_name_comes_from_a_request(client, path):
    assert client.get(path).status_code == 404


def test_what_stands_in_an_expression_is_escaped():
    nasty = "</script><img src=x onerror=alert(1)>&"
    text = _page.embedded({"activation": nasty})
    assert not set("<>&") & set(text) and json.loads(text)["activation"] == nasty
    assert "<img" not in _page.document("", "", title=nasty)


def test_a_refused_expression_comes_back_as_json_alone(client):
    answer = ask(client, {"activation": "<img src=x onerror=alert(1)>z"}, "/api/flow")
    assert set(answer.json()) == {"fields"} and answer.headers["content-type"] == "application/json"
    assert answer.headers["x-content-type-options"] == "nosniff"
