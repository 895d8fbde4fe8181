"""Kernels of tens of inputs for networks that repeat one step: one program for every depth and every hyperparameter."""

import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from .. import _check
from .._activation import Activation, derivative_of
from .._closed import Pair, form_of
from .._guard import positive, root
from .._hermite import functions
from .._public import public
from .._tilt import tilt_of
from ..network import Means, Network, Stage
from ..network.engine import Segment
from ._kernel import kernel
from ._kernel_pairs import Kernel, refuse_jumps

_TERMS, _STEP, _HALF = 1024, 0.05, 260
_TOGETHER, _NOTHING, _TOLERANCE = 64, 1e-13, 1e-7
"""Terms are added so many at a time until nothing is missing of ⟨σ²⟩ and ⟨σ'²⟩; and what the nodes and the terms may
leave out of these in the end."""


@public
def repeated_kernel(net: Network, x: Any) -> Kernel:
    """What `kernel` gives in float64, for tens of inputs to a network whose inner layers agree.

    Depth and hyperparameters are numbers that the program is given: it compiles once for an activation and the kinds of
    blocks. Where its Hermite expansion of 1024 terms is not good to 1e-7, or layers differ, `kernel` itself is asked.

    Args:
        net: the specification; hidden widths do not matter.
        x: inputs of shape (N, n_0).

    >>> from neft import MLP
    >>> net = MLP(widths=(2, 8, 8, 1), activation="tanh", C_b=0.1)
    >>> x = np.array([[1.0, 0.5], [-0.3, 2.0]])
    >>> bool(np.allclose(repeated_kernel(net, x).Theta, kernel(net, x).Theta, rtol=1e-9))
    True
    """
    refuse_jumps(net)
    x = _check.array("x", x, ndim=2)
    if x.shape[1] != net.inputs or not len(x):
        raise ValueError(f"x has shape {x.shape}, but must be (N, {net.inputs}) for several inputs.")
    steps = _steps(net)
    if steps is None:
        return kernel(net, x, dtype="float64")
    with jax.enable_x64(True):
        first, middle, last, count = steps
        K, Theta, error = map(np.asarray, _program(first, middle, last, jnp.asarray(count), jnp.asarray(x), _rule()))
    # Also where numbers leave their range, which is told in words there.
    if not error <= _TOLERANCE or not np.isfinite(Theta).all():
        return kernel(net, x, dtype="float64")
    return Kernel(K, Theta)


def _steps(net: Network) -> tuple[Segment, Segment, Segment, int] | None:
    first, *rest = net.segments()
    expanded = [act for act in net.activations if form_of(act) is None]
    if net.positions or not rest or any(act.kinks or act.oscillates or act.cuts or not act.named for act in expanded):
        return None
    *middle, last = rest
    looks = [jax.tree.flatten(one) for one in {id(one): one for one in middle}.values()]
    if any(one != looks[0] for one in looks[1:]):
        return None
    return first, middle[0] if middle else last, last, len(middle)


@jax.jit
def _program(first: Segment, middle: Segment, last: Segment, count: Any, x: Any, rule: Any) -> tuple[Any, Any, Any]:
    numbers = functools.partial(jax.tree.map, lambda leaf: jnp.asarray(leaf, x.dtype))
    engine = _AllPairs(rule, jnp.zeros(()))
    stage = _plain(numbers(first).kernel(Stage.of_inputs(x[:, None], x[None, :]), engine))

    def body(_: Any, carried: Any) -> Any:
        stage, error = carried
        engine = _AllPairs(rule, error)
        return _plain(numbers(middle).kernel(stage, engine)), engine.error

    # What the first step broadcasts has its shape from then on.
    start = stage, engine.error
    shapes = jax.eval_shape(body, 0, start)
    start = jax.tree.map(lambda leaf, shape: jnp.broadcast_to(leaf, shape.shape).astype(shape.dtype), start, shapes)
    stage, error = lax.fori_loop(0, count, body, start)
    engine = _AllPairs(rule, error)
    stage = numbers(last).kernel(stage, engine)
    return stage.c, stage.mean_theta, engine.error


def _plain(stage: Stage) -> Stage:
    # What a later segment may not look at.
    return stage.replace(before=None, activation=None, fresh=False)


class _AllPairs:
    # Averages over all pairs of inputs, in closed form or by expansions of what each input has by itself; and the
    # largest error that was seen.
    def __init__(self, rule: Any, error: Any) -> None:
        self.rule, self.error = rule, error

    def pair(self, activation: Activation, stage: Stage) -> Means:
        form = form_of(activation)
        if form is not None:
            one, two = (form.value(Pair.one(K, root(K))) for K in (stage.K1, stage.K2))
            pair = stage.pair
            return Means(one, two, form.value(pair), form.derivative(pair), form.gap and form.gap(pair))
        square, own = self._expanded(activation.function, stage)
        slope, _ = self._expanded(derivative_of(activation.function, 1), stage)
        return Means(own[:, None], own[None, :], square, slope)

    def mean(self, activation: Activation, stage: Stage) -> tuple[Any, Any]:
        found = self._at(activation.function, stage.K1[:, 0]) @ self.rule[1]
        return found[:, None], found[None, :]

    def tilted(self, activation: Activation, stage: Stage) -> Any:
        tilt = tilt_of(activation)
        return self.pair(tilt, stage).square if form_of(tilt) is not None else self._expanded(tilt.function, stage)[0]

    def _at(self, function: Any, K: Any) -> Any:
        return function(root(K)[:, None] * self.rule[0][None, :])

    def _expanded(self, function: Any, stage: Stage) -> tuple[Any, Any]:
        _, w, hermite = self.rule
        values = self._at(function, stage.K1[:, 0])
        own, half = values**2 @ w, 2 * (values[:, ::2] ** 2 @ w[::2])
        rho = stage.c / positive(root(stage.K1) * root(stage.K2))
        far = rho**_TOGETHER

        def missing(now: Any) -> Any:
            # For a pair what is left out is at most the mean of its two inputs.
            at, left, _, _ = now
            return (at < hermite.shape[1]) & (left > _NOTHING * own).any()

        def further(now: Any) -> Any:
            at, left, total, power = now
            a = values @ lax.dynamic_slice_in_dim(hermite, at, _TOGETHER, axis=1)

            def horner(sums: Any, term: Any) -> tuple[Any, None]:
                return sums * rho + term[:, None] * term[None, :], None

            sums, _ = lax.scan(horner, jnp.zeros_like(rho), a.T[::-1])
            return at + _TOGETHER, left - (a * a).sum(1), total + power * sums, power * far

        start = jnp.zeros((), int), own, jnp.zeros_like(rho), jnp.ones_like(rho)
        _, left, total, _ = lax.while_loop(missing, further, start)
        # With half the step the trapezoid rule's error is the square of what it was.
        error = jnp.maximum(jnp.abs(left), (half - own) ** 2 / positive(own)) / positive(own)
        self.error = jnp.maximum(self.error, error.max())
        return total, own


@functools.cache
def _rule() -> tuple[Any, Any, Any]:
    # The trapezoid rule out to 13 standard deviations: nodes, weights, and weights times He_k/√k! (nodes, terms).
    x = np.arange(-_HALF, _HALF + 1) * _STEP
    w = np.exp(-x * x / 2) * (_STEP / np.sqrt(2 * np.pi))
    return jnp.asarray(x), jnp.asarray(w), functions(jnp.asarray(x), _TERMS).T * (w * np.exp(x * x / 4))[:, None]
