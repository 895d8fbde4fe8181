"""The application: the page's files, what is computed at once, and long jobs as streams of records."""

import collections
import json
import threading
from collections.abc import AsyncIterator, Callable
from typing import Any

from anyio import to_thread
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, Response, StreamingResponse
from starlette.routing import Route
from starlette.types import ASGIApp

from . import _page
from ._guard import Guard
from ._jobs import Job, Workers
from ._settings import Refused, Settings, once
from ._worker import failure


def application(*, port: int, token: str, workers: Workers) -> ASGIApp:
    """The page at 127.0.0.1:port for who has the token."""
    routes = [Route("/", _index), Route("/alive", _alive)]
    for name in (*_page.STYLES, *_page.SCRIPTS, *_page.LICENCES):
        routes.append(Route(f"/{name}", _file(name)))
    routes += [Route(f"/api/{name}", _at_once(name, workers), methods=["POST"]) for name in AT_ONCE]
    routes.append(Route("/api/run", _running(workers), methods=["POST"]))
    return Guard(Starlette(routes=routes), port=port, token=token)


def at_once(name: str, settings: Settings) -> dict[str, Any]:
    """What a page is answered without waiting, for those without a server too."""
    # JAX is imported when something is computed, so that a page appears at once.
    from . import _code, _flow, _numbers_of, _phases, _regression

    functions: dict[str, Callable[[Settings], dict[str, Any]]] = {
        "flow": _flow.flow,
        "words": _flow.words,
        "phases": _phases.phases,
        "regression": _regression.infinite,
        "code": _code.code,
    }
    with once(name, settings.activation, settings.residual, settings.norm):
        if name.startswith("numbers/"):
            return _numbers_of.numbers_of(name.removeprefix("numbers/"), settings)
        return functions[name](settings)


VIEWS = ("phase", "flow", "density", "ntk", "regression")
AT_ONCE = ("flow", "words", "phases", "regression", "code", *(f"numbers/{view}" for view in VIEWS))
JOBS = ("draw", "phases", "words", "finite", "train")


def warm(workers: Workers) -> None:
    """Compile what the first view needs, while the page is being opened; then learn the phases of other activations."""
    from . import _phases

    for name in ("flow", "phases", "words"):
        at_once(name, Settings())
    for record in workers.beside("ahead", Settings().record()):
        if "found" in record:
            known = Settings.of({"activation": record["found"]["activation"]})  # which says elu(1) for elu
            _phases.remember(known, record["found"]["phases"])


async def _index(request: Request) -> Response:
    head = "".join(f'<link rel="stylesheet" href="/{name}">' for name in _page.STYLES)
    end = f'<template id="neft-facts">{_page.embedded(_page.facts(mode="server"))}</template>'
    end += "".join(f'<script src="/{name}"></script>' for name in _page.SCRIPTS)
    return HTMLResponse(_page.document(head, end))


async def _alive(request: Request) -> Response:
    return JSONResponse({"alive": True})


def _file(name: str) -> Callable[[Request], Any]:
    async def answer(request: Request) -> Response:
        return Response(_page.text(name), media_type=_page.kind(name))

    return answer


async def _asked(request: Request) -> Any:
    try:
        return json.loads(await request.body())
    except ValueError:
        raise Refused({"": "the request is no JSON."}) from None
    except RecursionError:
        raise Refused({"": "the request has too many brackets inside each other."}) from None


def _at_once(name: str, workers: Workers) -> Callable[[Request], Any]:
    def found(record: Any) -> dict[str, Any]:
        settings = Settings.of(record)
        if name == "words" and settings.own:
            # It takes memory that the server needs, and a process has a limit.
            return _last(workers.run(name, settings.record()))
        return at_once(name, settings)

    async def answer(request: Request) -> Response:
        # A sentence is an answer: at the status of a failure a browser's console complains of every typing error.
        try:
            return JSONResponse(await to_thread.run_sync(found, await _asked(request)))
        except Exception as error:
            return JSONResponse(told(error))

    return answer


def _running(workers: Workers) -> Callable[[Request], Any]:
    async def answer(request: Request) -> Response:
        try:
            record = await _asked(request)
            name = record.get("name") if isinstance(record, dict) else None
            if name not in JOBS:
                raise Refused({"": f"the name of a job must be one of {', '.join(JOBS)}."})
            settings = await to_thread.run_sync(Settings.of, record.get("settings"))
            job = await to_thread.run_sync(workers.run, name, settings.record())
        except Exception as error:
            return _line(told(error))
        return StreamingResponse(_lines(job), media_type="application/x-ndjson")

    return answer


def told(error: Exception) -> dict[str, Any]:
    """An error as the page is answered: sentences for fields, or one sentence."""
    return {"fields": error.fields} if isinstance(error, Refused) else {"error": failure(error)}


def _last(job: Job) -> dict[str, Any]:
    (last,) = collections.deque(job, maxlen=1)
    return last.get("result", last)


def _line(record: dict[str, Any]) -> Response:
    return Response(json.dumps(record) + "\n", media_type="application/x-ndjson")


async def _lines(job: Any) -> AsyncIterator[str]:
    # When nobody listens any more this is cancelled, and so is the job.
    records = iter(job)
    try:
        while (record := await to_thread.run_sync(next, records, None, abandon_on_cancel=True)) is not None:
            yield json.dumps(record) + "\n"
    finally:
        # Another thread may still read what its process says.
        threading.Thread(target=job.stop, daemon=True).start()
