"""Kernels of convolutional networks against neural-tangents 0.6.5: agreement in float64, CPU seconds in float32.

`kernels.py` says how its environment is made and named.
"""

import argparse
import os

import numpy as np
from measure import VARIABLE, Ratio, in_turns, one_core, peer, timed
from scipy import special
from scipy.ndimage import uniform_filter

import neft
from neft import Attention, AvgPool, Conv, Dense, Flatten, GlobalAvgPool, LayerNorm, Network, Residual, RMSNorm

AGREEMENT, FEW = 1e-6, 4
SMALL, LARGE, SEQUENCE = (6, 5, 2), (14, 14, 1), (8, 3)
RATES = {"C_W": 1.5, "C_b": 0.1, "lambda_W": 1.5, "lambda_b": 0.1}  # those of the peer's parameterization, λ = C


def conv(shape=(3, 3), **options) -> Conv:
    """A convolution whose rates are those of the peer."""
    return Conv(8, shape, **RATES, **options)


def attention(C_K=0.8, **options) -> Attention:
    """The same of attention."""
    rates = RATES | {"C_V": 0.7, "lambda_V": 0.7, "C_K": C_K, "lambda_K": C_K}
    return Attention(1, 8, **rates, **options)


def networks() -> dict[str, Network]:
    """Forty networks of every kind that both have."""
    end = Dense(1, **RATES)
    found = {}
    for act in ("relu", "erf", "gelu"):
        image = {
            "flatten, SAME": [conv(), act, conv(), act, Flatten(), end],
            "flatten, VALID": [conv(padding="VALID"), act, conv((3, 2), padding="VALID"), act, Flatten(), end],
            "flatten, CIRCULAR": [conv(padding="CIRCULAR"), act, conv((5, 3), padding="CIRCULAR"), act, Flatten(), end],
            "flatten, strides": [conv(strides=2), act, conv((2, 2), strides=(1, 2)), act, Flatten(), end],
            "flatten, dense blocks after it": [conv(), act, Flatten(), end, act, end],
            "pool of all": [conv(), act, conv(), act, GlobalAvgPool(), end],
            "pool of all, strides": [conv(strides=2), act, conv(padding="VALID"), act, GlobalAvgPool(), end],
            "pools, flatten": [conv(), act, AvgPool((2, 2)), conv(), act, AvgPool((2, 2), strides=1), Flatten(), end],
        }
        found |= {f"{name}, {act}": Network(SMALL, blocks) for name, blocks in image.items()}
        sequence = [conv(3), act, conv(2, strides=2), act, AvgPool(2), conv(3), act, GlobalAvgPool(), end]
        found[f"sequence, {act}"] = Network(SEQUENCE, sequence)
    for act in ("relu", "erf"):
        plain = Residual(act, conv(), skip=0.7)
        strided = Residual(act, conv(strides=2), act, conv(), skip=conv((1, 1), strides=2))
        found[f"residual, strided shortcut, {act}"] = Network(SMALL, [conv(), plain, strided, act, Flatten(), end])
        found[f"residual, pool of all, {act}"] = Network(SMALL, [conv(), plain, strided, act, GlobalAvgPool(), end])
        norms = Residual(LayerNorm(), act, conv(), act, conv())
        found[f"residual, norms, {act}"] = Network(SMALL, [conv(), norms, RMSNorm(), act, Flatten(), end])
        kinds = {
            "softmax": attention(),
            "linear": attention(0.2, weights="linear"),
            "linear, not tied": attention(0.3, weights="linear", tied=False),
            "encoded keys": attention(encoding="gaussian", length=1.5, C_e=2.0),
        }
        for name, block in kinds.items():
            found[f"attention, {name}, {act}"] = Network(SEQUENCE, [conv(3), act, block, act, GlobalAvgPool(), end])
        within = [conv((3, 3), strides=2), Residual(LayerNorm(), attention()), act, Flatten(), end]
        found[f"attention, residual, norms, images, {act}"] = Network(SMALL, within)
    return found


def timing() -> list[tuple[str, Network, int, str, float]]:
    """What is timed: a name, a network, how many images, of what dtype, and the ratio that was promised."""

    def net(act: str, layers: int, *end) -> Network:
        blocks = [block for _ in range(layers) for block in (conv(), act)]
        return Network(LARGE, [*blocks, *end, Dense(1, **RATES)])

    silu = "3×3, 4 layers, flatten, silu (theirs: 25 nodes)", net("silu", 4, Flatten()), 50
    return [
        ("3×3, 4 layers, flatten, relu", net("relu", 4, Flatten()), 200, "float32", 3.0),
        ("3×3, 4 layers, flatten, erf", net("erf", 4, Flatten()), 200, "float32", 3.0),
        (*silu, "float32", 50.0),
        (*silu, "float64", 50.0),
        ("3×3, 3 layers, pool of all, relu", net("relu", 3, GlobalAvgPool()), 50, "float32", 10.0),
    ]


@one_core()
def run() -> list[Ratio]:
    """Agreement and speed of K and Θ; nothing where the peer's Python is not named."""
    return [*agreements(), *speeds()]


def agreements(only: str = "") -> list[Ratio]:
    """How far apart the two are, of networks whose names hold a word."""
    found = []
    for name, net in networks().items():
        if only not in name:
            continue
        x = np.random.default_rng(0).normal(size=(FEW, *net.input_shape))
        with peer("neural_tangents_blocks.py", net.to_dict(), {"x": x}) as theirs:
            if theirs is None:
                return []
            apart = _apart(neft.width.kernel(net, x), theirs.answer)
        what = f"K, Θ: {name}, N = {FEW}, float64: agreement"
        found.append(Ratio(what, "neural-tangents", f"{apart:.1e} apart", "", AGREEMENT / max(apart, 1e-16), 1.0))
        print(found[-1].what, found[-1].ours, flush=True)
    return found


def speeds() -> list[Ratio]:
    """CPU seconds of both, after compilation; for what the peer integrates with few nodes, errors too."""
    found = []
    for name, net, count, dtype, promised in timing():
        x = np.random.default_rng(0).normal(size=(count, *net.input_shape)).astype(np.float32).astype(dtype)
        what = f"K, Θ: {name}, N = {count}, {LARGE[0]}×{LARGE[1]}, {dtype}"
        with peer("neural_tangents_blocks.py", net.to_dict(), {"x": x}) as theirs:
            if theirs is None:
                return []
            # What takes the peer more than a minute is not done four times.
            turns = 1 if net.crossed else 3
            seconds = in_turns(timed(lambda: neft.width.kernel(net, x)), theirs.seconds, repeat=turns)  # noqa: B023
            found.append(Ratio.of(f"{what}: speed", "neural-tangents", promised, *seconds))
            if "silu" in name:
                true = by_quadrature(x[:2])
                ours = _apart(neft.width.kernel(net, x[:2]), true)
                other = _apart((theirs.answer["K"][:2, :2], theirs.answer["Theta"][:2, :2]), true)
                # Their error is that of the nodes in both; ours is rounding, which leaves float32 no factor of 1000.
                least = 1000.0 if dtype == "float64" else 10.0
                row = (f"{what}: error", "neural-tangents", f"{ours:.1e}", f"{other:.1e}", other / ours, least)
                found.append(Ratio(*row))
        for row in found[-2 if "silu" in name else -1 :]:
            print(row.what, row.ours, row.theirs, row, flush=True)
    return found


def by_quadrature(x: np.ndarray) -> dict[str, np.ndarray]:
    """K and Θ of the silu network of `timing`, by the trapezoid rule in two dimensions and sums over windows."""
    C, b = RATES["C_W"], RATES["C_b"]
    u = np.linspace(-9, 9, 181)
    w = np.exp(-u * u / 2) * (u[1] - u[0]) / np.sqrt(2 * np.pi)

    def silu(z):
        s = special.expit(z)
        return z * s, s * (1 + z * (1 - s))

    def averages(K1, K2, c):
        rho = np.clip(c / np.sqrt(K1 * K2), -1, 1)
        means = []
        for a1, a2, r in np.broadcast(np.sqrt(K1), np.sqrt(K2), rho):
            one = silu(a1 * u[:, None])
            two = silu(a2 * (r * u[:, None] + np.sqrt(1 - r * r) * u[None, :]))
            means.append([w @ (f * g) @ w for f, g in zip(one, two)])
        return np.array(means).T.reshape(2, *K1.shape)

    def window(S):
        return uniform_filter(S, 3, mode="constant")

    K, Theta = np.empty((2, 2)), np.empty((2, 2))
    for i, j in ((0, 0), (0, 1), (1, 0), (1, 1)):
        one, two = x[i, ..., 0].astype(np.float64), x[j, ..., 0].astype(np.float64)
        S11, S22, S12, T = one * one, two * two, one * two, np.zeros(one.shape)
        for _ in range(4):
            T = b + C * window(S12) + C * window(T)
            S11, S22, S12 = (b + C * window(S) for S in (S11, S22, S12))
            (both, slope), S11, S22 = (
                averages(S11, S22, S12),
                averages(S11, S11, S11)[0],
                averages(S22, S22, S22)[0],
            )
            S12, T = both, slope * T
        K[i, j], Theta[i, j] = b + C * S12.mean(), b + C * S12.mean() + C * T.mean()
    return {"K": K, "Theta": Theta}


def _apart(ours, theirs: dict[str, np.ndarray]) -> float:
    pairs = zip(("K", "Theta"), ours)
    return max(float(np.abs(found - theirs[key]).max() / np.abs(found).max()) for key, found in pairs)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Kernels of convolutional networks against neural-tangents.")
    parser.add_argument("--peer", help="the Python of the environment that has neural-tangents")
    parser.add_argument("--agreement", metavar="WORD", help="only how far apart networks are whose names hold this")
    options = parser.parse_args()
    if options.peer:
        os.environ[VARIABLE] = options.peer
    for row in run() if options.agreement is None else agreements(options.agreement):
        print(f"{row.what} | {row.peer} | {row.ours} | {row.theirs} | {row} | {row.holds}", flush=True)
