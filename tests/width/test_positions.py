"""Kernels of convolutional networks against plain loops over positions, and where images are dark, flat or repeated."""

import json
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import neft
from neft import Attention, AvgPool, Conv, Dense, Flatten, GlobalAvgPool, Network, Residual, RMSNorm
from neft.width._kernel_positions import OnPositions

from .plain_positions import kernel as plain

H = {"C_W": 1.7, "C_b": 0.3, "lambda_W": 0.7, "lambda_b": 0.4}
IMAGE, SEQUENCE = (5, 4, 2), (5, 2)


def conv(shape=(3, 3), **options):
    return Conv(8, shape, **H, **options)


def attention(**options):
    return Attention(2, 8, **H | {"C_V": 0.8, "C_K": 1.2, "lambda_V": 1.1, "lambda_K": 0.6} | options)


END = Dense(1, **H)
UNTIED = {"weights": "linear", "tied": False, "C_K": 0.4}


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
        "attention": (SEQUENCE, [attention(), act, Dense(7, **H), attention(weights="linear"), GlobalAvgPool(), END]),
        "attention in a residual block": (
            IMAGE,
            [conv(strides=2), Residual(RMSNorm(), attention(encoding="gaussian", length=0.7)), act, Flatten(), END],
        ),
        "attention, not tied": (
            SEQUENCE,
            [conv(2), act, attention(**UNTIED, encoding="sinusoidal", encode_values=True), act, Flatten(), END],
        ),
        "attention, not tied, encoded keys": (
            SEQUENCE,
            [conv(2), attention(**UNTIED, encoding="sinusoidal"), AvgPool(2), act, Flatten(), END],
        ),
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


def test_attention_is_a_sum_over_pairs_of_positions(monkeypatch):
    net, x = Network((3, 2), [Dense(8, **H), attention(), Flatten(), END]), images((3, 2), 2)
    for found, wanted in zip(neft.width.kernel(net, x), plain(net, x, x)):
        np.testing.assert_allclose(found, wanted, rtol=1e-12)
    # Of each input K' at three positions and nine weights are kept, 2·12 numbers of 8 bytes.
    monkeypatch.setattr("neft._check.machine_memory", lambda: 191.0)
    with pytest.raises(
        ValueError, match=r"attention keep of 2 inputs, 1.20e\+01 numbers each, would take 1.92e\+02 bytes"
    ):
        neft.width.kernel(net, x)


@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    [
        "CIRCULAR",
        "pools of preactivations",
        "residual, strided shortcut",
        "a pool in a branch",
        "sequence",
        "attention",
        "attention, not tied",
        "attention, not tied, encoded keys",
    ],
)
def test_kernels_are_those_of_plain_loops(name):
    check("relu", name)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("act", "name"), [("erf", "VALID, strides"), ("silu", "pool of inputs"), ("erf", "attention in a residual block")]
)
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
@pytest.mark.parametrize("weights", ["softmax", "linear"])
def test_attention_of_black_flat_and_repeated_images_has_its_kernel(weights):
    # A kink after attention sees the root of what is rounding where images are the same.
    block = Attention(2, 8, weights=weights, C_K=0.7, C_W=1.5)
    blocks = [Conv(8, (2, 2), C_W=2.0), "relu", block, "relu", GlobalAvgPool(), Dense(1)]
    net, x = Network((5, 5, 1), blocks), special_images()
    K, Theta = neft.width.kernel(net, x)
    assert np.isfinite(K).all() and np.isfinite(Theta).all() and not K[0].any()
    for values in (K, Theta):
        np.testing.assert_allclose(values[2], values[3], rtol=1e-9, atol=1e-12)
        np.testing.assert_allclose(values[2, 3], values[3, 3], rtol=1e-12)
        assert np.linalg.eigvalsh(values)[0] > -1e-9
    if weights == "softmax":
        # Logits of a black or flat image are all the same but at its edge: without edges that is a plain mean.
        blocks[0] = Conv(8, (2, 2), C_W=2.0, padding="CIRCULAR")
        plain = Network((5, 5, 1), [*blocks[:2], block.replace(C_K=0.0), *blocks[3:]])
        found, wanted = (neft.width.kernel(one, x[:2]) for one in (Network((5, 5, 1), blocks), plain))
        for one, other in zip(found, wanted):
            np.testing.assert_allclose(one, other, rtol=1e-12)
    else:
        # Linear in three places: of a double image everything is eight times as large.
        np.testing.assert_allclose(K[3, 5], 8 * K[3, 3], rtol=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "draws"), [("attention", 8000)])
def test_kernels_are_those_of_drawn_networks(name, draws):
    # At two widths, extrapolated in 1/width; fourteen networks that were drawn before are compared below.
    shape, blocks = networks("relu")[name]
    x = images(shape, 2).astype(np.float32)
    means, errors = [], []
    for width in (24, 48):
        net = Network(shape, blocks).resized(lambda n, width=width: width)
        found = neft.ensemble.estimate_model(net.init, net.apply, x, draws=draws, key=jax.random.key(width))
        two_point, ntk = found.two_point, found.ntk
        means.append(np.stack([two_point.mean[:, 0, :, 0], ntk.mean[:, 0, :, 0]]))
        errors.append(np.stack([two_point.stderr[:, 0, :, 0], ntk.stderr[:, 0, :, 0]]))
    limit, error = 2 * means[1] - means[0], np.hypot(2 * errors[1], errors[0])
    kernel = np.stack(neft.width.kernel(Network(shape, blocks), x.astype(np.float64)))
    assert np.abs((limit - kernel) / error).max() < 5
    # Resolved: the kernel of vectors without convolutions is far away.
    assert (kernel / error).min() > 10


DRAWN = json.loads((Path(__file__).parent / "drawn_positions.json").read_text())


@pytest.mark.slow
@pytest.mark.parametrize("name", DRAWN)
def test_kernels_are_what_drawn_networks_tend_to(name):
    # Drawn by tools/draw_positions.py.
    kept = DRAWN[name]
    mean, error, x = (np.array(kept[key]) for key in ("mean", "error", "x"))
    net = Network.from_dict(kept["network"])
    kernel = np.stack(neft.width.kernel(net, x))
    assert np.abs((mean - kernel) / error).max() < 5
    assert (np.abs(kernel) / error).min() > 10
    if "attention" in name:
        # Far from what a plain mean over positions would give.
        plain = np.stack(neft.width.kernel(_averaging(net), x))
        assert (np.abs(plain - kernel) / error).max(axis=(1, 2)).min() > 10


def _averaging(net):
    def changed(block):
        if isinstance(block, Attention):
            return block.replace(C_K=0.0, weights="softmax", tied=True)
        return Residual(*map(changed, block.branch), skip=block.skip) if isinstance(block, Residual) else block

    return Network(net.input_shape, map(changed, net.blocks))


@pytest.mark.slow
def test_networks_with_attention_are_drawn_trained_and_predicted():
    net = Network(SEQUENCE, [Dense(24, **H), attention(C_K=1.0), "tanh", GlobalAvgPool(), END])
    net = net.resized(lambda n: 24)
    x, y = images(SEQUENCE, 4), np.array([[1.0], [-1.0], [0.5], [0.0]])
    kernel = neft.width.kernel(net, x)
    params = net.init(jax.random.key(1))
    ntk = neft.tangent.ntk(net, params, x[:2].astype(np.float32), rates=net.rates())
    gradients = [jax.grad(lambda p, a=a: net.apply(p, a)[0])(params) for a in jnp.asarray(x[:2], jnp.float32)]
    scaled = jax.tree.map(lambda rate, a, b: rate * (a * b).sum(), net.rates(), *gradients)
    np.testing.assert_allclose(float(ntk[0, 1, 0, 0]), sum(map(float, jax.tree.leaves(scaled))), rtol=1e-4)
    trained = neft.training.predict(net, x[:3], y[:3], x)
    np.testing.assert_allclose(trained.mean[:3], y[:3], atol=1e-8)
    Theta = kernel.Theta
    np.testing.assert_allclose(trained.mean[3:], Theta[3:, :3] @ np.linalg.solve(Theta[:3, :3], y[:3]), rtol=1e-8)
    posterior = neft.training.nngp(net, x[:3], y[:3], x, noise=0.1)
    wanted = kernel.K[3:, :3] @ np.linalg.solve(kernel.K[:3, :3] + 0.1 * np.eye(3), y[:3])
    np.testing.assert_allclose(posterior.mean[3:], wanted, rtol=1e-6)
    draws = neft.training.sample(net, x[:3], y[:3], x, time=0.5, loss="square", draws=4000, key=jax.random.key(2))
    early = neft.training.predict(net, x[:3], y[:3], x, time=0.5)
    error = draws.outputs.std(0) / np.sqrt(4000)
    assert (np.abs(draws.mean - early.mean) < 5 * error).all()
