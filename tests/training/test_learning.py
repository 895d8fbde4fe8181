"""Leave-one-out errors and learning curves, against regressions one by one and features of a known spectrum."""

import numpy as np
import pytest
import scipy.optimize
from helpers import one_sentence

from neft import MLP, plot, training, width
from neft.report import tables
from neft.training import _learning, _left_out

NET = MLP(widths=(3, 16, 2), activation="relu", C_b=0.1, C_W=1.3)
RNG = np.random.default_rng(5)
X, Y = RNG.normal(size=(60, 3)), RNG.normal(size=(60, 2))


def left_out(Theta, y, ridge):
    """The regression on all inputs but one, for each of them."""
    missed = []
    for i in range(len(y)):
        rest = np.delete(np.arange(len(y)), i)
        a = np.linalg.solve(Theta[np.ix_(rest, rest)] + ridge * np.eye(len(rest)), y[rest])
        missed.append(Theta[i, rest] @ a - y[i])
    return np.mean(np.square(missed))


def test_leave_one_out_is_that_of_regressions_on_all_others():
    Theta = width.kernel(NET, X).Theta
    fit = training.regress(NET, X, Y, ridge=[0.01, 0.3, 20.0], probes=4000)
    assert fit.leave_one_out is not None and fit.leave_one_out_error is not None
    truth = np.array([left_out(Theta, Y, ridge) for ridge in (0.01, 0.3, 20.0)])
    z = (fit.leave_one_out - truth) / fit.leave_one_out_error
    assert np.abs(z).max() < 5 and (fit.leave_one_out_error < 0.01 * truth).all()
    assert np.ptp(truth) > 10 * fit.leave_one_out_error.max()
    best = int(np.argmin(truth))
    assert fit.ridge == fit.ridges[best]
    alone = training.regress(NET, X, Y, ridge=fit.ridge)
    np.testing.assert_allclose(fit.coefficients, alone.coefficients, atol=1e-5)
    assert alone.leave_one_out is None and "leave-one-out" in str(fit)


@pytest.mark.slow
def test_the_jackknife_takes_the_bias_of_few_probes_away_and_knows_its_error():
    m = np.random.default_rng(2).normal(size=(300, 300))
    A = m @ m.T / 300 + 0.5 * np.eye(300)
    y = np.random.default_rng(3).normal(size=(300, 1))
    G = np.linalg.inv(A)
    truth = np.mean((G @ y / np.diag(G)[:, None]) ** 2)
    found = []
    for seed in range(60):
        signs = _left_out.probes(300, 32, seed)
        found.append(_left_out.leave_one_out(G @ y, signs, G @ signs, np.diag(A)))
    values, errors = np.array(found).T
    spread = values.std(ddof=1)
    assert abs(values.mean() - truth) < 5 * spread / np.sqrt(60)
    assert 0.6 < np.sqrt(np.mean(errors**2)) / spread < 1.6


@pytest.mark.slow
def test_a_list_of_ridges_resumes_and_leaves_out_what_float32_cannot_bear(tmp_path):
    net = MLP(widths=(1, 16, 1), activation="gelu", C_b=0.1)
    x = np.linspace(-1, 1, 200)[:, None]
    y = np.sin(3 * x) + 0.1 * RNG.normal(size=x.shape)
    fit = training.regress(net, x, y, ridge=[0.0, 0.01, 0.1], folder=tmp_path / "one")
    assert fit.leave_one_out is not None and np.isinf(fit.leave_one_out[0]) and np.isfinite(fit.leave_one_out[1:]).all()
    again = training.regress(net, x, y, ridge=[0.0, 0.01, 0.1], folder=tmp_path / "one")
    np.testing.assert_array_equal(fit.coefficients, again.coefficients)
    np.testing.assert_array_equal(fit.leave_one_out, again.leave_one_out)
    assert not list((tmp_path / "one").glob("*panel*"))
    with one_sentence("ridge is 1e-12", "float32"):
        training.regress(net, x, y, ridge=[0.0, 1e-12])


def expected_by_spectrum(eigenvalues, powers, noise, n, ridge):
    """Simon et al. 2021: κ from n = Σ λ/(λ+κ) + ridge/κ, then the error of learned and unlearned modes."""

    def excess(log_kappa):
        return np.sum(eigenvalues / (eigenvalues + np.exp(log_kappa))) + ridge / np.exp(log_kappa) - n

    kappa = np.exp(scipy.optimize.brentq(excess, -40, 20))
    L = eigenvalues / (eigenvalues + kappa)
    return n / (n - np.sum(L * L)) * (np.sum((1 - L) ** 2 * powers) + noise)


@pytest.mark.slow
@pytest.mark.parametrize("ridge", [0.0, 0.5])
def test_a_sample_of_gaussian_features_shows_the_curve_of_their_spectrum(ridge):
    rng = np.random.default_rng(7)
    eigenvalues = np.arange(1, 2001.0) ** -1.5
    weights = rng.normal(size=(2000, 40)) * np.arange(1, 2001.0)[:, None] ** -0.3  # of features √λ φ
    z = rng.normal(size=(400, 2000)) * np.sqrt(eigenvalues)
    for noise, sizes, tolerance in ((0.1, (20, 100, 300), 0.05), (0.0, (100, 600), 0.07)):
        y = z @ weights + noise * rng.normal(size=(400, 40))
        shown = _learning.seen(z @ z.T + ridge * np.eye(400), y)
        for n in sizes:  # the last one is beyond the sample
            powers = eigenvalues * np.mean(weights**2, axis=1)
            truth = expected_by_spectrum(eigenvalues, powers, noise**2, n, ridge)
            np.testing.assert_allclose(_learning.expected(shown, n).error, truth, rtol=tolerance)
    kappa = _learning.expected(shown, 100).kappa
    np.testing.assert_allclose(np.sum(eigenvalues / (eigenvalues + kappa)) + ridge / kappa, 100, rtol=0.03)


@pytest.mark.slow
def test_the_curve_at_the_sample_itself_is_its_leave_one_out_error():
    Theta = width.kernel(NET, X).Theta
    fit = training.regress(NET, X, Y, ridge=0.3)
    curve = fit.learning_curve([20, 60, 100], x_test=X[:10] + 0.1, y_test=Y[:10])
    np.testing.assert_allclose(curve.error[1], left_out(Theta, Y, 0.3), rtol=1e-6)
    assert curve.beyond.tolist() == [False, False, True] and curve.sample == 60
    assert curve.measured is not None and np.isnan(curve.measured[2])
    np.testing.assert_allclose(curve.measured[1], np.mean((fit.predict(X[:10] + 0.1) - Y[:10]) ** 2), rtol=1e-4)
    assert (np.diff(curve.kappa) < 0).all() and (curve.dimension < curve.sizes).all()
    axes = plot.draw(curve).axes[0]
    assert [text.get_text() for text in axes.get_legend().get_texts()] == [
        "expected",
        "expected, beyond the sample",
        "measured",
    ]
    rows = tables(curve)[0].rows
    assert rows[2][0] == "100" and rows[2][2] == "" and rows[1][2] == f"{curve.measured[1]:.4g}"


def test_bad_input_of_a_curve_gets_a_sentence():
    fit = training.regress(NET, X, Y, ridge=0.3)
    for sizes, words in (([], "at least one"), ([0], "sizes holds 0"), (3, "sizes")):
        with one_sentence(words):
            fit.learning_curve(sizes)
    with one_sentence("y_test is missing"):
        fit.learning_curve([3], x_test=X)
    with one_sentence("sample is 3"):
        fit.learning_curve([3], sample=3)
    with one_sentence("probes is 0", "several ridges"):
        training.regress(NET, X, Y, ridge=[0.1, 0.2], probes=0)
    with one_sentence("ridge is []"):
        training.regress(NET, X, Y, ridge=[])
