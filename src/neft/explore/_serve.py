"""The server: on this machine alone, until Ctrl-C."""

import asyncio
import contextlib
import errno
import os
import secrets
import socket
import threading
import webbrowser
from collections.abc import Callable
from pathlib import Path

from .. import _check
from .._public import public

_HOST = "127.0.0.1"


@public
def serve(*, port: int | None = None, browser: bool = True, say: Callable[[str], None] = print) -> None:
    """Serve the page on 127.0.0.1 until the process is interrupted.

    Args:
        port: where to listen, a free one by default. With a port the token is kept in the user's own state folder, so
            that a page that is open finds the server again after it was started anew.
        browser: whether to open the page.
        say: is given the address, the only one that carries the token.
    """
    if port is not None:
        port = _check.integer("port", port, at_least=1, at_most=65_535)
    with contextlib.closing(_listening(port)) as listener:
        found = listener.getsockname()[1]
        token = secrets.token_urlsafe(24) if port is None else _kept_token(found)
        address = f"http://{_HOST}:{found}/?token={token}"
        _run(listener, found, token, lambda: _opened(address, browser, say))


def _listening(port: int | None) -> socket.socket:
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((_HOST, port or 0))
    except OSError as error:
        listener.close()
        if error.errno == errno.EADDRINUSE:
            reason = "something listens there already: take another one, or none for a free one"
        else:
            reason = f"it cannot be listened at ({error.strerror})"
        raise ValueError(f"port is {port}, but {reason}.") from None
    return listener


def _opened(address: str, browser: bool, say: Callable[[str], None]) -> None:
    say(f"Explore at {address}\nCtrl-C ends it.")
    if browser:
        threading.Thread(target=webbrowser.open, args=(address,), daemon=True).start()


def _run(listener: socket.socket, port: int, token: str, started: Callable[[], None]) -> None:
    import uvicorn

    from ._app import application, warm
    from ._jobs import Workers

    class Server(uvicorn.Server):
        async def startup(self, sockets: list[socket.socket] | None = None) -> None:
            await super().startup(sockets=sockets)
            started()
            threading.Thread(target=warm, args=(workers,), daemon=True).start()
            threading.Thread(target=workers.prepare, daemon=True).start()

    with Workers() as workers:
        config = uvicorn.Config(
            application(port=port, token=token, workers=workers),
            access_log=False,
            log_level="critical",
            lifespan="off",
            proxy_headers=False,
            server_header=False,
            timeout_graceful_shutdown=1,
        )
        asyncio.run(Server(config).serve(sockets=[listener]))


def _kept_token(port: int) -> str:
    # Where nothing can be kept, a new one serves.
    folder = Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state") / "neft"
    path = folder / f"explore-{port}"
    with contextlib.suppress(OSError, ValueError):
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        if path.exists() and (path.stat().st_mode & 0o077 or path.stat().st_uid != os.getuid()):
            path.unlink()  # others could have read it
        if path.exists() and len(token := path.read_text().strip()) >= 32:
            return token
        path.unlink(missing_ok=True)
        token = secrets.token_urlsafe(24)
        # Never readable by others, not even while it is written.
        with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
            file.write(token)
        return token
    return secrets.token_urlsafe(24)
