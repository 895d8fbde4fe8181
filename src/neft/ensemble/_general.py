"""Estimates of tensors for any network, from its preactivations and their NTK alone.

Neurons of a stage are exchangeable, so averages over pairs of different ones stand for those of two neurons. Nothing
else is known of the network: this is slower and noisier than what dense chains have, and says nothing of P to U.
"""

import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from .._blocks import block_size, blocks
from .._precision import float64
from ..network import Dense, Network
from ._tangents import tangents

NAMES = ("K", "Theta", "V", "A", "B", "D", "F")
_GROUPS = 32  # of draws, of which one after the other is left out
_ROUNDINGS = 10
_OUTPUTS = 8  # neurons that stand for the outputs, whose number does not matter

Tensors = dict[str, tuple[np.ndarray, np.ndarray]]


@float64
def general(net: Network, x: np.ndarray, draws: int, key: Array, dtype: np.dtype) -> Tensors:
    """Means and standard errors by name, (L, N, N) for K and Theta and (L, N, N, N, N) for the others."""
    net = _with_more_outputs(net)
    N, groups = len(x), min(_GROUPS, draws)
    size = int(np.ceil(draws / groups))
    # Of one draw: weights, and a few NTKs between the widest places.
    most = max(net.inputs, *net.hidden_widths(), net.widths[-1])
    per_draw = dtype.itemsize * (2 * net.parameter_count() + 6 * (N * most) ** 2 + 8 * N**4 * net.depth)
    together = block_size(per_draw, 64)
    found = []
    for part in blocks(draws, size, label="draws"):
        index = np.minimum(np.arange(part.start, part.start + size), part.stop - 1)
        mask = np.arange(part.start, part.start + size) < part.stop
        sums = _group(net, jnp.asarray(x, dtype), key, jnp.asarray(index), jnp.asarray(mask, float), together)
        found.append((int(mask.sum()), jax.tree.map(np.asarray, sums)))
    whole = sum(count for count, _ in found)
    total = jax.tree.map(lambda *parts: sum(parts), *(sums for _, sums in found))
    estimate = _tensors(total, whole, net.widths)
    without = [_tensors(jax.tree.map(np.subtract, total, sums), whole - count, net.widths) for count, sums in found]
    errors = {
        name: np.sqrt((len(found) - 1) * np.stack([one[name] for one in without]).var(axis=0)) for name in estimate
    }
    return {
        name: (value, np.hypot(errors[name], _rounding(name, estimate, net.widths, float(np.finfo(dtype).eps))))
        for name, value in estimate.items()
    }


def _rounding(name: str, found: dict[str, np.ndarray], widths: tuple[int, ...], eps: float) -> np.ndarray:
    # What rounding in the networks' dtype may leave of differences, also where draws do not differ.
    K, Theta = (np.abs(found[one]).reshape(len(widths) - 1, -1).max(axis=1) for one in ("K", "Theta"))
    n = np.array(widths[:-1], float)
    size = {"K": K, "Theta": Theta, "V": n * K**2, "D": n * K * Theta, "F": n * K * Theta}.get(name, n * Theta**2)
    return (_ROUNDINGS * eps * size).reshape(-1, *(1,) * (found[name].ndim - 1))


def _with_more_outputs(net: Network) -> Network:
    last = net.blocks[-1]
    if not isinstance(last, Dense) or last.width >= _OUTPUTS:
        return net
    return Network(net.input_shape, [*net.blocks[:-1], last.replace(width=_OUTPUTS)])


@functools.partial(jax.jit, static_argnums=5)
def _group(net: Network, x: Array, key: Array, index: Array, mask: Array, together: int) -> Any:
    # Sums over draws of averages over neurons, for each stage.
    def one(i):
        return _observed(net, net.init(jax.random.fold_in(key, i), dtype=x.dtype), x)

    drawn = jax.lax.map(one, index, batch_size=min(together, len(index)))
    return jax.tree.map(lambda v: (v.astype(float) * jnp.expand_dims(mask, tuple(range(1, v.ndim)))).sum(0), drawn)


def _observed(net: Network, params: Any, x: Array) -> list[dict[str, Array]]:
    found = []
    for z, H in tangents(net, params, x):
        n = z.shape[1]
        own = jnp.einsum("aibi->iab", H)
        square = jnp.einsum("ai,bi->iab", z, z)
        pairs = {"zz": _different(square, square), "HH": _different(own, own), "zH": _different(square, own)}
        off = H * (1 - jnp.eye(n, dtype=z.dtype))[None, :, None, :] / max(n * (n - 1), 1)
        found.append(
            {
                "z": square.mean(0),
                "H": own.mean(0),
                **pairs,
                # Axes 1, 3, 2, 4: inputs of z_i and H, then of z_j and H.
                "F": jnp.einsum("ai,cidj,bj->acbd", z, off, z),
                "B": jnp.einsum("aibj,cidj->acbd", off, H),
            }
        )
    return found


def _different(a: Array, b: Array) -> Array:
    # The mean of a_i b_j over different i and j, axes of a and then those of b.
    n = len(a)
    both = jnp.einsum("iab,jcd->abcd", a, b) - jnp.einsum("iab,icd->abcd", a, b)
    return both / max(n * (n - 1), 1)


def _tensors(sums: list[dict[str, np.ndarray]], draws: int, widths: tuple[int, ...]) -> dict[str, np.ndarray]:
    rows = []
    for n, values in zip(widths, sums):
        mean = {name: value / draws for name, value in values.items()}
        K, Theta = mean["z"], mean["H"]
        rows.append(
            {
                "K": K,
                "Theta": Theta,
                "V": n * (mean["zz"] - K[:, :, None, None] * K),
                "A": n * (mean["HH"] - Theta[:, :, None, None] * Theta),
                "B": n * mean["B"],
                "D": n * (mean["zH"] - K[:, :, None, None] * Theta),
                "F": n * mean["F"],
            }
        )
    return {name: np.stack([row[name] for row in rows]) for name in NAMES}
