"""Estimates of every tensor from an ensemble of drawn networks, with standard errors."""

import functools
from collections.abc import Iterable
from typing import Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from .. import _check
from .._blocks import block_size, blocks
from .._precision import float64
from .._public import public
from .._result import Made, Result, result
from ..network import MLP, Network
from ..network.engine import plain
from ._deltas import deltas
from ._differentials import Differentials, differentials
from ._draw import draw
from ._forward import kernels
from ._general import NAMES as GENERAL
from ._general import general
from ._means import Known, corrections, known_averages

_ROUNDING = 10
"""Roundings of the networks' dtype that a value may be off by; it counts where draws do not differ by more."""

_CHUNK = 128
"""The most draws that are summed in one compiled call."""

COVARIANCES = {"V": ("K", "K"), "A": ("Theta", "Theta"), "D": ("K", "Theta")}
DIFFERENTIALS = Differentials._fields
NAMES = ("K", "Theta", "V", "A", "B", "D", "F", *DIFFERENTIALS, "K1", "Theta1")


@result
class Estimate(Result):
    """A mean over draws and its standard error, arrays of one shape."""

    mean: Float[np.ndarray, "*shape"]
    stderr: Float[np.ndarray, "*shape"]


@result
class Estimates(Result):
    """Estimates of the tensors, as attributes K, Theta, V, … with `.mean` and `.stderr`.

    K and Theta are the means at this width, K + K1/n and Theta + Theta1/n; K1 and Theta1 are n times their distance
    from infinite width.
    """

    tensors: dict[str, Estimate]
    widths: tuple[int, ...]
    draws: int
    made: Made

    _axis: ClassVar[str] = "layers"

    def __getattr__(self, name: str) -> Estimate:
        # copy and pickle ask an object that has no fields yet.
        if name.startswith("_") or "tensors" not in vars(self):
            raise AttributeError(name)
        if name not in self.tensors:
            raise AttributeError(f"these estimates hold {', '.join(self.tensors)}, but not {name!r}.")
        return self.tensors[name]

    def _shown(self):
        yield "widths", repr(self.widths)
        yield "draws", repr(self.draws)
        for name, estimate in self.tensors.items():
            if estimate.mean.ndim == 1:
                yield name, ", ".join(f"{m:.5g} ± {e:.2g}" for m, e in zip(estimate.mean, estimate.stderr))
            else:
                last, error = estimate.mean[-1], estimate.stderr.max()
                ends = f"of the output layer between {last.min():.4g} and {last.max():.4g}"
                yield name, f"{estimate.mean.shape}, {ends}, standard errors up to {error:.2g}"


@public
def estimate(
    net: Network, x: Any, *, draws: int, key: Array, only: Iterable[str] | None = None, dtype: Any = None
) -> Estimates:
    """The tensors of `neft.width.statistics` from `draws` random networks, for one input or several.

    Averages over a layer's own weights are done in closed form, except for traces in P to U, which take random signs;
    the means have their linear noise removed. Memory is bounded whatever the number of draws, and draw i
    depends on (key, i) alone. What does not exist for an activation with kinks is left out (docs/theory/width, section
    Kinks), and what autodiff does not see, the deltas of P and Q or of R, is integrated. A network that is no
    multilayer perceptron is estimated from its preactivations and their NTK, with more noise, and without P to U.

    Args:
        net: the specification.
        x: one input of shape (n_0,), for tensors of shape (L,); or several, (N, n_0), for means of shape (L, N, N) and
            other tensors of shape (L, N, N, N, N), samples in the order of subscripts of docs/theory/width, eqs. 39-44.
        draws: number of networks, at least 2.
        key: a JAX key.
        only: names of the tensors wanted; without P to U it is much faster. All by default.
        dtype: float32 or float64 for the networks, that of x by default; sums are always float64.

    >>> net = MLP(widths=(3, 8, 2), activation="tanh")
    >>> found = estimate(net, [1.0, 1.0, 1.0], draws=256, key=jax.random.key(0))
    >>> found.V.mean.shape
    (2,)
    """
    net.refuse_positions("estimates of every layer (`estimate_model` has those of outputs)")
    draws = _check.integer("draws", draws, at_least=2)
    dtype = _dtype(x, dtype)
    x = _check.array("x", x, ndim=(1, 2))
    if x.shape[-1] != net.inputs or 0 in x.shape:
        raise ValueError(f"x has shape {x.shape}, but must have shape ({net.inputs},) or (any, {net.inputs}).")
    chain = plain(net)
    if chain is None:
        return _of_any(net, x, draws, key, dtype, only)
    net, exists = chain, existing(chain)
    names = exists if only is None else tuple(_check.one_of("each of only", name, exists) for name in only)
    return _estimate(net, x, draws, key, dtype, names)


def _of_any(net: Network, x: np.ndarray, draws: int, key: Array, dtype: np.dtype, only: Any) -> Estimates:
    net.check_kernel()
    jumps = any(kink.order == 0 for act in net.activations for kink in act.kinks)
    exists = ("K", "V") if jumps else GENERAL
    names = exists if only is None else tuple(_check.one_of("each of only", name, exists) for name in only)
    found = general(net, np.atleast_2d(x), draws, key, dtype)
    shape = (net.depth,) if x.ndim == 1 else None
    tensors = {
        name: Estimate(mean=_shaped(found[name][0], shape), stderr=_shaped(found[name][1], shape)) for name in names
    }
    _check_finite(tensors)
    specification = {"net": net.to_dict(), "x": x, "draws": draws, "dtype": str(dtype)}
    made = Made.by("neft.ensemble.estimate", specification=specification, key=key)
    return Estimates(tensors=tensors, widths=net.widths, draws=draws, made=made)


def existing(net: MLP) -> tuple[str, ...]:
    """Which tensors exist: it depends on the lowest derivative that jumps (docs/theory/width, section Kinks)."""
    lowest = min((kink.order for kink in net.activation.kinks), default=3)
    if lowest == 0:
        return ("K", "V", "K1")
    return tuple(name for name in NAMES if lowest > 1 or name not in "RSTU")


def _dtype(x: Any, dtype: Any) -> np.dtype:
    if dtype is None:
        return np.dtype(np.float32 if getattr(x, "dtype", None) == np.float32 else np.float64)
    if np.dtype(dtype) not in (np.float32, np.float64):
        raise ValueError(f"dtype is {_check.brief(dtype)}, but must be float32 or float64.")
    return np.dtype(dtype)


@float64
def _estimate(net: MLP, x: np.ndarray, draws: int, key: Array, dtype: np.dtype, names: tuple[str, ...]) -> Estimates:
    inputs = np.atleast_2d(x)
    K, Theta = net.infinite_width(inputs, slopes="Theta" in existing(net))
    known = _known(net.activation, jnp.asarray(K[1:-1]))
    reference = _Reference(jnp.asarray(K), jnp.asarray(Theta), known)
    wanted = tuple(name for name in DIFFERENTIALS if name in names)
    chunk = block_size(_bytes_per_draw(net, len(inputs), dtype), _CHUNK)
    sums: Any = None
    for part in blocks(draws, chunk, label="draws"):
        index = np.arange(part.start, part.start + chunk)
        mask = (index < part.stop).astype(np.float64)
        new = _chunk(net, wanted, jnp.asarray(inputs, dtype), key, jnp.asarray(index), jnp.asarray(mask), reference)
        new = jax.tree.map(np.asarray, new)
        sums = new if sums is None else jax.tree.map(np.add, sums, new)
    found = _assembled(
        net,
        {"K": K, "Theta": Theta},
        jax.tree.map(lambda total: total / draws, sums),
        draws,
        _ROUNDING * float(np.finfo(dtype).eps),
    )
    shape = (net.depth,) if x.ndim == 1 else None
    tensors = {name: Estimate(mean=_shaped(m, shape), stderr=_shaped(e, shape)) for name, (m, e) in found.items()}
    _check_finite(tensors)
    specification = {"net": net.to_dict(), "x": x, "draws": draws, "dtype": str(dtype)}
    made = Made.by("neft.ensemble.estimate", specification=specification, key=key)
    return Estimates(tensors={n: tensors[n] for n in names}, widths=net.widths, draws=draws, made=made)


class _Reference(NamedTuple):
    # Infinite width: K and Θ, (L, N, N), and the averages that the corrections ask for.
    K: Array
    Theta: Array
    averages: Known


_known = jax.jit(known_averages, static_argnums=0)


def _shaped(values: np.ndarray, shape: tuple[int, ...] | None) -> np.ndarray:
    return values if shape is None else values.reshape(shape)


def _check_finite(tensors: dict[str, Estimate]) -> None:
    for name, found in tensors.items():
        good = np.isfinite(found.mean) & np.isfinite(found.stderr)
        if not good.all():
            l = int(np.argwhere(~good)[0, 0]) + 1
            raise ValueError(f"{name} overflows at layer {l} of a drawn network: lower C_W or C_b, or the depth.")


def _bytes_per_draw(net: MLP, N: int, dtype: np.dtype) -> float:
    n = max(net.widths[1:])
    weights = sum(a * b for a, b in zip(net.widths, net.widths[1:]))
    pairs = 8 * 16 * N * (N - 1) // 2 * net.depth * (4000 if net.activation.kinks else 600)
    kernels = dtype.itemsize * (2 * weights + 4 * N * N * n * n + 40 * N**2 * n * net.depth)
    return kernels + 8 * 60 * net.depth * N**4 + pairs


@functools.partial(jax.jit, static_argnums=1)
def _chunk(
    net: MLP, wanted: tuple[str, ...], x: Array, key: Array, index: Array, mask: Array, reference: _Reference
) -> dict[str, tuple[Array, ...]]:
    """Sums over draws of each observable and its square, and of the products that errors of covariances need."""

    def observables(i):
        params, probes = draw(net, jax.random.fold_in(key, i), x.dtype)
        found = kernels(net, params, x)
        values = {"F": found.FF, "B": found.BB}
        if wanted:
            every = differentials(net, params, x, probes, found)._asdict()
            hidden = deltas(net, params, x, probes)
            values |= {name: every[name] + hidden.get(name, 0.0) for name in wanted}
        values = {name: value.astype(float) for name, value in values.items()}
        # The first layer's kernels are not random: exactly those of infinite width, not the rounding of the dtype.
        G, H = (v.astype(float).at[0].set(known[0]) for v, known in zip(found[:2], reference[:2]))
        values |= {"K": G - reference.K, "Theta": H - reference.Theta}
        K1, Theta1 = corrections(net, G, H, values["F"], *reference)
        return values | {"K1": K1, "Theta1": Theta1}

    drawn = jax.vmap(observables)(index)
    sums = {}
    for name, value in drawn.items():
        value = value * jnp.expand_dims(mask, tuple(range(1, value.ndim)))
        sums[name] = (value.sum(0), (value * value).sum(0))
    for name, (first, second) in COVARIANCES.items():
        a, b = drawn[first][..., None, None], drawn[second][..., None, None, :, :]
        y = a * b * jnp.expand_dims(mask, tuple(range(1, a.ndim)))
        sums[name] = tuple(v.sum(0) for v in (y, y * a * b, y * a, y * b))
    return sums


def _assembled(
    net: MLP, infinite: dict[str, np.ndarray], means: dict[str, tuple[np.ndarray, ...]], draws: int, eps: float
) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Estimates and standard errors by name, from the means of the sums over draws."""
    n, c = np.array(net.widths[:-1], float), np.array([variance.W for variance in net.variances()])

    def per_layer(values, ndim):
        return values.reshape(-1, *(1,) * (ndim - 1))

    def error(mean, square):
        return np.sqrt(np.maximum(square - mean**2, 0.0) / (draws - 1) + eps**2 * square)

    found = {}
    for name, (mean, square) in ((name, value) for name, value in means.items() if name not in COVARIANCES):
        scale = n * c**2 if name in "FB" else n
        scale = per_layer(scale, mean.ndim)
        found[name] = (scale * mean, scale * error(mean, square))
    for name in ("K", "Theta"):
        size = per_layer(n, 3)
        found[name] = tuple(value / size for value in found[f"{name}1"])
        found[name] = (found[name][0] + infinite[name], found[name][1])
    for name, (first, second) in COVARIANCES.items():
        y, yy, ya, yb = means[name]
        a, aa = (value[..., None, None] for value in means[first])
        b, bb = (value[..., None, None, :, :] for value in means[second])
        # Each draw moves the covariance by (a - ā)(b - b̄).
        square = yy + a * a * bb + b * b * aa - 2 * a * yb - 2 * b * ya + 2 * a * b * y
        size = per_layer(n * draws / (draws - 1), 5)
        found[name] = (size * (y - a * b), size * error(y - 2 * a * b, square))
    return found
