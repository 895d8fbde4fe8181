"""Estimates for any network against those for dense chains, which share nothing with them but the draws' law."""

import jax
import numpy as np
import pytest

from neft import MLP, Dense, Network, Residual, RMSNorm
from neft.ensemble import _general, estimate
from neft.width import check

X = np.array([[1.0, -0.5, 0.8], [0.7, 0.4, 1.2]])


@pytest.mark.slow
def test_a_residual_network_has_estimates_of_its_kernels():
    net = Network(3, [Dense(4), Residual("tanh", Dense(4), skip=0.8), Dense(1)])
    found = estimate(net, X[0], draws=64, key=jax.random.key(0), only=("K", "V", "Theta"))
    assert list(found.tensors) == ["K", "V", "Theta"] and found.V.mean.shape == (3,) and found.draws == 64
    assert found.widths == (3, 4, 4, 1) and (found.K.stderr > 0).all()
    again = estimate(net, X[0], draws=64, key=jax.random.key(0), only=("K",))
    np.testing.assert_array_equal(again.K.mean, found.K.mean)


@pytest.mark.slow
def test_both_ways_agree_on_a_dense_chain():
    net = MLP((3, 8, 10, 2), "tanh", C_b=0.2, C_W=1.3, lambda_b=0.3, lambda_W=0.7)
    plain = estimate(net, X, draws=20_000, key=jax.random.key(1), only=_general.NAMES, dtype="float32")
    found = _general.general(net, X, 20_000, jax.random.key(0), np.dtype("float32"))
    for name, (mean, error) in found.items():
        other = plain.tensors[name]
        both = np.sqrt(error[1:] ** 2 + other.stderr[1:] ** 2)
        assert (np.abs(mean[1:] - other.mean[1:]) < 5 * both).all(), name
        assert (np.abs(mean[1:]) / error[1:]).max() > 10, name


@pytest.mark.slow
def test_a_residual_network_is_checked_at_several_widths():
    branch = (RMSNorm(), Dense(16, C_b=0.1), "relu", Dense(8, C_W=0.8))
    net = Network(3, [Dense(8, C_W=1.2), Residual(*branch, skip=0.9), "tanh", Dense(1)])
    found = check(net, X[0], draws=4000, dtype=np.float32)
    assert found.agrees and list(found.z) == ["K", "Theta", "V", "A", "B", "D", "F"]
    assert found.simulated[-1] == (3, 40, 40, 1)
    assert (found.theory["Theta"] > 10 * found.stderr["Theta"]).all()
    assert (found.theory["B"][1:] > 10 * found.stderr["B"][1:]).all()
