"""Averaged partial Jacobian norms of any JAX model (Doshi, He, Gromov 2023)."""

import math
from collections.abc import Callable, Sequence
from typing import Any, Literal

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from .. import _check
from .._products import Program, arrays_of, split
from .._public import public
from .._result import Made, Result, result

Verdict = Literal["critical", "gradients grow", "gradients shrink"]
_E_FOLDS = 5.0  # of the norm through the whole model, above which it is called neither critical nor near it
_LEAST = 3
_SHOWN = 6
_SCALE = 0.75  # of the exponents of a type: by which probes are made larger or smaller where gradients need it


@result
class PartialJacobians(Result):
    """The norms J of the Jacobians of the last layer with respect to each layer, layer by layer.

    Attributes:
        names: of the layers, by the parameters in them, in the order in which they are computed.
        widths: the number of entries of each for one input.
        norms: J of the last layer with respect to each layer, (1/n) Σ (∂h_i/∂h_j)² with n entries of the last; the last
            is 1. 0 for layers that no gradient reaches, or none that numbers of the type of x can hold.
        errors: their standard errors over inputs and probes.
        steps: χ of each layer but the last, J of it over J of the next: by what squared gradients grow there. NaN
            where both are 0.
        depth_scale: ξ, the layers over which J changes e-fold, by a straight line through ln J of the inner layers;
            infinite where it does not change. Layers whose gradients are 0 or near the smallest numbers of their type
            are left out, and the summary says which.
        depth_scale_error: of 1/ξ, by the scatter about the line.
        change: ln J through all inner layers; from the last to the first that are not left out.
        verdict: "critical" (|change| below 5), "gradients grow" (towards the input) or "gradients shrink", which it
            also is where the first layer is among those left out.
    """

    names: tuple[str, ...]
    widths: tuple[int, ...]
    norms: Float[np.ndarray, " layers"]
    errors: Float[np.ndarray, " layers"]
    steps: Float[np.ndarray, " between"]
    depth_scale: float
    depth_scale_error: float
    change: float
    verdict: Verdict
    summary: str
    made: Made


@public
def criticality(
    apply: Callable[..., Any], params: Any, x: Any, *, probes: int = 8, key: Any = None
) -> PartialJacobians:
    """Averaged partial Jacobian norms of a JAX model at these parameters, layer by layer, and a verdict on its depth.

    Layers are the results of products with a parameter, found in the model's program. Norms are estimated by
    back-propagating random vectors: E|vᵀ∂h/∂h'|² = Σ(∂h_i/∂h'_j)². At criticality J changes as a power of the depth,
    else exponentially, over ξ layers (Doshi, He, Gromov 2023).

    Args:
        apply: `apply(params, x)` gives the outputs, each row of x by itself.
        params: the parameters; what is no array in them, such as an activation, stays as it is.
        x: inputs, the first axis counting them.
        probes: random vectors.
        key: of them, `jax.random.key(0)` by default.

    >>> from neft import MLP
    >>> net = MLP((8, 64, 64, 64, 8), "relu", C_W=2.0)
    >>> criticality(net.apply, net.init(jax.random.key(0)), np.ones((2, 8))).verdict
    'critical'
    """
    _check.function("apply", apply, "params", "x")
    probes = _check.integer("probes", probes, at_least=2, at_most=10**6)
    key = jax.random.key(0) if key is None else _check.key("key", key)
    x = arrays_of("x", x)
    # Derivatives are those of real numbers.
    x = x if jnp.issubdtype(x.dtype, jnp.floating) else x.astype(jnp.zeros(()).dtype)
    if not x.ndim or not len(x):
        raise ValueError(f"x has shape {x.shape}, but must be inputs, the first axis counting them.")
    params, rest = split(params)

    def whole(arrays: Any, x: Any) -> Any:
        return apply(eqx.combine(arrays, rest), x)

    program = Program(whole, params, x)
    if program.named:
        raise ValueError("apply returns layers by name, but derivatives need its outputs alone.")
    names, shapes = program.layers(params, x)
    if len(names) < _LEAST:
        raise ValueError(
            f"apply multiplies its input by parameters {len(names)} times, but there must be three layers."
        )
    rows = _rows(whole, params, x, shapes)
    log_mean, relative = _means(_log_norms(program, params, x, shapes, rows, jax.random.split(key, probes)))
    norms = np.exp(log_mean)
    _check.finite("the partial Jacobian norms", norms)
    # The first layer sees inputs and the last one makes outputs, both of another width.
    places = np.flatnonzero(np.isfinite(log_mean[:-1]))
    if len(places) < 2:
        raise ValueError(
            f"no gradient of {names[-1]} reaches the layers before it: parameters after them are 0, or so small that "
            "numbers of the type of x cannot hold the gradients."
        )
    slope, slope_error = _line(places, log_mean[places])
    change = float(log_mean[places[0]] - log_mean[places[-1]])
    verdict: Verdict = "critical" if abs(change) < _E_FOLDS else "gradients grow" if change > 0 else "gradients shrink"
    if places[0] > 0:
        verdict = "gradients shrink"
    with np.errstate(invalid="ignore", over="ignore"):
        steps = np.exp(log_mean[:-1] - log_mean[1:])
    xi = math.inf if slope == 0 else 1 / abs(slope)
    return PartialJacobians(
        names=names,
        widths=tuple(math.prod(shape) // shape[axis] for shape, axis in zip(shapes, rows)),
        norms=norms,
        errors=norms * relative,
        steps=steps,
        depth_scale=xi,
        depth_scale_error=slope_error,
        change=change,
        verdict=verdict,
        summary=_summary(names[:-1], places, change, xi, verdict),
        made=Made.by("neft.scaling.criticality", specification={"probes": probes, "inputs": len(x)}, key=key),
    )


def _rows(apply: Callable[..., Any], params: Any, x: Any, shapes: Sequence[tuple[int, ...]]) -> list[int]:
    """The axis of each layer that counts the inputs: `jax.vmap` puts it where it likes."""
    more = jnp.concatenate([x, x[:1]])
    try:
        longer = Program(apply, params, more).layers(params, more)[1]
    except ValueError:  # the model takes this number of inputs only
        return [0] * len(shapes)
    found = [[i for i, sizes in enumerate(zip(*both)) if sizes[0] != sizes[1]] for both in zip(shapes, longer)]
    return [axes[0] if axes else 0 for axes in found]


def _log_norms(
    program: Program, params: Any, x: Any, shapes: Sequence[tuple[int, ...]], rows: Sequence[int], keys: Any
) -> np.ndarray:
    """ln J for each layer, probe and input, -∞ for layers whose gradients are 0 or hardly numbers of their type.

    Through many layers gradients leave the range of their type, in float32 1e-38 to 1e38, and their squares before
    them. Squares are therefore taken of gradients over the largest of an input, and where gradients themselves are too
    small or too large, the random vectors, which they are proportional to, are made larger or smaller.
    """
    run = _pulled(program, params, x, shapes, rows)
    info = jnp.finfo(x.dtype)
    # Of gradients from here on, entries that are smaller by eps still have all their digits.
    least = float(info.tiny) / float(info.eps)
    power = int(_SCALE * float(info.maxexp))
    log = np.full((len(shapes), len(keys), len(x)), -np.inf)
    wanted, finite = np.full(len(shapes), True), np.full(len(shapes), True)
    for scale in (1.0, 2.0**power, 2.0**-power):
        largest, squares = (np.asarray(one, np.float64) for one in run(params, x, keys, scale))
        finite = np.isfinite(squares).all((1, 2))
        good = wanted & finite & (largest.max((1, 2)) >= least)
        with np.errstate(divide="ignore"):
            log[good] = 2 * (np.log(largest[good]) - np.log(scale)) + np.log(squares[good])
        wanted &= ~good
        if not wanted.any():
            break
    if (wanted & ~finite).any():
        raise ValueError("the partial Jacobian norms are not finite: gradients are too large for the type of x.")
    return log


def _pulled(
    program: Program, params: Any, x: Any, shapes: Sequence[tuple[int, ...]], rows: Sequence[int]
) -> Callable[..., Any]:
    """The function that gives for each layer, probe and input the largest entry of the gradient of probes of a scale,
    and the sum of squares over the square of it, by the number of entries of the last layer.
    """
    zeros = [jnp.zeros(shape, x.dtype) for shape in shapes]

    @jax.jit
    def run(params: Any, x: Any, keys: Any, scale: Any) -> Any:
        def last(added: Any) -> Any:
            return program.run(params, x, added=added)[1][-1].value

        value, pull = jax.vjp(last, zeros)
        count = value.size / len(x)

        def probe(key: Any) -> Any:
            (found,) = pull(jnp.asarray(scale, value.dtype) * jax.random.normal(key, value.shape, value.dtype))
            # Each input's own row: the model takes them one by one.
            entries = [jnp.abs(jnp.moveaxis(one, axis, 0).reshape(len(x), -1)) for one, axis in zip(found, rows)]
            largest = [one.max(1, keepdims=True) for one in entries]
            squares = [((one / jnp.where(most > 0, most, 1)) ** 2).sum(1) for one, most in zip(entries, largest)]
            return jnp.stack([most[:, 0] for most in largest]), jnp.stack(squares) / count

        return jax.tree.map(lambda one: jnp.moveaxis(one, 0, 1), jax.lax.map(probe, keys))

    return run


def _means(log: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """ln of the means over probes and inputs, and standard errors over the means."""
    flat = log.reshape(len(log), -1)
    most = flat.max(1, keepdims=True)
    shares = np.exp(flat - np.where(np.isfinite(most), most, 0.0))
    mean = shares.mean(1)
    with np.errstate(divide="ignore"):
        log_mean = np.log(mean) + most[:, 0]
    return log_mean, shares.std(1, ddof=1) / np.where(mean > 0, mean, 1.0) / math.sqrt(flat.shape[1])


def _line(places: np.ndarray, values: np.ndarray) -> tuple[float, float]:
    if len(values) < _LEAST:
        return float(values[-1] - values[0]) / (places[-1] - places[0]), math.inf
    slope, offset = np.polyfit(places, values, 1)
    left = values - slope * places - offset
    spread = (left @ left) / (len(values) - 2) / ((places - places.mean()) ** 2).sum()
    return float(slope), math.sqrt(float(spread))


def _summary(names: Sequence[str], places: np.ndarray, change: float, xi: float, verdict: Verdict) -> str:
    first = "the first" if places[0] == 0 else f"layer {places[0] + 1}"
    size = (
        f"Squared gradients change by a factor {math.exp(min(change, 700.0)):.3g} from layer {places[-1] + 1} back to "
        f"{first}"
    )
    scale = "" if not math.isfinite(xi) else f", e-fold over {xi:.3g} layers"
    words = {
        "critical": "the model is critical at this depth",
        "gradients grow": "gradients explode",
        "gradients shrink": "gradients vanish",
    }
    said = f"{size}{scale}: {words[verdict]}."
    left = [name for i, name in enumerate(names) if i not in places]
    if left:
        shown = ", ".join(left[:_SHOWN]) + (f" and {len(left) - _SHOWN} more" if left[_SHOWN:] else "")
        said += f" Left out are layers whose gradients are 0 or too small for their type: {shown}."
    return said
