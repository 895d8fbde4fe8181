"""The statements of Sun, Nielsen 2017 in the ledger. The slow ones are left to the ledger's own run."""

import numpy as np
import pytest

from neft import claims, fisher

IDS = [
    claim.id
    for claim in claims.ledger()
    if claim.source == "Sun, Nielsen 2017" and not claim.id.startswith("sun-nielsen-experiment")
]
VERDICTS = {"sun-nielsen-two-layers": "corrected", "sun-nielsen-density-of-a-linear-layer": "corrected"}


def test_the_ledger_has_the_paper():
    assert len(IDS) >= 13 and set(VERDICTS) <= set(IDS)


@pytest.mark.parametrize(
    "id", [pytest.param(i, marks=[] if i == "sun-nielsen-density-of-a-linear-layer" else pytest.mark.slow) for i in IDS]
)
def test_the_verdicts(id):
    (outcome,) = claims.check([id]).outcomes
    assert outcome.verdict == VERDICTS.get(id, "holds"), outcome.summary


def test_a_wrong_metric_is_refuted(monkeypatch):
    right = fisher.neuron

    def wrong(*args, **more):
        metric = right(*args, **more)
        return type(metric)(**{**vars(metric), "information": metric.information * 1.001})

    monkeypatch.setattr(fisher, "neuron", wrong)
    (outcome,) = claims.check(["sun-nielsen-tanh-neuron"]).outcomes
    assert outcome.verdict == "refuted" and np.isclose(outcome.values["largest difference"], 1e-3, rtol=1e-6)
