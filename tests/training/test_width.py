"""Errors and corrections against really trained networks: small versions of the benchmarks."""

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
    for name in ("evolve", "finite_width", "measure"):
        sys.modules.pop(name, None)


@pytest.mark.slow
def test_errors_fall_with_the_width_by_their_powers(benchmarks):
    import evolve

    widths = (16, 64, 256)
    found = evolve.errors("tanh", 1, 24, widths)
    (first, spread), (_, _), (third, spread_3) = (evolve.power(found, order, widths) for order in (1, 2, 3))
    assert abs(first - 1) < 5 * spread and first > 8 * spread
    assert abs(third - 2) < 5 * spread_3 and third > 8 * spread_3
    assert (found.rms[2] < found.rms[0])[1:].all() and found.rms[2, 2] < found.rms[1, 2]


@pytest.mark.slow
def test_the_mean_of_a_trained_ensemble_is_corrected_as_theory_says(benchmarks):
    import finite_width

    mean, cov = finite_width.compare(finite_width.Case("tanh"), 2048, 32768, jax.random.key(2))
    assert np.abs(mean.z).max() < 5 and mean.resolved.max() > 10
    assert np.abs(cov.z).max() < 5
