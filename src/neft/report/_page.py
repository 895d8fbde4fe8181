"""A page is a row of sections, a section a row of parts; a part that fails says so and does not stop the others."""

import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from html import escape
from typing import TYPE_CHECKING, Any

from .._version import __version__
from ._bars import Bars
from ._document import document
from ._html import note, paragraph
from ._processes import shared

if TYPE_CHECKING:
    from ._subject import Subject


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


def run(
    sections: Sections, *, seed: int, command: str, quick: bool, subject: Any, quiet: bool, workers: int = 1
) -> tuple[Section, ...]:
    """The finished sections, in order. The last one knows the others, whose parts may be shared between processes."""
    if not sections:
        return ()
    context = Context(seed=seed, command=command, quick=quick, subject=subject)
    *first, last = ((title, tuple(parts)) for title, *parts in sections)
    with Bars([(title, len(parts)) for title, parts in (*first, last)], quiet=quiet) as bars:

        def finish(some: Sequence[tuple[str, tuple[Writer, ...]]], context: Context) -> tuple[Section, ...]:
            owners = [title for title, parts in some for _ in parts]
            jobs = [(_part, (part, context)) for _, parts in some for part in parts]
            done = iter(shared(jobs, lambda i: bars.advance(owners[i]), workers if len(jobs) > 1 else 1))
            return tuple(_section(title, [next(done) for _ in parts]) for title, parts in some)

        done = finish(first, context)
        return done + finish([last], replace(context, before=done))


@dataclass(frozen=True)
class _Part:
    html: str
    seconds: float
    failure: str | None = None


def _part(write: Writer, context: Context) -> _Part:
    start, html, failure = time.perf_counter(), "", None
    try:
        html = _with_warnings(write, context)
    except Exception as error:  # whatever goes wrong in one part, the page still has the others
        failure = f"{type(error).__name__}: {' '.join(str(error).split())}"
    return _Part(html, time.perf_counter() - start, failure)


def _section(title: str, parts: Sequence[_Part]) -> Section:
    what = "This section failed." if len(parts) == 1 else "This part of the section failed."
    html = "".join(
        part.html
        if part.failure is None
        else f'<div class="failure" role="alert">{paragraph(f"{what} {part.failure}")}</div>'
        for part in parts
    )
    failure = "; ".join(part.failure for part in parts if part.failure is not None) or None
    return Section(title=title, html=html, seconds=sum(part.seconds for part in parts), failure=failure)


def _with_warnings(part: Writer, context: Context) -> str:
    # What a theory warns of belongs beside its numbers, not into the terminal of whoever waits for the page.
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("ignore")
        warnings.simplefilter("always", UserWarning)
        content = part(context)
    said = dict.fromkeys(" ".join(str(warning.message).split()) for warning in caught)
    return content + "".join(note(f"Warning: {text}") for text in said)


def page(sections: Sequence[Section], heading: str = "neft", lead: str = "") -> str:
    """The whole document: contents that stay in view, and the sections. `lead` says in a line what it is about."""
    links = "".join(f'<li><a href="#s{i}">{escape(s.title)}</a></li>' for i, s in enumerate(sections, 1))
    main = "".join(
        f'<section id="s{i}" aria-labelledby="h{i}"><h2 id="h{i}">{escape(s.title)}</h2>{s.html}</section>\n'
        for i, s in enumerate(sections, 1)
    )
    below = f"<p>{escape(lead)}</p>" if lead else ""
    body = (
        f'<div class="page">\n<nav aria-label="Contents"><ol>{links}</ol></nav>\n<div class="told">\n'
        f"<header><h1>{escape(heading)}</h1>{below}</header>\n<main>\n{main}</main>\n"
        f"<footer><p>neft {escape(__version__)}</p></footer>\n</div>\n</div>\n"
    )
    return document(heading, body)
