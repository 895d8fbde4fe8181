"""The outcome of the paper's experiment in the ledger."""

import numpy as np
import pytest

from neft import claims, sweep
from neft.claims import _sweep

IDS = [claim.id for claim in claims.ledger() if claim.id.startswith("sun-nielsen-experiment-")]
HIDDEN = (80, 80, 80)


def best(optimizer, *, cost, accuracy, seconds, batch_norm=False, rate=0.01, test=None):
    """An optimizer whose curves go straight from 2 to the last value, with little noise."""
    noise = 1e-4 * np.arange(4.0)[:, None]
    path = np.linspace(0, 1, 4)
    return sweep.results.Best(
        hidden=HIDDEN,
        batch_norm=batch_norm,
        optimizer=optimizer,
        learning_rate=rate,
        rates=(0.005, rate),
        by_rate=(0.5, accuracy),
        epochs=np.arange(4.0),
        cpu_seconds=seconds * np.arange(4.0),
        train_cost=2 + (cost - 2) * path + noise,
        validation_accuracy=accuracy * path + noise,
        test_accuracy=np.full(4, accuracy if test is None else test),
    )


def verdicts(monkeypatch, level, **changes):
    ours = {"cost": 0.1, "accuracy": 0.98, "seconds": 6.0, **changes}
    rows = {}
    for normed in (False, True):
        rivals = [best(name, cost=0.2, accuracy=0.97, seconds=1.0, batch_norm=normed) for name in ("sgd", "adam")]
        for one in (*rivals, best("rngd-published", batch_norm=normed, **ours)):
            rows[one.architecture, one.optimizer] = one
    monkeypatch.setattr(_sweep, "_found", lambda level: _sweep._Found(rows, "checksum", 10_000))
    outcomes = claims.check(IDS, level=level).outcomes
    return {outcome.id.removeprefix("sun-nielsen-experiment-"): outcome.verdict for outcome in outcomes}


def test_an_outcome_like_the_papers_holds(monkeypatch):
    assert len(IDS) == 6 and set(verdicts(monkeypatch, "full").values()) == {"holds"}


@pytest.mark.parametrize(
    ("changes", "found"),
    [
        ({"cost": 0.3}, {"per-epoch": "refuted"}),
        # Three epochs cannot refute what a hundred gave.
        ({"accuracy": 0.96}, {"final-accuracy": "depends", "final-accuracy-batch-norm": "depends"}),
        ({"rate": 0.05}, {"rates": "refuted"}),
        ({"test": 0.96}, {"test-accuracy": "refuted"}),
        ({"seconds": 11.0}, {"time": "depends"}),
        ({"seconds": 0.5}, {"time": "refuted"}),
    ],
)
def test_another_outcome_is_told(monkeypatch, changes, found):
    measured = verdicts(monkeypatch, "full", **changes)
    assert {name: verdict for name, verdict in measured.items() if verdict != "holds"} == found


def test_a_reduced_experiment_refutes_nothing_but_what_it_measures(monkeypatch):
    measured = verdicts(monkeypatch, "quick", cost=0.3, rate=0.05, accuracy=0.96, test=0.96)
    assert measured.pop("test-accuracy") == "holds" and measured.pop("time") == "holds"
    assert set(measured.values()) == {"depends"}


def test_the_full_experiment_is_kept_in_the_cache(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.delenv("NEFT_SWEEP", raising=False)
    now, before = (tmp_path / "neft" / name for name in ("sun-nielsen", "seed003"))
    assert _sweep._kept() == now
    # A sweep that was run under the name of before is not run again.
    before.mkdir(parents=True)
    assert _sweep._kept() == before
    now.mkdir()
    assert _sweep._kept() == now
    monkeypatch.setenv("NEFT_SWEEP", str(tmp_path / "elsewhere"))
    assert _sweep._kept() == tmp_path / "elsewhere"


@pytest.mark.slow
def test_the_reduced_experiment_runs():
    outcomes = {outcome.id: outcome for outcome in claims.check(IDS).outcomes}
    assert outcomes["sun-nielsen-experiment-test-accuracy"].verdict == "holds"
    assert all(outcome.verdict in ("holds", "depends") for outcome in outcomes.values())
    # A metric for each neuron costs several steps of SGD, on any machine.
    values = outcomes["sun-nielsen-experiment-time"].values
    assert all(value > 3 for name, value in values.items() if name.startswith("time per epoch"))
