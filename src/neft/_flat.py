"""A model as a function of one vector of parameters, which is what derivatives along directions are taken of."""

import functools
from collections.abc import Callable
from typing import Any, NamedTuple, Protocol, runtime_checkable

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, Float

from . import _check
from ._promote import traced

Model = Callable[[Any, Any], Any]


@runtime_checkable
class Specification(Protocol):
    """A network that maps parameters and inputs to outputs, with learning rates of its own."""

    def apply(self, params: Any, x: Any) -> Any:
        """The outputs."""
        ...

    def rates(self) -> Any:
        """The learning rates, a tree like the parameters."""
        ...


class Flat(NamedTuple):
    """z(θ, x) of shape (N, O), the parameters θ and their learning rates λ, both of shape (P,)."""

    z: Callable[[Array, Array], Array]
    theta: Float[Array, " P"]
    rates: Float[Array, " P"]


def split(f: Model | Specification, params: Any) -> tuple[Callable[[Any, Array], Array], Any]:
    """z(trained, x) of shape (N, O), and the floating-point arrays of `params` as a tree; all else stays as it is."""
    apply: Any = f.apply if isinstance(f, Specification) else f
    _check.function("f", apply, "params", "x")
    separate(f)
    trained, fixed = eqx.partition(params, _is_trained)
    trained = jax.tree.map(jnp.asarray, trained)
    if not jax.tree.leaves(trained):
        raise ValueError("params hold no array of real numbers, so there is nothing to differentiate.")

    def z(trained: Any, x: Array) -> Array:
        outputs = _called(apply, eqx.combine(trained, fixed), x)
        if outputs.ndim != 2 or outputs.shape[0] != len(x):
            raise ValueError(
                f"f maps {len(x)} inputs to an array of shape {outputs.shape}, but must give (inputs, outputs)."
            )
        return outputs

    return z, trained


def _called(apply: Callable[[Any, Any], Any], params: Any, x: Array) -> Array:
    try:
        found = apply(params, x)
    except TypeError as error:
        # One that came from within is the function's own.
        if error.__traceback__ is not None and error.__traceback__.tb_next is not None:
            raise
        raise ValueError(f"f cannot be called with params and x: {_check.reason(error)}.") from None
    try:
        return jnp.asarray(found)
    except (TypeError, ValueError):
        raise ValueError(f"f returns {_check.brief(found)}, but must give an array (inputs, outputs).") from None


def network(f: Any) -> Specification | None:
    """The network, where `f` is one or its `apply`; None for any other function."""
    net = f if isinstance(f, Specification) else getattr(f, "__self__", None)
    return net if isinstance(net, Specification) and (f is net or getattr(f, "__name__", "") == "apply") else None


def separate(f: Any) -> None:
    """Refuse a network whose outputs depend on the other inputs of a batch, which it says itself by `couples`."""
    if getattr(network(f), "couples", False):
        raise ValueError(
            "the network normalizes by the moments of a batch, so that no output is a function of one input, but with "
            "given moments it is: net.with_moments(net.moments(params, x))."
        )


def rates_of(f: Model | Specification, rates: Any = None) -> Any:
    """`rates` where they are given, else the learning rates of the network that `f` is, else 1: one meaning everywhere.

    >>> import neft
    >>> net = neft.MLP(widths=(4, 8, 1), lambda_W=2.0)
    >>> rates_of(net)[0].W, rates_of(net.apply)[0].W, rates_of(net, 3.0), rates_of(lambda params, x: x)
    (0.5, 0.5, 3.0, 1.0)
    """
    if rates is not None:
        return rates
    net = network(f)
    return 1.0 if net is None else net.rates()


def flat(f: Model | Specification, params: Any, rates: Any = None) -> Flat:
    """The model with its floating-point arrays in one vector, and its learning rates as `rates_of` gives them."""
    z, trained = split(f, params)
    theta, back = ravel_pytree(trained)
    return Flat(lambda theta, x: z(back(theta), x), theta, _flat_rates(rates_of(f, rates), trained, theta))


def _is_trained(leaf: Any) -> bool:
    return isinstance(leaf, jax.Array | np.ndarray) and jnp.issubdtype(leaf.dtype, jnp.inexact)


def per_leaf(rates: Any, trained: Any) -> Any:
    """The learning rates as a tree like the parameters, each leaf a number or an array that fits."""
    leaves, structure = jax.tree.flatten(trained)
    wanted = jax.tree.leaves(rates)
    if not any(map(traced, wanted)):
        for rate in wanted:
            _check.array("rates", rate)
    if len(wanted) == 1 and np.ndim(wanted[0]) == 0:
        wanted = wanted * len(leaves)
    if len(wanted) != len(leaves):
        raise ValueError(f"rates hold {len(wanted)} leaves, but params hold {len(leaves)} arrays.")
    for rate, leaf in zip(wanted, leaves):
        if np.ndim(rate) and np.shape(rate) != leaf.shape:
            raise ValueError(f"rates hold an array of shape {np.shape(rate)} for parameters of shape {leaf.shape}.")
    return jax.tree.unflatten(structure, wanted)


def _flat_rates(rates: Any, trained: Any, theta: Array) -> Array:
    spread = jax.tree.map(
        lambda rate, leaf: jnp.broadcast_to(jnp.asarray(rate, leaf.dtype), leaf.shape),
        per_leaf(rates, trained),
        trained,
    )
    return ravel_pytree(spread)[0].astype(theta.dtype)


def samples(name: str, x: Any) -> Array:
    """`x` as an array of at least one sample, in its own dtype."""
    array = _check.array(name, x, dtype=None)
    if array.ndim == 0 or 0 in array.shape:
        raise ValueError(f"{name} has shape {array.shape}, but must hold at least one sample along its first axis.")
    return jnp.asarray(x)


def directional_derivative(z: Callable[[Array], Array], theta: Array, directions: tuple[Array, ...]) -> Array:
    """D^k z at θ along k directions."""
    for direction in directions:
        z = functools.partial(_slope, z, direction)
    return z(theta)


def _slope(z: Callable[[Array], Array], direction: Array, theta: Array) -> Array:
    return jax.jvp(z, (theta,), (direction,))[1]
