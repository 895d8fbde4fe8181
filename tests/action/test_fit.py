import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from helpers import one_sentence

import neft
from neft import action


@pytest.fixture(scope="module")
def blobs():
    """Three classes of overlapping blobs, training and evaluation."""
    rng = np.random.default_rng(0)
    centres = np.array([[1.0, 0.0, 0.5], [-0.5, 0.8, 0.0], [-0.5, -0.8, -0.5]])

    def draw(n):
        m = np.arange(n) % 3
        return (centres[m] + rng.normal(size=(n, 3))).astype(np.float32), m

    return draw(300), draw(300)


@pytest.mark.slow
def test_training_stops_early_and_keeps_the_best(blobs):
    found = action.fit(*blobs, hidden=64, rate=0.03, epochs=60, patience=2, batch=50)
    assert found.finished and found.best == np.argmin(found.evaluation_loss) == len(found.evaluation_loss) - 3
    again = action.expand(found.params, blobs[1], 1)
    assert again.loss == pytest.approx(found.evaluation_loss[found.best], rel=1e-5)
    assert found.evaluation_loss[found.best] < 0.8 * found.evaluation_loss[0]
    assert found.scales["W"][found.best] == pytest.approx(np.sqrt(np.mean(found.W**2)), rel=1e-5)


@pytest.mark.slow
def test_an_interrupted_training_goes_on_as_if_nothing_had_happened(blobs, tmp_path):
    options = {"hidden": 8, "rate": 0.01, "batch": 64, "key": jax.random.key(3)}
    whole = action.fit(*blobs, epochs=4, **options)
    path = tmp_path / "run.npz"
    action.fit(*blobs, epochs=2, resume=path, **options)
    resumed = action.fit(*blobs, epochs=4, resume=path, **options)
    np.testing.assert_array_equal(whole.U, resumed.U)
    np.testing.assert_array_equal(whole.training_loss, resumed.training_loss)
    with one_sentence("another training"):
        action.fit(*blobs, epochs=2, resume=path, **{**options, "hidden": 9})
    path.write_bytes(b"nothing")
    with one_sentence("not a file"):
        action.fit(*blobs, epochs=2, resume=path, **options)


@pytest.mark.slow
def test_an_own_optimizer_is_used(blobs):
    still = action.fit(*blobs, hidden=4, epochs=1, optimizer=optax.sgd(0.0))
    assert still.training_loss[0] == pytest.approx(still.training_loss[1])


@pytest.mark.slow
def test_fits_are_saved_and_loaded(blobs, tmp_path):
    found = action.fit(*blobs, hidden=4, epochs=1)
    found.save(tmp_path / "f.npz")
    assert neft.load(tmp_path / "f.npz") == found


def test_bad_options_are_refused_in_one_sentence(blobs):
    with one_sentence("hidden"):
        action.fit(*blobs, hidden=0)
    with one_sentence("rate"):
        action.fit(*blobs, rate=0.0)
    with one_sentence("resume"):
        action.fit(*blobs, resume="run.json")
    with one_sentence("evaluation is missing"):
        action.fit((np.ones((4, 2)), [0, 1, 0, 1]))


def losses(blobs, size=30):
    (z, m), evaluation = blobs
    return action.loss_of((z[:size], m[:size])), action.loss_of(evaluation)


def start(hidden=32):
    rng = np.random.default_rng(1)
    sizes = {"U": (3, hidden), "c": (3,), "W": (hidden, 3), "b": (hidden,)}
    return {name: jnp.asarray(0.5 * rng.normal(size=size), jnp.float32) for name, size in sizes.items()}


def test_both_rules_find_the_minimum_of_the_evaluation_loss_for_full_batches(blobs):
    monitor = action.StoppingMonitor(*losses(blobs))
    monitor.follow(start(), optax.sgd(0.2), steps=150, rate=0.2)
    report = monitor.report()
    assert report.trusted and report.minimum is not None and report.minimum > 5
    assert abs(report.stop_by_alignment - report.minimum) <= 1
    assert abs(report.stop_by_drift - report.minimum) <= 1


@pytest.mark.slow
def test_for_adam_the_drift_finds_it(blobs):
    monitor = action.StoppingMonitor(*losses(blobs))
    monitor.follow(start(), optax.adam(0.003), steps=150, rate=None)
    report = monitor.report()
    assert not report.trusted and "step size" in report.reason
    assert report.minimum is not None and abs(report.stop_by_drift - report.minimum) <= 1


@pytest.mark.slow
def test_large_steps_and_minibatches_are_not_trusted(blobs):
    training, evaluation = losses(blobs)
    monitor = action.StoppingMonitor(training, evaluation)
    monitor.follow(start(), optax.sgd(50.0), steps=2, rate=50.0)
    assert "2/λ_max" in monitor.report().reason and not monitor.report().trusted
    monitor = action.StoppingMonitor(training, evaluation)
    monitor.follow(start(), optax.sgd(0.1), steps=2, rate=0.1, batches=lambda i: losses(blobs, 15)[0])
    assert "minibatches" in monitor.report().reason


@pytest.mark.slow
def test_alignment_and_drift_are_the_products_they_stand_for(blobs):
    training, evaluation = losses(blobs)
    monitor = action.StoppingMonitor(training, evaluation)
    params = start()
    update = jax.tree.map(lambda leaf: 0.01 * leaf, params)
    monitor.observe(params, update)
    monitor.observe(params)
    report = monitor.report()
    first, second = (jax.grad(loss)(params) for loss in (training, evaluation))
    assert report.alignment[0] == pytest.approx(sum(float(jnp.vdot(first[k], second[k])) for k in first), rel=1e-5)
    assert report.drift[0] == pytest.approx(sum(float(jnp.vdot(second[k], update[k])) for k in first), rel=1e-4)
    with one_sentence("two"):
        action.StoppingMonitor(training, evaluation).report()


def test_the_largest_curvature_is_that_of_the_hessian():
    A = np.diag([1.0, 4.0, -2.0]).astype(np.float32)
    assert action.largest_curvature(lambda w: 0.5 * w @ A @ w, jnp.ones(3)) == pytest.approx(4, rel=1e-3)


@pytest.mark.slow
def test_more_data_move_the_stop_to_later_steps(blobs):
    (z, m), evaluation = blobs
    found = action.stops_by_size((z, m), evaluation, [30, 300], rate=0.3, steps=300, hidden=32)
    early, late = (found[size].minimum or 300 for size in (30, 300))
    assert early < late
    assert found[300].evaluation.min() < found[30].evaluation.min()


def test_the_curvature_is_that_at_the_least_evaluation_loss():
    def training(w):
        return jnp.sum((w - 2.0) ** 2 + 0.1 * w**4)

    monitor = action.StoppingMonitor(training, lambda w: jnp.sum((w - 0.5) ** 2))
    end = monitor.follow(jnp.zeros(1), optax.sgd(0.02), steps=60, rate=0.02)
    report = monitor.report()
    # S_T'' = 2 + 1.2 w², and S_E is least next to w = 0.5.
    assert report.curvature == pytest.approx(2.3, abs=0.1) and float(2 + 1.2 * end[0] ** 2) > 3
