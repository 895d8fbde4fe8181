"""What the supplement of Sun, Nielsen 2017 says about relative Fisher metrics, each statement with its test.

The tests write ln p(y | w) themselves and go over all outcomes y (Gaussian ones by quadrature, which is exact for the
squares that occur), so they share nothing with the formulas but the question.
"""

import itertools
from collections.abc import Callable, Iterable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from .. import fisher
from ._claim import Level, Measurement
from ._ledger import claim

_EXACT = 1e-11
"""Largest difference, relative to the metric's largest entry, that rounding explains."""


def _numbers(level: Level) -> tuple[Any, Any, Any]:
    # Four hidden neurons on three inputs, and two outputs; the full level takes more inputs.
    rng = np.random.default_rng(3)
    return rng.normal(size=(4, 4)), rng.normal(size=(2, 5)), rng.normal(size=(3 if level == "quick" else 50, 3))


def _enumerated(log_p: Callable[..., Any], flat: Any, outcomes: Iterable[tuple[Any, float]]) -> Any:
    # E[∂ln p ∂ln pᵀ] at the parameters `flat`.
    total = np.zeros((len(flat), len(flat)))
    gradient = jax.jit(jax.grad(log_p))
    for y, chance in outcomes:
        score = np.asarray(gradient(flat, y))
        total += chance * np.outer(score, score)
    return total


def _difference(found: Any, exact: Any) -> float:
    return float(np.abs(found - exact).max() / np.abs(exact).max())


def _means() -> dict[str, Callable[[Any], Any]]:
    return {
        "tanh": jnp.tanh,
        "sigmoid": lambda t: 1 / (1 + jnp.exp(-t)),
        "relu": lambda t: jnp.log(1 + jnp.exp(t)),
        "elu": lambda t: jnp.where(t >= 0, t, jnp.exp(jnp.minimum(t, 0)) - 1),
        "linear": lambda t: t,
    }


def _log_p(name: str, t: Any, y: Any) -> Any:
    # ±1 with mean tanh, 0/1 with mean sigmoid, unit Gaussian for all others; constants left out.
    # Of (1 ± tanh t)/2 one loses its digits far from 0; as a power of e neither does.
    if name == "tanh":
        return (y * t - jnp.logaddexp(t, -t)).sum()
    if name == "sigmoid":
        return (y * t - jnp.logaddexp(t, 0.0)).sum()
    return -((y - _means()[name](t)) ** 2).sum() / 2


def _outcomes(name: str, t: Any) -> list[tuple[Any, float]]:
    # All values of independent outputs with their probabilities.
    each = []
    for one in np.asarray(t):
        if name in ("tanh", "sigmoid"):
            values = (-1.0, 1.0) if name == "tanh" else (0.0, 1.0)
            each.append([(y, float(np.exp(_log_p(name, one, y)))) for y in values])
        else:
            nodes, masses = np.polynomial.hermite_e.hermegauss(3)
            each.append(list(zip(float(_means()[name](one)) + nodes, masses / masses.sum())))
    return [
        (np.array([y for y, _ in point]), float(np.prod([p for _, p in point]))) for point in itertools.product(*each)
    ]


def _layer_error(name: str, W: Any, x: Any, found: Any) -> float:
    with jax.enable_x64(True):
        tilde = np.append(x, 1.0)
        exact = _enumerated(
            lambda flat, y: _log_p(name, flat.reshape(W.shape) @ tilde, y),
            jnp.asarray(W.ravel()),
            _outcomes(name, W @ tilde),
        )
    return _difference(found, exact)


def _exact(errors: dict[str, float], what: str) -> Measurement:
    worst = max(errors.values())
    if worst < _EXACT:
        return Measurement(verdict="holds", summary=f"{what} to {worst:.0e} of the largest entry.", values=errors)
    return Measurement(verdict="refuted", summary=f"{what} only to {worst:.2g}.", values=errors)


def _neuron(name: str, level: Level) -> Measurement:
    W, _, inputs = _numbers(level)
    errors = [_layer_error(name, W[:1], x, fisher.neuron(name, W[0], x).dense()) for x in inputs]
    return _exact({"largest difference": max(errors)}, "Enumeration of E[∂ln p ∂ln pᵀ] gives the table's entry")


@claim(
    id="sun-nielsen-tanh-neuron",
    source="Sun, Nielsen 2017",
    equation="table 1, 2.1",
    statement="A tanh neuron has g = sech²(w·x̃) x̃x̃ᵀ.",
)
def tanh_neuron(level: Level) -> Measurement:
    """Enumerate the outputs ±1."""
    return _neuron("tanh", level)


@claim(
    id="sun-nielsen-sigm-neuron",
    source="Sun, Nielsen 2017",
    equation="table 1, 2.2",
    statement="A sigm neuron has g = sigm(w·x̃)[1 - sigm(w·x̃)] x̃x̃ᵀ.",
)
def sigm_neuron(level: Level) -> Measurement:
    """Enumerate the outputs 0 and 1."""
    return _neuron("sigmoid", level)


@claim(
    id="sun-nielsen-relu-neuron",
    source="Sun, Nielsen 2017",
    equation="table 1, (2), (8)",
    statement="A relu neuron has g = [ι + (1-ι) sigm((1-ι)w·x̃/ω)]² x̃x̃ᵀ.",
)
def relu_neuron(level: Level) -> Measurement:
    """Integrate over the Gaussian output."""
    return _neuron("relu", level)


@claim(
    id="sun-nielsen-elu-neuron",
    source="Sun, Nielsen 2017",
    equation="table 1, (3), (8)",
    statement="An elu neuron has g = x̃x̃ᵀ where w·x̃ ≥ 0, and (α exp(w·x̃))² x̃x̃ᵀ elsewhere.",
)
def elu_neuron(level: Level) -> Measurement:
    """Integrate over the Gaussian output."""
    return _neuron("elu", level)


@claim(
    id="sun-nielsen-linear-layer",
    source="Sun, Nielsen 2017",
    equation="table 1, 2.5",
    statement="A linear layer has the metric diag[x̃x̃ᵀ, …, x̃x̃ᵀ].",
)
def linear_layer(level: Level) -> Measurement:
    """Integrate over two Gaussian outputs."""
    W, _, inputs = _numbers(level)
    errors = [_layer_error("linear", W[:2], x, fisher.linear_layer(W[:2], x).dense()) for x in inputs]
    return _exact({"largest difference": max(errors)}, "Integration over the outputs gives the table's entry")


@claim(
    id="sun-nielsen-density-of-a-linear-layer",
    source="Sun, Nielsen 2017",
    equation="2.5, ln p(y)",
    statement="ln p(y) of a linear layer has the constant -½ ln 2π.",
)
def density_of_a_linear_layer(level: Level) -> Measurement:
    """Integrate exp(ln p) of the printed and of the corrected density over a plane of outputs."""
    y = np.linspace(-12, 12, 2001)
    step = y[1] - y[0]
    square = (np.exp(-(y**2) / 2).sum() * step) ** 2
    printed, corrected = square / np.sqrt(2 * np.pi), square / (2 * np.pi)
    values = {"integral as printed": printed, "integral with D ln 2π / 2": corrected}
    if abs(corrected - 1) < 1e-9 < abs(printed - 1):
        return Measurement(
            verdict="corrected",
            summary=f"For two outputs the printed density integrates to {printed:.4f}.",
            correction="The constant is -(D_y/2) ln 2π; no derivative depends on it.",
            values=values,
        )
    return Measurement(verdict="holds" if abs(printed - 1) < 1e-9 else "refuted", summary="Integrated.", values=values)


@claim(
    id="sun-nielsen-non-linear-layer",
    source="Sun, Nielsen 2017",
    equation="table 1, 2.6",
    statement="A non-linear layer with independent outputs is block diagonal with its neurons' metrics.",
)
def non_linear_layer(level: Level) -> Measurement:
    """Enumerate two outputs together, for each activation."""
    W, _, inputs = _numbers(level)
    few = 1 if level == "quick" else 10
    errors = {
        name: max(_layer_error(name, W[:2], x, fisher.nonlinear_layer(name, W[:2], x).dense()) for x in inputs[:few])
        for name in ("tanh", "sigmoid", "relu", "elu")
    }
    return _exact(errors, "Enumeration of all outputs gives the table's entry")


@claim(
    id="sun-nielsen-softmax-layer",
    source="Sun, Nielsen 2017",
    equation="(10)",
    statement="A soft-max layer has the blocks (δ_ij η_i - η_iη_j) x̃x̃ᵀ.",
)
def softmax_layer(level: Level) -> Measurement:
    """Enumerate the classes; and find the rank, which the paper does not mention."""
    W, _, inputs = _numbers(level)
    errors = []
    for x in inputs:
        with jax.enable_x64(True):
            tilde = np.append(x, 1.0)
            eta = np.exp(W @ tilde) / np.exp(W @ tilde).sum()

            def log_p(flat: Any, y: Any, tilde: Any = tilde) -> Any:
                logits = flat.reshape(W.shape) @ tilde
                return logits[y] - jnp.log(jnp.exp(logits).sum())

            exact = _enumerated(log_p, jnp.asarray(W.ravel()), list(enumerate(eta)))
        errors.append(_difference(fisher.softmax_layer(W, x).dense(), exact))
    measured = _exact({"largest difference": max(errors)}, "Enumeration of the classes gives equation (10)")
    rank = fisher.softmax_layer(W, np.random.default_rng(0).normal(size=(60, 3))).rank()
    return Measurement(
        verdict=measured.verdict,
        summary=f"{measured.summary} It is always singular: rank {rank} of {W.size} with 60 inputs.",
        values={**measured.values, "rank": rank, "parameters": W.size},
    )


def _two_layers_exact(hidden: str, output: str, W: Any, C: Any, x: Any) -> Any:
    with jax.enable_x64(True):
        tilde = np.append(x, 1.0)

        def outputs(flat: Any) -> Any:
            return jnp.asarray(C) @ jnp.append(_means()[hidden](flat.reshape(W.shape) @ tilde), 1.0)

        flat = jnp.asarray(W.ravel())
        return _enumerated(lambda w, y: _log_p(output, outputs(w), y), flat, _outcomes(output, outputs(flat)))


def _printed(hidden: str, W: Any, C: Any, x: Any) -> Any:
    # Equation (12) with the variances ν of the hidden neurons, sigmoid outputs.
    tilde = np.append(x, 1.0)
    with jax.enable_x64(True):
        h = np.append(_means()[hidden](W @ tilde), 1.0)
        nu = np.asarray(fisher.response(hidden).information(W @ tilde))
    out = 1 / (1 + np.exp(-(C @ h)))
    coupling = np.einsum("l,li,lj,i,j->ij", out * (1 - out), C[:, :-1], C[:, :-1], nu, nu)
    return np.kron(coupling, np.outer(tilde, tilde))


@claim(
    id="sun-nielsen-two-layers",
    source="Sun, Nielsen 2017",
    equation="(12)",
    statement="Two layers have the blocks G_ij = Σ_l c_il c_jl ν_f(c_l,h) ν_f(w_i,x) ν_f(w_j,x) x̃x̃ᵀ.",
)
def two_layers(level: Level) -> Measurement:
    """Enumerate the Bernoulli outputs, and compare what is printed and what `neft.fisher.two_layers` has."""
    W, C, inputs = _numbers(level)
    few = 1 if level == "quick" else 10
    values: dict[str, float] = {}
    for hidden in ("tanh", "sigmoid", "relu", "elu"):
        exact = [_two_layers_exact(hidden, "sigmoid", W, C, x) for x in inputs[:few]]
        found = [fisher.two_layers(hidden, W, "sigmoid", C, x).dense() for x in inputs[:few]]
        values[f"{hidden} as printed"] = max(
            _difference(_printed(hidden, W, C, x), e) for x, e in zip(inputs[:few], exact)
        )
        values[f"{hidden} with f'"] = max(_difference(f, e) for f, e in zip(found, exact))
    right = {name: values[f"{name} as printed"] < _EXACT for name in ("tanh", "sigmoid", "relu", "elu")}
    mended = all(values[f"{name} with f'"] < _EXACT for name in right)
    if all(right.values()):
        return Measurement(
            verdict="holds", summary="Enumeration gives equation (12) for every activation.", values=values
        )
    wrong = ", ".join(name for name, fine in right.items() if not fine)
    summary = f"Enumeration gives something else than is printed for {wrong}."
    if not mended:
        return Measurement(verdict="refuted", summary=summary, values=values)
    return Measurement(
        verdict="corrected",
        summary=summary,
        correction="The hidden factors are the derivatives f'(w_i·x̃), which ν equals for tanh and sigm only.",
        values=values,
    )


@claim(
    id="sun-nielsen-two-relu-layers",
    source="Sun, Nielsen 2017",
    equation="2.8, last sentence",
    statement="For two relu layers with Gaussian outputs the proof is very similar.",
)
def two_relu_layers(level: Level) -> Measurement:
    """Integrate over the Gaussian outputs of two relu layers."""
    W, C, inputs = _numbers(level)
    few = 1 if level == "quick" else 10
    pairs = [
        (fisher.two_layers("relu", W, "relu", C, x).dense(), _two_layers_exact("relu", "relu", W, C, x))
        for x in inputs[:few]
    ]
    error = max(_difference(found, exact) for found, exact in pairs)
    return _exact(
        {"largest difference": error}, "With ν_out = f'² and hidden factors f', integration gives the same form"
    )


@claim(
    id="sun-nielsen-full-rank",
    source="Sun, Nielsen 2017",
    equation="2.1, last sentence",
    statement="At least dim(w) samples are needed to make g(w) full rank.",
)
def full_rank(level: Level) -> Measurement:
    """The rank of a tanh neuron's metric for 1 to dim(w)+2 random samples."""
    d = 7 if level == "quick" else 100
    rng = np.random.default_rng(5)
    w, inputs = rng.normal(size=d + 1) / np.sqrt(d), rng.normal(size=(d + 3, d))
    ranks = [fisher.neuron("tanh", w, inputs[:n]).rank() for n in range(1, d + 4)]
    holds = ranks == [min(n, d + 1) for n in range(1, d + 4)]
    return Measurement(
        verdict="holds" if holds else "refuted",
        summary=f"The rank grows by one with each sample and is full, {d + 1}, from {ranks.index(max(ranks)) + 1} on.",
        values={"dim(w)": d + 1, "first full rank": ranks.index(max(ranks)) + 1},
    )


@claim(
    id="sun-nielsen-informative-inputs",
    source="Sun, Nielsen 2017",
    equation="2.1",
    statement="The metric is a covariance weighted towards inputs in the linear region of tanh, the ambiguous ones.",
)
def informative_inputs(level: Level) -> Measurement:
    """Whether inputs ordered by information are ordered by the entropy of the output and by |w·x̃|."""
    rng = np.random.default_rng(6)
    w, inputs = rng.normal(size=6), rng.normal(size=(200 if level == "quick" else 20000, 5))
    found = fisher.geometry(fisher.neuron("tanh", w, inputs))
    t = np.abs(inputs @ w[:5] + w[5])[found.order]
    p = (1 + np.tanh(t)) / 2
    entropy = -(p * np.log(p) + (1 - p) * np.log1p(-p))
    holds = bool((np.diff(t) >= 0).all() and (np.diff(entropy) <= 1e-15).all())
    return Measurement(
        verdict="holds" if holds else "refuted",
        summary="The order by information is the order by |w·x̃| and by the entropy of the output.",
        values={
            "inputs": len(t),
            "information at |w·x̃| largest over smallest": float(found.information.min() / found.information.max()),
        },
    )


@claim(
    id="sun-nielsen-theorem-3",
    source="Sun, Nielsen 2017",
    equation="Theorem 3, (13)",
    statement="The joint Fisher matrix of a factorable network is block diagonal with the blocks E[g(θ_l)].",
)
def theorem_3(level: Level) -> Measurement:
    """Enumerate all states of small stochastic networks."""
    rng = np.random.default_rng(9)
    n = 2 if level == "quick" else 4
    weights = [rng.normal(size=(n, 3)), rng.normal(size=(n, n + 1)), rng.normal(size=(3, n + 1))]
    x = rng.normal(size=(2, 2))
    defects = {}
    for activation, softmax in itertools.product(("tanh", "sigmoid"), (False, True)):
        found = fisher.joint(weights, x, activation=activation, softmax=softmax)
        name = f"{activation} units{', soft-max output' if softmax else ''}"
        defects[name] = found.defect / float(np.abs(found.matrix).max())
    return _exact(defects, "Over all states of all units, E[∂ln p ∂ln pᵀ] is diag(E[g])")
