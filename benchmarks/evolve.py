"""How the error of the truncated hierarchy falls with the width: powers of 1/n, fitted with their uncertainty.

Each network is drawn, really trained by gradient flow, and evolved by its tangent kernels at orders 1, 2 and 3. Theory:
the error falls like 1/n, 1/n and 1/n². `python benchmarks/evolve.py DRAWS` prints errors and powers.
"""

import functools
import sys
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from measure import Ratio

import neft
from neft.training._dynamics import flow
from neft.training._hierarchy import Hierarchy, drawn

# Inputs far from collinear: a small eigenvalue of Θ makes the tails of all errors heavy.
X = 1.6 * np.array([[1.0, 0.0, 0.2], [0.0, 1.0, -0.1], [0.1, -0.2, 1.0]])
XT = np.array([[0.9, -0.8, 0.5], [0.3, 0.9, 0.6]])
Y = np.array([[0.6], [-0.5], [0.3]])
WIDTHS = (16, 32, 64, 128, 256)
PROMISED = (0.7, 0.7, 1.5)
"""Powers that the fit must reach; theory says 1, 1 and 2 for large n, and few draws with heavy tails say ± 0.1."""


class Errors(NamedTuple):
    """Root mean squares over draws and test inputs, (orders, widths), relative uncertainty, draws left out."""

    rms: np.ndarray
    uncertainty: np.ndarray
    lost: np.ndarray


def errors(activation: str, layers: int, draws: int, widths: tuple[int, ...] = WIDTHS) -> Errors:
    """Errors of orders 1, 2 and 3 against networks really trained."""
    key = jax.random.key(11)
    found, spread, lost = (np.zeros((3, len(widths))) for _ in range(3))
    for i, n in enumerate(widths):
        net = neft.MLP((3, *(n,) * layers, 1), activation, C_b=0.05, C_W=1.0)
        trained = neft.training.ensemble(net, X, Y, XT, draws=draws, key=key)
        with jax.enable_x64(True):
            whole = _hierarchies(net, key, jnp.arange(draws))
            # Zeros beyond the order kept, so that one program serves all orders and widths.
            cuts = [Hierarchy(*(p if k < kept else 0 * p for k, p in enumerate(whole))) for kept in (2, 3, 6)]
            ends = [tuple(map(np.asarray, _ends(cut))) for cut in cuts]
        for order, (z, reached) in enumerate(ends):
            good = trained.good & reached
            square = ((z - trained.test[..., 0])[good] ** 2).mean(1)
            found[order, i] = np.sqrt(square.mean())
            spread[order, i] = square.std(ddof=1) / np.sqrt(len(square)) / (2 * square.mean())
            lost[order, i] = draws - good.sum()
    return Errors(found, spread, lost)


@functools.partial(jax.jit, static_argnums=0)
def _hierarchies(net: neft.MLP, key: jax.Array, index: jax.Array) -> Hierarchy:
    x = jnp.asarray(np.concatenate([X, XT]))

    def one(i):
        return drawn(net, net.init(jax.random.fold_in(key, i), dtype=x.dtype), x, len(X), 3, net.rates())

    # A few draws at a time: the widest hold D²z along every gradient.
    return jax.lax.map(one, index, batch_size=8)


@jax.jit
def _ends(h: Hierarchy) -> tuple[jax.Array, jax.Array]:
    y = jnp.asarray(Y.ravel())

    def end(h):
        course = flow(h, y, None)
        return course.state.z[0, len(y) :], course.reached[0]

    return jax.vmap(end)(h)


def power(errors: Errors, order: int, widths: tuple[int, ...] = WIDTHS) -> tuple[float, float]:
    """p and its standard error in rms ∝ n^-p, by least squares weighted with the uncertainties."""
    u = errors.uncertainty[order - 1]
    design = np.stack([np.ones(len(widths)), -np.log(widths)], axis=1) / u[:, None]
    covariance = np.linalg.inv(design.T @ design)
    p = (covariance @ design.T @ (np.log(errors.rms[order - 1]) / u))[1]
    return float(p), float(np.sqrt(covariance[1, 1]))


CASES = (("tanh", 1), ("gelu", 1), ("tanh", 2))


def run(draws: int = 128) -> list[Ratio]:
    """Fitted powers, as ratios to what theory says."""
    ratios = []
    for activation, layers in CASES:
        found = errors(activation, layers, draws)
        for order, promised in zip((1, 2, 3), PROMISED):
            p, stderr = power(found, order)
            what = f"error of order {order}, {activation}, {layers} hidden, n = {WIDTHS[0]}..{WIDTHS[-1]}"
            theory = 2 if order == 3 else 1
            ratios.append(Ratio(what, "1/n^p", f"p = {p:.2f} ± {stderr:.2f}", f"p = {theory}", p, promised))
    return ratios


if __name__ == "__main__":
    for chosen, layers in CASES:
        measured = errors(chosen, layers, int(sys.argv[1]))
        powers = [power(measured, order) for order in (1, 2, 3)]
        print(chosen, layers, *measured, *powers, sep="\n", flush=True)
