"""Why some terms dominate: numbers of sub-terms against alignment with the data (action note B, section 2.4)."""

from typing import Any

import jax
import numpy as np
from jaxtyping import Array, Float
from scipy import stats

from .. import _check
from .._precision import float64
from .._public import public
from .._result import Made, Result, result
from ._expand import describe, expand
from ._model import Parameters, parameters, samples, smooth_at_zero
from ._moments import moments


@result
class Domination(Result):
    """Each monomial at θ beside random θ of equal norms, letter by letter.

    `value` is the term at θ, `random` the mean of |term| over `draws` random θ (`spread` its standard deviation),
    `alignment` their ratio, and `count` the number of sub-terms that action note B counts.
    """

    value: dict[str, float]
    share: dict[str, float]
    random: dict[str, float]
    spread: dict[str, float]
    random_share: dict[str, float]
    alignment: dict[str, float]
    count: dict[str, int]
    draws: int
    made: Made

    @staticmethod
    def sub_terms(name: str, classes: int, hidden: int, features: int) -> int:
        """How many products a monomial's sum runs over when written out, as action note B counts them.

        >>> [f"{Domination.sub_terms(name, 10, 2048, 1024):.2g}" for name in ("ccc", "Ubc", "UWc", "UWb", "UWW")]
        ['1e+03', '2e+05', '2.1e+08', '2.1e+07', '2.1e+10']
        """
        letters = {letter: name.count(letter) for letter in "UWbc"}
        # Each U brings a class and a hidden unit of its own, each W an input, each c a class.
        return classes ** (letters["U"] + letters["c"]) * hidden ** letters["U"] * features ** letters["W"]


@public
@float64
def domination(
    params: Any, data: Any, order: int = 4, *, activation: Any = "silu", draws: int = 8, key: Array | None = None
) -> Domination:
    """The terms up to an order at θ against those at random θ whose U, W, b and c have the same norms.

    If counting sub-terms explained which term dominates, it would dominate at random θ as well.

    >>> theta = dict(U=np.eye(2), c=np.zeros(2), W=-np.eye(2), b=np.zeros(2))
    >>> found = domination(theta, (np.eye(2), [0, 1]), 2)
    >>> found.count["UW"], found.value["UW"]
    (8, 0.25)
    """
    draws = _check.integer("draws", draws, at_least=1)
    theta, act = parameters(params), smooth_at_zero(activation)
    key = jax.random.key(0) if key is None else key
    trained = expand(theta, data, order, activation=act).terms
    found = [
        expand(_random(theta, jax.random.fold_in(key, i)), data, order, activation=act).terms for i in range(draws)
    ]
    sizes = {name: np.array([abs(terms[name].value) for terms in found]) for name in trained}
    mean = {name: float(values.mean()) for name, values in sizes.items()}
    return Domination(
        value={name: term.value for name, term in trained.items()},
        share={name: term.share for name, term in trained.items()},
        random=mean,
        spread={name: float(values.std()) for name, values in sizes.items()},
        random_share={name: float(np.mean([terms[name].share for terms in found])) for name in trained},
        alignment={name: abs(term.value) / mean[name] if mean[name] else 0.0 for name, term in trained.items()},
        count={name: Domination.sub_terms(name, theta.classes, theta.hidden, theta.features) for name in trained},
        draws=draws,
        made=Made.by("neft.action.domination", specification=describe(theta, data, act) | {"draws": draws}, key=key),
    )


def _random(theta: Parameters, key: Array) -> Parameters:
    drawn = []
    for k, leaf in zip(jax.random.split(key, 4), theta):
        noise = np.asarray(jax.random.normal(k, leaf.shape))
        drawn.append((noise * (np.linalg.norm(leaf) / np.linalg.norm(noise))).astype(leaf.dtype))
    return Parameters(*drawn)


@result
class ElementStatistics(Result):
    """The distribution of a tensor's elements.

    `negative` is the share of elements below 0 and `negative_mass` their share of Σ|x|; `skew` and `kurtosis` (excess)
    vanish for a Gaussian, and `distance` is the largest difference of the distribution function to that of the Gaussian
    with the same mean and spread (Kolmogorov-Smirnov); `gaussian` says whether it is below Lilliefors' 1 % level for as
    many independent elements (neighbouring pixels are not independent). `histogram` counts over `edges`.
    """

    size: int
    mean: float
    spread: float
    skew: float
    kurtosis: float
    negative: float
    negative_mass: float
    low: float
    high: float
    distance: float
    gaussian: bool
    edges: Float[np.ndarray, " edges"]
    histogram: Float[np.ndarray, " bins"]


@result
class Elements(Result):
    """Statistics of the elements of J, of the propagators and of their products, by name.

    "J2", "UW" and "J2·UW" have indices α, γ; "J3", "UWW" and "J3·UWW" α, γ, δ.
    """

    of: dict[str, ElementStatistics]
    made: Made


@public
@float64
def elements(params: Any, data: Any, *, activation: Any = "silu", order: int = 2) -> Elements:
    """How the elements of J, of UW and UWW, and of their products are distributed (action notes A and B).

    `order` 1 leaves the tensors with two indices of inputs out.

    >>> theta = dict(U=np.eye(2), c=np.zeros(2), W=np.eye(2), b=np.zeros(2))
    >>> elements(theta, (np.eye(2), [0, 1]), order=1).of["J2·UW"].negative
    0.5
    """
    order = _check.integer("order", order, at_least=1, at_most=2)
    theta, act, source = parameters(params), smooth_at_zero(activation), data
    checked = samples(data, classes=theta.classes, features=theta.features)
    J = moments(checked[:2], order).J
    U, W = theta.U.astype(np.float64), theta.W.astype(np.float64)
    found = {}
    propagators = [U @ W] + ([np.stack([(W.T * row) @ W for row in U])] if order == 2 else [])
    for n, propagator in enumerate(propagators, start=1):
        name = "U" + "W" * n
        found[f"J{n + 1}"] = describe_elements(J[n])
        found[name] = describe_elements(propagator)
        found[f"J{n + 1}·{name}"] = describe_elements(J[n] * propagator)
    return Elements(of=found, made=Made.by("neft.action.elements", specification=describe(theta, source, act)))


def describe_elements(tensor: Any) -> ElementStatistics:
    """Statistics of the elements of an array.

    >>> found = describe_elements(np.random.default_rng(0).normal(size=4000))
    >>> found.gaussian, abs(found.negative - 0.5) < 0.05
    (True, True)
    """
    x = np.sort(np.ravel(np.asarray(tensor, np.float64)))
    spread = float(x.std())
    degenerate = spread == 0
    centred = x - x.mean()
    mass = float(np.abs(x).sum())
    reach = float(np.abs(x).max())
    # An odd number, so that one bin is centred at 0; few elements do not fill many.
    bins = int(np.clip(2 * np.cbrt(x.size), 11, 100)) // 2 * 2 + 1
    histogram, edges = np.histogram(x, bins=bins, range=(-reach, reach) if reach else (-1.0, 1.0))
    distance = 1.0 if degenerate else _distance(centred / spread)
    return ElementStatistics(
        size=x.size,
        mean=float(x.mean()),
        spread=spread,
        skew=0.0 if degenerate else float((centred**3).mean() / spread**3),
        kurtosis=0.0 if degenerate else float((centred**4).mean() / spread**4 - 3),
        negative=float((x < 0).mean()),
        negative_mass=float(-x[x < 0].sum() / mass) if mass else 0.0,
        low=float(x[0]),
        high=float(x[-1]),
        distance=distance,
        # Lilliefors' level of 1 %, for a mean and a spread taken from the sample.
        gaussian=bool(distance < 1.035 / (np.sqrt(x.size) - 0.01 + 0.85 / np.sqrt(x.size))),
        edges=edges,
        histogram=histogram.astype(np.float64),
    )


def _distance(x: np.ndarray) -> float:
    below = stats.norm.cdf(x)
    steps = np.arange(len(x) + 1) / len(x)
    return float(max((below - steps[:-1]).max(), (steps[1:] - below).max()))
