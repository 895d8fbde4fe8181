"""A page is a row of sections, a section a row of parts; a part that fails says so and does not stop the others."""

import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .._version import __version__
from ._bars import Bars
from ._html import note, paragraph

if TYPE_CHECKING:
    from ._subject import Subject

_CSS = Path(__file__).with_name("page.css")


@dataclass(frozen=True, kw_only=True)
class Section:
    """A finished section; `failure` is the reason why something is missing in it, or None."""

    title: str
    html: str
    seconds: float
    failure: str | None = None


@dataclass(frozen=True, kw_only=True)
class Context:
    """What a section may know: the network and data, the seed, the command, whether to hurry, and what came before."""

    seed: int
    command: str
    quick: bool = False
    subject: Any = None
    before: tuple[Section, ...] = ()

    @property
    def of(self) -> "Subject":
        """The network and data of the page."""
        if self.subject is None:
            raise ValueError("this section is about a network and data, but the page was given none.")
        return self.subject


@dataclass(frozen=True, kw_only=True)
class Written:
    """What `write` wrote."""

    sections: tuple[Section, ...]
    seconds: float

    @property
    def failed(self) -> tuple[Section, ...]:
        """The sections in which something is missing."""
        return tuple(section for section in self.sections if section.failure is not None)


Writer = Callable[[Context], str]
Sections = Sequence[tuple[str, *tuple[Writer, ...]]]
"""Each a title and the functions that write its parts, in order."""


def run(sections: Sections, *, seed: int, command: str, quick: bool, subject: Any, quiet: bool) -> tuple[Section, ...]:
    """The finished sections, in order."""
    done: tuple[Section, ...] = ()
    with Bars([(title, len(parts)) for title, *parts in sections], quiet=quiet) as bars:
        for title, *parts in sections:
            context = Context(seed=seed, command=command, quick=quick, subject=subject, before=done)
            done += (_section(title, parts, context, lambda title=title: bars.advance(title)),)
    return done


def _section(title: str, parts: Sequence[Writer], context: Context, advance: Callable[[], None]) -> Section:
    start = time.perf_counter()
    content, failures = "", []
    for part in parts:
        try:
            content += _with_warnings(part, context)
        except Exception as error:  # whatever goes wrong in one part, the page still has the others
            failures.append(f"{type(error).__name__}: {' '.join(str(error).split())}")
            what = "This section failed." if len(parts) == 1 else "This part of the section failed."
            content += f'<div class="failure" role="alert">{paragraph(f"{what} {failures[-1]}")}</div>'
        advance()
    failure = "; ".join(failures) or None
    return Section(title=title, html=content, seconds=time.perf_counter() - start, failure=failure)


def _with_warnings(part: Writer, context: Context) -> str:
    # What a theory warns of belongs beside its numbers, not into the terminal of whoever waits for the page.
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("ignore")
        warnings.simplefilter("always", UserWarning)
        content = part(context)
    said = dict.fromkeys(" ".join(str(warning.message).split()) for warning in caught)
    return content + "".join(note(f"Warning: {text}") for text in said)


def page(sections: Sequence[Section], heading: str = "neft") -> str:
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
<title>{escape(heading)}</title>
<style>
{_CSS.read_text(encoding="utf-8")}</style>
</head>
<body>
<header><h1>{escape(heading)}</h1>
<p>What perturbation theory says, what simulation shows, what to change. neft {escape(__version__)}</p></header>
<nav aria-label="Contents"><ol>{links}</ol></nav>
<main>
{body}</main>
</body>
</html>
"""
