"""What papers state about deep residual networks, as it is measured."""

import pytest

from neft import claims
from neft.claims import _residual

VERDICTS = {
    "doshi-everywhere-critical": "holds",
    "fischer-optimal-scale": "holds",
    "fischer-universal-scale": "depends",
    "kawase-ota-mean-kernel": "holds",
    "kawase-ota-next-order": "holds",
    "kawase-ota-transport": "holds",
    "yang-depth-limit": "holds",
}
QUICK = ("fischer-universal-scale",)


@pytest.mark.parametrize("id", [pytest.param(id, marks=() if id in QUICK else pytest.mark.slow) for id in VERDICTS])
def test_a_statement_has_the_verdict_that_is_measured(id):
    (outcome,) = claims.check([id]).outcomes
    assert outcome.verdict == VERDICTS[id], outcome.summary
    assert outcome.values


@pytest.mark.slow
def test_a_wrong_theory_is_refuted(monkeypatch):
    # Without the functionals of one neuron V is that of the closure.
    flow = _residual._theory()
    wrong = flow.from_dict(flow.to_dict() | {"V": (flow.V * 0.62).tolist()})
    monkeypatch.setattr(_residual, "_theory", lambda: wrong)
    assert claims.check(["kawase-ota-transport"]).outcomes[0].verdict == "refuted"
