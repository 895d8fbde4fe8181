import functools

import pytest

from neft import claims

# What docs/theory/action says is wrong in the three notes, by test that takes seconds.
QUICK = {
    "action-a-s1": "holds",
    "action-a-s2-uw": "corrected",
    "action-a-s3-ccc": "holds",
    "action-a-quadratic-form": "refuted",
    "action-a-s2-unbounded": "holds",
    "action-a-relative-entropy": "corrected",
    "action-c-relu-derivatives": "refuted",
    "action-c-s3-open": "corrected",
    "action-b-counts": "holds",
    "action-a-log-derivative": "holds",
    "action-a-uw-derivative": "holds",
    "action-a-correlation": "corrected",
    "action-c-uw-derivative": "depends",
}
SLOW = {
    "action-a-s0": "holds",
    "action-a-silu-curvature": "corrected",
    "action-c-s2-uw": "corrected",
    **{f"action-{note}-s3-{name}": "corrected" for note in "ab" for name in ("ubc", "uwc", "uwb", "uww")},
    "action-b-uwb-derivative": "corrected",
    "action-b-uwc-derivative": "corrected",
    "action-c-quadratic-form": "holds",
    "action-a-s3-unbounded": "holds",
    "action-a-logit-first": "holds",
    "action-a-silu-slope": "holds",
    "action-a-s2-cc": "holds",
    "action-a-ub-derivative": "holds",
    "action-c-s1": "holds",
    "action-a-first-derivative": "holds",
    "action-a-logit-second": "holds",
    "action-a-logit-third": "corrected",
    "action-b-logit-third": "holds",
    "action-a-cc-derivative": "holds",
    "action-a-ubc-derivative": "holds",
    "action-a-ubb-derivative": "holds",
    "action-a-uww-derivative": "corrected",
    "action-b-uww-derivative": "holds",
    "action-a-uwb-derivative": "corrected",
    "action-a-terms": "holds",
    "action-c-higher-logits": "holds",
    "action-b-stop-gradient": "holds",
    "action-a-second-derivative": "holds",
    "action-a-third-derivative": "corrected",
    "action-c-third-derivative": "holds",
    "action-a-main-term": "corrected",
    "action-a-minimum": "corrected",
    "action-a-next-order-stops": "refuted",
    "action-a-uw-dominates": "holds",
    "action-a-uww-dominates": "holds",
    "action-b-main-term-dominates": "refuted",
    "action-a-range": "depends",
    "action-c-range": "depends",
    "action-a-gaussian-uw": "refuted",
    "action-a-gaussian-uww": "refuted",
    "action-a-products-negative": "holds",
    "action-a-products-positive": "refuted",
    "action-b-counting": "refuted",
    "action-b-scales": "holds",
    "action-b-small-e": "corrected",
    "action-b-power-law": "depends",
    "action-b-series": "refuted",
    "action-b-early-stopping": "corrected",
    "action-b-data-size": "holds",
}


COMPILES_MUCH = {"action-a-uw-derivative", "action-a-log-derivative", "action-a-s2-uw"}


@functools.cache
def outcome(id):
    return claims.check([id]).outcomes[0]


@pytest.mark.parametrize("id", [pytest.param(id, marks=[pytest.mark.slow] * (id in COMPILES_MUCH)) for id in QUICK])
def test_formulas_get_the_verdict_of_the_theory(id):
    assert outcome(id).verdict == QUICK[id], outcome(id).summary


@pytest.mark.slow
@pytest.mark.parametrize("id", SLOW)
def test_long_tests_get_the_verdict_of_the_theory(id):
    assert outcome(id).verdict == SLOW[id], outcome(id).summary


def test_every_row_of_the_three_notes_is_expected_here():
    rows = {claim.id for claim in claims.ledger() if claim.source.startswith("action note ")}
    assert rows == QUICK.keys() | SLOW.keys()


def test_the_printed_factors_are_wrong_by_what_the_theory_says():
    ratios = {
        id: outcome(id).values["ratio"]
        for id in ("action-a-s2-uw", "action-a-s3-uwb", "action-b-s3-uww", "action-a-s3-uww")
    }
    assert list(ratios.values()) == pytest.approx([2, 18, 3, 9])
