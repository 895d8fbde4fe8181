"""Errors and corrections against trained networks: small versions of the benchmarks."""

import sys
from pathlib import Path

import jax
import numpy as np
import pytest


@pytest.fixture
def benchmarks(monkeypatch):
    """The folder of benchmarks on the path."""
    monkeypatch.syspath_prepend(str(Path(__file__).parents[2] / "benchmarks"))
    yield
    for name in ("finite_width", "measure"):
        sys.modules.pop(name, None)


@pytest.mark.slow
def test_the_mean_of_a_trained_ensemble_is_corrected_as_theory_says(benchmarks, monkeypatch):
    import finite_width

    # Three widths that lie further apart leave less to extrapolate: a quarter of the draws resolves the same.
    monkeypatch.setattr(finite_width, "WIDTHS", (16, 40, 128))
    mean, cov = finite_width.compare(finite_width.Case("tanh"), 512, 8192, jax.random.key(2))
    assert np.abs(mean.z).max() < 5 and mean.resolved.max() > 10
    assert np.abs(cov.z).max() < 5
