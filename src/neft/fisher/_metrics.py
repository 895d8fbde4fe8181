"""The relative Fisher metrics of docs/theory/fisher, eqs. 1-11, for one input or averaged over many."""

from collections.abc import Callable
from typing import Any

import jax
import numpy as np

from .. import _check
from .._activation import Activation
from .._precision import float64
from .._public import public
from .._result import Made
from ._metric import CoupledNeurons, Metric, SeparateNeurons
from ._response import Response, response

Neuron = str | Activation | Callable[[Any], Any] | Response


@public
def neuron(
    activation: Neuron,
    w: Any,
    x: Any,
    *,
    output: str | None = None,
    variance: float = 1.0,
    omega: float = 1.0,
    iota: float = 0.0,
    alpha: float = 1.0,
    weights: Any = None,
) -> Metric:
    """g(w) = E[ν(w·x̃) x̃x̃ᵀ], the metric of one neuron (docs/theory/fisher, eq. 1).

    Args:
        activation: "tanh", "sigmoid", "relu", "elu", or any other activation with Gaussian output; see `response`.
        w: weights with the bias last, of shape (d+1,).
        x: one input of shape (d,), or many of shape (N, d).
        output: "bernoulli" or "gaussian"; by default what Sun, Nielsen 2017 takes for the activation.
        variance: σ² of a Gaussian output.
        omega: ω of the smoothed relu.
        iota: ι of the smoothed relu.
        alpha: α of elu.
        weights: how much each input counts, of shape (N,); all alike by default, and scaled to the sum 1.

    >>> neuron("sigmoid", [0.0, 0.0], [3.0]).dense()
    array([[2.25, 0.75],
           [0.75, 0.25]])
    """
    w = _check.array("w", w, ndim=1)
    kind = response(activation, output=output, variance=variance, omega=omega, iota=iota, alpha=alpha)
    return _separate("neft.fisher.neuron", f"{kind.name} neuron", kind, w[None], x, weights, named="w")


@public
def nonlinear_layer(
    activation: Neuron,
    W: Any,
    x: Any,
    *,
    output: str | None = None,
    variance: float = 1.0,
    omega: float = 1.0,
    iota: float = 0.0,
    alpha: float = 1.0,
    weights: Any = None,
) -> Metric:
    """diag[E ν(w_i·x̃) x̃x̃ᵀ], the metric of a layer with independent outputs (docs/theory/fisher, eq. 7).

    W has one row per neuron, the bias last: shape (m, d+1). The rest as in `neuron`.

    >>> nonlinear_layer("tanh", np.zeros((2, 3)), [1.0, 2.0]).rank()
    2
    """
    kind = response(activation, output=output, variance=variance, omega=omega, iota=iota, alpha=alpha)
    W = _check.array("W", W, ndim=2)
    return _separate("neft.fisher.nonlinear_layer", f"{kind.name} layer", kind, W, x, weights)


@public
def linear_layer(W: Any, x: Any, *, variance: float = 1.0, weights: Any = None) -> Metric:
    """diag[E x̃x̃ᵀ, …]/σ², the metric of a linear layer with Gaussian outputs (docs/theory/fisher, eq. 8).

    It depends on W, of shape (m, d+1), only by its shape: the number m alone does as well.

    >>> linear_layer(2, [3.0]).dense()
    array([[9., 3., 0., 0.],
           [3., 1., 0., 0.],
           [0., 0., 9., 3.],
           [0., 0., 3., 1.]])
    """
    variance = _check.real("variance", variance, above=0.0)
    if _check.as_array("W", W).ndim == 0:
        neurons, fan_in = _check.integer("W", W, at_least=1), None
    else:
        neurons, fan_in = _check.array("W", W, ndim=2).shape
    inputs, weights = _inputs(x, fan_in, weights)
    return SeparateNeurons(
        kind="linear layer",
        inputs=inputs,
        weights=weights,
        neurons=neurons,
        information=np.full((len(inputs), 1), 1 / variance),
        made=Made.by("neft.fisher.linear_layer", specification={"neurons": neurons, "variance": variance}),
    )


@public
@float64
def softmax_layer(W: Any, x: Any, *, weights: Any = None) -> Metric:
    """Blocks E[(δ_ij η_i - η_iη_j) x̃x̃ᵀ], η = softmax(Wx̃) (docs/theory/fisher, eq. 9).

    Always singular: adding the same vector to every row of W changes no probability. W has shape (m, d+1).

    >>> softmax_layer(np.zeros((3, 3)), [1.0, 2.0]).rank()
    2
    """
    W = _check.array("W", W, ndim=2)
    inputs, weights = _inputs(x, W.shape[1], weights)
    return CoupledNeurons(
        kind="softmax layer",
        inputs=inputs,
        weights=weights,
        neurons=len(W),
        mixing=_softmax_root(inputs @ W.T),
        made=Made.by("neft.fisher.softmax_layer", specification={"W": W}),
    )


@public
@float64
def two_layers(
    hidden: Neuron,
    W: Any,
    output: Neuron,
    C: Any,
    x: Any,
    *,
    variance: float = 1.0,
    omega: float = 1.0,
    iota: float = 0.0,
    alpha: float = 1.0,
    weights: Any = None,
) -> Metric:
    """The metric of the first of two layers, by what the second one puts out (docs/theory/fisher, eqs. 10-11).

        G_ij = E Σ_l c_li c_lj ν_out(c_l·h̃) f'(w_i·x̃) f'(w_j·x̃) x̃x̃ᵀ,    h = f(Wx̃) without noise

    Sun, Nielsen 2017, eq. 12 prints ν for f', which is right for tanh and sigmoid only. Gaussian outputs, which it
    leaves out, and a softmax, where δ_lm η_l - η_lη_m takes the place of δ_lm ν_l, are included.

    Args:
        hidden: the hidden neurons' activation, or a `response`.
        W: hidden weights of shape (m, d+1), the bias last.
        output: the outputs' activation ("linear" for plain Gaussian ones), "softmax", or a `response`.
        C: output weights of shape (outputs, m+1), the bias last.
        x: one input of shape (d,), or many of shape (N, d).
        variance: σ² of Gaussian outputs.
        omega: ω of the smoothed relu, the same for both layers (give responses to set them apart).
        iota: ι of the smoothed relu, likewise.
        alpha: α of elu, likewise.
        weights: how much each input counts, of shape (N,).

    >>> two_layers("relu", np.zeros((2, 2)), "linear", [[1.0, -1.0, 0.0]], [0.0]).dense().diagonal().tolist()
    [0.0, 0.25, 0.0, 0.25]
    """
    W = _check.array("W", W, ndim=2)
    C = _check.array("C", C, shape=(None, len(W) + 1))
    inputs, weights = _inputs(x, W.shape[1], weights)
    f = response(hidden, omega=omega, iota=iota, alpha=alpha)
    t = inputs @ W.T
    logits = np.asarray(f.mean(t)) @ C[:, :-1].T + C[:, -1]
    if isinstance(output, str) and output == "softmax":
        named = "softmax"
        root = np.einsum("nkl,li->nki", _softmax_root(logits), C[:, :-1])
    else:
        out = response(output, variance=variance, omega=omega, iota=iota, alpha=alpha)
        named = out.name
        root = np.sqrt(np.asarray(out.information(logits)))[:, :, None] * C[:, :-1]
    return CoupledNeurons(
        kind=f"{f.name} layer under a {named} layer",
        inputs=inputs,
        weights=weights,
        neurons=len(W),
        mixing=root * np.asarray(f.slope(t))[:, None, :],
        made=Made.by("neft.fisher.two_layers", specification={"hidden": f.name, "W": W, "output": named, "C": C}),
    )


@float64
def _separate(function: str, label: str, kind: Response, W: np.ndarray, x: Any, weights: Any, *, named: str = "W"):
    inputs, weights = _inputs(x, W.shape[1], weights, named)
    return SeparateNeurons(
        kind=label,
        inputs=inputs,
        weights=weights,
        neurons=len(W),
        information=np.asarray(kind.information(inputs @ W.T)),
        made=Made.by(function, specification={"output": kind.output, "variance": kind.variance, "W": W}),
    )


def _softmax_root(logits: np.ndarray) -> np.ndarray:
    # F = diag(√η) - √η ηᵀ has FᵀF = diag(η) - ηηᵀ, because the η add up to 1.
    eta = np.asarray(jax.nn.softmax(logits, axis=-1))
    root = np.sqrt(eta)
    return root[:, :, None] * (np.eye(eta.shape[1]) - eta[:, None, :])


def _inputs(x: Any, fan_in: int | None, weights: Any, named: str = "W") -> tuple[np.ndarray, np.ndarray]:
    # x̃ = (x, 1) of shape (N, d+1), and the weights of the samples.
    x = _check.array("x", x, ndim=(1, 2))
    rows = np.atleast_2d(x)
    if not len(rows):
        raise ValueError(f"x has shape {x.shape}, but must hold at least one input.")
    if fan_in is not None and fan_in != rows.shape[1] + 1:
        raise ValueError(
            f"{named} has {fan_in} weights per neuron and x has {rows.shape[1]} features, but {named} must have one "
            "more than x, the bias last."
        )
    if weights is None:
        share = np.full(len(rows), 1 / len(rows))
    else:
        share = _check.array("weights", weights, shape=(len(rows),), at_least=0.0)
        if share.sum() <= 0:
            raise ValueError("weights are all zero, but some must be positive.")
        share = share / share.sum()
    return np.concatenate([rows, np.ones((len(rows), 1))], axis=1), share
