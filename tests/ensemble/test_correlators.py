"""Estimates for two inputs against the correlators themselves, from explicit derivatives of many drawn networks."""

import json

import draw_correlators
import jax
import numpy as np
import pytest

from neft.ensemble import estimate


@pytest.mark.slow
def test_every_tensor_of_two_inputs_is_its_correlator():
    kept = json.loads(draw_correlators.FILE.read_text())["tensors"]
    found = estimate(draw_correlators.NET, draw_correlators.X, draws=draw_correlators.DRAWS, key=jax.random.key(2))
    assert kept.keys() == {"K", "Theta", *"VABDFPQRSTU"}
    for name, drawn in kept.items():
        mean, estimated = np.array(drawn["mean"]), found.tensors[name]
        error = np.hypot(drawn["stderr"], estimated.stderr[-1])
        assert (np.abs(mean - estimated.mean[-1]) < 5 * error).all(), (name, (mean - estimated.mean[-1]) / error)
        assert (np.abs(mean) > 10 * error).any(), (name, np.abs(mean / error).max())
