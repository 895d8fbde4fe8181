import json

import jax
import jax.flatten_util
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from helpers import one_sentence

import neft
from neft import action
from neft.action._stopping import largest_curvature

pytestmark = pytest.mark.xdist_group("action fit")  # what the fixture makes is made once


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
def test_a_file_that_calls_the_learning_rate_rate_still_loads(tmp_path):
    monitor = action.StoppingMonitor(lambda w: jnp.sum((w - 1) ** 2), lambda w: jnp.sum((w - 0.5) ** 2))
    monitor.follow(jnp.zeros(2), optax.sgd(0.05), steps=20, learning_rate=0.05)
    record = monitor.report().to_dict()
    record["rate"] = record.pop("learning_rate")
    path = tmp_path / "stopping.json"
    path.write_text(json.dumps({"neft": 1, **record}))
    found = neft.load(path)
    assert found == monitor.report() and found.learning_rate == 0.05


@pytest.mark.slow
def test_a_training_that_was_begun_with_rate_is_resumed(blobs, tmp_path):
    options = {"hidden": 4, "learning_rate": 0.01, "batch": 64, "key": jax.random.key(3)}
    path = tmp_path / "fit.npz"
    action.fit(*blobs, epochs=1, checkpoint=path, **options)
    with np.load(path, allow_pickle=False) as archive:
        arrays = dict(archive)
    header = json.loads(str(arrays.pop("header")))
    header["specification"]["rate"] = header["specification"].pop("learning_rate")
    np.savez(path, header=np.array(json.dumps(header)), **arrays)
    np.testing.assert_array_equal(
        action.fit(*blobs, epochs=2, checkpoint=path, **options).U, action.fit(*blobs, epochs=2, **options).U
    )


@pytest.mark.slow
def test_training_stops_early_and_keeps_the_best(blobs):
    found = action.fit(*blobs, hidden=64, learning_rate=0.03, epochs=60, patience=2, batch=50)
    assert found.finished and found.best == np.argmin(found.evaluation_loss) == len(found.evaluation_loss) - 3
    again = action.expand(found.params, blobs[1], 1)
    assert again.loss == pytest.approx(found.evaluation_loss[found.best], rel=1e-5)
    assert found.evaluation_loss[found.best] < 0.8 * found.evaluation_loss[0]
    assert found.scales["W"][found.best] == pytest.approx(np.sqrt(np.mean(found.W**2)), rel=1e-5)


@pytest.mark.slow
def test_an_interrupted_training_goes_on_as_if_nothing_had_happened(blobs, tmp_path):
    options = {"hidden": 8, "learning_rate": 0.01, "batch": 64, "key": jax.random.key(3)}
    whole = action.fit(*blobs, epochs=4, **options)
    path = tmp_path / "run.npz"
    action.fit(*blobs, epochs=2, checkpoint=path, **options)
    resumed = action.fit(*blobs, epochs=4, checkpoint=path, **options)
    np.testing.assert_array_equal(whole.U, resumed.U)
    np.testing.assert_array_equal(whole.training_loss, resumed.training_loss)
    with one_sentence("another training"):
        action.fit(*blobs, epochs=2, checkpoint=path, **{**options, "hidden": 9})
    path.write_bytes(b"nothing")
    with one_sentence("not a file"):
        action.fit(*blobs, epochs=2, checkpoint=path, **options)


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
    with one_sentence("learning_rate"):
        action.fit(*blobs, learning_rate=0.0)
    with one_sentence("checkpoint"):
        action.fit(*blobs, checkpoint="run.json")
    with one_sentence("evaluation is missing"):
        action.fit((np.ones((4, 2)), [0, 1, 0, 1]))


def losses(blobs, size=30):
    (z, m), evaluation = blobs
    return action.loss_of((z[:size], m[:size])), action.loss_of(evaluation)


def start(hidden=32):
    rng = np.random.default_rng(1)
    sizes = {"U": (3, hidden), "c": (3,), "W": (hidden, 3), "b": (hidden,)}
    return {name: jnp.asarray(0.5 * rng.normal(size=size), jnp.float32) for name, size in sizes.items()}


@pytest.mark.slow
def test_both_rules_find_the_minimum_of_the_evaluation_loss_for_full_batches(blobs):
    monitor = action.StoppingMonitor(*losses(blobs))
    monitor.follow(start(), optax.sgd(0.2), steps=150, learning_rate=0.2)
    report = monitor.report()
    assert report.trusted and report.minimum is not None and report.minimum > 5
    assert abs(report.stop_by_alignment - report.minimum) <= 1
    assert abs(report.stop_by_drift - report.minimum) <= 1


@pytest.mark.slow
def test_for_adam_the_drift_finds_it(blobs):
    monitor = action.StoppingMonitor(*losses(blobs))
    monitor.follow(start(), optax.adam(0.003), steps=150, learning_rate=None)
    report = monitor.report()
    assert not report.trusted and "step size" in report.reason
    assert report.minimum is not None and abs(report.stop_by_drift - report.minimum) <= 1


@pytest.mark.slow
def test_large_steps_and_minibatches_are_not_trusted(blobs):
    training, evaluation = losses(blobs)
    monitor = action.StoppingMonitor(training, evaluation)
    monitor.follow(start(), optax.sgd(50.0), steps=2, learning_rate=50.0)
    assert "2/λ_max" in monitor.report().reason and not monitor.report().trusted
    monitor = action.StoppingMonitor(training, evaluation)
    monitor.follow(start(), optax.sgd(0.1), steps=2, learning_rate=0.1, batches=lambda i: losses(blobs, 15)[0])
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
    assert largest_curvature(lambda w: 0.5 * w @ A @ w, jnp.ones(3)) == pytest.approx(4, rel=1e-3)
    assert largest_curvature(lambda w: w.sum(), jnp.ones(3)) == 0
    # Also where the steepest direction leads downwards.
    assert largest_curvature(lambda w: -(w[0] ** 2) + 0.2 * w[1] ** 2, jnp.ones(2)) == pytest.approx(0.4, rel=1e-3)


@pytest.mark.slow
def test_more_data_move_the_stop_to_later_steps(blobs):
    (z, m), evaluation = blobs
    found = action.stops_by_size((z, m), evaluation, [30, 300], learning_rate=0.3, steps=300, hidden=32)
    early, late = (found[size].minimum or 300 for size in (30, 300))
    assert early < late
    assert found[300].evaluation.min() < found[30].evaluation.min()


def test_curvature_counts_up_to_the_stop_and_not_beyond():
    # A slope, on which S_E is least at 0.5, and from 1 on a valley so narrow that the descent swings in it.
    def training(w):
        return jnp.sum(jnp.where(w < 1, -w, 25 * (w - 1) ** 2 - w))

    monitor = action.StoppingMonitor(training, lambda w: jnp.sum((w - 0.5) ** 2))
    monitor.follow(jnp.zeros(1), optax.sgd(0.06), steps=60, learning_rate=0.06)
    report = monitor.report()
    assert report.stop_by_alignment == report.minimum + 1 == 9 and len(report.curvature) == 60
    assert report.trusted and report.curvature.max() == pytest.approx(50)


def test_a_descent_that_comes_apart_is_not_trusted():
    monitor = action.StoppingMonitor(lambda w: jnp.sum(w**4), lambda w: jnp.sum((w - 0.5) ** 2))
    monitor.follow(jnp.full(1, 3.0), optax.sgd(1.0), steps=8, learning_rate=1.0)
    assert not monitor.report().trusted


def test_a_step_too_large_on_the_way_to_the_stop_is_not_trusted():
    # S_T is steep where the descent starts and flat where it ends.
    def training(w):
        return jnp.sum(jnp.where(w < 0, 8 * w**2 - 2 * w, -2 * w + w**2 / 2))

    monitor = action.StoppingMonitor(training, lambda w: jnp.sum((w - 0.5) ** 2))
    monitor.follow(jnp.full(1, -1.0), optax.sgd(0.2), steps=20, learning_rate=0.2)
    report = monitor.report()
    assert report.curvature[0] == pytest.approx(16) and report.curvature[-1] == pytest.approx(1)
    assert not report.trusted and "0.125" in report.reason


def test_updates_that_are_not_the_step_times_the_gradient_are_not_trusted():
    losses = (lambda w: jnp.sum((w - 1.0) ** 2), lambda w: jnp.sum((w - 0.5) ** 2))
    for optimizer in (optax.adam(0.05), optax.sgd(0.1), optax.sgd(0.05, momentum=0.5)):
        monitor = action.StoppingMonitor(*losses)
        monitor.follow(jnp.zeros(2), optimizer, steps=3, learning_rate=0.05)
        assert not monitor.report().trusted and "not 0.05 times the gradient" in monitor.report().reason


@pytest.mark.slow
def test_the_curvature_followed_is_the_largest_eigenvalue_on_the_way(blobs):
    training, evaluation = losses(blobs)
    monitor = action.StoppingMonitor(training, evaluation)
    params = start(8)
    for steps in (0, 20, 60):
        end = params
        for _ in range(steps):
            end = jax.tree.map(lambda p, g: p - 0.2 * g, end, jax.grad(training)(end))
        flat, opened = jax.flatten_util.ravel_pytree(end)
        exact = np.linalg.eigvalsh(jax.hessian(lambda f, o=opened: training(o(f)))(flat))[-1]
        monitor = action.StoppingMonitor(training, evaluation)
        monitor.follow(params, optax.sgd(0.2), steps=steps + 1, learning_rate=0.2)
        assert monitor.report().curvature[-1] == pytest.approx(float(exact), rel=0.02), steps


@pytest.mark.slow
def test_stops_by_size_are_printed_saved_and_loaded(blobs, tmp_path):
    (z, m), evaluation = blobs
    found = action.stops_by_size((z, m), evaluation, [30, 60], steps=3, hidden=4)
    assert found.sizes == (30, 60) and found[60] is found.runs[1]
    # A quarter of what is stable on the first part.
    assert found.runs[0].learning_rate * found.runs[0].curvature[0] == pytest.approx(0.5, rel=1e-3)
    assert "30 samples" in str(found) and "not reached" in str(found)
    found.save(tmp_path / "s.json")
    assert neft.load(tmp_path / "s.json") == found
    with one_sentence("sizes", "301", "300"):
        action.stops_by_size((z, m), evaluation, [301])
    with one_sentence("sizes", "300", "297"):
        action.stops_by_size((z, m), None, [300])
    with one_sentence("sizes is empty"):
        action.stops_by_size((z, m), evaluation, [])


@pytest.mark.slow
def test_without_evaluation_data_the_samples_that_follow_are_used(blobs):
    (z, m), _ = blobs
    by_default, by_hand = (
        action.stops_by_size((z, m), other, [30], steps=1, hidden=2, learning_rate=0.1)
        for other in (None, (z[30:], m[30:]))
    )
    np.testing.assert_allclose(by_default[30].evaluation, by_hand[30].evaluation, rtol=1e-6)
