"""Kernels of convolutional networks against plain loops over positions, and where images are dark, flat or repeated."""

import jax
import numpy as np
import pytest

import neft
from neft import AvgPool, Conv, Dense, Flatten, GlobalAvgPool, Network, Residual, RMSNorm
from neft.width._kernel_positions import OnPositions

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
@pytest.mark.parametrize(
    "name", ["CIRCULAR", "pools of preactivations", "residual, strided shortcut", "a pool in a branch", "sequence"]
)
def test_kernels_are_those_of_plain_loops(name):
    check("relu", name)


@pytest.mark.slow
@pytest.mark.parametrize(("act", "name"), [("erf", "VALID, strides"), ("silu", "pool of inputs")])
def test_kernels_of_smooth_activations_are_those_of_plain_loops(act, name):
    check(act, name)


def special_images():
    """Black, flat, twice the same, its opposite, its double, and one that is none of these."""
    x = np.random.default_rng(0).normal(size=(7, 5, 5, 1))
    x[0], x[1], x[2], x[4], x[5] = 0, 1, x[3], -x[3], 2 * x[3]
    return x


@pytest.mark.slow
@pytest.mark.parametrize("end", [Flatten(), GlobalAvgPool()], ids=repr)
def test_black_flat_and_repeated_images_have_their_kernels(end):
    blocks = [Conv(8, (3, 3), C_W=2.0), "relu", Conv(8, (3, 3), C_W=2.0), "relu", end, Dense(1)]
    net, x = Network((5, 5, 1), blocks), special_images()
    K, Theta = neft.width.kernel(net, x)
    # Nothing but biases, of variance 0 here, sees a black image; of a double everything is doubled.
    assert not K[0].any()
    np.testing.assert_allclose(K[3, 5], 2 * K[3, 3], rtol=1e-13)
    for values in (K, Theta):
        np.testing.assert_allclose(values[2], values[3], rtol=1e-13, atol=1e-15)
        assert np.linalg.eigvalsh(values)[0] > -1e-14
    # Without losing digits in float32, where an angle of 1e-4 would be rounding.
    for found, wanted in zip(neft.width.kernel(net, x, dtype="float32"), (K, Theta)):
        np.testing.assert_allclose(found, wanted, atol=1e-6 * wanted.max())


@pytest.mark.slow
def test_kernels_go_to_files_and_resume_there(tmp_path, monkeypatch):
    net = Network((4, 4, 1), [Conv(8, (3, 3)), "erf", GlobalAvgPool(), Dense(1)])
    x = np.random.default_rng(0).normal(size=(9, 4, 4, 1))
    whole = neft.width.kernel(net, x)
    monkeypatch.setattr("neft.width._kernel_positions._CROSSED", 16**2 * 8)  # one row a block
    path, tiles = tmp_path / "kernel.npy", []
    tile = OnPositions._tile

    def interrupted(self, row, column):
        tiles.append(row.start)
        if len(tiles) == 5:
            raise KeyboardInterrupt
        return tile(self, row, column)

    monkeypatch.setattr(OnPositions, "_tile", interrupted)
    with pytest.raises(KeyboardInterrupt):
        neft.width.kernel(net, x, out=path)
    found = neft.width.kernel(net, x, out=path)
    assert tiles.count(0) == 2  # two blocks of columns, once
    for one, other in zip(found, whole):
        np.testing.assert_allclose(one, other, rtol=1e-14)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["flatten", "pool of all", "residual, strided shortcut"])
def test_kernels_are_those_of_drawn_networks(name):
    # At two widths, extrapolated in 1/width.
    shape, blocks = networks("relu")[name]
    x = images(shape, 2).astype(np.float32)
    means, errors = [], []
    for width in (24, 48):
        net = Network(shape, blocks).resized(lambda n, width=width: width)
        found = neft.ensemble.estimate_model(net.init, net.apply, x, draws=3000, key=jax.random.key(width))
        two_point, ntk = found.two_point, found.ntk
        means.append(np.stack([two_point.mean[:, 0, :, 0], ntk.mean[:, 0, :, 0]]))
        errors.append(np.stack([two_point.stderr[:, 0, :, 0], ntk.stderr[:, 0, :, 0]]))
    limit, error = 2 * means[1] - means[0], np.hypot(2 * errors[1], errors[0])
    kernel = np.stack(neft.width.kernel(Network(shape, blocks), x.astype(np.float64)))
    assert np.abs((limit - kernel) / error).max() < 5
    # Resolved: the kernel of vectors without convolutions is far away.
    assert (kernel / error).min() > 10
