"""Statistics of any JAX model over its random initializations, to compare a network of one's own with theory."""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from .. import _check
from .._blocks import block_size, blocks
from .._flat import rates_of
from .._progress import track
from .._public import public
from .._result import Made, Result, result
from ._estimate import Estimate

_GROUPS = 32
"""Groups of draws that the jackknife leaves out one at a time, so standard errors are good to 13 %."""

_VALUES = 24
"""The most outputs, samples times neurons, whose four-point function has room."""

_PAIRS = {"mean": 1, "two_point": 2, "ntk": 2}
"""Pairs of axes (sample, output) of each cumulant; four for the others."""

Sums = dict[str, Any]


@result
class ModelEstimates(Result):
    """Cumulants of the outputs z (N samples, O outputs) and of the NTK over random initializations.

    Each has `.mean` and `.stderr`. `mean` (N, O), `two_point` (N, O, N, O) and `four_point` (four pairs of axes) are
    the connected functions of the outputs. `ntk` (N, O, N, O) is the NTK's mean, `ntk_covariance` (four pairs) its
    covariance and `mixed` (four pairs) the cumulant of two outputs and an NTK; these are None where no NTK was asked
    for. Unbiased at any number of draws; standard errors by a jackknife over groups.
    """

    mean: Estimate
    two_point: Estimate
    four_point: Estimate
    ntk: Estimate | None
    ntk_covariance: Estimate | None
    mixed: Estimate | None
    draws: int
    made: Made

    def _shown(self):
        yield "draws", repr(self.draws)
        for name in ("mean", "two_point", "four_point", "ntk", "ntk_covariance", "mixed"):
            found = getattr(self, name)
            if found is None:
                yield name, "not asked for"
            elif found.mean.size <= 4:
                yield name, ", ".join(f"{m:.5g} ± {e:.2g}" for m, e in zip(found.mean.ravel(), found.stderr.ravel()))
            else:
                size, error = np.abs(found.mean).max(), found.stderr.max()
                yield name, f"{found.mean.shape}, up to {size:.4g}, standard errors up to {error:.2g}"


@public
def estimate_model(
    init: Callable[[Array], Any],
    apply: Callable[[Any, Array], Array],
    x: Any,
    *,
    draws: int,
    key: Array,
    rates: Any = None,
    ntk: bool = True,
) -> ModelEstimates:
    """Mean, connected two- and four-point functions and NTK statistics of a model over `draws` initializations.

    For the network of docs/theory/width, eqs. 1-2, with outputs i and j, `two_point[a, i, b, i]` is K_ab + O(1/n),
    `four_point[a, i, b, i, c, j, d, j]` is V_(ab)(cd)/n and `ntk_covariance` of the same indices A_(ab)(cd)/n. Memory
    is bounded whatever the number of draws, draw i depends on (key, i) alone, and the model runs in its own dtype.

    Args:
        init: makes parameters from a JAX key: any pytree, an Equinox module included.
        apply: the outputs (N, O) from parameters and x.
        x: N inputs; their first axis is the sample.
        draws: number of initializations, at least 5.
        key: a JAX key.
        rates: learning rates, a tree like the parameters' with a number or an array for each; by default those of the
            MLP whose `apply` this is, else 1.
        ntk: whether to look at the NTK, which takes a Jacobian of every draw.

    >>> from neft import MLP
    >>> net = MLP(widths=(3, 8, 2), activation="tanh")
    >>> found = estimate_model(net.init, net.apply, np.ones((1, 3)), draws=64, key=jax.random.key(0))
    >>> found.four_point.mean.shape
    (1, 2, 1, 2, 1, 2, 1, 2)
    """
    draws = _check.integer("draws", draws, at_least=5)
    x = jnp.asarray(_check.array("x", x, dtype=np.asarray(x).dtype if np.asarray(x).dtype.kind in "iuf" else float))
    if x.ndim == 0 or x.size == 0:
        raise ValueError(f"x has shape {x.shape}, but its first axis must count at least one sample.")
    _check.function("init", init, "key")
    _check.function("apply", apply, "params", "x")
    shape, size, params = _sizes(init, apply, x, key)
    every = _rates(rates_of(apply, rates), params)
    chunk = block_size((shape[0] * shape[1] * ntk + 4) * size, 128)
    groups, reference = [], None
    for group in track(list(blocks(draws, -(-draws // min(_GROUPS, draws)))), "draws"):
        total: Sums = {}
        for start in range(group.start, group.stop, chunk):
            index = np.arange(start, start + chunk)
            z, H = (
                np.asarray(values, float) for values in _samples(init, apply, ntk, x, every, key, jnp.asarray(index))
            )
            z, H = (values[index < group.stop].reshape(int((index < group.stop).sum()), -1) for values in (z, H))
            _check_finite(z, H, start)
            # Relative to the first draws' means, so that the moments do not cancel.
            reference = (z.mean(0), H.mean(0)) if reference is None else reference
            new = _sums(z - reference[0], H - reference[1])
            total = {name: total.get(name, 0.0) + value for name, value in new.items()}
        groups.append(total)
    assert reference is not None
    found = _jackknifed(groups, reference, shape)
    specification = {"model": getattr(apply, "__qualname__", repr(type(apply))), "x": np.asarray(x), "draws": draws}
    made = Made.by("neft.ensemble.estimate_model", specification=specification, key=key)
    absent: dict[str, Any] = {} if ntk else dict.fromkeys(("ntk", "ntk_covariance", "mixed"))
    return ModelEstimates(**found | absent, draws=draws, made=made)


def _rates(rates: Any, params: Any) -> Any:
    # A number, or a tree that begins like the parameters', of numbers or arrays that fit them.
    try:
        spread = jax.tree.leaves(jax.tree.broadcast(rates, params))
        fits = [
            _check.array("rates", rate).shape in ((), leaf.shape) for rate, leaf in zip(spread, jax.tree.leaves(params))
        ]
    except ValueError as error:
        if str(error).startswith("rates"):
            raise
        fits = [False]
    if not all(fits):
        raise ValueError(
            f"rates is {_check.brief(rates)}, but must be a number, or a tree like the parameters with a number or an "
            "array of their shape for each."
        )
    return rates


def _sizes(init: Callable, apply: Callable, x: Array, key: Array) -> tuple[tuple[int, int], int, Any]:
    # The shape (N, O) of the outputs, the bytes of the parameters, and what these are.
    def sizes(key):
        params = init(key)
        return eqx.filter(params, eqx.is_inexact_array), apply(params, x)

    params, z = jax.eval_shape(sizes, key)
    shape = getattr(z, "shape", None)
    if shape is None or len(shape) != 2 or shape[0] != len(x) or not jnp.issubdtype(z.dtype, jnp.floating):
        kind = f"floats of shape {shape}" if shape is not None else type(z).__name__
        raise ValueError(f"apply returns {kind}, but must return real numbers of shape ({len(x)}, outputs).")
    if shape[0] * shape[1] > _VALUES:
        raise ValueError(
            f"apply returns {shape[0]} × {shape[1]} values, but at most {_VALUES} have room for a four-point function: "
            "take fewer samples or fewer outputs."
        )
    return shape, sum(leaf.size * leaf.dtype.itemsize for leaf in jax.tree.leaves(params)), params


@eqx.filter_jit  # functions are static and whatever arrays they hold are not, so equal models are compiled once
def _samples(
    init: Callable, apply: Callable, ntk: bool, x: Array, rates: Any, key: Array, index: Array
) -> tuple[Array, Array]:
    return jax.vmap(lambda i: _sample(init, apply, ntk, x, rates, key, i))(index)


def _sample(
    init: Callable, apply: Callable, ntk: bool, x: Array, rates: Any, key: Array, i: Array
) -> tuple[Array, Array]:
    # Outputs (N, O) and NTK (NO, NO) of one draw.
    params, static = eqx.partition(init(jax.random.fold_in(key, i)), eqx.is_inexact_array)

    def outputs(p):
        return apply(eqx.combine(p, static), x).ravel()

    if not ntk:
        return outputs(params), jnp.zeros(0)
    z, back = jax.vjp(outputs, params)
    jacobian = jax.vmap(lambda row: back(row)[0])(jnp.eye(z.size, dtype=z.dtype))
    leaves = jax.tree.leaves(jacobian)
    every = jax.tree.leaves(jax.tree.broadcast(rates, params))
    H = sum(
        jnp.einsum("ap,bp->ab", (leaf * jnp.asarray(rate, leaf.dtype)).reshape(z.size, -1), leaf.reshape(z.size, -1))
        for leaf, rate in zip(leaves, every, strict=True)
    )
    return z, jnp.asarray(H)


def _check_finite(z: np.ndarray, H: np.ndarray, start: int) -> None:
    for what, values in (("outputs", z), ("NTK", H)):
        bad = ~np.isfinite(values).all(axis=1)
        if bad.any():
            raise ValueError(f"the {what} of draw {start + int(np.argmax(bad))} are not finite, so no average exists.")


def _sums(z: np.ndarray, H: np.ndarray) -> Sums:
    pairs = (z[:, :, None] * z[:, None, :]).reshape(len(z), -1)
    return {
        "count": np.array(float(len(z))),
        "z": z.sum(0),
        "zz": z.T @ z,
        "zzz": pairs.T @ z,
        "zzzz": pairs.T @ pairs,
        "H": H.sum(0),
        "HH": H.T @ H,
        "zH": z.T @ H,
        "zzH": pairs.T @ H,
    }


def _jackknifed(
    groups: list[Sums], reference: tuple[np.ndarray, np.ndarray], shape: tuple[int, int]
) -> dict[str, Estimate]:
    total = {name: sum(group[name] for group in groups) for name in groups[0]}
    whole = _cumulants(total)
    parts = [_cumulants({name: total[name] - group[name] for name in total}) for group in groups]
    found = {}
    for name, value in whole.items():
        without = np.stack([part[name] for part in parts])
        stderr = np.sqrt((len(groups) - 1) * without.var(axis=0))
        offset = reference[0] if name == "mean" else reference[1] if name == "ntk" else 0.0
        if value.size:
            axes = shape * _PAIRS.get(name, 4)
            found[name] = Estimate(mean=(value + offset).reshape(axes), stderr=stderr.reshape(axes))
    return found


def _cumulants(sums: Sums) -> dict[str, np.ndarray]:
    """Unbiased cumulants (multivariate k-statistics) from sums of powers."""
    D = float(sums["count"])
    moments = {name: value / D for name, value in sums.items()}
    m, M = moments["z"], len(moments["z"])
    second = moments["zz"] - np.outer(m, m)
    third, fourth = moments["zzz"].reshape((M,) * 3), moments["zzzz"].reshape((M,) * 4)
    # About the mean: each of the four, each pair, and all four of the factors may be the mean.
    central = fourth - 3 * np.einsum("a,b,c,d->abcd", m, m, m, m)
    for one, rest in (("a", "bcd"), ("b", "acd"), ("c", "abd"), ("d", "abc")):
        central -= np.einsum(f"{one},{rest}->abcd", m, third)
    for two, rest in (("ab", "cd"), ("ac", "bd"), ("ad", "bc"), ("bc", "ad"), ("bd", "ac"), ("cd", "ab")):
        central += np.einsum(f"{two},{rest}->abcd", np.outer(m, m), moments["zz"])
    products = sum(np.einsum(f"{pair}->abcd", second, second) for pair in ("ab,cd", "ac,bd", "ad,bc"))
    h, yh = moments["H"], moments["zH"]
    mixed = moments["zzH"].reshape(M, M, -1) - np.einsum("a,bh->abh", m, yh) - np.einsum("b,ah->abh", m, yh)
    mixed += np.einsum("a,b,h->abh", m, m, h) - np.einsum("ab,h->abh", second, h)
    return {
        "mean": m,
        "two_point": D / (D - 1) * second,
        "four_point": D**2 * ((D + 1) * central - (D - 1) * products) / ((D - 1) * (D - 2) * (D - 3)),
        "ntk": h,
        "ntk_covariance": D / (D - 1) * (moments["HH"] - np.outer(h, h)),
        "mixed": D**2 / ((D - 1) * (D - 2)) * mixed,
    }
