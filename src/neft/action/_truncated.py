"""The truncated action as a landscape of its own: definiteness, bounds and gradient flow (action notes A and B)."""

import functools
import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from scipy.integrate import solve_ivp

from .. import _check
from .._activation import Activation
from .._precision import float64
from .._public import public
from .._result import Made, Result, result
from . import _along, _closed
from ._expand import describe
from ._model import LETTERS, Parameters, Samples, homogeneous, parameters, samples, smooth_at_zero
from ._moments import moments
from ._pieces import of_activation


@result
class QuadraticForm(Result):
    """The quadratic form δ/M - 1/M² of S_2 in c: its eigenvalues, determinant and null vectors.

    `null` has one vector per row. A null vector is no instability: adding the same number to every c leaves S as it is.
    """

    classes: int
    eigenvalues: Float[np.ndarray, " classes"]
    determinant: float
    null: Float[np.ndarray, "vectors classes"]
    definiteness: str
    made: Made


@public
def quadratic_form(classes: int) -> QuadraticForm:
    """Whether δ/M - 1/M² is definite, for M classes (action notes A and B, section 2.3).

    >>> form = quadratic_form(3)
    >>> form.definiteness, len(form.null), [round(float(x), 6) for x in np.abs(form.eigenvalues)]
    ('positive semi-definite', 1, [0.0, 0.333333, 0.333333])
    """
    M = _check.integer("classes", classes, at_least=2)
    form = np.eye(M) / M - 1 / M**2
    values, vectors = np.linalg.eigh(form)
    tiny = 1e-12 / M
    kind = "indefinite" if values[0] < -tiny else "positive definite" if values[0] > tiny else "positive semi-definite"
    return QuadraticForm(
        classes=M,
        eigenvalues=values,
        determinant=float(np.linalg.det(form)),
        null=vectors[:, np.abs(values) <= tiny].T,
        definiteness=kind,
        made=Made.by("neft.action.quadratic_form", specification={"classes": M}),
    )


@result
class Boundedness(Result):
    """Whether S_0 + … + S_order is bounded from below, with what shows it.

    If not, `direction` (a mapping of U, c, W, b) runs to minus infinity: its highest term that does not vanish,
    `leading_order`, is negative (`leading`), and `values` are the truncated action at `scales` times the direction. If
    it is bounded, `certificate` says why. Where neither was found, `bounded` is None.
    """

    order: int
    bounded: bool | None
    certificate: str
    direction: dict[str, Float[np.ndarray, "..."]]
    leading_order: int
    leading: float
    scales: Float[np.ndarray, " points"]
    values: Float[np.ndarray, " points"]
    made: Made


@public
@float64
def boundedness(
    data: Any, order: int, *, activation: Any = "silu", hidden: int = 2, tries: int = 8, key: Array | None = None
) -> Boundedness:
    """Whether the action truncated at an order from 2 on is bounded from below.

    Order 2 is decided exactly: σ'(0) J·UW is a product of two free matrices, so it is unbounded unless it vanishes. At
    an odd order S(-θ) = -S(θ), so that one of ±θ runs to minus infinity for every θ at which it does not vanish. At an
    even order n > 2 the parts of c alone and of c U b^(n-2), which has either sign, are tried before random directions
    and, up to order four, descent on the sphere.

    >>> found = boundedness(([[1.0], [-1.0]], [0, 1]), 2)
    >>> found.bounded, bool(found.values[-1] < -100)
    (False, True)
    """
    order = _check.integer("order", order, at_least=2, at_most=_check.HIGHEST_ORDER)
    hidden = _check.integer("hidden", hidden, at_least=1)
    act, source = smooth_at_zero(activation), data
    if homogeneous(act):
        raise ValueError(f"activation is {act.name!r}, but the truncations are examined for smooth activations only.")
    data = samples(data)
    exact = data._replace(z=data.z.astype(np.float64))
    found = None
    for theta in _candidates(data, act, hidden, tries, jax.random.key(0) if key is None else key, order):
        S = _along.coefficients(theta, exact, act, order)[0]
        # What a direction reaches at 100 times itself: terms that do not matter there are rounding.
        sizes = np.abs(S) * 100.0 ** np.arange(order + 1)
        top = next((n for n in range(order, 0, -1) if sizes[n] > 1e-9 * sizes.max()), 0)
        if top % 2 and S[top] > 0:
            theta, S = theta.scaled(U=-1, W=-1, b=-1, c=-1), S * (-1.0) ** np.arange(order + 1)
        if top and S[top] < 0 and (found is None or top > found[1]):
            found = (theta, top, S)
        if top == order and S[top] < 0:
            break
    scales = np.geomspace(1.0, 100.0, 9)
    certificate, bounded, theta, top, S = "", None, None, 0, np.zeros(order + 1)
    if found is not None:
        theta, top, S = found
        bounded, certificate = False, f"S_{top} is negative along the direction, and nothing of higher order is there"
    elif order == 2 and act.taylor(1)[1] == 0:
        bounded, certificate = True, "σ'(0) = 0, and δ/M - 1/M² is positive semi-definite"
    elif order == 2 and not np.abs(np.concatenate([J.ravel() for J in moments(data[:2], 1).J])).max() > 1e-14:
        bounded, certificate = True, "J vanishes, and δ/M - 1/M² is positive semi-definite"
    else:
        certificate = "no direction was found, which proves nothing"
    values = np.array([np.polynomial.polynomial.polyval(r, S) for r in scales])
    return Boundedness(
        order=order,
        bounded=bounded,
        certificate=certificate,
        direction={} if theta is None else {name: np.asarray(getattr(theta, name)) for name in LETTERS},
        leading_order=top,
        leading=float(S[top]),
        scales=scales,
        values=values,
        made=Made.by(
            "neft.action.boundedness", specification={"order": order, **_known(source), "activation": act.name}
        ),
    )


@functools.lru_cache(maxsize=16)
def _orders(act: Activation, order: int):
    parts = of_activation(act, order)

    @jax.jit
    def run(theta: Parameters, z: Any, m: Any) -> Any:
        sums = _closed.term_sums(parts(theta, z @ theta.W.T), m)
        S = [jnp.zeros(())] * (order + 1)
        for degrees, value in sums.items():
            if sum(degrees) <= order:
                S[sum(degrees)] = S[sum(degrees)] + value / len(m)
        return jnp.stack(S)

    return run


def _candidates(data: Samples, act: Activation, hidden: int, tries: int, key: Array, order: int):
    M, E = data.classes, data.z.shape[1]
    zero = Parameters(np.zeros((M, hidden)), np.zeros((hidden, E)), np.zeros(hidden), np.zeros(M))
    s = act.taylor(order)
    if order > 2:
        # Half of the classes up, half down: the kurtosis of two points is negative, and so is S_4.
        yield zero._replace(c=np.where(np.arange(M) < M // 2, 1.0, -1.0))
        # With U of second and c of first order in something small, c U b^(n-2) is the largest part of S_n.
        v = np.where(np.arange(M) == 0, 1.0, np.where(np.arange(M) == 1, -1.0, 0.0))
        b = act.singularity if 0 < act.singularity < math.inf else 1.0
        sign = -np.sign(s[order - 2]) or -1.0
        yield zero._replace(U=_column(0.01 * sign * v, hidden), b=b * (np.arange(hidden) == 0), c=0.1 * v)
    u, _, v = np.linalg.svd(moments(data[:2], 1).J[1])
    sign = -np.sign(s[1]) or -1.0
    steepest = zero._replace(U=_column(sign * u[:, 0], hidden), W=_column(v[0], hidden).T)
    yield steepest
    yield steepest._replace(U=-steepest.U)
    for i in range(tries):
        drawn = _drawn(zero, jax.random.fold_in(key, i))
        yield drawn
        # With small U what is linear in it rules, and a sign is free.
        yield drawn._replace(U=0.01 * drawn.U, c=0 * drawn.c)
        yield drawn._replace(U=-0.01 * drawn.U, c=0 * drawn.c)
    for i in range(tries if order <= _closed.HIGHEST else 0):
        yield _descended(zero, data, act, order, jax.random.fold_in(key, i))


def _drawn(zero: Parameters, key: Array) -> Parameters:
    keys = jax.random.split(key, 4)
    return Parameters(*(np.asarray(jax.random.normal(k, leaf.shape)) for k, leaf in zip(keys, zero)))


def _column(values: np.ndarray, hidden: int) -> np.ndarray:
    return np.concatenate([values[:, None], np.zeros((len(values), hidden - 1))], axis=1)


def _descended(zero: Parameters, data: Samples, act: Activation, order: int, key: Array) -> Parameters:
    # Descent of S_order on the unit sphere.
    theta = _drawn(zero, key)
    z, m = jnp.asarray(data.z, jnp.float64), data.m
    run = _orders(act, order)
    slope = jax.jit(jax.grad(lambda theta: run(theta, z, m)[order]))
    for _ in range(60):
        gradient = slope(theta)
        size = jnp.sqrt(sum(jnp.vdot(g, g) for g in gradient)) + 1e-300
        theta = Parameters(*(p - 0.3 * g / size for p, g in zip(theta, gradient)))
        norm = jnp.sqrt(sum(jnp.vdot(p, p) for p in theta))
        theta = Parameters(*(p / norm for p in theta))
    return Parameters(*(np.asarray(p) for p in theta))


@result
class TruncatedFlow(Result, formerly="Flow"):
    """Gradient flow dθ/dt = -∇(S_2 + … + S_order): times, |θ|, the truncated action, and whether it runs away.

    `escaped` is the time at which |θ| passed `limit` times its start, or None.
    """

    order: int
    time: Float[np.ndarray, " steps"]
    norm: Float[np.ndarray, " steps"]
    truncated: Float[np.ndarray, " steps"]
    escaped: float | None
    limit: float
    made: Made


@public
@float64
def truncated_flow(
    params: Any, data: Any, order: int, *, activation: Any = "silu", time: float = 1e4, limit: float = 1e3
) -> TruncatedFlow:
    """The gradient flow of the action truncated at an order from 2 to 4, from given parameters.

    >>> theta = dict(U=np.full((2, 1), 0.1), c=np.zeros(2), W=np.full((1, 1), 0.1), b=np.zeros(1))
    >>> flow = truncated_flow(theta, ([[1.0], [-1.0]], [0, 1]), 2, time=100.0)
    >>> flow.escaped is not None and bool(flow.truncated[-1] < flow.truncated[0])
    True
    """
    order = _check.integer("order", order, at_least=2, at_most=_closed.HIGHEST)
    time, limit = _check.real("time", time, above=0.0), _check.real("limit", limit, above=1.0)
    act, theta, source = smooth_at_zero(activation), parameters(params), data
    data = samples(data, classes=theta.classes, features=theta.features)
    shapes = [leaf.shape for leaf in theta]
    edges = np.cumsum([0, *(math.prod(shape) for shape in shapes)])
    run, z, m = _orders(act, order), jnp.asarray(data.z, jnp.float64), jnp.asarray(data.m)

    def opened(flat: Any) -> Parameters:
        return Parameters(*(flat[a:b].reshape(s) for a, b, s in zip(edges, edges[1:], shapes)))

    value = jax.jit(lambda flat, z, m: run(opened(flat), z, m)[1:].sum())
    slope = jax.jit(jax.grad(value))
    start = np.concatenate([np.ravel(np.asarray(leaf, np.float64)) for leaf in theta])
    edge = limit * np.linalg.norm(start)

    def escape(_: float, flat: np.ndarray) -> float:
        return float(np.linalg.norm(flat) - edge)

    escape.terminal = True  # type: ignore[attr-defined]
    found = solve_ivp(
        lambda _, flat: -np.asarray(slope(flat, z, m)), (0.0, time), start, events=escape, rtol=1e-6, atol=1e-9
    )
    norms = np.linalg.norm(found.y, axis=0)
    # A finite-time blow-up stops the solver before the event does.
    ran = bool(len(found.t_events[0])) or found.status < 0
    return TruncatedFlow(
        order=order,
        time=found.t,
        norm=norms,
        truncated=np.array([float(value(flat, z, m)) for flat in found.y.T]) + math.log(data.classes),
        escaped=float(found.t[-1]) if ran else None,
        limit=limit,
        made=Made.by("neft.action.truncated_flow", specification=describe(theta, source, act) | {"order": order}),
    )


def _known(source: Any) -> dict[str, Any]:
    return {"data": source.description()} if hasattr(source, "description") else {}
