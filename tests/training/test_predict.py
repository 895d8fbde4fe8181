import numpy as np
import pytest
import scipy.linalg
from helpers import one_sentence

import neft
from neft import MLP, training, width
from neft.report import tables

NET = MLP(widths=(3, 16, 2), activation="erf", C_b=0.1, C_W=1.3, lambda_b=0.4, lambda_W=0.9)
RNG = np.random.default_rng(0)
X, Y, TEST = RNG.normal(size=(4, 3)), RNG.normal(size=(4, 2)), RNG.normal(size=(2, 3))


def random_kernels(count, seed=1):
    rng = np.random.default_rng(seed)
    return tuple(m @ m.T / count for m in rng.normal(size=(2, count, count + 2)))


K, THETA = random_kernels(7)
A, x = slice(0, 4), slice(4, 7)


def direct(power):
    """Mean and covariance by the definition, for a function of Θ_AA that says how much of the residual is left."""
    linear = THETA[x, A] @ np.linalg.inv(THETA[A, A]) @ (np.eye(4) - power)
    joint = np.concatenate([-linear, np.eye(3)], axis=1)
    order = np.r_[0:7]
    return linear @ Y, joint @ K[np.ix_(order, order)] @ joint.T


@pytest.mark.parametrize("time", [0.0, 0.3, 4.0, 50.0])
def test_gradient_flow_is_the_matrix_exponential(time):
    mean, cov = direct(scipy.linalg.expm(-THETA[A, A] * time))
    found = training.predict_from_kernels(K, THETA, Y, time=time)
    np.testing.assert_allclose(found.mean, mean, atol=1e-12)
    np.testing.assert_allclose(found.cov, cov, atol=1e-12)


def test_the_end_of_training_is_the_limit_of_late_times():
    found = training.predict_from_kernels(K, THETA, Y)
    mean, cov = direct(np.zeros((4, 4)))
    np.testing.assert_allclose(found.mean, mean, atol=1e-11)
    np.testing.assert_allclose(found.cov, cov, atol=1e-11)
    late = training.predict_from_kernels(K, THETA, Y, time=[1e5, np.inf])
    np.testing.assert_allclose(late.mean, [mean, mean], atol=1e-10)
    assert found.rank == 4


@pytest.mark.parametrize("part", [0.01, 0.6, 0.99])
def test_gradient_descent_is_its_own_iteration(part):
    rate = part * 2 / np.linalg.eigvalsh(THETA[A, A])[-1]
    counts = [0, 1, 7, 60]
    found = training.predict_from_kernels(K, THETA, Y, steps=counts, learning_rate=rate)
    # The map from z(0) and y to z(T), by doing the steps on every unit vector.
    outputs, targets = np.eye(7), np.zeros((7, 4))
    for T in range(61):
        if T in counts:
            at = counts.index(T)
            np.testing.assert_allclose(found.mean[at], (targets @ Y)[x], atol=1e-11)
            np.testing.assert_allclose(found.cov[at], (outputs @ K @ outputs.T)[x, x], atol=1e-11)
        outputs = outputs - rate * THETA[:, A] @ outputs[A]
        targets = targets - rate * THETA[:, A] @ (targets[A] - np.eye(4))


def test_a_network_is_predicted_from_its_kernels():
    every = np.concatenate([X, TEST])
    found = training.predict(NET, X, Y, TEST, time=2.0)
    other = training.predict_from_kernels(*width.kernel(NET, every, every), Y, time=2.0)
    np.testing.assert_allclose(found.mean, other.mean, atol=1e-10)
    np.testing.assert_allclose(found.cov, other.cov, atol=1e-10)
    assert found.mean.shape == (2, 2) and found.cov.shape == (2, 2) and found.std.shape == (2, 2)


def test_training_inputs_get_their_targets():
    for found in (training.predict(NET, X, Y), training.predict(NET, X, Y, X)):
        np.testing.assert_allclose(found.mean, Y, atol=1e-10)
        np.testing.assert_allclose(found.cov, 0, atol=1e-10)


def test_before_training_there_is_the_prior():
    found = training.predict(NET, X, Y, TEST, time=0.0)
    assert not found.mean.any()
    np.testing.assert_allclose(found.cov, width.kernel(NET, TEST, TEST)[0], atol=1e-12)


def test_one_layer_is_linear_regression():
    # Its kernel is known without any theory: λ_b + λ_W x·x'/n_0.
    net = MLP(widths=(3, 2), C_b=0.2, C_W=0.7, lambda_b=0.4, lambda_W=0.9)
    every = np.concatenate([X[:3], TEST])
    Theta, prior = 0.4 + 0.9 * every @ every.T / 3, 0.2 + 0.7 * every @ every.T / 3
    A = Theta[3:, :3] @ np.linalg.inv(Theta[:3, :3])
    found = training.predict(net, X[:3], Y[:3], TEST)
    np.testing.assert_allclose(found.mean, A @ Y[:3], atol=1e-11)
    np.testing.assert_allclose(
        found.cov, prior[3:, 3:] + A @ prior[:3, :3] @ A.T - A @ prior[:3, 3:] - prior[3:, :3] @ A.T, atol=1e-11
    )


def test_a_repeated_training_input_warns_and_gives_the_mean_of_its_targets():
    twice, targets = np.concatenate([X, X[:1]]), np.concatenate([Y, Y[:1] + 1])
    with pytest.warns(training.ConditionWarning, match="1 of its 5 eigenvalues") as caught:
        found = training.predict(NET, twice, targets, np.concatenate([X, TEST]))
    assert caught[0].filename == __file__
    np.testing.assert_allclose(found.mean[:4], np.concatenate([Y[:1] + 0.5, Y[1:]]), atol=1e-7)
    np.testing.assert_allclose(found.cov[:4, :4], 0, atol=1e-7)
    once = training.predict(NET, X, np.concatenate([Y[:1] + 0.5, Y[1:]]), TEST)
    np.testing.assert_allclose(found.mean[4:], once.mean, atol=1e-7)
    np.testing.assert_allclose(found.cov[4:, 4:], once.cov, atol=1e-7)
    assert found.rank == 4


def test_a_singular_kernel_is_harmless_before_the_end():
    twice, targets = np.concatenate([X, X[:1]]), np.concatenate([Y, Y[:1] + 1])
    found = training.predict(NET, twice, targets, TEST, time=3.0)  # any warning would be an error
    kernel = width.kernel(NET, twice)[1]
    left = scipy.linalg.expm(-kernel * 3.0)
    # ∫ e^{-Θt} dt without an inverse, by the block exponential.
    block = scipy.linalg.expm(3.0 * np.block([[-kernel, np.eye(5)], [np.zeros((5, 10))]]))[:5, 5:]
    np.testing.assert_allclose(kernel @ block, np.eye(5) - left, atol=1e-12)
    np.testing.assert_allclose(found.mean, width.kernel(NET, TEST, twice)[1] @ block @ targets, atol=1e-10)


def test_a_kernel_of_nothing_trains_nothing():
    with pytest.warns(training.ConditionWarning, match="5 of its 5"):
        found = training.predict_from_kernels(np.eye(6), np.zeros((6, 6)), np.ones(5))
    assert not found.mean.any() and found.max_learning_rate == np.inf


def test_the_largest_stable_rate_is_where_descent_turns():
    rate = training.max_learning_rate(NET, X)
    assert rate == pytest.approx(2 / np.linalg.eigvalsh(width.kernel(NET, X)[1])[-1])
    residual = Y.copy()
    kernel = width.kernel(NET, X)[1]
    sizes = {}
    for part in (0.97, 1.03):
        residual = Y.copy()
        for _ in range(1000):
            residual = residual - part * rate * kernel @ residual
        sizes[part] = np.abs(residual).max()
    assert sizes[0.97] < 1e-3 and sizes[1.03] > 1e3
    assert training.predict(NET, X, Y, TEST).max_learning_rate == pytest.approx(rate)


def test_the_largest_rate_of_a_large_kernel_and_of_a_models_ntk():
    M = random_kernels(90)[1]
    assert training.max_learning_rate(M) == pytest.approx(2 / np.linalg.eigvalsh(M)[-1], rel=1e-10)
    split = M.reshape(30, 3, 30, 3).transpose(0, 2, 1, 3)
    assert training.max_learning_rate(split) == pytest.approx(training.max_learning_rate(M), rel=1e-10)


def test_cholesky_and_eigenvectors_agree(monkeypatch):
    whole = training.predict_from_kernels(K, THETA, Y)
    monkeypatch.setattr("neft.training._linear._solved", lambda *_: None)
    other = training.predict_from_kernels(K, THETA, Y)
    np.testing.assert_allclose(whole.mean, other.mean, atol=1e-11)


def test_results_come_back_from_files(tmp_path):
    for i, found in enumerate(
        (training.predict(NET, X, Y, TEST), training.predict(NET, X, Y, TEST, steps=[1, 2], learning_rate=0.1))
    ):
        for suffix in ("json", "npz"):
            found.save(tmp_path / f"{i}.{suffix}")
            assert neft.load(tmp_path / f"{i}.{suffix}") == found


def test_the_posterior_with_noise_is_the_textbooks():
    every = np.concatenate([X, TEST])
    K = width.kernel(NET, every, every)[0]
    for noise in (0.3, np.array([0.1, 0.2, 0.3, 0.4])):
        inverse = np.linalg.inv(K[:4, :4] + np.eye(4) * noise)
        for found in (training.nngp(NET, X, Y, TEST, noise=noise), training.nngp_from_kernel(K, Y, noise=noise)):
            np.testing.assert_allclose(found.mean, K[4:, :4] @ inverse @ Y, atol=1e-10)
            np.testing.assert_allclose(found.cov, K[4:, 4:] - K[4:, :4] @ inverse @ K[:4, 4:], atol=1e-10)
    exact = training.nngp(NET, X, Y)
    np.testing.assert_allclose(exact.mean, Y, atol=1e-9)
    assert np.abs(exact.std).max() < 1e-4


def test_several_noises_come_from_one_decomposition_each_with_its_leave_one_out_error():
    found = training.nngp(NET, X, Y, TEST, noise=[[0.3], [0.0], [2.0]])
    for i, noise in enumerate((0.3, 0.0, 2.0)):
        alone = training.nngp(NET, X, Y, TEST, noise=noise)
        np.testing.assert_allclose(found.mean[i], alone.mean, atol=1e-9)
        np.testing.assert_allclose(found.cov[i], alone.cov, atol=1e-9)
        np.testing.assert_allclose(found.std[i], alone.std, atol=1e-6)
        missed = []
        for out in range(4):
            rest = np.delete(np.arange(4), out)
            missed.append(training.nngp(NET, X[rest], Y[rest], X[out : out + 1], noise=noise).mean[0] - Y[out])
        np.testing.assert_allclose(found.leave_one_out[i], np.mean(np.square(missed)), rtol=1e-7)
    assert alone.leave_one_out is None and "noise" in tables(found)[0].columns
    with one_sentence("noise has shape (2, 2)", "(R, 1)"):
        training.nngp(NET, X, Y, TEST, noise=np.ones((2, 2)))


def test_noise_makes_a_repeated_input_harmless():
    twice, targets = np.concatenate([X, X[:1]]), np.concatenate([Y, Y[:1] + 1])
    found = training.nngp(NET, twice, targets, TEST, noise=0.5)
    once = training.nngp(NET, X, np.concatenate([Y[:1] + 0.5, Y[1:]]), TEST, noise=np.array([0.25, 0.5, 0.5, 0.5]))
    np.testing.assert_allclose(found.mean, once.mean, atol=1e-10)
    np.testing.assert_allclose(found.cov, once.cov, atol=1e-10)
    with pytest.warns(training.ConditionWarning, match="covariance of the training targets"):
        training.nngp(NET, twice, targets, TEST)


def test_only_the_last_layer_trained_is_the_posterior():
    net = MLP(widths=(3, 16, 2), activation="erf", C_b=0.1, C_W=1.3, lambda_b=(0.0, 0.1), lambda_W=(0.0, 1.3))
    flow, bayes = training.predict(net, X, Y, TEST), training.nngp(net, X, Y, TEST)
    np.testing.assert_allclose(flow.mean, bayes.mean, atol=1e-9)
    np.testing.assert_allclose(flow.cov, bayes.cov, atol=1e-9)


def test_bad_input_gets_one_clear_sentence():
    with one_sentence("y_train has shape (4, 1)", "(4, 2)"):
        training.predict(NET, X, Y[:, :1], TEST)
    with one_sentence("y_train has shape (4,)"):
        training.predict(NET, X, Y[:, 0], TEST)
    with one_sentence("y_train holds nan"):
        training.predict(NET, X, np.full((4, 2), np.nan), TEST)
    with one_sentence("x_train holds inf"):
        training.predict(NET, np.full((4, 3), np.inf), Y, TEST)
    with one_sentence("x_test has shape (2, 2)", "(any, 3)"):
        training.predict(NET, X, Y, TEST[:, :2])
    with one_sentence("x_train has shape (0, 3)"):
        training.predict(NET, X[:0], Y[:0], TEST)
    with one_sentence("time holds -1"):
        training.predict(NET, X, Y, TEST, time=-1.0)
    with one_sentence("time holds -2"):
        training.predict(NET, X, Y, TEST, time=[1, -2])
    with one_sentence("time holds nan"):
        training.predict(NET, X, Y, TEST, time=np.nan)
    with one_sentence("time is empty"):
        training.predict(NET, X, Y, TEST, time=[])
    with one_sentence("learning_rate is 50", "at most", "diverges"):
        training.predict(NET, X, Y, TEST, steps=3, learning_rate=50.0)
    with one_sentence("goes with steps"):
        training.predict(NET, X, Y, TEST, learning_rate=0.1)
    with one_sentence("goes with a learning_rate"):
        training.predict(NET, X, Y, TEST, steps=3)
    with one_sentence("only one of them"):
        training.predict(NET, X, Y, TEST, time=1.0, steps=3, learning_rate=0.1)
    with one_sentence("steps holds -1"):
        training.predict(NET, X, Y, TEST, steps=-1, learning_rate=0.1)
    with one_sentence("steps must hold whole numbers"):
        training.predict(NET, X, Y, TEST, steps=1.5, learning_rate=0.1)
    with one_sentence("order is 2", "at most 1"):
        training.predict(NET, X, Y, TEST, order=2)
    for order in (0, 1):
        with one_sentence("cutoff is -5"):
            training.predict(NET, X, Y, TEST, order=order, cutoff=-5.0)
    with one_sentence("cutoff is 0.001", "order=1"):
        training.predict(NET, X, Y, TEST, order=1, cutoff=1e-3)
    with one_sentence("Theta has shape (6, 6)"):
        training.predict_from_kernels(K, THETA[:6, :6], Y)
    with one_sentence("K has shape (7, 6)"):
        training.predict_from_kernels(K[:, :6], THETA, Y)
    with one_sentence("must be symmetric"):
        training.predict_from_kernels(K, np.triu(THETA), Y)
    with one_sentence("K has the eigenvalue -1"):
        training.predict_from_kernels(-np.eye(len(K)), THETA, Y)
    with one_sentence("Theta has the eigenvalue -0.01"):
        training.predict_from_kernels(K, np.diag([1.0] * (len(K) - 1) + [-0.01]), Y)
    with one_sentence("K has the eigenvalue -1"):
        training.nngp_from_kernel(-np.eye(len(K)), Y)
    with one_sentence("noise has shape (3,)"):
        training.nngp(NET, X, Y, TEST, noise=np.ones(3))
    with one_sentence("noise holds -1"):
        training.nngp(NET, X, Y, TEST, noise=-1.0)
    with one_sentence("x_train is missing"):
        training.max_learning_rate(NET)


def test_ridges_are_solved_together_and_leave_one_out_is_leaving_one_out():
    ridges = [0.0, 0.1, 2.0]
    found = training.predict(NET, X, Y, TEST, ridge=ridges)
    every = np.concatenate([X, TEST])
    K, Theta = width.kernel(NET, every)
    for ridge, mean, cov, missed in zip(ridges, found.mean, found.cov, found.leave_one_out):
        A = Theta[4:, :4] @ np.linalg.inv(Theta[:4, :4] + ridge * np.eye(4))
        np.testing.assert_allclose(mean, A @ Y, atol=1e-9)
        joint = np.concatenate([-A, np.eye(2)], axis=1)
        np.testing.assert_allclose(cov, joint @ K @ joint.T, atol=1e-9)
        errors = []
        for i in range(4):
            rest = np.delete(np.arange(4), i)
            inverse = np.linalg.inv(Theta[np.ix_(rest, rest)] + ridge * np.eye(3))
            errors.append(Y[i] - Theta[i, rest] @ inverse @ Y[rest])
        np.testing.assert_allclose(missed, np.mean(np.square(errors)), rtol=1e-7)
    np.testing.assert_allclose(found.mean[0], training.predict(NET, X, Y, TEST).mean, atol=1e-9)
    one = training.predict(NET, X, Y, TEST, ridge=0.1)
    np.testing.assert_allclose(one.mean, found.mean[1], atol=1e-12)
    assert one.leave_one_out.shape == () and found.ridge.tolist() == ridges
    (table,) = neft.report.tables(found)
    assert [row[0] for row in table.rows[::2]] == ["ridge 0", "ridge 0.1", "ridge 2"]
    assert f"{missed:.4g} at ridge 2." in table.notes[-1]
    with one_sentence("ridge", "end of training"):
        training.predict(NET, X, Y, TEST, time=1.0, ridge=0.1)
    with one_sentence("ridge holds -1"):
        training.predict(NET, X, Y, TEST, ridge=[-1.0])
    with one_sentence("ridge", "order=0"):
        training.predict(NET, X, Y, TEST, ridge=0.1, order=1)


def test_the_mean_alone_is_the_same_mean(tmp_path):
    for x in (TEST, None):
        found = training.predict(NET, X, Y, x, covariance=False)
        np.testing.assert_allclose(found.mean, training.predict(NET, X, Y, x).mean, atol=1e-11)
        assert found.cov is None and "±" not in neft.report.tables(found)[0].text()
    with one_sentence("std", "covariance=False"):
        found.std  # noqa: B018
    found.save(tmp_path / "a.json")
    assert neft.load(tmp_path / "a.json") == found


def test_what_does_not_fit_memory_is_said_before_it_starts(monkeypatch):
    monkeypatch.setattr(neft._check, "machine_memory", lambda: 5 * 8 * 6**2 - 1.0)
    for call in (training.predict, training.nngp):
        with one_sentence("4 training inputs", "1.44e-06 GB", "neft.training.regress("):
            call(NET, X, Y, TEST)
    training.predict(NET, X, Y, TEST, covariance=False)
    monkeypatch.setattr(neft._check, "machine_memory", lambda: 100.0)
    with one_sentence("4 training inputs", "neft.training.regress("):
        training.predict(NET, X, Y, TEST, covariance=False)
