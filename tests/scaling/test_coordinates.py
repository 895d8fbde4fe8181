"""The coordinate check tells right rates from wrong ones; the eight cases were chosen before any was run."""

import contextlib

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from helpers import one_sentence

from neft import Dense, Network, Residual, RMSNorm, load, plot
from neft.report import tables
from neft.scaling import coordinate_check
from neft.scaling._verdicts import powers

X = np.random.default_rng(0).normal(size=(16, 8)).astype(np.float32)
Y = np.sin(X.sum(1, keepdims=True))
# μP (Yang et al. 2022, table 3): rates of the first, the hidden and the last weights as powers of the width.
RATES = {"sgd": {"first": 1, "hidden": 0, "last": -1}, "adam": {"first": 0, "hidden": -1, "last": -1}}
SIZE = {"sgd": 0.05, "adam": 0.02}


def square(outputs, y):
    return jnp.mean((outputs - y) ** 2)


def mlp(key, width):
    first, one, two, last = jax.random.split(key, 4)
    return {
        "first": jax.random.normal(first, (8, width)) / 8**0.5,
        "hidden": [(2 / width) ** 0.5 * jax.random.normal(k, (width, width)) for k in (one, two)],
        "last": jax.random.normal(last, (width, 1)) / width,
    }


def apply_mlp(params, x):
    z = x @ params["first"]
    for W in params["hidden"]:
        z = jax.nn.relu(z) @ W
    return jax.nn.relu(z) @ params["last"]


def normed(z):
    return z * jax.lax.rsqrt(jnp.mean(z**2, -1, keepdims=True) + 1e-6)


def apply_residual(params, x):
    z = x @ params["first"]
    for W in params["hidden"]:
        z = z + jax.nn.relu(normed(z)) @ W
    return normed(z) @ params["last"]


def optimizer_of(kind, wrong=None):
    make = optax.sgd if kind == "sgd" else optax.adam

    def optimizer(width):
        rates = {name: SIZE[kind] * (width / 64) ** power for name, power in RATES[kind].items()}
        if wrong is not None:
            rates[wrong] *= (width / 64) ** 0.5
        labels = {"first": "first", "hidden": ["hidden", "hidden"], "last": "last"}
        return optax.multi_transform({name: make(rate) for name, rate in rates.items()}, labels)

    return optimizer


@contextlib.contextmanager
def promoting():
    """As users run: optax and their own models promote."""
    with jax.numpy_rank_promotion("allow"), jax.numpy_dtype_promotion("standard"):
        yield


def checked(apply, optimizer, widths=(32, 128, 512), **more):
    return coordinate_check(mlp, apply, optimizer, widths, x=X, y=Y, loss=square, **more)


CASES = [
    (apply_mlp, "sgd", None),
    (apply_mlp, "sgd", "hidden"),
    (apply_mlp, "adam", None),
    (apply_mlp, "adam", "last"),
    (apply_residual, "sgd", None),
    (apply_residual, "sgd", "first"),
    (apply_residual, "adam", None),
    (apply_residual, "adam", "hidden"),
]


@pytest.mark.slow
@pytest.mark.parametrize(("apply", "kind", "wrong"), CASES)
def test_wrong_rates_are_called_wrong_and_right_ones_right(apply, kind, wrong):
    with promoting():
        found = checked(apply, optimizer_of(kind, wrong), steps=1)
    assert found.names == ("first", "hidden.0", "hidden.1", "last")
    for name, verdict, power, error in zip(found.names, found.verdicts, found.power_own, found.error_own):
        expected = 0.5 if wrong is not None and name.startswith(wrong) else 0.0
        assert verdict == ("updates grow" if expected else "right"), (name, power, error)
        assert abs(power - expected) < 0.2 and error < 0.1
    assert found.right == (wrong is None)


STARTS = [
    (-0.5, -1.0, ("right", "right", "right", "right")),
    # Every hidden matrix is blamed, and not what comes after it.
    (0.0, -1.0, ("right", "size grows", "size grows", "right")),
    (-1.0, -1.0, ("right", "size shrinks", "size shrinks", "updates shrink")),
    (-0.5, 0.0, ("right", "right", "right", "size grows")),
    # Outputs start alike at all widths, but what the last layer makes of changes before it grows as √n.
    (-0.5, -0.5, ("right", "right", "right", "changes grow")),
]


@pytest.mark.slow
@pytest.mark.parametrize(("hidden", "last", "verdicts"), STARTS)
def test_wrong_initializations_are_called_wrong_though_their_rates_are_right(hidden, last, verdicts):
    def init(key, n):
        params = mlp(key, n)
        scaled = [W * 0.7 * n ** (hidden + 0.5) for W in params["hidden"]]
        return {"first": params["first"], "hidden": scaled, "last": params["last"] * n ** (last + 1)}

    def tanh(params, x):
        z = x @ params["first"]
        for W in params["hidden"]:
            z = jnp.tanh(z) @ W
        return jnp.tanh(z) @ params["last"]

    with promoting():
        more = {"x": X, "y": Y, "loss": square, "steps": 1, "draws": 6}
        found = coordinate_check(init, tanh, optimizer_of("adam"), (32, 128, 512), **more)
    assert found.verdicts == verdicts, (found.power_size, found.power_change, found.power_own)
    assert found.right == (set(verdicts) == {"right"})
    assert ("initial" in found.summary) == (not found.right)
    np.testing.assert_array_equal(found.theory_size, [0, 0, 0, -0.5])


def deep(hidden, out):
    """A perceptron of relu with the rates of μP, whose outputs start with the variance `out`/width."""

    def init(key, n):
        sizes = [(8, n), *[(n, n)] * (hidden - 1), (n, 1)]
        variances = [1 / 8, *[2 / n] * (hidden - 1), out / n**2]
        keys = jax.random.split(key, len(sizes))
        return [v**0.5 * jax.random.normal(k, size) for k, size, v in zip(keys, sizes, variances)]

    def apply(params, x):
        z = x @ params[0]
        for W in params[1:]:
            z = jax.nn.relu(z) @ W
        return z

    def optimizer(n, wrong=None):
        rates = [0.05 * n, *[0.05] * (hidden - 1), 0.05 / n]
        if wrong is not None:
            rates[wrong] *= n**0.5
        labels = [str(i) for i in range(hidden + 1)]
        return optax.multi_transform({name: optax.sgd(rate) for name, rate in zip(labels, rates)}, labels)

    return init, apply, optimizer


@pytest.mark.slow
@pytest.mark.parametrize("out", [1, 64])
@pytest.mark.parametrize("wrong", [None, 3, 8])
def test_a_deep_right_model_is_called_right_and_a_wrong_layer_in_it_wrong(wrong, out):
    # Depth/width is 1/2 at the smallest width, where updates fluctuate by a factor e. Outputs that start with a size of
    # 2 there, and smaller at larger widths, give updates a power of -0.3 through the loss alone.
    init, apply, optimizer = deep(8, out)
    with promoting():
        more = {"x": X, "y": Y, "loss": square, "steps": 1}
        found = coordinate_check(init, apply, lambda n: optimizer(n, wrong), (16, 64, 256), **more)
    wanted = ["right"] * 9
    if wrong is not None:
        wanted[wrong] = "updates grow"
    assert list(found.verdicts) == wanted, (found.power_own, found.error_own)
    assert found.error_own.max() < 0.1


def test_powers_are_free_of_what_fluctuations_of_the_entering_do_to_them():
    rng = np.random.default_rng(0)
    widths, draws = np.array([16, 64, 256]), 16
    # Log-normal, with mean squares that do not change with width, as those of relu networks at depth/width = 10/n.
    variance = 10 / widths[None, :, None]
    entering = np.exp(variance**0.5 * rng.normal(size=(300, 3, draws)) - variance)
    other = np.exp(0.2 * rng.normal(size=(300, 3, draws)))
    values = widths[None, :, None] ** 0.1 * entering**2 * other
    plain, free = powers(widths, values), powers(widths, values, entering)
    assert plain[0].mean() > 0.4 and plain[1].mean() > 0.1
    np.testing.assert_allclose(free[0].mean(), 0.1, atol=0.02)
    assert free[1].mean() < 0.04
    # The errors are those of the scatter.
    np.testing.assert_allclose(free[0].std(), free[1].mean(), rtol=0.25)


def test_what_enters_with_a_power_of_its_own_is_not_taken_out():
    rng = np.random.default_rng(1)
    widths = np.array([16, 64, 256])
    entering = widths[None, :, None] ** -0.5 * np.exp(0.1 * rng.normal(size=(1, 3, 50)))
    np.testing.assert_allclose(powers(widths, entering**2, entering)[0], -1, atol=0.1)


@pytest.mark.slow
def test_own_powers_are_those_of_a_step_down_the_mean_slope_of_the_widest_models():
    widths, keys = (8, 16, 32), jax.random.split(jax.random.key(5), 3)
    with promoting():
        found = checked(apply_mlp, optax.sgd(0.1), widths, steps=1, draws=3, key=jax.random.key(5))
        drawn = {n: [mlp(key, n) for key in keys] for n in widths}
        slope = sum(2 * (apply_mlp(params, X) - Y) / Y.size for params in drawn[32]) / 3
        logs = []
        for n in widths:
            steps = [jax.grad(lambda p: jnp.sum(slope * apply_mlp(p, X)))(params)["first"] for params in drawn[n]]
            logs.append([np.log(0.1 * np.sqrt(np.mean(np.square(X @ step)))) for step in steps])
    # What enters the first layer does not fluctuate; a width counts √width times.
    slopes = [np.polyfit(np.log(widths), log, 1, w=np.array(widths) ** 0.25)[0] for log in np.array(logs).T]
    np.testing.assert_allclose(found.power_own[0], np.mean(slopes), atol=1e-5)
    np.testing.assert_allclose(found.error_own[0], np.std(slopes, ddof=1) / 3**0.5, rtol=1e-4)


@pytest.mark.slow
def test_a_layer_that_follows_one_that_grows_is_not_blamed():
    def init(key, n):
        params = mlp(key, n)
        return params | {"hidden": [params["hidden"][0] * n**0.5, params["hidden"][1]]}

    with promoting():
        more = {"x": X, "y": Y, "loss": square, "steps": 1, "draws": 4}
        found = coordinate_check(init, apply_mlp, optimizer_of("sgd"), (16, 64, 256), **more)
    # relu hands on what grows: both are as large, and one is at fault.
    assert found.power_size[1] > 0.4 and found.power_size[2] > 0.4
    assert found.verdicts[1] == "size grows" and found.verdicts[2] != "size grows"


@pytest.mark.slow
def test_a_model_whose_leaves_hold_functions_is_trained_as_equinox_trains_it():
    def init(key, width):
        return eqx.nn.MLP(8, 1, width, 2, key=key)

    def apply(model, x):
        return jax.vmap(model)(x)

    with promoting():
        found = coordinate_check(
            init, apply, optax.sgd(0.1), (4, 8, 16), x=X, y=Y, loss=square, steps=2, draws=2, key=jax.random.key(3)
        )
        model = init(jax.random.split(jax.random.key(3), 2)[1], 8)
        start = X @ model.layers[0].weight.T
        for _ in range(2):
            gradient = eqx.filter_grad(lambda model: square(apply(model, X), Y))(model)
            model = eqx.apply_updates(model, jax.tree.map(lambda g: -0.1 * g, gradient))
        later = X @ model.layers[0].weight.T
    assert [name.split(".")[-1] for name in found.names] == ["weight"] * 3
    for values, wanted in ((found.sizes, later), (found.changes, later - start), (found.own, later - start)):
        np.testing.assert_allclose(values[0, 1, 1, 2], np.sqrt(np.mean(np.square(wanted))), rtol=2e-5)
    np.testing.assert_array_equal(found.theory_size, [0, 0, -0.5])


@pytest.mark.slow
def test_sizes_that_theory_predicts_stand_beside_those_of_a_network(tmp_path):
    def family(n):
        block = Residual(RMSNorm(), "relu", Dense(n, C_W=1.5, C_b=0.4), skip=0.8)
        return Network(8, [Dense(n, C_W=1.3, C_b=0.2), block, "tanh", Dense(3, C_W=1 / n)])

    def init(key, n):
        return family(n).init(key)

    def apply(params, x):
        return family(params[0].W.shape[0]).apply(params, x)

    with promoting():
        more = {"x": X, "y": Y, "loss": square, "steps": 1, "draws": 24, "network": family}
        found = coordinate_check(init, apply, optax.sgd(0.001), (64, 128, 256), **more)
    squares = found.sizes[..., 0] ** 2
    error = squares.std(2, ddof=1) / 24**0.5
    assert found.expected is not None and found.expected.shape == (3, 3)
    # Corrections to infinite width are of order 1/width.
    assert (np.abs(squares.mean(2) - found.expected**2) < 5 * error + found.expected**2 / found.widths).all()
    # What the biases add, 0.2 and 0.4, is not in products with weights: RMSNorm gives the second layer 1.5/2.
    np.testing.assert_allclose(found.expected[0], np.sqrt(1.3 * np.mean(X.astype(float) ** 2)), rtol=1e-6)
    np.testing.assert_allclose(found.expected[1], np.sqrt(0.75), rtol=1e-4)
    np.testing.assert_allclose(found.expected[2] * np.sqrt(found.widths), found.expected[2, 0] * 8, rtol=1e-6)
    found.save(tmp_path / "check.json")
    assert load(tmp_path / "check.json") == found
    assert "width 256" in tables(found)[1].text()
    left = plot.draw(found).axes[0]
    dotted = [line for line in left.lines if line.get_linestyle() == ":"]
    np.testing.assert_allclose([line.get_ydata() for line in dotted], found.expected)
    with promoting(), one_sentence("network has 2 dense blocks", "3 layers"):
        more |= {"network": lambda n: Network(8, [Dense(n), "tanh", Dense(3)]), "draws": 2}
        coordinate_check(init, apply, optax.sgd(0.001), (4, 8, 16), **more)


@pytest.mark.slow
def test_own_changes_are_those_of_the_parameters_alone(tmp_path):
    with promoting():
        found = checked(apply_mlp, optax.sgd(0.1), (8, 16, 32), steps=1, draws=2, key=jax.random.key(5))
        keys = jax.random.split(jax.random.key(5), 2)
        params = mlp(keys[1], 16)
        gradient = jax.grad(lambda params: square(apply_mlp(params, X), Y))(params)
        later = jax.tree.map(lambda p, g: p - 0.1 * g, params, gradient)
    before = [X @ params["first"]]
    after = [X @ later["first"]]
    own = [X @ (later["first"] - params["first"])]
    for W, V in zip([*params["hidden"], params["last"]], [*later["hidden"], later["last"]]):
        own.append(jax.nn.relu(before[-1]) @ (V - W))
        before.append(jax.nn.relu(before[-1]) @ W)
        after.append(jax.nn.relu(after[-1]) @ V)
    for i in range(4):
        for values, wanted in (
            (found.sizes[i, 1, 1], (before[i], after[i])),
            (found.changes[i, 1, 1, 1:], (after[i] - before[i],)),
            (found.own[i, 1, 1, 1:], (own[i],)),
        ):
            np.testing.assert_allclose(values, [np.sqrt(np.mean(np.square(one))) for one in wanted], rtol=2e-5)
    # One rate for all is the standard parameterization, which learns differently at every width.
    assert not found.right and "first" in found.summary
    found.save(tmp_path / "check.json")
    assert load(tmp_path / "check.json") == found
    assert "hidden.1" in tables(found)[0].text() and len(plot.draw(found).axes) == 2


def readout_at_zero(key, width):
    params = mlp(key, width)
    return params | {"last": jnp.zeros_like(params["last"])}


ZERO = [("sgd", None), ("sgd", "hidden"), ("adam", None), ("adam", "first")]


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "wrong"), ZERO)
def test_layers_before_a_readout_at_zero_are_judged_by_the_second_step(kind, wrong):
    with promoting():
        more = {"x": X, "y": Y, "loss": square, "steps": 2, "draws": 6}
        found = coordinate_check(readout_at_zero, apply_mlp, optimizer_of(kind, wrong), (32, 128, 512), **more)
    wanted = ["updates grow" if wrong is not None and name.startswith(wrong) else "right" for name in found.names]
    assert list(found.verdicts) == wanted, (found.power_own, found.error_own)
    np.testing.assert_allclose(found.power_own, [0.5 * (one != "right") for one in wanted], atol=0.2)
    assert found.right == (wrong is None) and "By step 2 are judged: first, hidden.0, hidden.1." in found.summary
    # A size of 0 has no power, and is not called wrong.
    assert np.isnan(found.power_size).tolist() == [False, False, False, True]


def small(key, width, readout=0.0):
    one, two = jax.random.split(key)
    return {"W": jax.random.normal(one, (8, width)) / 8**0.5, "V": readout * jax.random.normal(two, (width, 1)) / width}


def apply_small(params, x):
    return x @ params["W"] @ params["V"]


@pytest.mark.slow
def test_layers_that_no_gradient_reaches_are_not_called_right(tmp_path):
    def optimizer(n):
        return optax.multi_transform({"W": optax.sgd(0.1 * n**2), "V": optax.sgd(0.1 / n)}, {"W": "W", "V": "V"})

    with promoting():
        more = {"x": X, "y": Y, "loss": square, "steps": 1, "draws": 3}
        found = coordinate_check(small, apply_small, optimizer, (16, 32, 64), **more)
    assert found.verdicts == ("not clear", "right") and not found.right
    assert np.isnan(found.power_own[0]) and np.isnan(found.power_change[0])
    assert "not clear in W: gradients are 0 there" in found.summary and "take more steps" in found.summary
    assert "nan" not in found.summary
    found.save(tmp_path / "check.json")
    assert load(tmp_path / "check.json") == found


def test_layers_that_are_not_trained_are_not_called_wrong():
    def optimizer(n):
        groups = {"W": optax.set_to_zero(), "V": optax.sgd(0.1 / n)}
        return optax.multi_transform(groups, {"W": "W", "V": "V"})

    def init(key, width):
        return small(key, width, readout=1.0)

    with promoting():
        more = {"x": X, "y": Y, "loss": square, "steps": 1, "draws": 3}
        found = coordinate_check(init, apply_small, optimizer, (16, 32, 64), **more)
        still = coordinate_check(init, apply_small, optax.sgd(0.0), (16, 32, 64), **more)
    assert found.verdicts[0] == "right" and np.isnan(found.power_own[0]) and "more steps" not in found.summary
    # Where nothing is trained there are no updates of the same size.
    assert "No layer is trained" in still.summary and "same size" not in still.summary


@pytest.mark.slow
def test_bad_arguments_get_a_sentence():
    with one_sentence("widths are (8, 16)", "three"):
        checked(apply_mlp, optax.sgd(0.1), (8, 16))
    with one_sentence("optimizer is 'adam'"):
        checked(apply_mlp, "adam")
    with one_sentence("apply(params, x) failed"):
        checked(lambda params, x: x @ params["second"], optax.sgd(0.1))
    with one_sentence("by no parameter"):
        checked(lambda params, x: x * 2.0, optax.sgd(0.1), (8, 16, 32))
