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
def test_the_mean_of_a_trained_ensemble_is_corrected_as_theory_says(benchmarks):
    import finite_width

    mean, cov = finite_width.compare(finite_width.Case("tanh"), 2048, 32768, jax.random.key(2))
    assert np.abs(mean.z).max() < 5 and mean.resolved.max() > 10
    assert np.abs(cov.z).max() < 5
