import itertools

import pytest

from neft import claims
from neft.claims import Measurement
from neft.claims._registry import Registry
from neft.report import Context
from neft.report import _section_claims as section


@pytest.fixture
def registry(monkeypatch):
    """Three claims: a quick one, a dear one whose full test is kept and another that used data."""
    registry = Registry()
    for name in ("cheap", "dear", "data"):
        registry.claim(id=f"a-{name}", source="lecture", equation="(5)", statement=f"<{name}> holds")(
            lambda level, name=name: Measurement(
                verdict="holds" if name != "cheap" or level == "full" else "refuted",
                summary=f"{level} test of {name}.",
                data="abc" if name == "data" else None,
            )
        )
    kept = registry.check(["a-dear", "a-data"], level="full").outcomes
    monkeypatch.setattr(claims, "ledger", registry.ledger)
    monkeypatch.setattr(claims, "full_outcomes", lambda: kept)
    monkeypatch.setattr(claims, "check", registry.check)
    return registry


def test_quick_claims_are_measured_now_and_full_ones_come_from_their_files(registry):
    text = section.claims(Context(seed=0, command="neft report"))
    assert "3 claims" in text and "2 holds, 1 refuted" in text and "3 were measured for this page" in text
    assert "Measured now: quick test of cheap." in text and "Full test" in text
    assert "(neft claims a-dear --level full): full test of dear." in text
    assert "&lt;cheap&gt; holds" in text and "<cheap>" not in text


def test_a_quick_page_measures_none_and_says_so(registry):
    text = section.claims(Context(seed=0, command="neft report", quick=True))
    assert "None were measured for this page" in text and "Measured now" not in text
    assert "1 not tested yet" in text and "neft claims a-cheap tests it." in text


def test_what_used_data_comes_last_and_the_budget_ends_it(registry, monkeypatch):
    clock = itertools.count(step=12.0)
    monkeypatch.setattr(section.time, "process_time", lambda: next(clock))
    kept = {outcome.id: outcome for outcome in claims.full_outcomes()}
    assert list(section._measured(claims.ledger(), kept)) == ["a-dear"]
    monkeypatch.setattr(section, "_BUDGET", 1e6)
    assert list(section._measured(claims.ledger(), kept)) == ["a-dear", "a-cheap", "a-data"]


def test_a_test_that_contradicts_its_full_one_is_named(registry, monkeypatch):
    full = registry.check(["a-cheap"], level="full").outcomes
    monkeypatch.setattr(claims, "full_outcomes", lambda: full)
    text = section.claims(Context(seed=0, command="neft report"))
    assert "The quick test of a-cheap gave another verdict than its full test." in text
    assert "Measured now: refuted. quick test of cheap." in text
