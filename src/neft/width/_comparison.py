"""Theory against simulation: every tensor of every layer, with z-scores.

Up to the second layer the leading order is exact at any width. From the third on, the tensors of a simulated network
differ from it by further powers of 1/n, which are large for some: the hidden widths are multiplied by several factors
f, and a + b/f + c/f² is fitted, whose a is what the theory speaks of.
"""

import math
from typing import Any

import jax
import numpy as np
from jaxtyping import Array, Float

from .. import _check
from .._network import MLP
from .._result import Made, Result, result
from ._statistics import NAMES, statistics

FACTORS = (1, 2, 3, 5)


@result
class Comparison(Result):
    """Theory, simulation extrapolated to large width, its standard error and the z-score; each of shape (L,) by name.

    A tensor that is zero in theory and in every draw has z = 0. `agrees` is whether no |z| reaches 5.
    """

    theory: dict[str, Float[np.ndarray, " layers"]]
    simulation: dict[str, Float[np.ndarray, " layers"]]
    stderr: dict[str, Float[np.ndarray, " layers"]]
    z: dict[str, Float[np.ndarray, " layers"]]
    widths: tuple[int, ...]
    activation: str
    draws: int
    factors: tuple[int, ...]
    made: Made

    @property
    def worst(self) -> float:
        """The largest |z|."""
        return max(float(np.abs(z).max()) for z in self.z.values())

    @property
    def agrees(self) -> bool:
        """Whether every tensor of every layer agrees within five standard errors."""
        return self.worst < 5

    def _shown(self):
        yield "widths", f"{self.widths} and {', '.join(f'×{f}' for f in self.factors[1:])}"
        yield "worst |z|", f"{self.worst:.2f}"
        for name, z in self.z.items():
            yield name, ", ".join(f"{value:+.2f}" for value in z)


def check(
    net: MLP,
    x: Any,
    *,
    draws: int = 4096,
    key: Array | None = None,
    factors: tuple[int, ...] = FACTORS,
    dtype: Any = np.float64,
) -> Comparison:
    """The statistics of a network against ensembles of `draws` networks at each of several widths.

    Args:
        net: the specification; its hidden widths are multiplied by each of the factors.
        x: one input of shape (n_0,).
        draws: networks at each width.
        key: a JAX key (default: key 0).
        factors: of the hidden widths; at least three where there are more than two layers.
        dtype: of the simulated networks.

    >>> check(MLP(widths=(3, 6, 2), activation="relu"), [1.0, 0.5, 0.2], draws=512, factors=(1,)).agrees
    True
    """
    # The simulation is a sibling, not a part of the theory: it is only met here.
    from ..ensemble import estimate

    factors = tuple(_check.integer("each of factors", f, at_least=1) for f in factors)
    if net.depth > 2 and len(set(factors)) < 3:
        raise ValueError(f"factors is {factors}, but must hold at least three widths to extrapolate from.")
    key = jax.random.key(0) if key is None else key
    theory = statistics(net, x)
    estimates = []
    for index, factor in enumerate(factors):
        widths = (net.widths[0], *(factor * n for n in net.widths[1:-1]), net.widths[-1])
        scaled = MLP(widths, net.activation, net.C_b, net.C_W, net.lambda_b, net.lambda_W)
        estimates.append(estimate(scaled, x, draws, jax.random.fold_in(key, index), dtype=dtype))
    known, simulation, stderr, z = {}, {}, {}, {}
    for name in NAMES:
        if name not in estimates[0].tensors or theory.tensors[name] is None:
            continue
        found = np.stack([e.tensors[name].mean for e in estimates])
        errors = np.stack([e.tensors[name].stderr for e in estimates])
        known[name] = getattr(theory, name)
        fits = [_extrapolate(found[:, l], errors[:, l], factors, exact=l < 2) for l in range(net.depth)]
        simulation[name], stderr[name] = (np.array(column) for column in zip(*fits))
        z[name] = _scores(simulation[name] - known[name], stderr[name], np.abs(known[name]).max())
    specification = {"net": net.to_dict(), "x": np.asarray(x, float), "draws": draws, "factors": factors}
    return Comparison(
        theory=known,
        simulation=simulation,
        stderr=stderr,
        z=z,
        widths=net.widths,
        activation=net.activation.name,
        draws=draws,
        factors=factors,
        made=Made.by("neft.width.check", specification=specification, key=key),
    )


def _extrapolate(
    found: np.ndarray, errors: np.ndarray, factors: tuple[int, ...], *, exact: bool
) -> tuple[float, float]:
    if not errors.any():
        return float(found[0]), 0.0
    powers = 1 if exact else 3
    design = np.stack([np.array(factors, float) ** -k for k in range(powers)], axis=1) / errors[:, None]
    covariance = np.linalg.inv(design.T @ design)
    return float((covariance @ design.T @ (found / errors))[0]), math.sqrt(covariance[0, 0])


def _scores(difference: np.ndarray, stderr: np.ndarray, scale: float) -> np.ndarray:
    # Without any spread only rounding may be left.
    equal = np.abs(difference) <= 1e-9 * max(scale, 1.0)
    certain = np.where(equal, 0.0, np.copysign(np.inf, difference))
    return np.where(stderr > 0, difference / np.where(stderr > 0, stderr, 1.0), certain)
