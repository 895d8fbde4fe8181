"""What action notes A, B and C say of the action as a landscape: definite, bounded, attained; each with its test."""

import math

import numpy as np

from .. import action
from ._action_problem import problem
from ._claim import Level, Measurement
from ._ledger import claim


def _definiteness() -> tuple[bool, dict[str, float]]:
    forms = [action.quadratic_form(M) for M in range(2, 13)]
    values = {
        "smallest eigenvalue": float(min(form.eigenvalues.min() for form in forms)),
        "null vectors": float(max(len(form.null) for form in forms)),
        "largest determinant": float(max(abs(form.determinant) for form in forms)),
    }
    return all(form.definiteness == "positive semi-definite" for form in forms), values


@claim(
    id="action-a-quadratic-form",
    source="action note A",
    equation="section 2.3 (and note B)",
    statement="δ/M - 1/M² is non-positive definite, so c = 0 is unstable.",
)
def quadratic_form_000(level: Level) -> Measurement:
    semi, values = _definiteness()
    params, data = problem()
    shift = action.expand({**params, "c": params["c"] + 2.0}, data, 0).loss - action.expand(params, data, 0).loss
    return Measurement(
        verdict="refuted" if semi and abs(shift) < 1e-12 else "holds",
        summary="For M = 2..12 it is positive semi-definite with the one null vector c = (1, …, 1), along which the "
        "whole loss is constant; a vanishing determinant does not make an instability.",
        values=values | {"change of the loss along it": float(shift)},
    )


@claim(
    id="action-c-quadratic-form",
    source="action note C",
    equation="section 2.3",
    statement="δ/M - 1/M² is non-negative definite.",
)
def quadratic_form_002(level: Level) -> Measurement:
    semi, values = _definiteness()
    return Measurement(
        verdict="holds" if semi else "refuted",
        summary="For M = 2..12 its eigenvalues are 0 once and 1/M else.",
        values=values,
    )


def _unbounded(order: int) -> Measurement:
    found = action.boundedness(problem()[1], order)
    return Measurement(
        verdict="holds" if found.bounded is False else "refuted",
        summary=f"Along a direction that is given S_{found.leading_order} is {found.leading:.3g}, and the truncated "
        f"action reaches {found.values[-1]:.3g} at 100 times it.",
        values={"leading": found.leading, "leading order": found.leading_order, "at 100": float(found.values[-1])},
    )


@claim(id="action-a-s2-unbounded", source="action note A", equation="section 2.3", statement="S_2 has no lower bound.")
def second_order_unbounded(level: Level) -> Measurement:
    return _unbounded(2)


@claim(
    id="action-a-s3-unbounded",
    source="action note A",
    equation="section 2.4",
    statement="Up to S_3 there is no lower bound.",
)
def third_order_unbounded(level: Level) -> Measurement:
    return _unbounded(3)


@claim(
    id="action-a-next-order-stops",
    source="action note A",
    equation="section 2.3",
    statement="|U| and |W| grow until the next order takes part in (which bounds them).",
)
def next_order_stops(level: Level) -> Measurement:
    params, data = problem()
    small = {name: 0.1 * value for name, value in params.items()}
    flows = {n: action.truncated_flow(small, data, n, limit=1e3) for n in (2, 3, 4)}
    bounds = {n: action.boundedness(data, n) for n in (2, 3, 4)}
    escaped = {f"escape up to S_{n}": flow.escaped or math.inf for n, flow in flows.items()}
    every = all(bound.bounded is False for bound in bounds.values())
    return Measurement(
        verdict="refuted" if every and math.isfinite(escaped["escape up to S_3"]) else "holds",
        summary="Truncated at order 2, 3 or 4 the action has no lower bound; with S_3 gradient flow escapes all the "
        "same. Only the whole loss is bounded.",
        values=escaped,
    )


@claim(
    id="action-a-relative-entropy",
    source="action note A",
    equation="section 1.2 (and notes B, C)",
    statement="The relative entropy of p and q is Σ p(z,m) ln p(z,m) - Σ p(z,m) ln q_m(z).",
)
def relative_entropy(level: Level) -> Measurement:
    p = np.random.default_rng(0).dirichlet(np.ones(12)).reshape(4, 3)
    conditional = p / p.sum(axis=1, keepdims=True)
    printed = float((p * np.log(p)).sum() - (p * np.log(conditional)).sum())
    mended = float((p * np.log(conditional)).sum() - (p * np.log(conditional)).sum())
    wrong = abs(printed) > 1e-3
    return Measurement(
        verdict="corrected" if wrong else "holds",
        summary=f"At q = p(m|z) the printed expression is {printed:.4g} instead of 0: it lacks the entropy of z.",
        correction="p(m|z) belongs in the first logarithm; θ does not see the difference." if wrong else None,
        values={"printed at q = p(m|z)": printed, "corrected": mended},
    )


@claim(
    id="action-a-minimum",
    source="action note A",
    equation="(2)",
    statement="The action has the minimum S(θ*) = 0, where q_m(z, θ*) = 1.",
)
def minimum(level: Level) -> Measurement:
    z = np.array([[-1.0], [0.0], [0.0], [1.0]], np.float32)
    losses = {}
    for name, m in (("consistent", [0, 1, 1, 0]), ("inconsistent", [0, 0, 1, 1])):
        data = (z, np.array(m))
        found = action.fit(data, data, hidden=16, epochs=1500, patience=1500, batch=4, learning_rate=0.03)
        losses[name] = float(found.evaluation_loss.min())
    entropy = 0.5 * math.log(2)
    good = losses["consistent"] < 0.01 and abs(losses["inconsistent"] - entropy) < 0.01
    return Measurement(
        verdict="corrected" if good else "holds",
        summary=f"With one input under two labels training ends at {losses['inconsistent']:.4f}, the conditional "
        f"entropy being {entropy:.4f}; with consistent labels at {losses['consistent']:.1e}, which falls on.",
        correction="H(m|z) is a lower bound, approached with enough capacity; 0 only for consistent labels, and never "
        "attained at finite θ."
        if good
        else None,
        values=losses | {"H(m|z)": entropy},
    )
