"""One program for networks of every depth: against kernels by quadrature, and without compiling again."""

import numpy as np
import pytest

import neft
from neft.width import _kernel_repeated as repeated

X = np.array([[-1.4], [-0.3], [0.02], [0.9], [2.0]])


@pytest.mark.slow
def test_depth_and_hyperparameters_are_numbers_of_one_program():
    count = None
    for depth, numbers in ((2, {}), (4, {"C_W": 1.3, "C_b": 0.1}), (6, {"C_W": 0.8, "lambda_W": 0.5, "lambda_b": 0.2})):
        net = neft.MLP((1, *[8] * (depth - 1), 1), "tanh", **numbers)
        found = neft.width.repeated_kernel(net, X)
        # By quadrature over pairs, which shares nothing with expansions.
        known = neft.width.output_tensors(net, X, ("K", "Theta"))
        np.testing.assert_allclose(found.K, known["K"], rtol=1e-9, atol=1e-12)
        np.testing.assert_allclose(found.Theta, known["Theta"], rtol=1e-9, atol=1e-12)
        count = count or repeated._program._cache_size()
        assert repeated._program._cache_size() == count


def test_what_the_expansion_does_not_reach_is_asked_of_the_kernel(monkeypatch):
    asked = []
    monkeypatch.setattr(repeated, "kernel", lambda net, x, dtype: asked.append(net) or "known")
    far = neft.MLP((1, 8, 8, 1), "tanh", C_W=90.0)
    differing = neft.MLP((1, 8, 8, 8, 1), "tanh", C_W=(1.0, 1.1, 1.2, 1.0))
    for net in (far, differing, neft.MLP((1, 8, 1), "elu")):
        assert neft.width.repeated_kernel(net, X) == "known" and asked[-1] is net
    with pytest.raises(ValueError, match="x has shape"):
        neft.width.repeated_kernel(far, X.T)


@pytest.mark.slow
@pytest.mark.parametrize("block", ["one", "norm"])
def test_blocks_have_the_kernels_of_their_network(block):
    dense = neft.Dense(8, C_W=0.9, C_b=0.1)
    step = neft.Residual("silu", dense, skip=0.8) if block == "one" else neft.LayerNorm()
    between = [step] if block == "one" else [step, "silu", dense]
    net = neft.Network(1, [dense, *between * 3, "silu", neft.Dense(1)])
    found, known = neft.width.repeated_kernel(net, X), neft.width.kernel(net, X, dtype="float64")
    np.testing.assert_allclose(found.Theta, known.Theta, rtol=1e-9)


@pytest.mark.slow
def test_entries_with_one_test_input_need_no_others():
    net, x = neft.MLP((1, 8, 8, 1), "tanh", C_b=0.2), np.array([[-1.0], [0.3], [1.2], [-0.5], [0.8]])
    known, found = (neft.width.output_tensors(net, x, ("V",), rtol=1e-5, first=3, others=n)["V"] for n in (2, 1))
    for test in (3, 4):
        one = np.ix_(*([0, 1, 2, test],) * 4)
        np.testing.assert_allclose(found[one], known[one], atol=3e-5 * np.abs(known).max())
    assert np.abs(found - known).max() > 1e-2 * np.abs(known).max()  # what two different ones have was not made
