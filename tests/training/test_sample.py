import numpy as np
import pytest
from helpers import one_sentence

from neft import MLP, training

RNG = np.random.default_rng(2)
FACTORS = RNG.normal(size=(2, 5, 7))
K, THETA = (f @ f.T / 7 for f in FACTORS)
LABELS = np.array([0, 2, 1])
START = RNG.normal(size=(5, 3))


def softmax(z):
    powers = np.exp(z - z.max(-1, keepdims=True))
    return powers / powers.sum(-1, keepdims=True)


@pytest.mark.slow
def test_cross_entropy_is_what_small_steps_of_euler_extrapolate_to():
    found = training.sample_from_kernels(K, THETA, LABELS, time=[0.5, 3.0], outputs=3, start=START)
    ends = []
    for steps in (3000, 6000):
        z, dt = START.copy(), 3.0 / steps
        for i in range(steps):
            z = z - dt * THETA[:, :3] @ (softmax(z[:3]) - np.eye(3)[LABELS])
            if i + 1 == steps // 6:
                early = z
        ends.append((early, z))
    # Euler's error is linear in the step.
    for at in (0, 1):
        exact = 2 * ends[1][at] - ends[0][at]
        np.testing.assert_allclose(found.outputs[0, at], exact[3:], atol=2e-6)
        np.testing.assert_allclose(found.train_outputs[0, at], exact[:3], atol=2e-6)
    assert np.abs(found.outputs[0, 1] - START[3:]).max() > 0.1


@pytest.mark.slow
def test_draws_on_the_square_loss_are_those_of_the_prediction():
    y, draws = RNG.normal(size=(3, 3)), 1280
    found = training.sample_from_kernels(K, THETA, y, time=1.5, outputs=3, loss="square", draws=draws)
    theory = training.predict_from_kernels(K, THETA, y, time=1.5)
    error = theory.std / np.sqrt(draws)
    assert (np.abs(found.mean - theory.mean) < 5 * error).all()
    assert (np.abs(theory.mean) > 10 * error).any()
    np.testing.assert_allclose(found.std, theory.std, rtol=5 / np.sqrt(2 * draws))
    np.testing.assert_allclose(np.cov(found.outputs[:, 0, 0], found.outputs[:, 1, 0])[0, 1], theory.cov[0, 1], atol=0.1)


@pytest.mark.slow
def test_a_network_learns_its_labels_and_labels_may_be_probabilities():
    net = MLP(widths=(2, 8, 3), activation="erf", C_b=0.3, lambda_b=0.5)
    inputs, labels = np.array([[1.0, 0.2], [0.1, 1.0], [-1.0, -1.0]]), [0, 1, 0]
    found = training.sample(net, inputs, labels, time=[0.0, 60.0], start=START[:3])
    np.testing.assert_array_equal(found.outputs[:, 0], found.start)
    assert (found.probabilities[1, [0, 1, 2], labels] > 0.8).all()
    np.testing.assert_allclose(found.probabilities.sum(-1), 1)
    sure = training.sample(net, inputs, np.eye(3)[labels], time=[0.0, 60.0], start=START[:3])
    np.testing.assert_array_equal(sure.outputs, found.outputs)


def test_the_loss_may_be_ones_own():
    def own(z, y):
        return ((z - y) ** 2).sum() / 2

    y = RNG.normal(size=(3, 3))
    found = training.sample_from_kernels(K, THETA, y, time=1.0, loss=own, outputs=3, start=np.zeros((5, 3)))
    theory = training.predict_from_kernels(K, THETA, y, time=1.0)
    np.testing.assert_allclose(found.mean, theory.mean, atol=1e-7)


def test_bad_input_gets_one_clear_sentence():
    with one_sentence("time is missing"):
        training.sample_from_kernels(K, THETA, LABELS, outputs=3)
    with one_sentence("time is inf"):
        training.sample_from_kernels(K, THETA, LABELS, time=np.inf, outputs=3)
    with one_sentence("rising order"):
        training.sample_from_kernels(K, THETA, LABELS, time=[2.0, 1.0], outputs=3)
    with one_sentence("label 2", "0 to 1"):
        training.sample_from_kernels(K, THETA, LABELS, time=1.0, outputs=2)
    with one_sentence("sums to 3"):
        training.sample_from_kernels(K, THETA, np.ones((3, 3)), time=1.0, outputs=3)
    with one_sentence("loss is 'hinge'"):
        training.sample_from_kernels(K, THETA, LABELS, time=1.0, outputs=3, loss="hinge")
    with one_sentence("start has shape (4, 3)"):
        training.sample_from_kernels(K, THETA, LABELS, time=1.0, outputs=3, start=START[:4])
    with pytest.raises(TypeError):
        training.sample_from_kernels(K, THETA, LABELS, time=1.0)
