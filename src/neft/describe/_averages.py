"""The card of Gaussian averages of several activations."""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Float

import neft

from .. import _check
from .._public import public
from .._result import Made, Result, result


@result
class AveragesCard(Result):
    """Gaussian averages of several activations.

    `square[a]` is ⟨σ²⟩ over z ~ N(0, K) on the grid `K`; `pair[a]` is ⟨σ(z₁)σ(z₂)⟩ at unit variance on the grid `rho`
    of correlations; `hermite[a]` is ⟨σ²⟩ again, by Gauss-Hermite quadrature with `nodes` nodes, for comparison.
    """

    activations: tuple[str, ...]
    K: Float[np.ndarray, " variances"]
    square: Float[np.ndarray, "activations variances"]
    hermite: Float[np.ndarray, "activations variances"]
    nodes: int
    rho: Float[np.ndarray, " correlations"]
    pair: Float[np.ndarray, "activations correlations"]
    made: Made


@public
def averages(
    activations: Sequence[str] = ("tanh", "silu", "gelu", "relu"), *, points: int = 41, nodes: int = 25
) -> AveragesCard:
    """The averages of the named activations, over K from 1e-3 to 1e2 and ρ from -1 to 1.

    >>> averages(["linear"], points=3).square.round(6).tolist()
    [[0.001, 0.316228, 100.0]]
    """
    points = _check.integer("points", points, at_least=2)
    nodes = _check.integer("nodes", nodes, at_least=1, at_most=300)  # NumPy's weights are NaN beyond 380
    if not len(activations):
        raise ValueError("activations is empty, but must name at least one activation.")
    sigmas = [neft.activation(name) for name in activations]
    K, rho, unit = np.geomspace(1e-3, 1e2, points), np.linspace(-1.0, 1.0, points), np.ones(points)
    return AveragesCard(
        activations=tuple(sigma.name for sigma in sigmas),
        K=K,
        square=np.stack([mean_square(sigma, K) for sigma in sigmas]),
        hermite=np.stack([_hermite(sigma, K, nodes) for sigma in sigmas]),
        nodes=nodes,
        rho=rho,
        pair=np.stack([np.asarray(neft.gaussian.pair(sigma, unit, unit, rho)) for sigma in sigmas]),
        made=Made.by(
            "neft.describe.averages",
            specification={"activations": list(activations), "points": points, "nodes": nodes},
        ),
    )


def mean_square(sigma: "neft.Activation", K: np.ndarray | float) -> np.ndarray:
    """⟨σ²⟩ over z ~ N(0, K)."""
    kinks = [kink.position for kink in sigma.kinks]
    return neft.gaussian.expect(lambda z: sigma(z) ** 2, K, kinks=kinks, length=min(sigma.length, 1.0))


def _hermite(sigma: "neft.Activation", K: np.ndarray, nodes: int) -> np.ndarray:
    import jax

    node, weight = np.polynomial.hermite_e.hermegauss(nodes)
    with jax.enable_x64(True):
        squares = np.asarray(sigma(np.sqrt(K)[:, None] * node)) ** 2
    return squares @ weight / weight.sum()
