"""A page is a row of sections; a section that fails says so and does not stop the others."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path

from .._progress import track
from .._version import __version__
from ._html import paragraph

_CSS = Path(__file__).with_name("page.css")


@dataclass(frozen=True, kw_only=True)
class Section:
    """A finished section; `failure` is the reason why it has no content, or None."""

    title: str
    html: str
    seconds: float
    failure: str | None = None


@dataclass(frozen=True, kw_only=True)
class Context:
    """What a section may know: the seed, the command that makes the page, and the sections before it."""

    seed: int
    command: str
    before: tuple[Section, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Written:
    """What `write` wrote."""

    sections: tuple[Section, ...]
    seconds: float

    @property
    def failed(self) -> tuple[Section, ...]:
        """The sections that have no content."""
        return tuple(section for section in self.sections if section.failure is not None)


Writer = Callable[[Context], str]


def run(writers: Sequence[tuple[str, Writer]], *, seed: int, command: str) -> tuple[Section, ...]:
    """The finished sections of (title, function) pairs, in order."""
    done: tuple[Section, ...] = ()
    for title, writer in track(writers, "report"):
        done += (_section(title, writer, Context(seed=seed, command=command, before=done)),)
    return done


def _section(title: str, writer: Writer, context: Context) -> Section:
    start = time.perf_counter()
    failure = None
    try:
        content = writer(context)
    except Exception as error:  # whatever goes wrong in one section, the page still has the others
        failure = f"{type(error).__name__}: {' '.join(str(error).split())}"
        content = f'<div class="failure" role="alert">{paragraph(f"This section failed. {failure}")}</div>'
    return Section(title=title, html=content, seconds=time.perf_counter() - start, failure=failure)


def page(sections: Sequence[Section]) -> str:
    """The whole document. Its policy forbids the browser to ask anything of anyone."""
    links = "".join(f'<li><a href="#s{i}">{escape(s.title)}</a></li>' for i, s in enumerate(sections, 1))
    body = "".join(
        f'<section id="s{i}" aria-labelledby="h{i}"><h2 id="h{i}">{escape(s.title)}</h2>{s.html}</section>\n'
        for i, s in enumerate(sections, 1)
    )
    return f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'; img-src data:">
<title>neft {escape(__version__)}</title>
<style>
{_CSS.read_text(encoding="utf-8")}</style>
</head>
<body>
<header><h1>neft</h1><p>Perturbation theory for neural networks, version {escape(__version__)}</p></header>
<nav aria-label="Contents"><ol>{links}</ol></nav>
<main>
{body}</main>
</body>
</html>
"""
