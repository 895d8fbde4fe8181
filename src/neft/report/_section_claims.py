"""The ledger of claims."""

import time

from .. import claims as ledger
from ..claims import Claim
from ..claims.results import Outcome
from ._html import note, paragraph, table
from ._page import Context
from ._tables import Table

_BUDGET = 15.0
"""CPU seconds after which no further claim is measured for the page."""

_UNKNOWN = 2.0
"""Seconds that a claim is taken to need whose full test has not been kept."""


def claims(context: Context) -> str:
    """Every claim with its verdict and evidence: measured now where that is quick, else from its kept full test."""
    kept = {outcome.id: outcome for outcome in ledger.full_outcomes()}
    every = ledger.ledger()
    now = {} if context.quick else _measured(every, kept)
    differing = {o.id for o in now.values() if o.id in kept and kept[o.id].verdict != o.verdict}
    counts = {name: sum(_verdict(claim, now, kept) == name for claim in every) for name in (*ledger.VERDICTS, _NONE)}
    told = ", ".join(f"{count} {name}" for name, count in counts.items() if count)
    said = "None were measured for this page, because of --quick." if context.quick else _said(now)
    failed = [o for o in now.values() if o.verdict not in ledger.VERDICTS]
    by_source = "".join(
        table(_table(source, [claim for claim in every if claim.source == source], now, kept), kind="records")
        for source in dict.fromkeys(claim.source for claim in every)
    )
    return (
        paragraph(
            f"What the sources of neft's theories state, {len(every)} claims, and what testing each of them gave: "
            f"{told}. Quick tests are small and take seconds; full ones use full data, take minutes, and were kept as "
            "files. "
            f"{said}"
        )
        + "".join(note(f"The quick test of {id} gave another verdict than its full test.") for id in sorted(differing))
        + "".join(note(f"The test of {o.id} failed. {o.summary}") for o in failed)
        + by_source
    )


_NONE = "not tested yet"


def _said(now: dict[str, Outcome]) -> str:
    seconds = sum(outcome.seconds for outcome in now.values())
    return (
        f"{len(now)} were measured for this page in {seconds:.0f} s, those that take least; neft claims measures all."
    )


def _verdict(claim: Claim, now: dict[str, Outcome], kept: dict[str, Outcome]) -> str:
    # The full test weighs more.
    outcome = kept.get(claim.id) or now.get(claim.id)
    return _NONE if outcome is None or outcome.verdict not in ledger.VERDICTS else outcome.verdict


def _measured(every: tuple[Claim, ...], kept: dict[str, Outcome]) -> dict[str, Outcome]:
    # What is known of a claim beforehand is its full test: whether it used data, where several share one costly
    # training, and how long it took.
    def cost(claim: Claim) -> tuple[bool, float, str]:
        outcome = kept.get(claim.id)
        return (False, _UNKNOWN, claim.id) if outcome is None else (outcome.data is not None, outcome.seconds, claim.id)

    start, found = time.process_time(), {}
    for claim in sorted(every, key=cost):
        if time.process_time() - start > _BUDGET:
            break
        found[claim.id] = ledger.check([claim.id]).outcomes[0]
    return found


def _table(source: str, some: list[Claim], now: dict[str, Outcome], kept: dict[str, Outcome]) -> Table:
    rows = []
    for claim in some:
        evidence, verdict = [], _verdict(claim, now, kept)
        if claim.id in now:
            evidence.append(f"Measured now: {_found(now[claim.id], verdict)}")
        if claim.id in kept:
            outcome = kept[claim.id]
            evidence.append(f"Full test{_date(outcome)} ({outcome.command}): {_found(outcome, verdict)}")
        if not evidence:
            evidence.append(f"neft claims {claim.id} tests it.")
        rows.append((claim.id, claim.equation, claim.statement, verdict, " ".join(evidence)))
    columns = ("claim", "where", "statement", "verdict", "evidence")
    return Table(title=source[0].upper() + source[1:], columns=columns, rows=tuple(rows))


def _found(outcome: Outcome, verdict: str) -> str:
    other = f"{outcome.verdict}. " if outcome.verdict != verdict else ""
    correction = f" Correction: {outcome.correction}" if outcome.correction else ""
    return f"{other}{outcome.summary}{correction}"


def _date(outcome: Outcome) -> str:
    return "" if outcome.date is None else f" of {outcome.date}"
