"""Kernels of convolutional networks against plain loops over positions, and where images are dark, flat or repeated."""

import numpy as np
import pytest

import neft
from neft import AvgPool, Conv, Dense, Flatten, GlobalAvgPool, Network, Residual, RMSNorm

from .plain_positions import kernel as plain

H = {"C_W": 1.7, "C_b": 0.3, "lambda_W": 0.7, "lambda_b": 0.4}
IMAGE, SEQUENCE = (5, 4, 2), (5, 2)


def conv(shape=(3, 3), **options):
    return Conv(8, shape, **H, **options)


END = Dense(1, **H)


def networks(act):
    """One of each kind that is on offer."""
    return {
        "flatten": (IMAGE, [conv(), act, conv((3, 2)), act, Flatten(), END]),
        "VALID, strides": (
            IMAGE,
            [conv((2, 2), padding="VALID"), act, conv((3, 2), strides=(2, 1)), act, Flatten(), END],
        ),
        "CIRCULAR": (
            IMAGE,
            [conv(padding="CIRCULAR"), act, conv((2, 3), padding="CIRCULAR", strides=2), act, Flatten(), END, act, END],
        ),
        "pool of all": (IMAGE, [conv(), act, conv(strides=2), act, GlobalAvgPool(), END, act, END]),
        "pools": (
            IMAGE,
            [conv(), act, AvgPool((2, 2), strides=(1, 2)), conv((3, 1)), act, AvgPool((2, 1)), Flatten(), END],
        ),
        "pools of preactivations": (
            IMAGE,
            [conv(), AvgPool((2, 2)), act, conv((1, 2)), GlobalAvgPool(), act, END],
        ),
        "residual, strided shortcut": (
            IMAGE,
            [
                conv(),
                Residual(RMSNorm(), act, conv(), skip=0.7),
                Residual(act, conv(strides=2), act, conv(), skip=conv((1, 1), strides=2)),
                act,
                Flatten(),
                END,
            ],
        ),
        "a pool in a branch": (
            IMAGE,
            [
                conv(),
                Residual(act, AvgPool((2, 2), strides=1), conv((2, 2)), skip=conv((2, 2), padding="VALID")),
                act,
                GlobalAvgPool(),
                END,
            ],
        ),
        "sequence": (SEQUENCE, [conv(3), act, Dense(7, **H), act, AvgPool(2), conv(2), act, GlobalAvgPool(), END]),
        "pool of inputs": (IMAGE, [AvgPool((2, 2), strides=1), conv(), act, Flatten(), END]),
    }


def images(shape, count=3):
    x = np.random.default_rng(0).normal(size=(count, *shape))
    x[-1, :3] = 0  # part of an image is black
    return x


def check(act, name):
    shape, blocks = networks(act)[name]
    net, x = Network(shape, blocks), images(shape)
    true = plain(net, x, x)
    for found, wanted in zip(neft.width.kernel(net, x), true):
        # A kink sees the root of rounding in the loops' own arccos.
        np.testing.assert_allclose(found, wanted, rtol=1e-8)
        np.testing.assert_array_equal(found, found.T)
    for found, wanted in zip(neft.width.kernel(net, x[:1], x), true):
        np.testing.assert_allclose(found, wanted[:1], rtol=1e-8)
    for found, wanted in zip(neft.width.kernel(net, x, dtype="float32"), true):
        np.testing.assert_allclose(found, wanted, rtol=1e-6)
        assert found.dtype == np.float32


def test_flattened_convolutions_are_sums_over_windows():
    shape, blocks = (3, 1), [Conv(8, 2, **H), "relu", Flatten(), END]
    net, x = Network(shape, blocks), images(shape)
    for found, wanted in zip(neft.width.kernel(net, x), plain(net, x, x)):
        np.testing.assert_allclose(found, wanted, rtol=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize("name", networks("relu"))
def test_kernels_are_those_of_plain_loops(name):
    check("relu", name)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["pools", "residual, strided shortcut"])
def test_kernels_of_smooth_activations_are_those_of_plain_loops(name):
    check("erf", name)
