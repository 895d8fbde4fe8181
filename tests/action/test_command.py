import json

import numpy as np
import pytest
from typer.testing import CliRunner

import neft
from neft import action, plot
from neft.cli import app
from neft.report import tables

from . import exact


def run(*arguments):
    return CliRunner().invoke(app, [str(a) for a in arguments])


pytestmark = pytest.mark.xdist_group("action command")  # what the fixture makes is made once


@pytest.fixture(scope="module")
def own(tmp_path_factory):
    """A small data set and parameters as files."""
    folder = tmp_path_factory.mktemp("own")
    params, (z, m) = exact.problem(False, n=6)
    np.savez(folder / "data.npz", x=np.repeat(z, 20, axis=0), y=np.repeat(m, 20))
    np.savez(folder / "theta.npz", **params)
    return folder


@pytest.mark.slow
def test_given_parameters_are_expanded_drawn_and_saved(own, tmp_path):
    out, picture = tmp_path / "a.json", tmp_path / "a.svg"
    options = ("--params", own / "theta.npz", "--preprocess", "none", "--split", "train", "--out", out)
    options = (*options, "--plot", picture)
    done = run("action", own / "data.npz", *options)
    assert done.exit_code == 0, done.stderr
    params, (z, m) = exact.problem(False, n=6)
    wanted = action.expand(params, (np.repeat(z, 20, axis=0).astype(np.float32), np.repeat(m, 20)), 4)
    found = neft.load(out)
    np.testing.assert_allclose(found.expansion.S, wanted.S, rtol=1e-5)
    assert picture.stat().st_size > 1000 and "radius" in done.stdout and "UUWW" in done.stdout
    assert json.loads(out.read_text())["best"] is None


@pytest.mark.slow
def test_a_classifier_is_trained_and_expanded(own, tmp_path):
    line = ("action", own / "data.npz", "--preprocess", "none", "--hidden", "4", "--epochs", "2", "--split", "train")
    done = run(*line, "--checkpoint", tmp_path / "r.npz", "--plot", tmp_path / "a.png")
    assert done.exit_code == 0, done.stderr
    assert "rms U" in done.stdout and (tmp_path / "r.npz").exists()


@pytest.mark.slow
def test_stops_by_gradients_are_followed_and_kept(own, tmp_path):
    line = ("action", own / "data.npz", "--preprocess", "none", "--params", own / "theta.npz", "--split", "train")
    done = run(*line, "--stops", "9,30", "--stop-steps", "4", "--out", tmp_path / "a.npz")
    assert done.exit_code == 0, done.stderr
    found = neft.load(tmp_path / "a.npz").stops
    assert found.sizes == (9, 30) and len(found[9].training) == 5 and found[30].drift[0] < 0


def test_sizes_that_are_no_numbers_are_refused(own):
    done = run("action", own / "data.npz", "--stops", "9;30", "--preprocess", "none", "--split", "train")
    assert done.exit_code == 2 and "--stops is '9;30'" in done.stderr


def test_what_is_not_parameters_is_refused(own):
    done = run("action", own / "data.npz", "--params", own / "data.npz", "--preprocess", "none", "--split", "train")
    assert done.exit_code == 2 and "data.npz" in done.stderr


def stopping(evaluation):
    losses = np.array(evaluation)
    return action.results.Stopping(
        training=np.linspace(2.0, 1.0, 4),
        evaluation=losses,
        alignment=np.array([1.0, 0.3, -0.1, -0.2]),
        drift=np.array([-1.0, -0.3, 0.1, np.nan]),
        stop_by_alignment=2,
        stop_by_drift=2,
        minimum=2 if losses[-1] > losses[2] else None,
        trusted=True,
        reason="a test",
        learning_rate=0.1,
        curvature=np.ones(3),
        made=neft.Made.by("test"),
    )


STOPS = action.results.Stops(
    sizes=(10, 100), runs=(stopping([2.0, 1.5, 1.4, 1.8]), stopping([2.0, 1.4, 1.2, 1.1])), made=neft.Made.by("test")
)


@pytest.mark.slow
def test_the_stops_of_an_analysis_are_said_and_drawn():
    params, data = exact.problem(True)
    found = action.analyse(params, data, order=2, stops=STOPS)
    table = tables(found)[-1]
    assert table.rows[0][:4] == ("10", "2", "2", "2") and table.rows[1][1] == "-" and "yes: a test" in table.rows[0][-1]
    figure = plot.draw(found)
    assert len(figure.axes) == 6 and "10 samples" in plot.svg(figure, salt="a").replace("\n", "")
    right = plot.draw(STOPS).axes[1]
    assert [list(line.get_ydata()) for line in right.lines[:2]] == [[2], [2, 2]]


PICTURES = {
    "stopping": lambda p, d: stopping([2.0, 1.5, 1.4, 1.8]),
    "stops": lambda p, d: STOPS,
    "expansion": lambda p, d: action.expand(p, d, 3),
    "convergence": lambda p, d: action.convergence(p, d, order=6, points=5, bound=0.5),
    "elements": lambda p, d: action.elements(p, d),
    "fit": lambda p, d: action.fit(d, d, hidden=2, epochs=1),
    "sizes": lambda p, d: action.results.Sizes(
        features=(1, 4),
        hidden=(2, 4, 8),
        **dict.fromkeys(("loss", "share_UW", "share_UWW"), np.array([[0.9, 0.8, 0.7], [0.8, 0.5, 0.3]])),
        **dict.fromkeys(("exponent", "floor", "error"), np.array([0.2, 0.5])),
        made=neft.Made.by("test"),
    ),
}


@pytest.mark.parametrize("name", [n if n != "fit" else pytest.param(n, marks=pytest.mark.slow) for n in PICTURES])
def test_each_result_has_a_picture(name):
    figure = plot.draw(PICTURES[name](*exact.problem(True)))
    assert plot.svg(figure, salt="a").startswith("<svg")


def test_convergence_says_inside_or_outside():
    found = action.convergence(*exact.problem(True), order=8, points=5, bound=0.4)
    assert found.verdict(0.3) == "inside" and found.verdict() == "outside"
    truth = [
        action.expand({k: t * v for k, v in exact.problem(True)[0].items()}, exact.problem(True)[1], 0).loss
        for t in found.t
    ]
    np.testing.assert_allclose(found.loss, truth, rtol=1e-12)
    assert found.partial[-1, 1] == pytest.approx(truth[1], abs=1e-3)
