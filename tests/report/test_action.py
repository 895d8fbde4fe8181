import jax.numpy as jnp
import numpy as np
import optax
import pytest

from neft import action
from neft.report import tables

THETA = {"U": np.eye(2), "c": np.array([0.1, -0.1]), "W": -2 * np.eye(2), "b": np.zeros(2)}
DATA = (np.array([[1.0, 0.0], [0.0, 1.0]]), np.array([0, 1]))


def cell(table, row, column):
    """The cell of the row whose first cells are given."""
    key = row if isinstance(row, tuple) else (row,)
    (found,) = [r for r in table.rows if r[: len(key)] == key]
    return found[table.columns.index(column)]


@pytest.fixture(scope="module")
def analysis():
    return action.analyse(THETA, DATA, order=3)


@pytest.mark.slow
def test_the_analysis_shows_terms_radius_convergence_and_elements(analysis):
    titles = [table.title for table in tables(analysis)]
    assert titles[0].startswith("Action of 2 - 2 - 2, silu, on 2 samples") and titles[1:3] == [
        "Terms",
        "Radius of convergence of S(tθ) in t",
    ]
    assert titles[3:] == ["The loss along tθ and its series", "Elements"]


@pytest.mark.slow
def test_orders_and_terms_are_those_of_the_expansion(analysis):
    orders, terms, *_ = tables(analysis)
    wanted = action.expand(THETA, DATA, 3)
    # J = (E[z] - E[z|α])/2 is -1/4 on the diagonal and 1/4 off it, and UW = -2 on the diagonal: ½·4·(1/4)… = 1/2.
    assert float(cell(terms, ("2", "UW"), "value")) == pytest.approx(0.5) == wanted.terms["UW"].value
    assert float(cell(terms, ("2", "UW"), "share, %")) == pytest.approx(100 * 0.5 / (0.5 + 0.005), abs=0.01)
    assert float(cell(orders, "2", "S_n")) == pytest.approx(wanted.S[2], rel=1e-5)
    assert float(cell(orders, "3", "S_0 + … + S_n")) == pytest.approx(wanted.S.sum(), rel=1e-5)
    assert cell(orders, "1", "S_n") == "0" and cell(orders, "1", "largest term") == "-"
    assert f"{wanted.loss:.6g}" in orders.notes[0]


def test_inside_and_outside_are_said(analysis):
    _, _, radius, series, _ = tables(analysis)
    value = float(cell(radius, "radius", "value"))
    assert value == pytest.approx(analysis.radius.radius, rel=1e-5)
    said = {float(row[0]): row[-1] for row in series.rows}
    assert said == {t: "inside" if t < value else "outside" for t in said}
    assert ("inside" if value > 1 else "outside") in radius.notes[0]
    assert "all 2 samples" in cell(radius, "zeros nearer by 0.1 %", "value")


@pytest.mark.slow
def test_elements_are_counted(analysis):
    table = tables(analysis)[-1]
    assert cell(table, "J2·UW", "elements") == "4" and cell(table, "UW", "negative, %") == "50.0"


def test_a_stop_is_shown_with_its_reason():
    monitor = action.StoppingMonitor(lambda w: jnp.sum((w - 1.0) ** 2), lambda w: jnp.sum((w - 0.5) ** 2))
    monitor.follow(jnp.zeros(2), optax.sgd(0.05), steps=20, learning_rate=0.05)
    report = monitor.report()
    (table,) = tables(report)
    assert {row[1] for row in table.rows} == {str(report.minimum)}
    assert "to be trusted: full batch" in table.notes[0] and "not to be" not in table.notes[0]


def test_a_training_marks_the_best_epoch():
    losses = np.array([2.0, 1.0, 1.5])
    fit = action.results.Fit(
        **THETA,
        activation="silu",
        best=1,
        finished=True,
        training_loss=losses,
        evaluation_loss=losses,
        accuracy=losses / 2,
        scales=dict.fromkeys("UWbc", losses),
        made=action.expand(THETA, DATA, 0).made,
    )
    (table,) = tables(fit)
    assert [row[-1] for row in table.rows] == ["", "θ*", ""] and len(table.notes) == 1


def test_the_laws_of_several_sizes_are_shown():
    grid = np.array([[0.9, 0.8, 0.7]])
    found = action.results.Sizes(
        features=(4,),
        hidden=(2, 4, 8),
        loss=grid,
        share_UW=grid,
        share_UWW=grid,
        exponent=np.array([0.5]),
        floor=np.array([0.3]),
        error=np.array([0.01]),
        made=action.expand(THETA, DATA, 0).made,
    )
    loss, _, share, law = tables(found)
    assert cell(loss, "4", "H = 8") == "0.7000" and cell(share, "4", "H = 2") == "90.0"
    assert law.rows == (("4", "0.500", "0.3000", "1.0e-02"),)


@pytest.mark.parametrize("order", [2, 3])
def test_a_runaway_is_shown(order):
    facts, direction = tables(action.boundedness(DATA, order))
    assert cell(facts, "bounded", "value") == "no" and float(direction.rows[-1][1]) < -10


def test_a_form_and_a_recovered_loss_have_tables():
    (form,) = tables(action.quadratic_form(3))
    assert cell(form, "definiteness", "value") == "positive semi-definite"
    (table,) = tables(action.recover(lambda w: jnp.logaddexp(0.0, w), 20.0))
    assert float(table.rows[1][1]) == pytest.approx(20, abs=1e-3) and "outside" in table.notes[0]


@pytest.mark.slow
def test_a_flow_that_runs_away_says_so():
    small = {name: 0.1 * value for name, value in THETA.items()}
    (table,) = tables(action.truncated_flow(small, DATA, 2, time=500.0, limit=10.0))
    assert "runs away" in table.notes[0]
