"""The ledger of claims as a page of its own, with filters."""

import os
from collections import Counter
from collections.abc import Sequence
from html import escape
from pathlib import Path
from typing import NamedTuple

from .. import claims as ledgers
from .._files import writing
from .._public import public
from .._version import __version__
from ..claims import Claim
from ..claims.results import Ledger, Outcome
from ._document import document, text_of
from ._html import note

_NONE = "not tested"
_MEANS = {
    "holds": "the statement is right as it stands",
    "corrected": "another one is right, and is given",
    "refuted": "it is wrong",
    "depends": "it is right under conditions, which are given",
    "failed": "the test gave no verdict",
    _NONE: "no full test was kept",
}


@public
def write_claims(path: str | os.PathLike[str], ledger: Ledger | None = None) -> int:
    """The number of claims that now stand in the HTML file `path`, which is written whole or not at all.

    Args:
        path: the file; what it held before is replaced.
        ledger: what was measured just now, to stand beside the full tests that were kept; by default these alone.

    >>> import pathlib, tempfile
    >>> write_claims(pathlib.Path(tempfile.mkdtemp()) / "claims.html") > 90
    True
    """
    now = {} if ledger is None else {outcome.id: outcome for outcome in ledger.outcomes}
    kept = {outcome.id: outcome for outcome in ledgers.full_outcomes()}
    every = sorted(ledgers.ledger(), key=lambda claim: (claim.source, claim.id))
    entries = [_Entry(claim, now.get(claim.id), kept.get(claim.id)) for claim in every]
    text = _page(entries)
    with writing(Path(path)) as file:
        file.write(text)
    return len(entries)


class _Entry(NamedTuple):
    claim: Claim
    now: Outcome | None
    kept: Outcome | None

    @property
    def verdict(self) -> str:
        # The full test weighs more.
        outcome = self.kept or self.now
        return _NONE if outcome is None else outcome.verdict


def _page(entries: Sequence[_Entry]) -> str:
    of_verdict = {name: sum(entry.verdict == name for entry in entries) for name in _MEANS}
    of_verdict = {name: count for name, count in of_verdict.items() if count}
    of_source = dict(Counter(entry.claim.source for entry in entries))
    meanings = "".join(f"<dt>{name}</dt><dd>{_MEANS[name]}</dd>" for name in of_verdict)
    differing = [e.claim.id for e in entries if e.now and e.kept and e.now.verdict != e.kept.verdict]
    again = sum(entry.now is not None for entry in entries)
    measured = f" {again} were measured again for this page." if again else ""
    intro = (
        f"<header><h1>Claims</h1><p>What the sources of neft's theories state, {len(entries)} claims, and what testing "
        f"each of them gave. Full tests take up to minutes each and were kept as files.{measured} neft "
        f'{escape(__version__)}</p></header>\n<dl class="meanings">{meanings}</dl>\n'
    )
    warned = "".join(note(f"The quick test of {id} gave another verdict than its full test.") for id in differing)
    chosen = (
        '<form class="filters" aria-label="Filters">'
        + _boxes("Verdict", "v", of_verdict)
        + _boxes("Source", "s", of_source)
        + '<p class="search" hidden><label for="words">Words</label> <input id="words" type="search" '
        'autocomplete="off"> <output id="shown" for="words" aria-live="polite"></output></p></form>\n'
    )
    body = "".join(_claim(entry, list(of_verdict), list(of_source)) for entry in entries)
    hiding = "\n".join(
        f"body:has(#{kind}{i}:not(:checked)) .{kind}{i} {{ display: none; }}"
        for kind, names in (("v", of_verdict), ("s", of_source))
        for i in range(len(names))
    )
    main = f"<main>\n{intro}{warned}{chosen}{body}</main>\n"
    styles = (text_of("claims.css"), hiding + "\n")
    return document("Claims", f'<div class="plain">{main}</div>\n', styles=styles, script=text_of("claims.js"))


def _boxes(legend: str, kind: str, counted: dict[str, int]) -> str:
    boxes = "".join(
        f'<label><input type="checkbox" id="{kind}{i}" checked> {escape(name)} <span>{count}</span></label>'
        for i, (name, count) in enumerate(counted.items())
    )
    return f"<fieldset><legend>{legend}</legend>{boxes}</fieldset>"


def _claim(entry: _Entry, verdicts: Sequence[str], sources: Sequence[str]) -> str:
    claim, now, kept = entry
    evidence = []
    if now is not None:
        evidence.append(f"Measured now, {now.level}: {_found(now, entry.verdict)}")
    if kept is not None:
        when = "" if kept.date is None else f" of {kept.date}"
        evidence.append(f"Full test{when}: {_found(kept, entry.verdict)}")
    places = f"v{verdicts.index(entry.verdict)} s{sources.index(claim.source)}"
    said = "".join(f"<p>{escape(text)}</p>" for text in evidence)
    command = f"neft claims {claim.id}" if kept is None else kept.command
    return (
        f'<article class="claim {places}" id="{claim.id}" aria-labelledby="h-{claim.id}">'
        f'<h2 id="h-{claim.id}"><a href="#{claim.id}">{claim.id}</a> '
        f'<span class="verdict {entry.verdict.split()[0]}">{entry.verdict}</span></h2>'
        f'<p class="note">{escape(claim.source)}, {escape(claim.equation)}</p>'
        f'<p class="statement">{escape(claim.statement)}</p>{said}'
        f"<pre><code>{escape(command)}</code></pre></article>\n"
    )


def _found(outcome: Outcome, verdict: str) -> str:
    other = f"{outcome.verdict}. " if outcome.verdict != verdict else ""
    correction = f" Correction: {outcome.correction}" if outcome.correction else ""
    return f"{other}{outcome.summary}{correction}"
