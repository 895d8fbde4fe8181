"""Attention: every position takes a weighted sum over all of them."""

from collections.abc import Callable
from typing import Any, ClassVar, Literal, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array

from .. import _check
from .._promote import cast, library_of, to_rank
from ._block import Averages, Block, hyperparameter
from ._dense import deviation
from ._encoding import ENCODINGS, correlation, waves
from ._flatten import refuse_vectors
from ._positions import alone, between, facing, layout_of
from ._stage import Layout, Stage

WEIGHTS = ("softmax", "linear")


class Heads(NamedTuple):
    """Parameters of attention: Q, K and V (heads, d, fan_in), O (channels, heads, d), b (channels,); or their rates.

    Q is None where queries are keys.
    """

    Q: Any
    K: Any
    V: Any
    O: Any
    b: Any


class Attention(Block):
    """b + Σ_h O_h Σ_q a_h(p, q) V_h s(q) at every position p (docs/theory/positions, eqs. 7-13; Hron et al. 2020).

    The weights a_h are the softmax over q of G_h(p, q), or G_h itself. With s̃ = s and encodings of positions, and d
    channels in each head, G_h(p, q) = K_h s̃(p) · K_h s̃(q)/d where queries are `tied` to keys (else these logits would
    vanish and attention would be a plain mean), and Q_h s̃(p) · K_h s̃(q)/√d where they are not: then "linear" only, as
    the softmax of random logits has no kernel in closed form.

    Variances are C_K/n of Q and K, C_V/n of V, C_W/(heads · d) of O and C_b of b, rates the same with λ. In kernels d
    and the channels are infinite; the heads too where weights are not tied, and where they are any number will do. All
    parameters are trained. Θ is that with respect to all of them: tied keys add only of order 1/d to it, which is no
    part of the limit. Encodings are fixed.

    Args:
        heads: how many.
        channels: how many outputs each position has.
        head_channels: d, of keys, queries and values; channels/heads by default.
        weights: "softmax" or "linear".
        tied: whether queries are keys.
        encoding: None, "sinusoidal" (wave lengths from 2π to 2π·10⁴) or "gaussian" (correlations exp(-|p-p'|²/2ℓ²)).
        C_e: the variance of encodings.
        length: ℓ of a "gaussian" encoding, in positions.
        encode_values: whether encodings are added where values are taken, too.
        C_b, C_W, C_V, C_K: variances.
        lambda_b, lambda_W, lambda_V, lambda_K: learning rates.

    >>> Attention(4, 64, weights="linear")
    Attention(4, 64, head_channels=16, weights='linear')
    """

    mixes: ClassVar[bool] = True
    heads: int = eqx.field(static=True)
    channels: int = eqx.field(static=True)
    head_channels: int = eqx.field(static=True)
    weights: Literal["softmax", "linear"] = eqx.field(static=True)
    tied: bool = eqx.field(static=True)
    encoding: str | None = eqx.field(static=True)
    encode_values: bool = eqx.field(static=True)
    length: float = eqx.field(static=True)
    C_e: Any
    C_b: Any
    C_W: Any
    C_V: Any
    C_K: Any
    lambda_b: Any
    lambda_W: Any
    lambda_V: Any
    lambda_K: Any

    def __init__(
        self,
        heads: int,
        channels: int,
        *,
        head_channels: int | None = None,
        weights: str = "softmax",
        tied: bool = True,
        encoding: str | None = None,
        C_e: Any = 1.0,
        length: float = 1.0,
        encode_values: bool = False,
        C_b: Any = 0.0,
        C_W: Any = 1.0,
        C_V: Any = 1.0,
        C_K: Any = 1.0,
        lambda_b: Any = 1.0,
        lambda_W: Any = 1.0,
        lambda_V: Any = 1.0,
        lambda_K: Any = 1.0,
    ) -> None:
        self.heads = _check.integer("heads", heads, at_least=1)
        self.channels = _check.integer("channels", channels, at_least=1)
        if head_channels is None and self.channels % self.heads:
            raise ValueError(f"heads is {heads}, but must divide channels, {channels}, unless head_channels is given.")
        given = self.channels // self.heads if head_channels is None else head_channels
        self.head_channels = _check.integer("head_channels", given, at_least=1)
        self.weights = _check.one_of("weights", weights, WEIGHTS)  # type: ignore[assignment]
        self.tied = _flag("tied", tied)
        if self.weights == "softmax" and not self.tied:
            raise ValueError(
                "tied is False with weights 'softmax', but the softmax of random logits has no kernel in closed form: "
                "it must be True, or weights 'linear'."
            )
        self.encoding = None if encoding is None else _check.one_of("encoding", encoding, ENCODINGS)
        self.encode_values = _flag("encode_values", encode_values)
        self.length = _check.real("length", length, above=0.0)
        numbers = (C_e, C_b, C_W, C_V, C_K, lambda_b, lambda_W, lambda_V, lambda_K)
        for name, number in zip(_HYPER, numbers):
            setattr(self, name, hyperparameter(name, number))

    @property
    def dimensions(self) -> int:
        """One at least: it takes as many as there are."""
        return 1

    def init(self, key: Array, fan_in: int, *, dtype: Any) -> Heads:
        """Gaussian matrices and biases."""
        keys = jax.random.split(key, 5)
        inner, fan_out = (self.heads, self.head_channels, fan_in), self.heads * self.head_channels

        def drawn(n: int, shape: tuple[int, ...], variance: Any, fan: int) -> Array:
            return jax.random.normal(keys[n], shape, dtype) * deviation(variance, fan, dtype)

        return Heads(
            None if self.tied else drawn(0, inner, self.C_K, fan_in),
            drawn(1, inner, self.C_K, fan_in),
            drawn(2, inner, self.C_V, fan_in),
            drawn(3, (self.channels, self.heads, self.head_channels), self.C_W, fan_out),
            drawn(4, (self.channels,), self.C_b, 1),
        )

    def apply(self, params: Any, x: Array) -> Array:
        """The outputs (N, H, W, channels)."""
        refuse_vectors(x)
        K, V, O, b = (jnp.asarray(part, x.dtype) for part in params[1:])
        s = x.reshape(len(x), -1, x.shape[-1])
        encoded = s
        if self.encoding is not None:
            fixed = waves(self.encoding, x.shape[1:-1], x.shape[-1], self.length)
            encoded = s + jnp.sqrt(cast(self.C_e, x)) * jnp.asarray(fixed, x.dtype)[None]
        keys = jnp.einsum("npc,hdc->nhpd", encoded, K)
        queries = keys if self.tied else jnp.einsum("npc,hdc->nhpd", encoded, jnp.asarray(params[0], x.dtype))
        logits = jnp.einsum("nhpd,nhqd->nhpq", queries, keys) / self.head_channels ** (1.0 if self.tied else 0.5)
        weights = jax.nn.softmax(logits) if self.weights == "softmax" else logits
        values = jnp.einsum("npc,hdc->nhpd", encoded if self.encode_values else s, V)
        found = jnp.einsum("nhpd,ohd->npo", weights @ values, O)
        return found.reshape(*x.shape[:-1], self.channels) + to_rank(b, x.ndim)

    def rates(self, fan_in: int) -> Heads:
        """λ_K/fan-in of queries and keys, λ_V/fan-in, λ_W/(heads · d) and λ_b."""
        one = self.lambda_K / fan_in
        out = self.lambda_W / (self.heads * self.head_channels)
        return Heads(None if self.tied else one, one, self.lambda_V / fan_in, out, self.lambda_b)

    def kernel(self, stage: Stage, average: Averages) -> Stage:
        """K and Θ of weighted sums over all pairs of positions."""
        layout = layout_of(stage)
        if self.encoding is not None and stage.kind == "input":
            raise ValueError("its encodings meet the input, but must stand after a dense block or a convolution.")
        return (self._tied if self.tied else self._untied)(stage, average, layout)

    def _tied(self, stage: Stage, average: Averages, layout: Layout) -> Stage:
        # Logits have no spread, so each input has weights of its own.
        n = layout.axes

        def own(c):
            S, values = self._encoded(_square(c, n), c.shape[:n])
            a = self._weights(S)
            K = self._scale(a @ values @ a.swapaxes(-1, -2))
            found = library_of(c).concatenate([_diagonal(K)[..., None, :], a.swapaxes(-1, -2)], axis=-2)
            # K' first, then the weights of each q; positions before inputs.
            found = _forward(found)
            return found.reshape(found.shape[0], *c.shape[:n], *found.shape[2:])

        one, two = alone(average, stage, own)
        if not layout.crossed:
            return Stage.itself(one[0], 0 * one[0], fresh=True, layout=layout)
        a1, a2 = (_backward(side[1:].reshape(side.shape[0] - 1, -1, *side.shape[n + 1 :])) for side in (one, two))
        # a1 is (…, q, p), and so its transpose comes first.
        left, right = a1.swapaxes(-1, -2), a2
        _, values = self._encoded(_square(stage.c, n), stage.c.shape[:n])
        X, Y = (left @ S @ right for S in (values, _square(stage.mean_theta, n)))
        lambda_b, C_W, C_V, lambda_W, lambda_V = self._numbers(X, "lambda_b", "C_W", "C_V", "lambda_W", "lambda_V")
        Theta = lambda_b + (lambda_W * C_V + C_W * lambda_V) * X + C_W * C_V * Y
        return self._found(stage, layout, one[0], two[0], self._scale(X), Theta)

    def _untied(self, stage: Stage, average: Averages, layout: Layout) -> Stage:
        # Logits are Gaussian over heads, of covariance C_K² S̃(p, p') S̃(q, q').
        n = layout.axes

        def own(c):
            S, values = self._encoded(_square(c, n), c.shape[:n])
            K = self._scale(self._numbers(c, "C_K")[0] ** 2 * S * _summed(S * values))
            found = _diagonal(K)
            found = found if found.ndim == 1 else library_of(c).moveaxis(found, -1, 0)
            return found.reshape(*c.shape[:n], *found.shape[1:])

        one, two = alone(average, stage, own)
        if not layout.crossed:
            return Stage.itself(one, 0 * one, fresh=True, layout=layout)
        S, values = self._encoded(_square(stage.c, n), stage.c.shape[:n])
        T = _square(stage.mean_theta, n)
        Z = _summed(S * values)
        names = ("lambda_b", "C_W", "C_V", "C_K", "lambda_W", "lambda_V", "lambda_K")
        lambda_b, C_W, C_V, C_K, lambda_W, lambda_V, lambda_K = self._numbers(S, *names)
        own_rates = (lambda_W * C_V + C_W * lambda_V) * C_K**2 + 2 * C_W * C_V * lambda_K * C_K
        before = S * _summed((S + values) * T) + T * Z
        Theta = lambda_b + own_rates * S * Z + C_W * C_V * C_K**2 * before
        return self._found(stage, layout, one, two, self._scale(C_K**2 * S * Z), Theta)

    def _found(self, stage: Stage, layout: Layout, K1: Any, K2: Any, c: Any, Theta: Any) -> Stage:
        c, Theta = (_forward(value).reshape(stage.c.shape) for value in (c, Theta))
        facts = {"fresh": True, "layout": layout}
        return between(facing(K1, layout, False), facing(K2, layout, True), c, Theta, **facts)

    def _encoded(self, S: Any, shape: tuple[int, ...]) -> tuple[Any, Any]:
        # ⟨ss⟩ (…, P, P) where positions are compared, and where values are taken.
        if self.encoding is None:
            return S, S
        R = library_of(S).asarray(correlation(self.encoding, shape, self.length), S.dtype)
        encoded = S + self._numbers(S, "C_e")[0] * to_rank(R, S.ndim)
        return encoded, encoded if self.encode_values else S

    def _weights(self, S: Any) -> Any:
        logits = self._numbers(S, "C_K")[0] * S
        if self.weights == "linear":
            return logits
        powers = library_of(S).exp(logits - logits.max(-1, keepdims=True))
        return powers / powers.sum(-1, keepdims=True)

    def _scale(self, X: Any) -> Any:
        C_b, C_W, C_V = self._numbers(X, "C_b", "C_W", "C_V")
        return C_b + C_W * C_V * X

    def _numbers(self, like: Any, *names: str) -> list[Any]:
        return [cast(getattr(self, name), like) for name in names]

    def resized(self, change: Callable[[int], int]) -> "Attention":
        """With other numbers of what is infinite: channels, those of heads, and of heads that are not tied."""
        heads = self.heads if self.tied else change(self.heads)
        return self.replace(heads=heads, channels=change(self.channels), head_channels=change(self.head_channels))

    def replace(self, **changes: Any) -> "Attention":
        """The same block with other sizes or hyperparameters."""
        return Attention(**({name: getattr(self, name) for name in (*_SIZES, *_HYPER)} | changes))

    def to_dict(self) -> dict[str, Any]:
        """The block as JSON can hold it."""
        return {"type": "Attention", **{name: getattr(self, name) for name in (*_SIZES, *_HYPER)}}

    def __repr__(self) -> str:
        unusual = {
            name: getattr(self, name)
            for name in (*_SIZES[2:], *_HYPER)
            if name == "head_channels" or not _same(getattr(self, name), _USUAL[name])
        }
        return f"Attention({self.heads}, {self.channels}, {', '.join(f'{k}={v!r}' for k, v in unusual.items())})"


_HYPER = ("C_e", "C_b", "C_W", "C_V", "C_K", "lambda_b", "lambda_W", "lambda_V", "lambda_K")
_SIZES = ("heads", "channels", "head_channels", "weights", "tied", "encoding", "encode_values", "length")
_USUAL = {"weights": "softmax", "tied": True, "encoding": None, "encode_values": False, "length": 1.0, "C_b": 0.0}
_USUAL |= {name: 1.0 for name in _HYPER if name != "C_b"}


def _same(value: Any, usual: Any) -> bool:
    return value is usual or (isinstance(value, str | float | bool) and value == usual)


def _flag(name: str, value: Any) -> bool:
    if not isinstance(value, bool):
        raise ValueError(f"{name} is {_check.brief(value)}, but must be True or False.")
    return value


def _square(value: Any, axes: int) -> Any:
    # (H, W, H, W, …) as (…, P, P), which matrix products take.
    count = 1
    for n in value.shape[:axes]:
        count *= n
    return _backward(value.reshape(count, count, *value.shape[2 * axes :]))


def _backward(value: Any) -> Any:
    return library_of(value).moveaxis(value, (0, 1), (-2, -1))


def _forward(value: Any) -> Any:
    return library_of(value).moveaxis(value, (-2, -1), (0, 1))


def _summed(value: Any) -> Any:
    return value.sum((-2, -1), keepdims=True)


def _diagonal(value: Any) -> Any:
    return library_of(value).diagonal(value, axis1=-2, axis2=-1)
