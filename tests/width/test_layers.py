"""Every tensor of networks of three and four layers against drawn ones that are kept: |z| < 5, and all are seen."""

import draw_layers
import numpy as np
import pytest

import neft
from neft.width import statistics

QUICK = {"gelu, one input", "relu, one input"}


# silu and sin, whose recursions are those of gelu, are checked through two layers.
@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.slow] * (name not in QUICK)) for name in draw_layers.NETWORKS]
)
def test_every_tensor_of_every_layer_is_that_of_drawn_networks(name):
    kept, (_, _, x, _) = neft.load(draw_layers.FOLDER / f"{name}.npz"), draw_layers.NETWORKS[name]
    found = statistics(draw_layers.network(name), x, rtol=1e-6)
    assert kept.simulation.keys() == {tensor for tensor, value in found.tensors.items() if value is not None}
    for tensor, drawn in kept.simulation.items():
        theory, error = getattr(found, tensor), kept.stderr[tensor]
        # K and Theta of the first layers, and all of relu's, are the same in every draw, of single precision.
        exact = error < 1e-9
        np.testing.assert_allclose(drawn[exact], theory[exact], rtol=1e-6, atol=1e-9, err_msg=tensor)
        assert (np.abs(theory - drawn)[~exact] < 5 * error[~exact]).all(), tensor
        # In every layer what is large is seen, at ten standard errors.
        for values, errors in zip(theory[1:], error[1:]):
            large = (np.abs(values) > 0.5 * np.abs(values).max()) & (np.abs(values) > 1e-9)
            assert (np.abs(values)[large] > 10 * errors[large]).all(), tensor
