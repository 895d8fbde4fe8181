import jax
import jax.numpy as jnp
import numpy as np
import pytest
from helpers import one_sentence
from scipy.integrate import solve_ivp

import neft
from neft import MLP, training, width
from neft.training._function_space import draw_batches

pytestmark = pytest.mark.xdist_group("training")  # compiled programs are shared

RNG = np.random.default_rng(3)
X = 2 * np.linalg.qr(RNG.normal(size=(4, 4)))[0][:3] + 0.1 * RNG.normal(size=(3, 4))
Y = np.array([[0.8], [-0.5], [0.3]])
TEST = np.concatenate([X, RNG.normal(size=(2, 4))])
KEY = jax.random.key(7)


def network(n, depth=2):
    options = {"C_b": 0.05, "C_W": 1.0, "lambda_b": 0.1, "lambda_W": 1.0}
    return MLP(widths=(4, *[n] * (depth - 1), 1), activation="tanh", **options)


NET = network(12)


def start(net, i, key=KEY):
    with jax.enable_x64(True):
        return jax.tree.map(np.asarray, net.init(jax.random.fold_in(key, i), dtype=jnp.float64))


def gradients(params):
    """Of ½Σ(z-y)² for one hidden layer of tanh, by hand."""
    (W, b), (V, c) = params
    s = np.tanh(X @ W.T + b)
    residual = s @ V.T + c - Y
    back = (residual @ V) * (1 - s**2)
    return (back.T @ X, back.sum(0)), (residual.T @ s, residual.sum(0))


def outputs(params, x):
    (W, b), (V, c) = params
    return np.tanh(x @ W.T + b) @ V.T + c


@pytest.fixture(autouse=True)
def one_by_one(monkeypatch):
    """Blocks of one network each, so that all tests share the compiled programs of one."""
    monkeypatch.setattr("neft.training._ensemble._MOST", 1)


@pytest.fixture(scope="module")
def flow():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("neft.training._ensemble._MOST", 1)
        return training.ensemble(NET, X, Y, TEST, draws=3, key=KEY)


def by_hand(i, time):
    """Gradient flow of one network by SciPy."""
    params, rates = start(NET, i), (0.1, 1.0 / 4, 0.1, 1.0 / 12)
    shapes = [leaf.shape for layer in params for leaf in layer]
    ends = np.cumsum([np.prod(shape) for shape in shapes])[:-1]

    def back(theta):
        W, b, V, c = (part.reshape(shape) for part, shape in zip(np.split(theta, ends), shapes))
        return (W, b), (V, c)

    def field(t, theta):
        (W, b), (V, c) = gradients(back(theta))
        return -np.concatenate([rates[1] * W.ravel(), rates[0] * b, rates[3] * V.ravel(), rates[2] * c])

    theta = np.concatenate([leaf.ravel() for layer in params for leaf in layer])
    found = solve_ivp(field, (0, time), theta, rtol=1e-10, atol=1e-12, method="DOP853")
    return back(found.y[:, -1])


def stepped(net, i, steps, rate):
    """Gradient descent of one network by NumPy."""
    params, rates = start(net, i), ((1 / 4, 0.1), (1 / net.widths[1], 0.1))
    for _ in range(steps):
        params = [tuple(p - rate * r * g for p, r, g in zip(*layer)) for layer in zip(params, rates, gradients(params))]
    return params


@pytest.mark.slow
def test_steps_are_those_of_one_network_after_the_other():
    found = training.ensemble(NET, X, Y, TEST, draws=3, key=KEY, steps=40, learning_rate=0.3)
    for i in range(3):
        np.testing.assert_allclose(found.start[i], outputs(start(NET, i), TEST), atol=1e-12)
        params = stepped(NET, i, 40, 0.3)
        np.testing.assert_allclose(found.test[i], outputs(params, TEST), atol=1e-12)
        np.testing.assert_allclose(found.train[i], outputs(params, X), atol=1e-12)
    assert np.abs(found.test - found.start).max() > 0.1


@pytest.mark.slow
def test_gradient_flow_to_a_time_is_that_of_scipy():
    found = training.ensemble(NET, X, Y, TEST, draws=3, key=KEY, time=1.7)
    for i in (0, 2):
        np.testing.assert_allclose(found.test[i], outputs(by_hand(i, 1.7), TEST), atol=1e-6)
    assert np.abs(found.train - Y).max() > 0.01


@pytest.mark.slow
def test_gradient_flow_to_its_end_is_that_of_scipy(flow):
    np.testing.assert_allclose(flow.train, np.broadcast_to(Y, flow.train.shape), atol=1e-12)
    np.testing.assert_allclose(flow.test[1], outputs(by_hand(1, 60.0), TEST), atol=1e-7)
    assert flow.good.all()


@pytest.mark.slow
def test_an_interrupted_run_goes_on_from_its_files(flow, monkeypatch, tmp_path):
    from neft.training import _ensemble

    whole, calls = _ensemble._trained, []

    def dying(*args):
        calls.append(args[-2])
        if len(calls) == 2:
            raise KeyboardInterrupt
        return whole(*args)

    monkeypatch.setattr(_ensemble, "_trained", dying)
    options = {"draws": 3, "key": KEY, "folder": tmp_path / "run"}
    with pytest.raises(KeyboardInterrupt):
        training.ensemble(NET, X, Y, TEST, **options)
    assert len(list((tmp_path / "run").glob("*.npz"))) == 1
    found = training.ensemble(NET, X, Y, TEST, **options)
    assert [part.start for part in calls] == [0, 1, 1, 2]
    np.testing.assert_array_equal(found.test, flow.test)
    again = training.ensemble(NET, X, Y, TEST, **options)
    assert len(calls) == 4 and again == found
    with one_sentence("holds an ensemble that was asked for otherwise"):
        training.ensemble(NET, X, Y + 1, TEST, **options)
    with one_sentence("asked for otherwise"):
        training.ensemble(NET, X, Y, TEST, **options | {"key": jax.random.key(8)})
    next((tmp_path / "run").glob("draws-*.npz")).write_bytes(b"half a file")
    with one_sentence("is damaged", "remove it"):
        training.ensemble(NET, X, Y, TEST, **options)


@pytest.mark.slow
def test_results_come_back_from_files(flow, tmp_path):
    flow.save(tmp_path / "flow.npz")
    assert neft.load(tmp_path / "flow.npz") == flow
    assert flow.mean.shape == flow.std.shape == flow.stderr.shape == (5, 1)


@pytest.mark.slow
def test_the_type_is_the_one_asked_for_and_any_loss_is_taken():
    signs = np.array([1, -1, 1])

    def logistic(z, y):
        return jnp.logaddexp(0.0, -y[:, None].astype(z.dtype) * z).sum()

    options = {"draws": 2, "key": KEY, "steps": 30, "learning_rate": 0.5}
    found = training.ensemble(NET, X.astype(np.float32), signs, TEST, loss=logistic, **options)
    assert found.made.specification["dtype"] == "float32"
    for i in range(2):
        with jax.enable_x64(False):
            drawn = jax.tree.map(np.asarray, NET.init(jax.random.fold_in(KEY, i)))
        (W, b), (V, c) = jax.tree.map(np.float64, drawn)
        for _ in range(30):
            s = np.tanh(X @ W.T + b)
            slope = -signs[:, None] / (1 + np.exp(signs[:, None] * (s @ V.T + c)))
            back = (slope @ V) * (1 - s**2)
            W, b = W - 0.5 / 4 * back.T @ X, b - 0.5 * 0.1 * back.sum(0)
            V, c = V - 0.5 / 12 * slope.T @ s, c - 0.5 * 0.1 * slope.sum(0)
        np.testing.assert_allclose(found.test[i], np.tanh(TEST @ W.T + b) @ V.T + c, atol=1e-5)


def rms(net, draws):
    """√n times the distance of trained networks from what the kernel at infinite width makes of each draw."""
    found = training.ensemble(net, X, Y, TEST, draws=draws, key=KEY, steps=80, learning_rate=1.0)
    assert found.good.all() and np.abs(found.train - Y).max() < 1e-5
    Theta, z = width.kernel(net, TEST)[1], found.start
    predicted = z - Theta[:, :3] @ np.linalg.solve(Theta[:3, :3], z[:, :3] - Y)
    return found, float(np.sqrt(net.widths[1] * ((found.test - predicted)[:, 3:] ** 2).mean()))


@pytest.mark.slow
def test_trained_networks_come_as_near_as_one_over_the_root_of_the_width(monkeypatch):
    _, small = rms(NET, 48)
    monkeypatch.setattr("neft.training._ensemble._MOST", 48)
    found, large = rms(network(108), 48)
    assert 0.7 < small / large < 1.4 and 0.05 < large < 2
    # Trained with 47 others, a network is the one it is alone.
    np.testing.assert_allclose(found.test[5], outputs(stepped(network(108), 5, 80, 1.0), TEST), atol=1e-12)


@pytest.mark.slow
def test_the_distance_times_the_root_of_the_width_is_flat(monkeypatch):
    monkeypatch.setattr("neft.training._ensemble._MOST", 48)
    found = [rms(network(n, depth=3), 96)[1] for n in (32, 64, 128, 256, 512)]
    assert max(found) / min(found) < 1.25, found
    slope = np.polyfit(np.log([32, 64, 128, 256, 512]), np.log(found), 1)[0]
    assert abs(slope) < 0.08, found


@pytest.mark.slow
def test_the_ensemble_has_the_predicted_mean_and_spread(monkeypatch):
    monkeypatch.setattr("neft.training._ensemble._MOST", 128)
    net, draws = network(256), 1024
    found = training.ensemble(net, X, Y, TEST, draws=draws, key=KEY, steps=80, learning_rate=1.0, dtype=np.float32)
    theory = training.predict(net, X, Y, TEST)
    assert (np.abs(found.mean - theory.mean) < 5 * found.stderr + 4 / 256).all()
    assert (np.abs(theory.mean) > 10 * found.stderr)[3:].any()
    np.testing.assert_allclose(found.std[3:], theory.std[3:], rtol=5 / np.sqrt(2 * draws) + 4 / 256)


def test_bad_input_gets_one_clear_sentence(tmp_path):
    options = {"draws": 2, "key": KEY}
    with one_sentence("y_train has shape (2, 1)"):
        training.ensemble(NET, X, Y[:2], **options)
    with one_sentence("draws is 0"):
        training.ensemble(NET, X, Y, draws=0, key=KEY)
    with one_sentence("time is missing"):
        training.ensemble(MLP(widths=(4, 2)), X, [0, 1, 1], loss="cross_entropy", **options)
    with one_sentence("trained to one moment"):
        training.ensemble(NET, X, Y, time=[1.0, 2.0], **options)
    with one_sentence("dtype is"):
        training.ensemble(NET, X, Y, dtype=np.int32, **options)
    with one_sentence("could be trained", "lower learning_rate, which is 100"):
        training.ensemble(NET, X, Y, TEST, draws=3, key=KEY, steps=400, learning_rate=100.0)
    (tmp_path / "file").write_text("")
    with one_sentence("folder is", "cannot be made"):
        training.ensemble(NET, X, Y, folder=tmp_path / "file", **options)


@pytest.mark.parametrize("nesterov", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_batches_and_momentum_are_those_of_the_steps_by_hand(nesterov):
    options = {"steps": 4, "learning_rate": 0.1, "momentum": 0.7, "nesterov": nesterov, "batch": 2}
    found = training.ensemble(NET, X, Y, TEST, draws=1, key=KEY, **options)
    batches = np.asarray(draw_batches(KEY, np.arange(1), steps=4, count=3, batch=2))[0]
    # Weights are trained at 1/fan-in, and biases at 0.1.
    rates = ((1 / 4, 0.1), (1 / 12, 0.1))
    params, velocity = start(NET, 0), tuple((0.0, 0.0) for _ in rates)
    for taken in batches:
        (W, b), (V, c) = params
        s = np.tanh(X @ W.T + b)
        # N/|B| times the sum over the batch.
        residual = (s @ V.T + c - Y) * 1.5 * np.isin(np.arange(3), taken)[:, None]
        back = (residual @ V) * (1 - s**2)
        slopes = (back.T @ X, back.sum(0)), (residual.T @ s, residual.sum(0))
        velocity = tuple(
            tuple(0.7 * v + g for v, g in zip(old, new, strict=True)) for old, new in zip(velocity, slopes, strict=True)
        )
        params = tuple(
            tuple(p - 0.1 * r * (g + 0.7 * v if nesterov else v) for p, r, g, v in zip(*layer, strict=True))
            for layer in zip(params, rates, slopes, velocity, strict=True)
        )
    np.testing.assert_allclose(found.test[0], outputs(params, TEST), atol=1e-10)
