"""What the action notes A, B and C write down: derivatives and coefficients of the expanded action, each with its test.

The tests differentiate the loss with autodiff, or take what `neft.action` computes and tests of its own have compared
with 50-digit arithmetic. What was seen at trained parameters is in `_action_data`.
"""

import math
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from .. import action
from .._activation import activation
from .._precision import float64
from ._action_problem import problem
from ._claim import Level, Measurement
from ._ledger import claim

_EXACT = 1e-9


def _term(monomial: str, orders: dict[str, int], sigma: Callable = jax.nn.silu) -> float:
    """The monomial's part of S by nested autodiff in one factor per letter."""
    params, (z, m) = problem()

    def loss(t: Any) -> Any:
        u, w, b, c = t
        h = sigma(w * (z @ params["W"].T) + b * params["b"][None, :])
        f = u * (h @ params["U"].T) + c * params["c"][None, :]
        return -jax.nn.log_softmax(f)[jnp.arange(len(m)), m].mean()

    run = loss
    for letter in monomial:
        run = _slope(run, "UWbc".index(letter))
    with jax.enable_x64(True):
        value = float(run(jnp.zeros(4)))
    return value / math.prod(math.factorial(n) for n in orders.values())


def _slope(function: Callable, at: int) -> Callable:
    return lambda t: jax.jvp(function, (t,), (jnp.eye(4)[at],))[1]


def _coefficient(monomial: str, printed: float, statement: str, correction: str) -> Measurement:
    """Compare a printed coefficient, relative to the bare contraction, with autodiff."""
    params, data = problem()
    J, Z = action.moments(data, 2).J, action.moments(data, 1).Z
    U, W, b, c = (params[name] for name in "UWbc")
    Pi = np.eye(3) / 3 - 1 / 9
    bare = {
        "UW": np.sum(J[1] * (U @ W)),
        "Ubc": (U @ b) @ Pi @ c,
        "UWc": (U @ W @ Z) @ Pi @ c,
        "UWb": np.sum(J[1] * ((U * b) @ W)),
        "UWW": np.einsum("agd,ab,bg,bd->", J[2], U, W, W),
    }[monomial]
    found = _term(monomial, {letter: monomial.count(letter) for letter in set(monomial)}) / bare
    values = {"printed": printed, "measured": found, "ratio": found / printed}
    if abs(found - printed) < _EXACT:
        return Measurement(verdict="holds", summary=f"{statement} is {found:.6g}, as printed.", values=values)
    return Measurement(
        verdict="corrected",
        summary=f"{statement} is {found:.6g} instead of {printed:.6g}, a factor {found / printed:.4g}.",
        correction=correction,
        values=values,
    )


@claim(id="action-a-s0", source="action note A", equation="(4) (and note B; note C, (7))", statement="S_0 = ln M.")
def zeroth_order(level: Level) -> Measurement:
    params, (z, m) = problem()
    zero = {name: 0 * value for name, value in params.items()}
    found = action.expand(zero, (z, m), 0).loss
    error = abs(found - math.log(3))
    return Measurement(
        verdict="holds" if error < 1e-14 else "refuted",
        summary=f"At θ = 0 the loss of three classes is {found:.15g}, which is ln 3.",
        values={"error": error},
    )


@claim(id="action-a-s1", source="action note A", equation="(5) (and note B)", statement="S_1 = 0 for balanced classes.")
def first_order(level: Level) -> Measurement:
    balanced = action.expand(*problem(), 1).S[1]
    params, data = problem(balanced=False)
    other = action.expand(params, data, 1).S[1]
    wanted = float(action.moments(data, 0).J[0] @ params["c"])
    good = abs(balanced) < 1e-14 and abs(other - wanted) < 1e-14
    return Measurement(
        verdict="holds" if good else "refuted",
        summary=f"S_1 is {balanced:.1e} for balanced classes; for others it is J_α c_α ({other:.4g}).",
        values={"balanced": float(balanced), "unbalanced": float(other), "J c": wanted},
    )


@claim(id="action-a-silu-curvature", source="action note A", equation="section 2.4", statement="σ''(0) = 1/6 for SiLU.")
def silu_curvature(level: Level) -> Measurement:
    with jax.enable_x64(True):
        found = float(jax.grad(jax.grad(jax.nn.silu))(0.0))
    if abs(found - 1 / 6) < _EXACT:
        return Measurement(verdict="holds", summary="It is 1/6.", values={"second derivative": found})
    return Measurement(
        verdict="corrected",
        summary=f"The second derivative of SiLU at 0 is {found:.12g}.",
        correction="σ''(0) = 1/2 for SiLU (note B has it right).",
        values={"second derivative": found},
    )


@claim(
    id="action-a-s2-uw",
    source="action note A",
    equation="(6) (and note B)",
    statement="The UW term of S_2 is J/(4M)·UW (with its ½).",
)
def second_order_000(level: Level) -> Measurement:
    # J of notes A and B is M times ours.
    return _coefficient("UW", 1 / 4, "The factor of J UW/M in S_2", "J/(2M)·UW: mixed partial derivatives count twice.")


@claim(
    id="action-c-s2-uw",
    source="action note C",
    equation="(9)",
    statement="The UW term of S_2 is ½J·UW (for σ'(0) = 1).",
)
def second_order_002(level: Level) -> Measurement:
    params, data = problem()
    bare = float(np.sum(action.moments(data, 1).J[1] * (params["U"] @ params["W"])))
    found = action.expand(params, data, 2, activation="linear").terms["UW"].value / bare
    return Measurement(
        verdict="corrected" if abs(found - 0.5) > _EXACT else "holds",
        summary=f"For a smooth σ with σ'(0) = 1 the factor of J UW is {found:.6g} instead of 0.5.",
        correction="J·UW: mixed partial derivatives count twice." if abs(found - 0.5) > _EXACT else None,
        values={"measured": found, "printed": 0.5},
    )


_S3 = {
    "Ubc": ("(δ/12M - 1/12M²) U b c", 1 / 12, 1 / 12, "½(δ/M - 1/M²) U b c"),
    "UWc": ("(Zδ/12M - Z/12M²) U W c", 1 / 12, 1 / 12, "½(δ/M - 1/M²) Z U W c"),
    "UWb": ("J U W b", 1 / 36, 1 / 12, "J/(2M) U W b"),
    "UWW": ("J U W W", 1 / 36, 1 / 12, "J/(4M) U W W"),
}


def _third_order(note: str, monomial: str) -> None:
    what, first, second, correction = _S3[monomial]
    printed = first if note == "A" else second

    @claim(
        id=f"action-{note.lower()}-s3-{monomial.lower()}",
        source=f"action note {note}",
        equation="section 2.4, S_3",
        statement=f"The {monomial} term of S_3 is {what} with the factor 1/{round(1 / printed)}.",
    )
    def test(level: Level) -> Measurement:
        reason = "every order of the letters counts once"
        return _coefficient(monomial, printed, f"The factor of {monomial} in S_3", f"{correction}: {reason}.")


for _note in "AB":
    for _monomial in _S3:
        _third_order(_note, _monomial)


@claim(
    id="action-a-s3-ccc",
    source="action note A",
    equation="section 2.4, S_3 (and note B; note C, (10))",
    statement="The ccc term of S_3 is T ccc/6.",
)
def third_order_ccc(level: Level) -> Measurement:
    c, M = problem()[0]["c"], 3
    T = np.zeros((M, M, M))
    for a, b, d in np.ndindex(T.shape):
        T[a, b, d] = (a == b == d) / M - (int(a == b) + int(a == d) + int(b == d)) / M**2 + 2 / M**3
    printed = float(np.einsum("abd,a,b,d->", T, c, c, c) / 6)
    found = _term("ccc", {"c": 3})
    return Measurement(
        verdict="holds" if abs(found - printed) < _EXACT else "refuted",
        summary=f"Both sides are {found:.10g}.",
        values={"measured": found, "printed": printed},
    )


@claim(
    id="action-b-uwb-derivative",
    source="action note B",
    equation="section 2.4, ∂³S/∂U∂W∂b",
    statement="(1/6M)(E[z] - E[z|α]) = J/(2M).",
)
def inconsistent_line(level: Level) -> Measurement:
    found = _coefficient("UWb", 1 / 2, "The mixed derivative of UWb over J/M", "")
    factor = found.values["measured"]
    right = abs(factor - 1 / 2) < _EXACT
    return Measurement(
        verdict="corrected" if right else "refuted",
        summary=f"The factor of J/M is {factor:.6g}; the line's left side says 1/6, its right side 1/2.",
        correction="The left side's 1/6 is left over from note A; 1/2 is right." if right else None,
        values={"measured": factor},
    )


@claim(
    id="action-b-uwc-derivative",
    source="action note B",
    equation="section 2.4, ∂³S/∂U∂W∂c (and note A)",
    statement="∂³S/∂U_αβ∂W_βγ∂c_δ = (δ/2M - 1/2M²) z_γ.",
)
def average_missing(level: Level) -> Measurement:
    found = _coefficient("UWc", 1 / 2, "The factor with z averaged", "")
    good = found.verdict == "holds"
    return Measurement(
        verdict="corrected" if good else "refuted",
        summary="With Z = E[z] in place of the sample's z the derivative agrees with autodiff.",
        correction="Z_γ = E[z_γ] stands where z_γ is printed, as S_3 has it." if good else None,
        values=found.values,
    )


@float64
def _derivative_formulas() -> dict[str, float]:
    """Largest errors of the printed second and third derivatives of S at a random point."""
    params, (z, m) = problem(balanced=False)
    rng = np.random.default_rng(1)
    directions = [{k: jnp.asarray(rng.normal(size=v.shape)) for k, v in params.items()} for _ in range(3)]

    def logits(t: Any) -> Any:
        p = {k: v + sum(t[i] * d[k] for i, d in enumerate(directions)) for k, v in params.items()}
        return jax.nn.silu(z @ p["W"].T + p["b"][None, :]) @ p["U"].T + p["c"][None, :]

    loss = lambda t: -jax.nn.log_softmax(logits(t))[jnp.arange(len(m)), m].mean()  # noqa: E731
    zero = jnp.zeros(3)
    f1, f2, f3 = jax.jacfwd(logits)(zero), jax.jacfwd(jax.jacfwd(logits))(zero), _third(logits)(zero)
    q = jax.nn.softmax(logits(zero))
    one, two, three = (f1[..., i] for i in range(3))
    pair = lambda i, j: f2[..., i, j]  # noqa: E731
    mean = lambda x: (q * x).sum(axis=1)  # noqa: E731
    label = lambda x: x[jnp.arange(len(m)), m]  # noqa: E731
    second = mean(one * two + pair(0, 1)) - mean(one) * mean(two) - label(pair(0, 1))
    shared = (
        mean(f3[..., 0, 1, 2] + one * two * three + one * pair(1, 2) + two * pair(0, 2) + three * pair(0, 1))
        - mean(pair(0, 1)) * mean(three)
        - mean(pair(0, 2)) * mean(two)
        - mean(one) * mean(pair(1, 2))
        + 2 * mean(one) * mean(two) * mean(three)
        - label(f3[..., 0, 1, 2])
    )
    # The last three products of the double sum: notes A and B print one of them twice.
    first = shared - 2 * mean(one * two) * mean(three) - mean(one * three) * mean(two)
    right = shared - mean(one * two) * mean(three) - mean(one * three) * mean(two) - mean(one) * mean(two * three)
    exact2, exact3 = jax.jacfwd(jax.jacfwd(loss))(zero)[0, 1], _third(loss)(zero)[0, 1, 2]
    return {
        "second": float(abs(second.mean() - exact2)),
        "third of notes A and B": float(abs(first.mean() - exact3)),
        "third of note C": float(abs(right.mean() - exact3)),
        "size": float(abs(exact3)),
    }


def _third(function: Callable) -> Callable:
    return jax.jacfwd(jax.jacfwd(jax.jacfwd(function)))


@claim(
    id="action-a-second-derivative",
    source="action note A",
    equation="section 2.3 (and notes B, C)",
    statement="∂²S/∂θ∂θ' as printed.",
)
def second_derivative(level: Level) -> Measurement:
    found = _derivative_formulas()
    return Measurement(
        verdict="holds" if found["second"] < _EXACT else "refuted",
        summary=f"At a random point it agrees with autodiff to {found['second']:.0e}.",
        values=found,
    )


@claim(
    id="action-a-third-derivative",
    source="action note A",
    equation="section 2.4 (and note B)",
    statement="∂³S/∂θ∂θ'∂θ'' as printed.",
)
def third_derivative_000(level: Level) -> Measurement:
    found = _derivative_formulas()
    wrong = found["third of notes A and B"] > 1e-6 * found["size"]
    return Measurement(
        verdict="corrected" if wrong else "holds",
        summary=f"At a random point it differs from autodiff by {found['third of notes A and B'] / found['size']:.0%}.",
        correction="One product is printed twice; note C's ∂f_α ∂'f_β ∂''f_β belongs in its place." if wrong else None,
        values=found,
    )


@claim(
    id="action-c-third-derivative",
    source="action note C",
    equation="section 2.4",
    statement="∂³S/∂θ∂θ'∂θ'' as printed.",
)
def third_derivative_002(level: Level) -> Measurement:
    found = _derivative_formulas()
    return Measurement(
        verdict="holds" if found["third of note C"] < _EXACT else "refuted",
        summary=f"At a random point it agrees with autodiff to {found['third of note C']:.0e}.",
        values=found,
    )


@claim(
    id="action-c-relu-derivatives",
    source="action note C",
    equation="section 1.1, (2) to (4)",
    statement="ReLU has σ'(0) = 1 and no other derivative, so its expansion is that of a smooth function.",
)
def relu_derivatives(level: Level) -> Measurement:
    params, data = problem()
    flipped = {**params, "W": -params["W"], "b": -params["b"]}
    right, left = (action.expand(p, data, 2, activation="relu").terms["U(Wb)"].value for p in (params, flipped))
    smooth = action.expand(params, data, 2, activation="linear").terms
    printed = smooth["UW"].value + smooth["Ub"].value
    return Measurement(
        verdict="refuted" if abs(right - printed) > 1e-3 and abs(right + left) > 1e-3 else "holds",
        summary=f"The term that should be J·UW = {printed:.4g} is {right:.4g}, and {left:.4g} instead of {-right:.4g} "
        "for -W, -b: ReLU is homogeneous, not differentiable, at 0.",
        values={"smooth": printed, "θ": right, "-W, -b": left},
    )


@claim(
    id="action-c-s3-open",
    source="action note C",
    equation="(10)",
    statement="S_3 of ReLU is T ccc/6 and terms left open as '?'.",
)
def relu_third_order(level: Level) -> Measurement:
    params, (z, m) = problem()

    def loss(q):
        f = jax.nn.relu(z @ q["W"].T + q["b"][None, :]) @ q["U"].T + q["c"][None, :]
        return -jax.nn.log_softmax(f)[jnp.arange(len(m)), m].mean()

    found = action.ray(loss, params, 3)[3]
    c = params["c"] - params["c"].mean()
    rho = np.maximum(z @ params["W"].T + params["b"], 0) @ params["U"].T
    wanted = float((c**3).mean() / 6 + (c * rho.mean(axis=0)).mean())
    good = abs(found - wanted) < _EXACT
    return Measurement(
        verdict="corrected" if good else "refuted",
        summary=f"S_3 along tθ, t > 0, is {found:.8g}; T ccc/6 + Π c E[U relu(Wz+b)] is {wanted:.8g}.",
        correction="The open part is Π c E[U relu(Wz+b)], for t ≥ 0." if good else None,
        values={"measured": float(found), "formula": wanted},
    )


@claim(
    id="action-a-main-term",
    source="action note A",
    equation="section 2.5 (and note B)",
    statement="The main term of S_{n+1} is σ^(n)(0)/((n+1)! M) J UW…W.",
)
def main_term(level: Level) -> Measurement:
    params, data = problem()
    s = activation("tanh").taylor(3)
    main = s * action.contracted(params, data, 3).sum(axis=1)
    exact = [_term("U" + "W" * n, {"U": 1, "W": n}, jnp.tanh) for n in (1, 2, 3)]
    error = max(abs(a - b) for a, b in zip(main[1:], exact))
    silu = action.expand(params, data, 4).terms["UWWW"].value
    good = error < _EXACT and silu == 0
    return Measurement(
        verdict="corrected" if good else "refuted",
        summary=f"σ^(n)(0)/(n! M) agrees with autodiff to {error:.0e} for n = 1, 2, 3; for SiLU it vanishes at n = 3.",
        correction="σ^(n)(0)/(n! M): the factor n+1 counts nothing; zero for SiLU at odd n ≥ 3." if good else None,
        values={"error": error, "UWWW of silu": silu},
    )


@claim(
    id="action-b-counts",
    source="action note B",
    equation="section 2.4",
    statement="With U 10×2048 and W 2048×1024 the sums of S_3 have 2.2e10, 1e3, 2.1e5, 2.1e8 and 2.1e7 sub-terms.",
)
def counts(level: Level) -> Measurement:
    stated = {"UWW": 2.2e10, "ccc": 1e3, "Ubc": 2.1e5, "UWc": 2.1e8, "UWb": 2.1e7}
    found = {name: float(action.results.Domination.sub_terms(name, 10, 2048, 1024)) for name in stated}
    worst = max(abs(found[name] / stated[name] - 1) for name in stated)
    return Measurement(
        verdict="holds" if worst < 0.05 else "refuted",
        summary=f"Counted {found['UWW']:.3g} for UWW; all five agree within {worst:.1%}.",
        values=found,
    )
