import jax.numpy as jnp
import numpy as np
import pytest
from helpers import one_of_each, one_sentence
from matplotlib.figure import Figure

import neft
from neft import plot
from neft.gaussian import Powers, moment
from neft.width import phase
from neft.width.results import PhaseDiagram


def names(diagram):
    return [[diagram.phases[code] for code in row] for row in diagram.phase]


def iterated(name, C_b, C_W, steps):
    K = np.ones(np.broadcast_shapes(np.shape(C_b), np.shape(C_W)))
    for _ in range(steps):
        K = C_b + C_W * moment(name, Powers(s=2), K)
    return K


@pytest.mark.slow
@pytest.mark.parametrize("name", one_of_each(["tanh", "elu", "gelu"], ["tanh"]))
def test_the_fixed_point_is_where_the_flow_goes(name):
    C_b, C_W = np.array([0.05, 0.4, 1.0]), np.array([0.5, 1.2, 1.6])
    found = phase(name, C_b, C_W)
    assert found.K_star == pytest.approx(iterated(name, C_b[:, None], C_W, 300), rel=1e-10)


def test_the_chosen_fixed_point_is_that_of_the_basin_of_one():
    # With C_b = 0 GELU has K* = 0 and one that repels, on either side of K = 1 here.
    found = phase("gelu", 0.0, [2.2, 2.4])
    assert names(found) == [["ordered", "diverging"]]
    assert found.K_star.tolist() == [[0, np.inf]]


def test_tanh_has_an_edge_of_chaos_that_starts_at_its_critical_point():
    found = phase("tanh", [0.0, 0.1, 0.5], [0.9, 1.0, 1.1, 2.5])
    assert names(found) == [
        ["ordered", "critical", "chaotic", "chaotic"],
        ["ordered", "ordered", "ordered", "chaotic"],
        ["ordered", "ordered", "ordered", "ordered"],
    ]
    assert found.K_star[0, :2].tolist() == [0, 0]
    assert found.xi_perpendicular[0, 1] == np.inf
    assert found.xi_perpendicular[0, 0] == pytest.approx(-1 / np.log(0.9))


def test_relu_orders_or_diverges_on_either_side_of_two():
    found = phase("relu", [0.0, 1e-5], [1.5, 2.0, 2.5])
    assert names(found) == [["ordered", "critical", "diverging"], ["ordered", "diverging", "diverging"]]
    assert found.K_star[0].tolist() == [0, 1, np.inf]
    assert found.K_star[1, 0] == pytest.approx(4e-5)
    assert found.perpendicular == pytest.approx(np.tile([0.75, 1, 1.25], (2, 1)), abs=1e-12)
    assert found.xi_parallel[0, 1] == np.inf


# χ is quoted at a K so large that the average of exp is cut off, which is said and is not the point here.
@pytest.mark.filterwarnings("ignore::neft.gaussian.AccuracyWarning")
@pytest.mark.parametrize("function", [jnp.exp, lambda z: z**2 + 1])
def test_what_grows_faster_than_linearly_diverges(function):
    assert names(phase(function, 0.1, 2.0)) == [["diverging"]]


@pytest.mark.slow
def test_a_map_that_falls_is_followed():
    def bump(z):
        return 8 * z * jnp.exp(-(z**2))

    # ⟨bump²⟩ = 64 K (1 + 4K)^{-3/2}, whose slope is negative beyond K = 1/2.
    found = phase(bump, 0.0, [1.0, 8.0])
    assert found.K_star == pytest.approx(np.array([[3.75, 15.75]]))
    assert (found.parallel < 0).all()


@pytest.mark.slow
def test_a_map_that_leaves_what_is_resolved_is_unsettled():
    found = phase(jnp.sin, [1.0, 1e6], 1.0)
    assert names(found) == [["ordered"], ["unsettled"]]
    assert np.isnan([found.K_star[1, 0], found.perpendicular[1, 0], found.xi_parallel[1, 0]]).all()


def test_without_weights_only_the_bias_is_left():
    found = phase("tanh", [0.0, 0.3], 0.0)
    assert found.K_star == pytest.approx(np.array([[0.0], [0.3]]))
    assert (found.xi_perpendicular == 0).all() and names(found) == [["ordered"], ["ordered"]]


@pytest.mark.slow
def test_the_default_grid_holds_the_points_that_matter():
    found = phase("tanh")
    assert found.phase.shape == (51, 71)
    assert found.phase[0, np.argmin(np.abs(found.C_W - 1))] == found.phases.index("critical")
    assert sum(found.share(name) for name in found.phases) == pytest.approx(1)
    # Along the edge the depth scale is large, whatever the bias.
    edge = np.argmin(np.abs(found.perpendicular - 1), axis=1)
    assert (found.xi_perpendicular[np.arange(51), edge] > 50).all()


def test_a_diagram_survives_a_file(tmp_path):
    found = phase("relu", [0.0, 0.5], [1.0, 2.0, 3.0])
    for suffix in ("json", "npz"):
        found.save(tmp_path / f"a.{suffix}")
        again = neft.load(tmp_path / f"a.{suffix}")
        assert isinstance(again, PhaseDiagram) and again == found


@pytest.mark.slow
@pytest.mark.parametrize("name", one_of_each(["tanh", "gelu", "quadratic", "elu"], quick=["tanh"]))
def test_each_diagram_has_a_picture(name):
    axis = np.linspace(0, 4, 21)
    figure = plot.draw(phase(name, axis / 4, axis))
    assert isinstance(figure, Figure) and plot.svg(figure, salt="a").startswith("<svg")
    labels = figure.axes[0].get_xlabel(), figure.axes[0].get_ylabel(), figure.axes[1].get_ylabel()
    assert labels == ("$C_W$", "$C_b$", r"depth scale $\xi_\perp$ (layers)")


@pytest.mark.parametrize("name", ["gelu", "relu", "sigmoid"])
def test_criticality_has_a_picture(name):
    found = neft.width.critical(name)
    figure = plot.draw(found)
    assert plot.svg(figure, salt="a").startswith("<svg")
    assert len(figure.axes[0].collections) == sum(point.K_star is not None for point in found.points)


def test_what_cannot_be_drawn_says_so():
    with one_sentence("(1, 2)", "two of each"):
        plot.draw(phase("relu", 0.0, [1.0, 2.0]))
    with one_sentence("no susceptibilities"):
        plot.draw(neft.width.critical(neft.activation(jnp.sign, kinks=[0.0])))


def test_bad_input_is_refused():
    with one_sentence("C_b", "increasing"):
        phase("tanh", [1.0, 0.0])
    with one_sentence("C_W", "(1, 1)"):
        phase("tanh", 0.0, [[1.0]])
    with one_sentence("C_W holds -1"):
        phase("tanh", 0.0, -1.0)
    with one_sentence("tolerance is -1"):
        phase("tanh", tolerance=-1)
    with one_sentence("sign", "jumps at 0"):
        phase(neft.activation(jnp.sign, name="sign", kinks=[0.0]))
    with one_sentence("jumps at 0.7"):
        phase(lambda z: jnp.where(z > 0.7, z, jnp.tanh(z)))
    with one_sentence("name is 'order'", "ordered"):
        phase("relu", 0.0, 1.0).share("order")


@pytest.mark.parametrize("name", ["tanh", *(pytest.param(name, marks=pytest.mark.slow) for name in ("gelu", "relu"))])
def test_a_coarse_diagram_differs_by_less_than_can_be_seen(name):
    # The second bias is below the table, which begins at 1e-12 times the square of the activation's length.
    axes = np.array([0, 1e-15, *np.linspace(0.1, 1, 10)]), np.linspace(0.1, 4, 14)
    fine, coarse = (phase(name, *axes, coarse=coarse) for coarse in (False, True))
    assert coarse.points == () and coarse.made != fine.made
    # At χ_⊥ = 1 to the tolerance either side may be met.
    sure = np.abs(np.abs(fine.perpendicular - 1) - 1e-3) > 1e-4
    assert sure.mean() > 0.9
    np.testing.assert_array_equal(coarse.phase[sure], fine.phase[sure])
    settled = np.isfinite(fine.K_star)
    np.testing.assert_allclose(coarse.K_star[settled], fine.K_star[settled], rtol=1e-4, atol=1e-9)
    np.testing.assert_allclose(coarse.K_star[1][settled[1]], fine.K_star[1][settled[1]], rtol=1e-4)
    for part in ("perpendicular", "parallel"):
        np.testing.assert_allclose(getattr(coarse, part)[settled], getattr(fine, part)[settled], rtol=1e-4, atol=1e-4)
