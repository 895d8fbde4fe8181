"""The derivatives that the action notes A, B and C write down one by one, each with its test.

Every element is compared with nested autodiff of the classifier's loss, at θ = 0 or at a random point.
"""

import functools
from collections.abc import Callable, Iterable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from .. import action
from .._precision import float64
from ._action_problem import problem
from ._claim import Level, Measurement
from ._ledger import claim

_EXACT = 1e-9
_LETTERS = "UWbc"
_SIZES = {"M": 3, "H": 4, "E": 2}


def _logits(params: Any, z: Any, sigma: Callable = jax.nn.silu) -> Any:
    return sigma(z @ params["W"].T + params["b"][None, :]) @ params["U"].T + params["c"][None, :]


def _loss(params: Any, z: Any, m: Any, sigma: Callable = jax.nn.silu) -> Any:
    return -jax.nn.log_softmax(_logits(params, z, sigma))[jnp.arange(len(m)), m].mean()


@functools.cache
def _at_zero(order: int, kind: str, balanced: bool = True, sigma: Callable = jax.nn.silu) -> dict[str, Any]:
    """All derivatives of an order at θ = 0 of the loss ("S") or of the logits ("f", samples and classes first).

    The key "UWb" stands for the tensor of ∂³/∂U∂W∂b with the axes of U, W and b in this order.
    """
    params, (z, m) = problem(balanced)
    zero = {name: 0 * value for name, value in params.items()}
    if kind == "f":
        return _of_logits(zero, z, order, sigma)
    return _derivatives(lambda q: _loss(q, z, m, sigma), zero, order)


@float64
def _derivatives(function: Callable, at: dict[str, np.ndarray], order: int) -> dict[str, Any]:
    run = function
    for _ in range(order):
        run = jax.jacfwd(run)
    found: dict[str, Any] = {"": run({name: jnp.asarray(at[name]) for name in _LETTERS})}
    for _ in range(order):
        found = {key + name: inner[name] for key, inner in found.items() for name in _LETTERS}
    return found


def _of_logits(params: Any, z: Any, order: int, sigma: Callable = jax.nn.silu) -> dict[str, Any]:
    return _derivatives(lambda q: _logits(q, z, sigma), params, order)


@float64
def _probabilities(params: Any, z: Any) -> np.ndarray:
    return np.asarray(jax.nn.softmax(_logits(params, z)))


def _compared(found: dict[str, Any], stated: dict[str, Any]) -> tuple[float, list[str]]:
    """The largest error of what is stated, and what does not vanish without being stated in any order of letters."""
    error = max(float(np.abs(found[key] - value).max()) for key, value in stated.items())
    return error, sorted(_not_zero(found) - _names(stated))


def _names(keys: Iterable[str]) -> set[str]:
    """Without the order of the letters, as ∂²/∂U∂W is ∂²/∂W∂U."""
    return {"".join(sorted(key)) for key in keys}


def _not_zero(found: dict[str, Any]) -> set[str]:
    return _names(key for key, value in found.items() if np.abs(value).max() > _EXACT)


def _holds(error: float, what: str, rest: list[str] | tuple = (), **more: float) -> Measurement:
    good = error < _EXACT and not rest
    beside = f", and {', '.join(rest)} do not vanish" if rest else ""
    return Measurement(
        verdict="holds" if good else "refuted",
        summary=f"{what}: the largest difference to autodiff is {error:.0e}{beside}.",
        values={"error": error, "not stated": len(rest), **more},
    )


def _mended(
    printed: float, corrected: float, right: float, correction: str, rest: list[str] | tuple = ()
) -> Measurement:
    """The verdict on what is printed, by the errors of that and of the number that should stand there."""
    if printed < _EXACT:
        return _holds(printed, "Every element", rest)
    good = corrected < _EXACT and not rest
    return Measurement(
        verdict="corrected" if good else "refuted",
        summary=f"Elements differ from autodiff by up to {printed:.2g}, with {_fraction(right)} by {corrected:.0e}.",
        correction=correction if good else None,
        values={"error, printed": printed, "error, corrected": corrected},
    )


def _fraction(number: float) -> str:
    return f"1/{round(1 / number)}"


@claim(
    id="action-a-log-derivative",
    source="action note A",
    equation="(1) (and notes B, C)",
    statement="∂ ln q_m/∂θ = ∂f_m/∂θ - Σ_α q_α ∂f_α/∂θ.",
)
def log_derivative(level: Level) -> Measurement:
    params, (z, _) = problem(balanced=False)
    exact = _derivatives(lambda q: jax.nn.log_softmax(_logits(q, z)), params, 1)
    f, q = _of_logits(params, z, 1), _probabilities(params, z)
    stated = {key: value - np.einsum("na,na...->n...", q, value)[:, None] for key, value in f.items()}
    return _holds(_compared(exact, stated)[0], "At a random point, in every parameter")


@claim(
    id="action-a-first-derivative",
    source="action note A",
    equation="section 2.2 (and notes B, C)",
    statement="∂S/∂θ = Σ p(z,m) [Σ_α q_α ∂f_α/∂θ - ∂f_m/∂θ].",
)
def first_derivative(level: Level) -> Measurement:
    params, (z, m) = problem(balanced=False)
    exact = _derivatives(lambda q: _loss(q, z, m), params, 1)
    f, weight = _of_logits(params, z, 1), _probabilities(params, z) - np.eye(_SIZES["M"])[m]
    stated = {key: np.einsum("na,na...->...", weight, value) / len(m) for key, value in f.items()}
    return _holds(_compared(exact, stated)[0], "At a random point, in every parameter")


def _silu_derivatives(x: np.ndarray) -> list[np.ndarray]:
    s = 1 / (1 + np.exp(-x))
    return [x * s, s + x * s * (1 - s), s * (1 - s) * (2 + x * (1 - 2 * s))]


@claim(
    id="action-a-logit-first",
    source="action note A",
    equation="section 2.2 (and notes B, C)",
    statement="∂f/∂U = σ, ∂f/∂c = 1, ∂f/∂W = Uσ'z, ∂f/∂b = Uσ', and at θ = 0 only ∂f/∂c is left.",
)
def logit_first(level: Level) -> Measurement:
    params, (z, _) = problem()
    U, M = params["U"], np.eye(_SIZES["M"])
    value, slope, _ = _silu_derivatives(z @ params["W"].T + params["b"])
    stated = {
        "U": np.einsum("ac,nb->nacb", M, value),
        "c": np.broadcast_to(M, (len(z), *M.shape)),
        "W": np.einsum("ab,nb,ng->nabg", U, slope, z),
        "b": np.einsum("ab,nb->nab", U, slope),
    }
    error, _ = _compared(_of_logits(params, z, 1), stated)
    left = _compared(_at_zero(1, "f"), {"c": stated["c"]})
    return _holds(max(error, left[0]), "At a random point and at 0", left[1])


@claim(
    id="action-a-logit-second",
    source="action note A",
    equation="section 2.3 (and notes B, C)",
    statement="∂²f is σ'z in UW, σ' in Ub, Uσ''zz in WW, Uσ''z in Wb, Uσ'' in bb, and nothing else.",
)
def logit_second(level: Level) -> Measurement:
    params, (z, _) = problem()
    U, M, I = params["U"], np.eye(_SIZES["M"]), np.eye(_SIZES["H"])
    _, slope, curve = _silu_derivatives(z @ params["W"].T + params["b"])
    stated = {
        "UW": np.einsum("ac,bh,nb,ng->nacbhg", M, I, slope, z),
        "Ub": np.einsum("ac,bh,nb->nacbh", M, I, slope),
        "WW": np.einsum("ab,bh,nb,ng,nd->nabghd", U, I, curve, z, z),
        "Wb": np.einsum("ab,bh,nb,ng->nabgh", U, I, curve, z),
        "bb": np.einsum("ab,bh,nb->nabh", U, I, curve),
    }
    error, rest = _compared(_of_logits(params, z, 2), stated)
    return _holds(error, "At a random point", rest)


@claim(
    id="action-a-silu-slope",
    source="action note A",
    equation="section 2.3 (and note B)",
    statement="SiLU has σ(0) = 0, σ'(0) = 1/2.",
)
def silu_slope(level: Level) -> Measurement:
    with jax.enable_x64(True):
        value, slope = float(jax.nn.silu(0.0)), float(jax.grad(jax.nn.silu)(0.0))
    return _holds(max(abs(value), abs(slope - 0.5)), "Both", value=value, slope=slope)


def _Pi() -> np.ndarray:
    M = _SIZES["M"]
    return np.eye(M) / M - 1 / M**2


def _stated(monomial: str, number: float) -> np.ndarray:
    """A number times J or Π on the diagonal of the hidden units, with the axes of the monomial's letters."""
    J, I = action.moments(problem()[1], 2), np.eye(_SIZES["H"])
    return (
        number
        * {
            "UW": lambda: np.einsum("ag,bh->abhg", J.J[1], I),
            "UWW": lambda: np.einsum("agd,bh,bk->abhgkd", J.J[2], I, I),
            "UWb": lambda: np.einsum("ag,bh,bk->abhgk", J.J[1], I, I),
            "Ubc": lambda: np.einsum("ac,bh->abhc", _Pi(), I),
            "UWc": lambda: np.einsum("ac,bh,g->abhgc", _Pi(), I, J.Z),
        }[monomial]()
    )


def _written(monomial: str) -> str:
    return f"∂{'²' if len(monomial) == 2 else '³'}S/{''.join(f'∂{letter}' for letter in monomial)}"


def _id(note: str, monomial: str) -> str:
    return f"action-{note.lower()}-{monomial.lower()}-derivative"


def _derivative(note: str, equation: str, monomial: str, printed: float, right: float, symbol: str) -> None:
    """A row for a derivative at θ = 0 that is a number times `symbol`."""
    as_printed = f"{symbol}·{_fraction(printed)}"

    @claim(
        id=_id(note, monomial),
        source=f"action note {note}",
        equation=equation,
        statement=f"{_written(monomial)} at θ = 0 is {as_printed}.",
    )
    def test(level: Level) -> Measurement:
        found = _at_zero(len(monomial), "S")[monomial]
        printed_error, error = (float(np.abs(found - _stated(monomial, n)).max()) for n in (printed, right))
        return _mended(printed_error, error, right, f"{symbol}·{_fraction(right)}: σ''(0) = 1/2.")


# J of notes A and B over M is the J of action.moments.
_derivative("A", "section 2.3 (and note B)", "UW", 1 / 2, 1 / 2, "J/M")
_derivative("A", "section 2.4 (and note B)", "Ubc", 1 / 2, 1 / 2, "(δ/M - 1/M²)")
_derivative("A", "section 2.4", "UWW", 1 / 6, 1 / 2, "J/M")
_derivative("B", "section 2.4", "UWW", 1 / 2, 1 / 2, "J/M")
_derivative("A", "section 2.4", "UWb", 1 / 6, 1 / 2, "J/M")


@claim(
    id="action-a-cc-derivative",
    source="action note A",
    equation="section 2.3 (and notes B, C)",
    statement="∂²S/∂c_α∂c_β at θ = 0 is δ/M - 1/M², and ∂³S/∂c∂c∂c is δ/M - (δ+δ+δ)/M² + 2/M³.",
)
def cc_derivative(level: Level) -> Measurement:
    M = _SIZES["M"]
    d = np.eye(M)
    T = np.einsum("ab,bc->abc", d, d) / M + 2 / M**3
    T = T - (d[:, :, None] + d[:, None, :] + d[None, :, :]) / M**2
    error = max(
        _compared(_at_zero(2, "S"), {"cc": _Pi()})[0],
        _compared(_at_zero(3, "S"), {"ccc": T})[0],
    )
    return _holds(error, "Every element")


def _vanishing(note: str, equation: str, monomial: str) -> None:
    """A row for a derivative at θ = 0 that is 0 when all classes are as frequent."""

    @claim(
        id=_id(note, monomial),
        source=f"action note {note}",
        equation=equation,
        statement=f"{_written(monomial)} at θ = 0 vanishes.",
    )
    def test(level: Level) -> Measurement:
        error, other = (float(np.abs(_at_zero(len(monomial), "S", b)[monomial]).max()) for b in (True, False))
        return _holds(error, f"With balanced classes (with others it is up to {other:.2g})", unbalanced=other)


_vanishing("A", "section 2.3 (and notes B, C)", "Ub")
_vanishing("A", "section 2.4 (and note B)", "Ubb")


@claim(
    id="action-a-terms",
    source="action note A",
    equation="(6) and section 2.4 (and note B)",
    statement="S_2 holds cc and UW only, S_3 holds ccc, Ubc, UWc, UWb and UWW only.",
)
def terms(level: Level) -> Measurement:
    wanted = {2: {"cc", "UW"}, 3: {"ccc", "Ubc", "UWc", "UWb", "UWW"}}
    wrong = []
    for order, names in wanted.items():
        wrong += sorted(_not_zero(_at_zero(order, "S")) ^ _names(names))
    return _holds(0.0, "For SiLU and balanced classes, of all derivatives at θ = 0", wrong)


@claim(
    id="action-a-s2-cc",
    source="action note A",
    equation="(6) (and note B; note C, (9))",
    statement="The cc term of S_2 is ½(δ/M - 1/M²) c c.",
)
def second_order_cc(level: Level) -> Measurement:
    params, data = problem()
    found = action.expand(params, data, 2).terms["cc"].value
    printed = float(params["c"] @ _Pi() @ params["c"] / 2)
    direct = float(params["c"] @ _at_zero(2, "S")["cc"] @ params["c"] / 2)
    return _holds(max(abs(found - printed), abs(found - direct)), "The expansion and the formula", value=found)


def _third_of_logits(note: str, printed: float) -> None:
    @claim(
        id=f"action-{note.lower()}-logit-third",
        source=f"action note {note}",
        equation="section 2.4",
        statement=f"At θ = 0 ∂³f is z z {_fraction(printed)} in UWW, z {_fraction(printed)} in UWb, "
        f"{_fraction(printed)} in Ubb, and nothing else.",
    )
    def test(level: Level) -> Measurement:
        z = problem()[1][0]
        M, I = np.eye(_SIZES["M"]), np.eye(_SIZES["H"])
        bare = {
            "UWW": np.einsum("ac,bh,bk,ng,nd->nacbhgkd", M, I, I, z, z),
            "UWb": np.einsum("ac,bh,bk,ng->nacbhgk", M, I, I, z),
            "Ubb": np.broadcast_to(np.einsum("ac,bh,bk->acbhk", M, I, I), (len(z), 3, 3, 4, 4, 4)),
        }
        found = _at_zero(3, "f")
        error, rest = _compared(found, {key: printed * value for key, value in bare.items()})
        corrected, _ = _compared(found, {key: value / 2 for key, value in bare.items()})
        return _mended(error, corrected, 1 / 2, "1/2, which is σ''(0), in all three.", rest)


for _note, _printed in (("A", 1 / 6), ("B", 1 / 2)):
    _third_of_logits(_note, _printed)


@claim(
    id="action-a-correlation",
    source="action note A",
    equation="sections 2.3 and 2.4 (and note B)",
    statement="J_αγ is the correlation of an output class with one input, J_αγδ with two.",
)
def correlation(level: Level) -> Measurement:
    _, (z, m) = problem()
    J = action.moments((z, m), 2).J
    own = np.eye(_SIZES["M"])[m]
    errors = []
    for n, inputs in ((1, z), (2, np.einsum("ng,nd->ngd", z, z))):
        centred = inputs - inputs.mean(axis=0)
        errors.append(float(np.abs(J[n] + np.einsum("na,n...->a...", own - own.mean(axis=0), centred) / len(m)).max()))
    good = max(errors) < _EXACT
    return Measurement(
        verdict="corrected" if good else "refuted",
        summary=f"J/M is minus the covariance of the class's indicator with the inputs, to {max(errors):.0e}.",
        correction="With the other sign, and a covariance: J/M = -Cov(1[m = α], z_γ…) for balanced classes."
        if good
        else None,
        values={"error, one input": errors[0], "error, two inputs": errors[1]},
    )


@claim(id="action-c-s1", source="action note C", equation="(8)", statement="S_1 = 0 for ReLU and balanced classes.")
def relu_first_order(level: Level) -> Measurement:
    params, (z, m) = problem()
    found = action.ray(lambda q: _loss(q, z, m, jax.nn.relu), params, 1)[1]
    return _holds(abs(float(found)), "Along tθ, t > 0, at a random θ")


@claim(
    id="action-c-uw-derivative",
    source="action note C",
    equation="section 2.3",
    statement="∂²S/∂U∂W at θ = 0 is J, and but for ∂²S/∂c∂c all others vanish.",
)
def relu_second_derivatives(level: Level) -> Measurement:
    smooth, rest = _compared(_at_zero(2, "S", True, _identity), {"UW": _stated("UW", 1.0), "cc": _Pi()})
    params, (z, m) = problem()
    bare = {**params, "b": 0 * params["b"], "c": 0 * params["c"]}
    found = float(action.ray(lambda q: _loss(q, z, m, jax.nn.relu), bare, 2)[2])
    stated = float(np.einsum("abhg,ab,hg->", _stated("UW", 1.0), params["U"], params["W"]))
    relu = abs(found - stated)
    good = smooth < _EXACT and not rest
    return Measurement(
        verdict="holds" if good and relu < _EXACT else "depends" if good else "refuted",
        summary=f"For a smooth σ with σ'(0) = 1 it agrees to {smooth:.0e}; for ReLU, which has no derivative there, "
        f"the part of S_2 in U and W is {found:.4g} instead of {stated:.4g}.",
        values={"error, smooth": smooth, "S_2 of ReLU": found, "J UW": stated},
    )


def _identity(x: Any) -> Any:
    return x


@claim(
    id="action-c-higher-logits",
    source="action note C",
    equation="section 1.1, footnote",
    statement="In derivatives of f higher than the second σ' is absent.",
)
def higher_logits(level: Level) -> Measurement:
    # With σ'' = 0 and σ' = 1 whatever is left would be σ'.
    params, (z, _) = problem()
    found = _of_logits(params, z, 3, _identity)
    error = max(float(np.abs(value).max()) for value in found.values())
    return _holds(error, "With σ(x) = x, at a random point, all third derivatives of f vanish")
