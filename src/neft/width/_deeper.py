"""Flowing deeper than a network is, and the depth at which its fluctuations are as large as its means."""

import functools
import math
from collections.abc import Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from .._activation import Activation
from ..network import Dense
from ._moments import averages
from ._one_input import Tensors, next_layer

CHUNK = 64
"""Layers of one compiled call; fixed, so that a depth never waits for the compiler."""

RATES_IN = {"K": 0, "V": 0, "K1": 0, "Theta": 1, "D": 1, "F": 1, "Theta1": 1}
RATES_IN |= {"A": 2, "B": 2, "P": 2, "Q": 2, "R": 3, "S": 3, "T": 3, "U": 3}
"""How many learning rates each tensor is a product of."""

_SMALLEST_POWER = 0.1  # growth slower than this power of the depth counts as levelling off


def strength(tensors: dict[str, Any], n: Any) -> np.ndarray:
    """What the expansion is in powers of: the largest of the relative variances and shifts of kernel and NTK.

    They are V/nK², (A + 2B)/nΘ², |K1|/nK and |Θ1|/nΘ, those that exist.
    """
    K: Any = tensors["K"]
    Theta: Any = tensors.get("Theta")
    found = [tensors["V"] / (n * K**2), np.abs(tensors["K1"]) / (n * K)]
    if has_ntk(tensors):
        found += [(tensors["A"] + 2 * tensors["B"]) / (n * Theta**2), np.abs(tensors["Theta1"]) / (n * Theta)]
    return np.max(found, axis=0)


def has_ntk(tensors: dict[str, Any]) -> bool:
    """Whether there is an NTK to compare with: σ has a derivative, and some learning rate is not 0."""
    return tensors.get("Theta") is not None and bool(np.all(tensors["Theta"] > 0))


def chunks(act: Activation, layer: Tensors, block: Dense, *, balanced: bool) -> Iterator[tuple[Tensors, Any, Any]]:
    """The layers after `layer`, of equal widths, without end: tensors, ⟨s²⟩ before and χ_⊥ of each, of shape (CHUNK,).

    All are that block. With `balanced` the rates are those of equal shares at every depth, in units in which the last
    λ_b is 1; else they are its own. P to U are left out, as zeros.
    """
    run = _compiled(act)
    layer, block = (jax.tree.map(lambda value: jnp.asarray(np.asarray(value, float)), one) for one in (layer, block))
    while True:
        layer, found = run(layer, block, balanced)
        yield found


@functools.lru_cache(maxsize=64)
def _compiled(act: Activation):
    # Which rates are taken is no part of the program, which takes seconds to compile.
    def run(layer, block, balanced):
        def step(layer, _):
            mean = averages(act, layer.K)
            chi: Any = None if mean.a is None else block.tensors().variance * mean.a
            own = block
            if chi is not None:
                # Rates of all earlier layers grow by 1/χ_⊥ when a layer is put on top: a change of units of the layer.
                unit = jnp.where(balanced, chi, 1.0)
                layer = Tensors(*(t if t is None else t / unit ** RATES_IN[k] for k, t in layer._asdict().items()))
                shares = {"lambda_b": jnp.ones_like(chi), "lambda_W": 1 / mean.ss}
                own = block.replace(**{k: jnp.where(balanced, v, getattr(block, k)) for k, v in shares.items()})
            # Equal widths; nothing is transported out of the first layer, whose corrections are 0.
            new = next_layer(act, layer, 1.0, own, mean)
            # Nothing here is measured by dNTK and ddNTK: as zeros they are left out by the compiler.
            new = new._replace(**{k: None if getattr(new, k) is None else jnp.zeros_like(new.K) for k in "PQRSTU"})
            return new, (new, mean.ss, chi)

        return lax.scan(step, layer, length=CHUNK)

    return jax.jit(run)


def reached(sizes: Any, limit: float) -> Any:
    """Whether a strength is at the limit or beyond; one that is the limit but for rounding has reached it."""
    return sizes >= limit * (1 - 1e-9)


def cut_off(sizes: np.ndarray, limit: float, *, whole: bool) -> float | None:
    """The depth at which `sizes` (layers 1, 2, …) reaches the limit; beyond the last layer by its power law.

    None where it has levelled off, or where there is nothing to extrapolate from. With `whole` the sizes are all there
    is to be had, so a power law is drawn from fewer layers.
    """
    above = np.flatnonzero(reached(sizes, limit))
    if above.size:
        return float(above[0] + 1)
    last, middle = len(sizes), (len(sizes) + 1) // 2
    if last < (3 if whole else CHUNK) or sizes[middle - 1] <= 0 or sizes[-1] <= 0:
        return None
    power = math.log(sizes[-1] / sizes[middle - 1]) / math.log(last / middle)
    if power < _SMALLEST_POWER:
        return None
    return float(last * (limit / sizes[-1]) ** (1 / power))
