"""Kernels of residual and normalized networks against neural-tangents 0.6.5, both in float64: agreement and seconds.

Its LayerNorm holds for Gaussian preactivations only, so norms stand on those. `kernels.py` says how its environment is
made and named.
"""

import argparse
import os

import numpy as np
from measure import VARIABLE, Ratio, in_turns, one_core, peer, timed

import neft
from neft import Dense, LayerNorm, Network, Residual, RMSNorm

FEATURES, INPUTS, AGREEMENT = 20, 2000, 1e-6


def dense(width: int, C_W: float = 1.5, C_b: float = 0.1) -> Dense:
    """A dense block whose rates are those of the peer's parameterization, λ = C."""
    return Dense(width, C_W=C_W, C_b=C_b, lambda_W=C_W, lambda_b=C_b)


def networks() -> dict[str, Network]:
    """One- and two-matrix branches, skips of 1 and 0.7, norms before branches, after sums and before the readout."""
    one = lambda act, skip: Residual(act, dense(8), skip=skip)  # noqa: E731
    two = lambda act, skip, *norm: Residual(*norm, dense(16), act, dense(8), skip=skip)  # noqa: E731
    return {
        "one-matrix branches, relu, skip 1": Network(FEATURES, [dense(8), *[one("relu", 1.0)] * 3, dense(1)]),
        "one-matrix branches, erf, skip 0.7": Network(FEATURES, [dense(8), *[one("erf", 0.7)] * 3, dense(1)]),
        "two-matrix branches, relu, skip 0.7": Network(FEATURES, [dense(8), *[two("relu", 0.7)] * 3, dense(1)]),
        "two-matrix branches, erf, skip 1": Network(FEATURES, [dense(8), *[two("erf", 1.0)] * 3, dense(1)]),
        "pre-norm, RMSNorm, relu": Network(
            FEATURES, [dense(8), *[two("relu", 1.0, RMSNorm())] * 3, RMSNorm(), dense(1)]
        ),
        "pre-norm, LayerNorm, erf, skip 0.7": Network(
            FEATURES, [dense(8), *[two("erf", 0.7, LayerNorm())] * 3, LayerNorm(), dense(1)]
        ),
        "post-norm, LayerNorm, relu": Network(FEATURES, [dense(8), *[two("relu", 1.0), LayerNorm()] * 3, dense(1)]),
    }


@one_core()
def run() -> list[Ratio]:
    """Agreement and speed of K and Θ; nothing where the peer's Python is not named."""
    x = np.random.default_rng(0).normal(size=(INPUTS, FEATURES))
    return [ratio for name, net in networks().items() for ratio in _compared(name, net, x)]


def _compared(name: str, net: Network, x: np.ndarray) -> list[Ratio]:
    with peer("neural_tangents_blocks.py", net.to_dict(), {"x": x}) as theirs:
        if theirs is None:
            return []
        ours = neft.width.kernel(net, x)
        apart = max(
            float(np.abs(found - theirs.answer[key]).max() / np.abs(found).max())
            for key, found in zip(("K", "Theta"), ours)
        )
        seconds = in_turns(timed(lambda: neft.width.kernel(net, x)), theirs.seconds, repeat=3)
    what, label = f"K, Θ: {name}, N = {INPUTS}, float64", "neural-tangents, float64"
    return [
        Ratio(f"{what}: agreement", label, f"{apart:.1e} apart", "", AGREEMENT / max(apart, 1e-16), 1.0),
        Ratio.of(f"{what}: speed", label, 1.0, *seconds),
    ]


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Kernels of residual and normalized networks against neural-tangents.")
    parser.add_argument("--peer", help="the Python of the environment that has neural-tangents")
    options = parser.parse_args()
    if options.peer:
        os.environ[VARIABLE] = options.peer
    for row in run():
        print(f"{row.what} | {row.peer} | {row.ours} | {row.theirs} | {row} | {row.holds}", flush=True)
