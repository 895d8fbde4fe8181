"""Who may ask what: a local page alone, from its own address, with the token that its address carries.

A page of another site can send requests to 127.0.0.1, and another name can be made to point there. Hence the host must
be this one, what computes is POSTed with this origin and the token, and nothing outside may be loaded.
"""

import contextlib
import hmac
import json
from typing import Any

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ._limits import MOST_BYTES

TOKEN = "x-neft-token"
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
HEADERS = {
    "content-security-policy": POLICY,
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cross-origin-resource-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "cache-control": "no-store",
}

_TOO_LONG = 413, f"the request is too long: it may have {MOST_BYTES:,} bytes."


class Guard:
    """The application behind all of these checks."""

    def __init__(self, app: ASGIApp, *, port: int, token: str) -> None:
        self._app, self._token = app, token
        self._hosts = {f"{name}:{port}" for name in ("127.0.0.1", "localhost")}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer, or refuse with a sentence."""
        if scope["type"] not in ("http", "websocket"):
            await self._app(scope, receive, send)
            return
        refusal = self._refusal(scope)
        if refusal is not None and scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": 1008, "reason": refusal[1]})
        elif refusal is not None:
            await _refuse(send, *refusal)
        elif scope["type"] == "websocket":
            await self._app(scope, receive, send)
        else:
            await self._answer(scope, receive, send)

    def _refusal(self, scope: Scope) -> tuple[int, str] | None:
        headers = _single(scope)
        if headers is None:
            return 400, "a header that may stand once stands twice."
        host = headers.get("host", "")
        if host not in self._hosts:
            return 421, f"the host must be {' or '.join(sorted(self._hosts))}."
        if scope["type"] == "websocket" or scope.get("method") == "POST":
            if headers.get("origin") != f"http://{host}":
                return 403, "the origin must be this page."
            given = headers.get(TOKEN, "")
            if not hmac.compare_digest(given.encode(), self._token.encode()):
                return 403, "the token is missing or another one: open the address that neft explore printed."
        elif scope.get("method") not in ("GET", "HEAD"):
            return 405, "the method must be GET, or POST for what computes."
        length = headers.get("content-length", "0")
        if not length.isdigit() or int(length) > MOST_BYTES:
            return _TOO_LONG
        return None

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        taken, begun = 0, False

        async def counted() -> Message:
            nonlocal taken
            message = await receive()
            taken += len(message.get("body", b""))
            if taken > MOST_BYTES:
                raise _TooLong
            return message

        async def headed(message: Message) -> None:
            nonlocal begun
            if taken > MOST_BYTES:  # whatever came of what was cut off
                return
            begun = True
            if message["type"] == "http.response.start":
                known = {name.lower() for name, _ in message["headers"]}
                own = [(k.encode(), v.encode()) for k, v in HEADERS.items() if k.encode() not in known]
                message = {**message, "headers": [*message["headers"], *own]}
            await send(message)

        with contextlib.suppress(_TooLong):
            await self._app(scope, counted, headed)
        if taken > MOST_BYTES and not begun:
            await _refuse(send, *_TOO_LONG)


class _TooLong(Exception):
    pass


def _single(scope: Scope) -> dict[str, str] | None:
    found: dict[str, str] = {}
    for name, value in scope["headers"]:
        key = name.decode("latin-1").lower()
        if key in ("host", "origin", TOKEN, "content-length") and key in found:
            return None
        found[key] = value.decode("latin-1")
    return found


async def _refuse(send: Send, status: int, sentence: str) -> None:
    body = json.dumps({"error": sentence}).encode()
    headers: list[tuple[bytes, Any]] = [(k.encode(), v.encode()) for k, v in HEADERS.items()]
    headers += [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
