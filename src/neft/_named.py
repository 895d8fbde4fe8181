"""The named activations, and the small grammar that names them on the command line and in files."""

import dataclasses
import functools
import inspect
import math
import re
from collections.abc import Callable
from fractions import Fraction

import jax.numpy as jnp
import numpy as np
from jax import lax

from . import _check, _maclaurin, _stable
from ._activation import Activation, Kink, expressed
from ._expression import is_expression, parsed
from ._periodic import Fourier

_GRAMMAR = re.compile(r"\s*([A-Za-z_]\w*)\s*(?:\(\s*([^()]*?)\s*\))?\s*")


@functools.lru_cache(maxsize=256)
def from_text(text: str) -> Activation:
    """The activation that a text such as "silu", "leaky_relu(0.1)" or "z*tanh(z)" is; it is parsed, never evaluated."""
    if is_expression(text):
        name, function = parsed(text)
        return expressed(function, name)
    match = _GRAMMAR.fullmatch(text)
    if match is None:
        raise ValueError(
            f"activation is {_check.brief(text)}, but must be a name, a name with numbers such as 'leaky_relu(0.1)', "
            "or an expression of z such as 'z*tanh(z)'."
        )
    name, inside = match[1].lower(), match[2] or ""
    if name not in _NAMED:
        raise ValueError(
            f"activation is {_check.brief(text)}, but must be one of {', '.join(_NAMED)}{_check.closest(name, _NAMED)}."
        )
    make = _NAMED[name]
    wanted = list(inspect.signature(make).parameters)
    given = [piece.strip() for piece in inside.split(",")] if inside else []
    if len(given) > len(wanted):
        takes = f"takes {len(wanted)} ({', '.join(wanted)})" if wanted else "takes none"
        raise ValueError(f"activation is {text!r}, but {name} {takes} instead of {len(given)} parameters.")
    return make(*(_number(text, key, piece) for key, piece in zip(wanted, given)))


def _number(text: str, key: str, piece: str) -> float:
    label, _, value = piece.rpartition("=")
    try:
        if label.strip() not in ("", key):
            raise ValueError
        number = float(value)
    except ValueError:
        raise ValueError(f"activation is {text!r}, but {piece!r} must be a number for {key}.") from None
    return _check.real(f"{key} in activation {text!r}", number)


_NAMED: dict[str, Callable[..., Activation]] = {}


def activation_names() -> tuple[str, ...]:
    """The names that are known; parameters may follow in parentheses."""
    return tuple(_NAMED)


def _name(name: str):
    def register(make: Callable[..., Activation]) -> Callable[..., Activation]:
        _NAMED[name] = make
        return make

    return register


def _spell(name: str, *parameters: float) -> str:
    return f"{name}({', '.join(repr(float(p)) if float(f'{p:g}') != p else f'{p:g}' for p in parameters)})"


@_name("linear")
def _linear():
    return Activation(
        "linear",
        lambda z: z,
        parity="odd",
        scale_invariant=True,
        length=math.inf,
        maclaurin=lambda order: _maclaurin.rounded(_maclaurin.monomial(1, order)),
    )


@_name("relu")
def _relu():
    return dataclasses.replace(_leaky_relu(0.0), name="relu")


@_name("leaky_relu")
def _leaky_relu(slope: float = 0.01):
    if slope == 1:
        return dataclasses.replace(_linear(), name=_spell("leaky_relu", slope))
    return Activation(
        _spell("leaky_relu", slope),
        lambda z: jnp.where(z > 0, z, slope * z),
        kinks=(Kink(0.0, 1, 1.0 - slope),),
        singularity=0.0,
        parity="even" if slope == -1 else None,
        scale_invariant=True,
        length=math.inf,
        maclaurin=lambda order: _maclaurin.rounded(_maclaurin.monomial(1, order)),
    )


@_name("elu")
def _elu(alpha: float = 1.0):
    return Activation(
        _spell("elu", alpha),
        # The exponential never sees the positive side, where it could overflow and spoil the gradient.
        lambda z: jnp.where(z > 0, z, alpha * _stable.expm1(jnp.where(z > 0, 0, z))),
        kinks=(Kink(0.0, 1, 1.0 - alpha) if alpha != 1 else Kink(0.0, 2, -1.0),),
        singularity=0.0,
        scale_invariant=alpha == 0,
        maclaurin=lambda order: _maclaurin.rounded(_maclaurin.monomial(1, order)),
    )


@_name("tanh")
def _tanh():
    return Activation(
        "tanh",
        _stable.tanh,
        singularity=math.pi / 2,
        parity="odd",
        maclaurin=lambda order: _maclaurin.rounded(_maclaurin.tanh(order)),
    )


@_name("hard_tanh")
def _hard_tanh():
    return Activation(
        "hard_tanh",
        lambda z: jnp.where(jnp.abs(z) < 1, z, jnp.sign(z)),
        kinks=(Kink(-1.0, 1, 1.0), Kink(1.0, 1, -1.0)),
        singularity=1.0,
        parity="odd",
        maclaurin=lambda order: _maclaurin.rounded(_maclaurin.monomial(1, order)),
    )


@_name("sigmoid")
def _sigmoid():
    return Activation(
        "sigmoid",
        _stable.sigmoid,
        singularity=math.pi,
        length=2.0,
        maclaurin=lambda order: _maclaurin.rounded(_maclaurin.sigmoid(order)),
    )


@_name("softplus")
def _softplus():
    return Activation(
        "softplus",
        _stable.softplus,
        singularity=math.pi,
        length=2.0,
        maclaurin=lambda order: _maclaurin.rounded(_maclaurin.softplus(order)),
    )


@_name("erf")
def _erf():
    slope = 2 / math.sqrt(math.pi)
    return Activation(
        "erf",
        lax.erf,
        parity="odd",
        maclaurin=lambda order: _maclaurin.rounded(_maclaurin.erf_over_slope(order), slope),
    )


@_name("sin")
def _sin(frequency: float = 1.0):
    if frequency == 0:
        raise ValueError("frequency in activation 'sin(0)' is 0, but must not be: nothing would be left.")
    rate = Fraction(frequency)
    return Activation(
        "sin" if frequency == 1 else _spell("sin", frequency),
        jnp.sin if frequency == 1 else lambda z: jnp.sin(frequency * z),
        parity="odd",
        length=1.0 if frequency == 1 else min(1.0, 1 / abs(frequency)),
        oscillates=True,
        fourier=None if frequency == 1 else Fourier(abs(frequency), np.array([0, math.copysign(0.5, frequency) / 1j])),
        maclaurin=lambda order: _maclaurin.rounded(_maclaurin.sin(order, rate)),
    )


@_name("gelu")
def _gelu():
    return Activation(
        "gelu",
        lambda z: z * _stable.normal_cdf(z),
        maclaurin=lambda order: _maclaurin.rounded(_maclaurin.gelu(order)),
    )


@_name("silu")
def _silu():
    return dataclasses.replace(_swish(1.0), name="silu")


@_name("swish")
def _swish(beta: float = 1.0):
    name = _spell("swish", beta)
    if beta == 0:
        half = lambda order: _maclaurin.rounded(_maclaurin.monomial(1, order, 0.5))  # noqa: E731
        return dataclasses.replace(_linear(), name=name, function=lambda z: z / 2, maclaurin=half)
    rate = Fraction(beta)
    return Activation(
        name,
        lambda z: z * _stable.sigmoid(beta * z),
        singularity=math.pi / abs(beta),
        length=2.0 / abs(beta),
        maclaurin=lambda order: _maclaurin.rounded(_maclaurin.times_z(_maclaurin.sigmoid(order, rate))),
    )


@_name("mish")
def _mish():
    return Activation(
        "mish",
        lambda z: z * _stable.tanh(_stable.softplus(z)),
        # The poles are where e^z = -1 ± i.
        singularity=math.hypot(math.log(2) / 2, 3 * math.pi / 4),
        maclaurin=lambda order: _maclaurin.rounded(_maclaurin.mish(order)),
    )


@_name("quadratic")
def _quadratic():
    return Activation(
        "quadratic",
        lambda z: z**2,
        parity="even",
        length=math.inf,
        maclaurin=lambda order: _maclaurin.rounded(_maclaurin.monomial(2, order)),
    )
