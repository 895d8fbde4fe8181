"""Theory against simulation: every tensor of every layer, with z-scores.

Up to the second layer the leading order is exact at any width. From the third on, the tensors of a simulated network
differ from it by further powers of 1/n, which are large for some: the hidden widths are multiplied by several factors
f, and a + b/f + c/f² is fitted, whose a is what the theory speaks of; what such a fit leaves out is part of its error.
It depends on the ratios of the hidden widths only, so wide networks are checked by narrow ones. At the network's own
width there is no fit: what is seen there is the theory with all that it leaves out, so the expected size of that stands
beside it and there is no verdict.
"""

import math
from collections.abc import Sequence
from typing import Any

import jax
import numpy as np
from jaxtyping import Array, Float

from .. import _check
from .._public import public
from .._result import Made, Result, result
from ..network import Network
from ..network.engine import plain
from ._deeper import strength
from ._statistics import NAMES, statistics

MULTIPLES = (1, 2, 3, 5)
NARROWEST = 6
"""The narrowest hidden layer that is simulated, unless the network itself has a narrower one."""
_NORMALIZED = 12  # the same with norms, since inverse moments of n squares have poles at n = 2 and 4
_TOLERANCE = (1e-9, 1e-6)  # of the theory's quadratures, for one input and for several


@result
class Comparison(Result):
    """Theory, simulation extrapolated to large width, its standard error and the z-score, by name.

    Each has the shape of the tensor in `statistics`: (L,) for one input, with further axes for several. A tensor that
    is zero in theory and in every draw has z = 0. `agrees` is whether no |z| reaches 5. `simulated` are the widths of
    the networks that were drawn. At the network's own width nothing is extrapolated: `next_order` is about how much the
    theory leaves out, else None, and `agrees` is None.
    """

    theory: dict[str, Float[np.ndarray, "layers *samples"]]
    simulation: dict[str, Float[np.ndarray, "layers *samples"]]
    stderr: dict[str, Float[np.ndarray, "layers *samples"]]
    z: dict[str, Float[np.ndarray, "layers *samples"]]
    widths: tuple[int, ...]
    activation: str
    draws: int
    factors: tuple[float, ...]
    next_order: dict[str, Float[np.ndarray, "layers *samples"]] | None = None
    made: Made

    @classmethod
    def _from_older(cls, fields: dict[str, Any]) -> dict[str, Any]:
        return {"next_order": None} | fields

    @property
    def simulated(self) -> tuple[tuple[int, ...], ...]:
        """The widths of the networks that were drawn, one for each of the factors."""
        first, *hidden, last = self.widths
        return tuple((first, *(round(factor * n) for n in hidden), last) for factor in self.factors)

    @property
    def worst(self) -> float:
        """The largest |z|."""
        return max(float(np.abs(z).max()) for z in self.z.values())

    @property
    def agrees(self) -> bool | None:
        """Whether every tensor of every layer agrees within five standard errors; None at the network's own width."""
        return self.worst < 5 if self.next_order is None else None

    def _shown(self):
        verdict = {True: "agrees", False: "DOES NOT AGREE", None: "no verdict at one width"}[self.agrees]
        yield "theory of", repr(self.widths)
        yield "simulation of", ", ".join(map(repr, self.simulated))
        yield "worst |z|", f"{self.worst:.2f}, {verdict}"
        for name, z in self.z.items():
            yield name, ", ".join(f"{v:+.2f}" if z.ndim == 1 else f"|z| ≤ {np.abs(v).max():.2f}" for v in z)

    def resolved(self, name: str) -> Float[np.ndarray, "layers *samples"]:
        """How many standard errors the theory's value is away from zero, entry by entry; infinite where exact."""
        value, stderr = np.abs(self.theory[name]), self.stderr[name]
        exact = np.where(value > 0, np.inf, 0.0)
        return np.where(stderr > 0, value / np.where(stderr > 0, stderr, 1.0), exact)


@public
def check(
    net: Network,
    x: Any,
    *,
    draws: int = 4096,
    key: Array | None = None,
    factors: Sequence[float] | None = None,
    own_width: bool = False,
    dtype: Any = None,
) -> Comparison:
    """The statistics of a network against ensembles of `draws` networks at each of several widths.

    Those are narrow ones by default, whose hidden widths have the ratios of the network's: `Comparison.simulated` says
    which. With `own_width` it is the network itself. From layer 3 on its statistics differ from the leading order by
    more than the simulation's errors, given enough draws, so there is no verdict: `Comparison.next_order` is |K1|/n for
    K, |Theta1|/n for Theta and, for a tensor X, |X| times the largest relative correction, as `interpret` gives it.

    Args:
        net: the specification.
        x: one input of shape (n_0,), or several of shape (N, n_0).
        draws: networks at each width.
        key: a JAX key (default: key 0).
        factors: that multiply the hidden widths, at least three of them where there are more than two layers. By
            default 1, 2, 3 and 5 times the narrowest widths of the same ratios, at least 6 where it is so wide (12 with
            norms).
        own_width: whether to draw the network as it is instead, without extrapolation.
        dtype: of the simulated networks, by default that of x.

    >>> from neft import MLP
    >>> check(MLP(widths=(3, 6, 2), activation="relu"), [1.0, 0.5, 0.2], draws=512, factors=(1,)).agrees
    True
    """
    # The simulation is a sibling, not a part of the theory: it is only met here.
    from ..ensemble import estimate

    chain = plain(net)
    net = net if chain is None else chain
    factors = _chosen(net, factors, own_width)
    nets = [_scaled(net, factor) for factor in factors]
    exact = 1 if chain is None else 2  # layers at which the leading order is all there is
    key = jax.random.key(0) if key is None else key
    # Of other networks P to U are not drawn.
    theory = statistics(net, x, only=None if chain is not None else (*"KVABDF", "Theta"))
    estimates = []
    for index, scaled in enumerate(nets):
        estimates.append(estimate(scaled, x, draws=draws, key=jax.random.fold_in(key, index), dtype=dtype))
    known, simulation, stderr, z = {}, {}, {}, {}
    for name in NAMES:
        if name not in estimates[0].tensors or theory.tensors[name] is None:
            continue
        found = np.stack([e.tensors[name].mean for e in estimates])
        errors = np.stack([e.tensors[name].stderr for e in estimates])
        known[name] = getattr(theory, name)
        fits = [
            _extrapolate(found[:, l], errors[:, l], factors, exact=own_width or l < exact) for l in range(net.depth)
        ]
        simulation[name], stderr[name] = (np.array(column) for column in zip(*fits))
        tolerance = _TOLERANCE[known[name].ndim > 1] * max(np.abs(known[name]).max(), 1.0)
        z[name] = _scores(simulation[name] - known[name], stderr[name], tolerance)
    specification = {"net": net.to_dict(), "x": np.asarray(x, float), "draws": draws, "factors": factors}
    specification |= {"own_width": True} if own_width else {}
    return Comparison(
        theory=known,
        simulation=simulation,
        stderr=stderr,
        z=z,
        widths=net.widths,
        activation=", ".join(act.name for act in net.activations),
        draws=draws,
        factors=factors,
        next_order=_next_order(known, net.widths, exact) if own_width else None,
        made=Made.by("neft.width.check", specification=specification, key=key),
    )


def _chosen(net: Network, factors: Any, own_width: bool) -> tuple[float, ...]:
    if own_width:
        if factors is not None:
            raise ValueError(
                f"factors is {_check.brief(factors)}, but own_width draws the network as it is, so give one of them."
            )
        return (1.0,)
    if factors is None:
        return _factors(net)
    factors = tuple(_check.array("factors", factors, ndim=1).tolist())
    if not factors or (net.depth > 2 and len(set(factors)) < 3):
        raise ValueError(f"factors is {factors}, but must hold at least three widths to extrapolate from.")
    return tuple(_check.real("each of factors", f, above=0) for f in factors)


def _next_order(theory: dict[str, np.ndarray], widths: tuple[int, ...], exact: int) -> dict[str, np.ndarray]:
    n = np.array(widths[:-1], float)
    own = {name: value if value.ndim == 1 else _of_single_inputs(value) for name, value in theory.items()}
    with np.errstate(invalid="ignore", divide="ignore"):
        small = strength(own, n if theory["K"].ndim == 1 else n[:, None]).reshape(len(n), -1).max(axis=1)
    small[:exact] = 0.0

    def of(name: str, value: np.ndarray) -> np.ndarray:
        if (shift := {"K": "K1", "Theta": "Theta1"}.get(name)) in theory:
            return np.abs(theory[shift]) / _over(n, value)
        return np.abs(value) * _over(small, value)

    return {name: of(name, value) for name, value in theory.items()}


def _over(layers: np.ndarray, value: np.ndarray) -> np.ndarray:
    return layers.reshape(-1, *(1,) * (value.ndim - 1))


def _of_single_inputs(value: np.ndarray) -> np.ndarray:
    # (L, N) of (L, N, N) or (L, N, N, N, N).
    return np.einsum("laa->la" if value.ndim == 3 else "laaaa->la", value)


def _factors(net: Network) -> tuple[float, ...]:
    hidden = net.hidden_widths()
    if net.depth <= 2 and plain(net) is not None:
        # Exact at any width, so one is enough.
        return (min(1.0, NARROWEST / hidden[0]),) if hidden else (1.0,)
    common = math.gcd(*hidden)
    least = min(hidden) // common
    smallest = min(common, -(-(_NORMALIZED if net.normalized else NARROWEST) // least))
    return tuple(multiple * smallest / common for multiple in MULTIPLES)


def _scaled(net: Network, factor: float) -> Network:
    hidden = [factor * n for n in net.hidden_widths()]
    if any(abs(n - round(n)) > 1e-9 * n or round(n) < 1 for n in hidden):
        raise ValueError(f"each of factors must give whole hidden widths, but {factor:g} gives {hidden}.")
    return net.resized(lambda n: round(factor * n))


def _extrapolate(
    found: np.ndarray, errors: np.ndarray, factors: tuple[float, ...], *, exact: bool
) -> tuple[np.ndarray, np.ndarray]:
    """The value at infinite width of each entry and its error, from arrays with one row per factor.

    The error is that of the draws and of what the fit leaves out: the coefficients of 1/f³ and so on, one more than so
    many factors tell apart, count as 0 give or take that of 1/f². Many draws see them, and would call a right theory
    wrong.
    """
    shape, found, errors = found.shape[1:], found.reshape(len(factors), -1), errors.reshape(len(factors), -1)
    certain = ~errors.any(axis=0)
    # A width at which draws do not differ counts as exact to rounding.
    errors = np.where(certain, 1.0, np.maximum(errors, 1e-12 * np.abs(found).max(axis=0)))
    fitted, powers = (1, 1) if exact else (3, len(set(factors)) + 1)
    design = (np.array(factors, float)[:, None] ** -np.arange(powers)) / errors.T[:, :, None]
    seen = (found / errors).T
    fit, inverse = _least_squares(design[:, :, :fitted], seen)
    if not exact:
        # A row more for each further power says what is known of it.
        last = np.maximum(np.abs(fit[:, -1]), 1e-12 * np.abs(found).max(axis=0) + 1e-300)
        rows = np.eye(powers)[fitted:] / last[:, None, None]
        nothing = np.zeros((len(seen), powers - fitted))
        fit, inverse = _least_squares(np.concatenate([design, rows], 1), np.append(seen, nothing, 1))
    value = np.where(certain, found[0], fit[:, 0])
    error = np.linalg.norm(inverse[:, 0], axis=-1)
    return value.reshape(shape), np.where(certain, 0.0, error).reshape(shape)


def _least_squares(design: np.ndarray, seen: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The coefficients of each entry, and the root of their covariance, where what is seen has errors of 1."""
    q, r = np.linalg.qr(design)
    inverse = np.linalg.inv(r)
    return np.einsum("epq,efq,ef->ep", inverse, q, seen), inverse


def _scores(difference: np.ndarray, stderr: np.ndarray, tolerance: float) -> np.ndarray:
    # Without any spread only the tolerance of the theory's quadrature may be left.
    stderr = np.where(stderr > 0, np.hypot(stderr, tolerance), 0.0)
    equal = np.abs(difference) <= tolerance
    certain = np.where(equal, 0.0, np.copysign(np.inf, difference))
    return np.where(stderr > 0, difference / np.where(stderr > 0, stderr, 1.0), certain)
