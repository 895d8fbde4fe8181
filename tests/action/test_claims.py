import pytest

from neft import claims

# What theory.md 3.1 says of the three notes, by test that takes seconds.
QUICK = {
    "000-s0": "holds",
    "000-s1": "holds",
    "000-silu-curvature": "corrected",
    "000-s2-uw": "corrected",
    "002-s2-uw": "corrected",
    "000-s3-ccc": "holds",
    **{f"{seed}-s3-{name}": "corrected" for seed in ("000", "001") for name in ("ubc", "uwc", "uwb", "uww")},
    "001-uwb-derivative": "corrected",
    "001-uwc-derivative": "corrected",
    "000-quadratic-form": "refuted",
    "002-quadratic-form": "holds",
    "000-s2-unbounded": "holds",
    "000-s3-unbounded": "holds",
    "000-relative-entropy": "corrected",
    "002-relu-derivatives": "refuted",
    "002-s3-open": "corrected",
    "001-counts": "holds",
    "000-log-derivative": "holds",
    "000-logit-first": "holds",
    "000-silu-slope": "holds",
    "000-s2-cc": "holds",
    "000-uw-derivative": "holds",
    "000-ub-derivative": "holds",
    "000-correlation": "corrected",
    "002-s1": "holds",
    "002-uw-derivative": "depends",
}
SLOW = {
    "000-first-derivative": "holds",
    "000-logit-second": "holds",
    "000-logit-third": "corrected",
    "001-logit-third": "holds",
    "000-cc-derivative": "holds",
    "000-ubc-derivative": "holds",
    "000-ubb-derivative": "holds",
    "000-uww-derivative": "corrected",
    "001-uww-derivative": "holds",
    "000-uwb-derivative": "corrected",
    "000-terms": "holds",
    "002-higher-logits": "holds",
    "001-stop-gradient": "holds",
    "000-second-derivative": "holds",
    "000-third-derivative": "corrected",
    "002-third-derivative": "holds",
    "000-main-term": "corrected",
    "000-minimum": "corrected",
    "000-next-order-stops": "refuted",
    "000-uw-dominates": "holds",
    "000-uww-dominates": "holds",
    "001-main-term-dominates": "refuted",
    "000-range": "depends",
    "002-range": "depends",
    "000-gaussian-uw": "refuted",
    "000-gaussian-uww": "refuted",
    "000-products-negative": "holds",
    "000-products-positive": "refuted",
    "001-counting": "refuted",
    "001-scales": "holds",
    "001-small-e": "corrected",
    "001-power-law": "depends",
    "001-series": "refuted",
    "001-early-stopping": "corrected",
    "001-data-size": "holds",
}


def verdict(id):
    (outcome,) = claims.check([id]).outcomes
    return outcome.verdict


@pytest.mark.parametrize("id", QUICK)
def test_formulas_get_the_verdict_of_the_theory(id):
    assert verdict(id) == QUICK[id]


@pytest.mark.slow
@pytest.mark.parametrize("id", SLOW)
def test_long_tests_get_the_verdict_of_the_theory(id):
    assert verdict(id) == SLOW[id]


def test_every_row_of_the_three_notes_is_expected_here():
    rows = {claim.id for claim in claims.ledger() if claim.seed in ("000", "001", "002")}
    assert rows == QUICK.keys() | SLOW.keys()


def test_the_printed_factors_are_wrong_by_what_the_theory_says():
    ratios = {
        id: claims.check([id]).outcomes[0].values["ratio"]
        for id in ("000-s2-uw", "000-s3-uwb", "001-s3-uww", "000-s3-uww")
    }
    assert list(ratios.values()) == pytest.approx([2, 18, 3, 9])
