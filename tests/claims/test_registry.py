import pytest

import neft
from neft.claims import Measurement


def test_the_ledger_is_sorted_by_id(registry, add):
    for id in ("b", "a.2", "a"):
        add(id)
    assert [claim.id for claim in registry.ledger()] == ["a", "a.2", "b"]


def test_a_duplicate_id_is_refused(add):
    add("a")
    with pytest.raises(ValueError, match="registered already"):
        add("a")


def test_the_decorator_leaves_the_function_alone(add):
    assert add("a")("quick").summary == "Measured at quick."


@pytest.mark.parametrize("level", ["quick", "full"])
def test_an_outcome_carries_the_claim_and_how_to_run_it_again(registry, add, level):
    add("a")
    (outcome,) = registry.check(level=level).outcomes
    assert (outcome.id, outcome.source, outcome.statement, outcome.level) == ("a", "lecture", "a = b", level)
    assert (outcome.verdict, outcome.summary, outcome.values) == ("holds", f"Measured at {level}.", {"error": 1e-9})
    assert outcome.command == f"neft claims a --level {level}"
    assert outcome.seconds >= 0 and "jax" in outcome.made.versions


def test_a_test_that_raises_does_not_stop_the_others(registry, add):
    add("a", ZeroDivisionError("by zero"))
    add("b")
    ledger = registry.check()
    assert [outcome.verdict for outcome in ledger.outcomes] == ["failed", "holds"]
    assert ledger.failed[0].summary == "ZeroDivisionError: by zero"


def test_a_test_that_returns_something_else_failed(registry, add):
    add("a", "holds")
    assert "instead of a Measurement" in registry.check().outcomes[0].summary


def test_ids_choose_claims_once_and_in_order(registry, add):
    for id in "abc":
        add(id)
    assert [outcome.id for outcome in registry.check(["c", "a", "c"]).outcomes] == ["a", "c"]


def test_an_unknown_id_is_refused_with_a_suggestion(registry, add):
    add("ntk-forward")
    with pytest.raises(ValueError, match="did you mean 'ntk-forward'"):
        registry.check(["ntk-foward"])


def test_an_unknown_level_is_refused(registry):
    with pytest.raises(Exception, match="level"):
        registry.check(level="slow")


def test_a_ledger_survives_a_file(registry, add, tmp_path):
    add("a", Measurement(verdict="corrected", summary="Off by two.", correction="a = 2b", data="ab12"))
    ledger = registry.check()
    ledger.save(tmp_path / "ledger.json")
    assert neft.load(tmp_path / "ledger.json") == ledger


def test_an_empty_ledger_has_no_outcomes(registry):
    assert registry.ledger() == registry.check().outcomes == ()
