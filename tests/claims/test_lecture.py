import pytest

from neft import claims

LECTURE = [claim.id for claim in claims.ledger() if claim.source == "lecture"]


def test_the_lecture_is_in_the_ledger():
    assert len(LECTURE) >= 13


LONG = (
    "lecture-recursions",
    "lecture-ntk-forward",
    "lecture-dntk-order",
    "lecture-infinite-width-training",
    "lecture-first-layer-dntk",
    "lecture-depth-over-width",
    "lecture-one-layer-training",
    "lecture-step-expansion",
)


@pytest.mark.parametrize("id", [pytest.param(id, marks=pytest.mark.slow if id in LONG else ()) for id in LECTURE])
def test_a_statement_of_the_lecture_holds_when_it_is_measured(id):
    (outcome,) = claims.check([id]).outcomes
    assert outcome.verdict == "holds", outcome.summary
    assert outcome.values


def test_a_wrong_theory_is_refuted(monkeypatch):
    # The claim that compares with predictions must notice when they are off.
    from neft.claims import _lecture

    monkeypatch.setattr(_lecture, "_Q", 1.3 * _lecture._Q)
    verdicts = {
        outcome.id: outcome.verdict
        for outcome in claims.check(["lecture-first-layer-gaussian", "lecture-first-layer-ntk"]).outcomes
    }
    assert set(verdicts.values()) == {"refuted"}
