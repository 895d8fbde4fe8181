import numpy as np
import pytest
from helpers import one_sentence

from neft import BatchNorm, Dense, Network, Residual, RMSNorm, data, fisher, load
from neft.fisher import _task, train
from neft.fisher._optimizers import OPTIMIZERS

SMALL = data.load("fashion-mnist", preprocess="pool(49)+unit", full=False).balanced(21)
OPTIONS = {"hidden": (8, 8), "batch": 10, "epochs": 2}


@pytest.mark.slow
@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_every_optimizer_lowers_the_cost(optimizer):
    curves, params = train(SMALL, optimizer=optimizer, **OPTIONS)
    assert curves.optimizer == optimizer and len(params) == 3
    assert curves.epochs.tolist() == [0.0, 1.0, 2.0] and curves.steps.tolist() == [0.0, 15.0, 30.0]
    assert curves.train_cost[-1] < curves.train_cost[0]
    assert (curves.cpu_seconds[0] > 0) == (curves.inputs != "raw") and (np.diff(curves.cpu_seconds) > 0).all()
    assert 0 <= curves.test_accuracy <= 1


@pytest.mark.slow
def test_batch_normalization_trains_and_predicts_by_training_moments(tmp_path):
    curves, params = train(SMALL, optimizer="rngd", batch_norm=True, **OPTIONS)
    assert len(params) == 5 and curves.batch_norm
    assert curves.train_cost[-1] < curves.train_cost[0]
    parts = _task.split(SMALL, None, 0)
    h, reference = parts.validation.x.astype(float), parts.train.x.astype(float)
    for l in (0, 2):
        (W, b), (gain, bias) = (map(np.asarray, part) for part in params[l : l + 2])
        h, reference = (np.maximum(part @ W.T + b, 0) for part in (h, reference))
        mean, scale = reference.mean(0), gain / np.sqrt(reference.var(0) + 1e-5)
        h, reference = ((part - mean) * scale + bias for part in (h, reference))
    z = h @ np.asarray(params[4].W).T + np.asarray(params[4].b)
    entropy = np.log(np.exp(z).sum(1)) - z[np.arange(len(z)), parts.validation.y]
    square = sum((np.asarray(layer.W, float) ** 2).sum() for layer in params[::2])
    assert curves.validation_cost[-1] == pytest.approx(entropy.mean() + 5e-4 * square, rel=1e-4)
    curves.save(tmp_path / "curves.json")
    assert load(tmp_path / "curves.json") == curves


@pytest.mark.slow
def test_any_network_is_trained():
    norm = BatchNorm(lambda_gain=1.0, lambda_bias=1.0)
    net = Network(49, [Dense(8), "relu", norm, Dense(8), "relu", norm, Dense(10)])
    given, options = {"net": net, "batch": 10, "epochs": 1}, {"batch_norm": True, **OPTIONS, "epochs": 1}
    one, two = train(SMALL, optimizer="sgd", **given).curves, train(SMALL, optimizer="sgd", **options).curves
    np.testing.assert_array_equal(one.train_cost, two.train_cost)
    assert (one.widths, one.activation, one.batch_norm) == (two.widths, "relu", True)
    assert Network.from_dict(one.made.specification["net"]).widths == net.widths


@pytest.mark.slow
def test_a_residual_network_is_trained(tmp_path):
    branch = Residual(RMSNorm(lambda_gain=1.0), Dense(16), "gelu", Dense(8), skip=0.9)
    net = Network(49, [Dense(8), branch, branch, RMSNorm(), Dense(10)])
    options = {"optimizer": "rngd", "net": net, "batch": 10, "learning_rate": 0.02}
    curves, _ = train(SMALL, epochs=2, **options)
    assert curves.train_cost[-1] < 0.7 * curves.train_cost[0] and not curves.batch_norm
    train(SMALL, epochs=1, checkpoint=tmp_path / "run.npz", **options)
    again = train(SMALL, epochs=2, checkpoint=tmp_path / "run.npz", **options).curves
    np.testing.assert_array_equal(again.train_cost, curves.train_cost)


@pytest.mark.parametrize(
    ("words", "options"),
    [
        (("net has 3 inputs and 10 outputs", "49 features"), {"net": Network(3, [Dense(8), "relu", Dense(10)])}),
        (("hidden is given with net",), {"net": Network(49, [Dense(10)]), "hidden": (3,)}),
        (("batch_norm is given with net",), {"net": Network(49, [Dense(10)]), "batch_norm": True}),
        (("inputs is 'white' or 'axes'", "RMSNorm"), {"net": Network(49, [RMSNorm(), Dense(10)])}),
        (("batch is 1", "at least 2"), {"net": Network(49, [Dense(8), BatchNorm(), Dense(10)]), "batch": 1}),
    ],
)
def test_networks_that_cannot_be_trained(words, options):
    with one_sentence(*words):
        train(SMALL, **options)


@pytest.mark.slow
def test_the_parameters_that_come_back_are_for_raw_inputs():
    curves, params = train(SMALL, optimizer="rngd", **OPTIONS)
    assert curves.train_cost[-1] < curves.train_cost[0] and curves.cpu_seconds[0] > 0
    parts = _task.split(SMALL, None, 0)
    h = parts.test.x
    for W, b in params[:-1]:
        h = np.maximum(h @ np.asarray(W).T + np.asarray(b), 0)
    outputs = h @ np.asarray(params[-1].W).T + np.asarray(params[-1].b)
    assert (outputs.argmax(1) == parts.test.y).mean() == pytest.approx(curves.test_accuracy, abs=1.01 / len(h))


def test_the_default_is_trained_on_few_axes_and_comes_back_for_raw_inputs():
    many = data.load("fashion-mnist", preprocess="pool(196)+unit", full=False).balanced(21)
    curves, params = train(many, hidden=(8,), batch=30, epochs=2)
    assert (curves.optimizer, curves.inputs, curves.schedule) == ("rngd-units", "axes", "cosine")
    assert params[0].W.shape == (8, 196) and curves.widths == (196, 8, 10)
    assert curves.train_cost[-1] < curves.train_cost[0] and curves.cpu_seconds[0] > 0
    parts = _task.split(many, None, 0)
    # What the axes leave out is gone from the weights.
    assert np.linalg.matrix_rank(np.asarray(_task.prepared(parts, "axes")[1].axes)) == 64
    z = np.maximum(parts.test.x @ np.asarray(params[0].W).T + np.asarray(params[0].b), 0)
    z = z @ np.asarray(params[1].W).T + np.asarray(params[1].b)
    assert (z.argmax(1) == parts.test.y).mean() == pytest.approx(curves.test_accuracy, abs=1.01 / len(z))


def test_the_cost_is_cross_entropy_plus_half_l2():
    curves, params = train(SMALL, optimizer="sgd", l2=0.3, **OPTIONS)
    parts = _task.split(SMALL, None, 0)
    h = parts.validation.x.astype(float)
    for W, b in params[:-1]:
        h = np.maximum(h @ np.asarray(W, float).T + np.asarray(b), 0)
    z = h @ np.asarray(params[-1].W, float).T + np.asarray(params[-1].b)
    entropy = np.log(np.exp(z).sum(1)) - z[np.arange(len(z)), parts.validation.y]
    square = sum((np.asarray(W, float) ** 2).sum() for W, _ in params)
    assert curves.validation_cost[-1] == pytest.approx(entropy.mean() + 0.15 * square, rel=1e-5)


def test_training_stops_at_a_cost_and_points_divide_an_epoch():
    curves, _ = train(SMALL, optimizer="sgd", points=3, until=2.5, **OPTIONS)
    assert curves.epochs.tolist() == [0.0, pytest.approx(1 / 3)] and curves.train_cost[1] <= 2.5


def test_the_split_keeps_every_example_once():
    parts = _task.split(SMALL, SMALL, 3)
    assert [len(part.x) for part in parts] == [300, 60, 60]
    found = np.sort(np.concatenate([part.x for part in parts]).sum(1))
    np.testing.assert_allclose(found, np.sort(np.tile(SMALL.x.sum(1), 2)), rtol=1e-6)
    other = _task.split(SMALL, SMALL, 4)
    assert (other.train.y != parts.train.y).any()


def test_centred_inputs_have_no_mean():
    parts, white, _ = _task.prepared(_task.split(SMALL, None, 0), "centred")
    assert white is None
    np.testing.assert_allclose(parts.train.x.mean(0), 0, atol=1e-6)
    assert np.abs(parts.test.x.mean(0)).max() > 1e-4


@pytest.mark.slow
@pytest.mark.parametrize("optimizer", ["sgd", "rngd", "rngd-published"])
def test_an_interrupted_training_ends_as_an_uninterrupted_one(optimizer, tmp_path, monkeypatch):
    options = {**OPTIONS, "optimizer": optimizer, "epochs": 4}
    whole = train(SMALL, **options)
    file = tmp_path / "half.npz"
    row, calls = _task.Task.evaluate, []

    def interrupted(self, *args):
        calls.append(args)
        if len(calls) == 8:
            raise KeyboardInterrupt
        return row(self, *args)

    monkeypatch.setattr(_task.Task, "evaluate", interrupted)
    with pytest.raises(KeyboardInterrupt):
        train(SMALL, checkpoint=file, **options)
    monkeypatch.undo()
    assert 1 < len(load(file).rows) < 5
    again = train(SMALL, checkpoint=file, **options)
    np.testing.assert_array_equal(again.curves.train_cost, whole.curves.train_cost)
    np.testing.assert_array_equal(again.params[0].W, whole.params[0].W)


@pytest.mark.slow
def test_a_finished_training_can_go_on_for_more_epochs(tmp_path):
    file = tmp_path / "more.npz"
    train(SMALL, optimizer="sgd", checkpoint=file, **{**OPTIONS, "epochs": 1})
    longer = train(SMALL, optimizer="sgd", checkpoint=file, **OPTIONS).curves
    np.testing.assert_array_equal(longer.train_cost, train(SMALL, optimizer="sgd", **OPTIONS).curves.train_cost)
    assert load(file).rows[-1][0] == 2.0


def test_reached_interpolates_between_points():
    curves, _ = train(SMALL, optimizer="sgd", **OPTIONS)
    middle = float(curves.train_cost[:2].mean())
    epochs, seconds = curves.reached(middle)
    assert epochs == pytest.approx(0.5) and seconds == pytest.approx(curves.cpu_seconds[1] / 2)
    assert curves.reached(0.0) is None


@pytest.mark.parametrize(
    ("words", "options"),
    [
        (("cost is", "at step", "learning_rate is 1e+06"), {"learning_rate": 1e6, "optimizer": "sgd"}),
        (("optimizer", "adamm", "did you mean 'adam'"), {"optimizer": "adamm"}),
        (("inputs", "whitened"), {"inputs": "whitened"}),
        (("schedule", "linear"), {"schedule": "linear"}),
        (("learning_rate", "-1"), {"learning_rate": -1.0}),
        (("batch is 1000", "150 examples"), {"batch": 1000}),
        (("epochs", "at least 1"), {"epochs": 0}),
        (("l2", "-0.1"), {"l2": -0.1}),
        (("checkpoint", ".npz"), {"checkpoint": "a.json"}),
    ],
)
def test_bad_input_is_told_in_one_sentence(words, options):
    with one_sentence(*words):
        train(SMALL, **{**OPTIONS, **options})


@pytest.mark.slow
def test_the_first_cost_that_is_not_finite_is_named():
    with pytest.raises(ValueError, match=r"cost is (nan|inf) at step ([2-9]|1\d),"):
        train(SMALL, optimizer="sgd", learning_rate=1e6, **OPTIONS)


def test_a_checkpoint_of_another_training_is_refused(tmp_path):
    file = tmp_path / "other.npz"
    train(SMALL, optimizer="sgd", checkpoint=file, **OPTIONS)
    with one_sentence("optimizer 'sgd'", "'adam'"):
        train(SMALL, optimizer="adam", checkpoint=file, **OPTIONS)
    fisher.geometry(fisher.linear_layer(1, [1.0])).save(file)
    with one_sentence("holds a Geometry"):
        train(SMALL, optimizer="sgd", checkpoint=file, **OPTIONS)
