import dataclasses
import json

import jax
import jax.numpy as jnp
import jaxtyping
import numpy as np
import pytest
from helpers import one_sentence
from hypothesis import given
from hypothesis import strategies as st

import neft
from neft import MLP, Layer

NET = MLP(widths=(3, 5, 4, 2), activation="tanh", C_b=0.5, C_W=(1.0, 2.0, 3.0), lambda_b=0.25, lambda_W=(6.0, 5.0, 4.0))
HYPERPARAMETERS = ("C_b", "C_W", "lambda_b", "lambda_W")


@pytest.fixture
def double():
    with jax.enable_x64(True):
        yield


@pytest.fixture
def unhinted(monkeypatch):
    """The library as its users run it: no annotation is checked before ours."""
    monkeypatch.setattr(jaxtyping.config, "jaxtyping_disable", True)


def numpy_preactivations(params, x):
    """z¹ = b¹ + W¹x and z^{l+1} = b^{l+1} + W^{l+1} tanh(z^l), for one input and in NumPy."""
    zs, signal = [], x
    for W, b in params:
        zs.append(b + W @ signal)
        signal = np.tanh(zs[-1])
    return zs


def random_parameters(net):
    rng = np.random.default_rng(0)
    return [(rng.normal(size=(n, m)), rng.normal(size=n)) for m, n in zip(net.widths, net.widths[1:])]


def test_it_is_frozen():
    for field in dataclasses.fields(MLP):
        with pytest.raises(dataclasses.FrozenInstanceError):
            setattr(NET, field.name, None)


def test_equal_specifications_are_equal_and_hash_equal():
    one, other = MLP((3, 8, 2), "silu", C_W=2), MLP([3, 8, 2], neft.activation("silu"), C_W=(2.0, 2.0))
    assert one == other and hash(one) == hash(other)


@pytest.mark.parametrize(
    "change", [{"widths": (3, 8, 3)}, {"activation": "relu"}, *({name: 0.125} for name in HYPERPARAMETERS)], ids=str
)
def test_different_specifications_are_different(change):
    base = {"widths": (3, 8, 2), "activation": "silu"}
    assert MLP(**base) != MLP(**(base | change))


@pytest.mark.slow
def test_a_compiled_function_is_compiled_once_for_equal_specifications():
    traces = []

    def output(net, params, x):
        traces.append(net)
        return net.apply(params, x)

    compiled = jax.jit(output, static_argnums=0)
    for _ in range(2):
        net = MLP(widths=(3, 4, 2))
        params = net.init(jax.random.key(0))
        np.testing.assert_allclose(compiled(net, params, jnp.ones(3)), net.apply(params, jnp.ones(3)), rtol=1e-6)
    assert len(traces) == 1


def test_the_leaves_of_its_tree_are_the_hyperparameters():
    leaves, structure = jax.tree.flatten({"net": NET})
    assert sorted(leaves) == sorted(value for name in HYPERPARAMETERS for value in getattr(NET, name))
    assert jax.tree.unflatten(structure, leaves) == {"net": NET}
    doubled = jax.jit(lambda net: jax.tree.map(lambda value: 2 * value, net))(NET)
    assert doubled.widths == NET.widths and tuple(2 * value for value in NET.C_W) == doubled.C_W


def test_one_number_stands_for_all_layers():
    net = MLP(widths=(3, 4, 2), C_b=1, C_W=2, lambda_b=3, lambda_W=4)
    assert [getattr(net, name) for name in HYPERPARAMETERS] == [(1.0, 1.0), (2.0, 2.0), (3.0, 3.0), (4.0, 4.0)]
    assert all(type(v) is float for name in HYPERPARAMETERS for v in getattr(net, name))
    assert net.depth == 2


def test_the_defaults_are_unit_weights_and_no_biases():
    assert MLP(widths=(3, 2)) == MLP((3, 2), activation="tanh", C_b=0.0, C_W=1.0, lambda_b=1.0, lambda_W=1.0)


def test_parameters_have_the_shapes_of_the_widths():
    params = NET.init(jax.random.key(0))
    assert [(W.shape, b.shape) for W, b in params] == [((5, 3), (5,)), ((4, 5), (4,)), ((2, 4), (2,))]
    assert all(isinstance(layer, Layer) for layer in params)


@pytest.mark.parametrize(("x64", "asked", "made"), [(0, None, "f4"), (1, None, "f8"), (1, "f4", "f4"), (0, "f2", "f2")])
def test_parameters_have_the_default_dtype_or_the_one_asked_for(x64, asked, made):
    with jax.enable_x64(bool(x64)):
        params = MLP(widths=(3, 2)).init(jax.random.key(0), dtype=asked)
        assert {leaf.dtype for leaf in jax.tree.leaves(params)} == {np.dtype(made)}


def test_the_same_key_gives_the_same_parameters_and_another_key_others():
    first, again, other = (NET.init(jax.random.key(seed)) for seed in (0, 0, 1))
    assert all(map(np.array_equal, jax.tree.leaves(first), jax.tree.leaves(again)))
    assert not any(map(np.array_equal, jax.tree.leaves(first), jax.tree.leaves(other)))


@pytest.mark.slow
def test_parameters_at_initialization_have_the_variances_of_the_theory(double):
    net = MLP(widths=(2, 10_000, 3, 10_000), C_b=(0.5, 2.0, 3.0), C_W=(1.0, 2.0, 4.0))
    for l, (W, b) in enumerate(net.init(jax.random.key(0))):
        for values, variance in ((W, net.C_W[l] / net.widths[l]), (b, net.C_b[l])):
            unit = np.ravel(values) / np.sqrt(variance)
            assert abs(unit.mean()) < 5 / np.sqrt(unit.size)
            assert abs(np.mean(unit**2) - 1) < 5 * np.sqrt(2 / unit.size)


def test_layers_are_independent_at_initialization():
    first, second = MLP(widths=(100, 100, 100), C_b=1.0).init(jax.random.key(0))
    for one, other in ((first.W, second.W), (first.b, second.b), (first.W[0], first.b), (first.W[:, 0], first.b)):
        correlation = np.corrcoef(np.ravel(one), np.ravel(other))[0, 1]
        assert abs(correlation) < 5 / np.sqrt(np.size(one))


def test_without_variance_parameters_vanish():
    assert not any(leaf.any() for leaf in jax.tree.leaves(MLP((3, 2), C_b=0, C_W=0).init(jax.random.key(0))))


@pytest.mark.parametrize("widths", [(3, 2), (3, 5, 2), pytest.param((4, 1, 6, 3, 1), marks=pytest.mark.slow)])
def test_outputs_are_those_of_the_equations(double, widths):
    net = MLP(widths=widths)
    params = random_parameters(net)
    batch = np.random.default_rng(1).normal(size=(7, widths[0]))
    wanted = np.array([numpy_preactivations(params, x)[-1] for x in batch])
    np.testing.assert_allclose(net.apply(params, batch), wanted, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(net.apply(params, batch[0]), wanted[0], rtol=1e-12, atol=1e-12)
    stacked = net.apply(params, np.stack([batch, -batch]))
    assert stacked.shape == (2, 7, widths[-1])
    np.testing.assert_allclose(stacked[0], wanted, rtol=1e-12, atol=1e-12)


def test_preactivations_are_those_of_all_layers(double):
    params = random_parameters(NET)
    batch = np.random.default_rng(1).normal(size=(7, 3))
    zs = NET.preactivations(params, batch)
    assert [z.shape for z in zs] == [(7, 5), (7, 4), (7, 2)]
    for i, x in enumerate(batch):
        for z, wanted in zip(zs, numpy_preactivations(params, x), strict=True):
            np.testing.assert_allclose(z[i], wanted, rtol=1e-12, atol=1e-12)
    np.testing.assert_array_equal(zs[-1], NET.apply(params, batch))


def test_a_classifier_with_one_hidden_layer_is_the_same_thing(double):
    rng = np.random.default_rng(0)
    W, b, U, c, z = (rng.normal(size=shape) for shape in ((6, 4), 6, (3, 6), 3, (9, 4)))
    net = MLP(widths=(4, 6, 3), activation="relu")
    wanted = np.maximum(z @ W.T + b, 0) @ U.T + c
    np.testing.assert_allclose(net.apply([(W, b), (U, c)], z), wanted, rtol=1e-12, atol=1e-12)


def test_derivatives_go_through(double):
    net, x = MLP(widths=(2, 1)), np.array([3.0, 4.0])
    ((W, b),) = jax.grad(lambda params: net.apply(params, x)[0])(random_parameters(net))
    np.testing.assert_array_equal(W, [[3.0, 4.0]])
    np.testing.assert_array_equal(b, [1.0])


def test_outputs_keep_the_precision_of_their_parameters():
    assert NET.apply(NET.init(jax.random.key(0)), np.ones(3, np.float32)).dtype == np.float32


def test_rates_are_those_of_the_theory():
    assert NET.rates() == (Layer(6.0 / 3, 0.25), Layer(5.0 / 5, 0.25), Layer(4.0 / 4, 0.25))


@given(st.lists(st.integers(1, 6), min_size=2, max_size=5))
def test_parameters_are_counted(widths):
    net = MLP(widths=widths)
    shapes = jax.eval_shape(net.init, jax.random.key(0))
    assert net.parameter_count() == sum(leaf.size for leaf in jax.tree.leaves(shapes))


rate = st.floats(0, 1e6)


@given(st.data(), st.lists(st.integers(1, 1000), min_size=2, max_size=5), st.sampled_from(["tanh", "leaky_relu(0.1)"]))
def test_a_file_can_hold_a_specification(data, widths, activation):
    depth = len(widths) - 1
    values = rate | st.lists(rate, min_size=depth, max_size=depth)
    net = MLP(widths, activation, **{name: data.draw(values) for name in HYPERPARAMETERS})
    assert MLP.from_dict(json.loads(json.dumps(net.to_dict(), allow_nan=False))) == net


def test_a_file_cannot_hold_a_users_own_activation():
    net = MLP(widths=(3, 2), activation=neft.activation(lambda z: z**2, name="square"))
    with one_sentence("'square'", "user's own function"):
        MLP.from_dict(net.to_dict())


def test_text_shows_the_specification():
    assert repr(NET) == (
        "MLP(widths=(3, 5, 4, 2), activation='tanh', C_b=0.5, C_W=(1, 2, 3), lambda_b=0.25, lambda_W=(6, 5, 4))"
    )


@pytest.mark.parametrize("widths", [(), (3,), "32", 3, {3, 2}], ids=str)
def test_widths_must_list_two_numbers_or_more(unhinted, widths):
    with one_sentence(f"widths is {widths!r}", "at least two numbers"):
        MLP(widths=widths)


@pytest.mark.parametrize("odd", [0, -1])
def test_widths_below_one_are_refused(odd):
    with one_sentence(f"each of widths is {odd}, but must be at least 1."):
        MLP(widths=(3, odd, 2))


@pytest.mark.parametrize("odd", [2.5, 2.0, True, None], ids=str)
def test_widths_that_are_not_whole_numbers_are_refused(unhinted, odd):
    with one_sentence(f"each of widths is {odd}, but must be a whole number."):
        MLP(widths=(3, odd, 2))


@pytest.mark.parametrize("name", HYPERPARAMETERS)
def test_bad_hyperparameters_are_refused(unhinted, name):
    for odd, allowed in ((-0.5, "at least 0"), (np.nan, "finite"), (np.inf, "finite"), ("1", "real number")):
        with one_sentence(f"{name} is {odd!r}", allowed):
            MLP(widths=(3, 4, 2), **{name: odd})
        with one_sentence(f"{name} of layer 2 is {odd!r}", allowed):
            MLP(widths=(3, 4, 2), **{name: (1.0, odd)})


@pytest.mark.parametrize("name", HYPERPARAMETERS)
@pytest.mark.parametrize("values", [(), (1.0,), (1.0, 2.0, 3.0), ((1.0, 2.0),)], ids=str)
def test_a_wrong_number_of_values_per_layer_is_refused(unhinted, name, values):
    with one_sentence(f"{name} is {values!r}", "one for each of the 2 layers"):
        MLP(widths=(3, 4, 2), **{name: values})


def test_an_unknown_activation_is_refused():
    with one_sentence("'tahn'", "did you mean 'tanh'?"):
        MLP(widths=(3, 2), activation="tahn")


@pytest.mark.parametrize("shape", [(), (2,), (3, 2), (0,)])
def test_inputs_of_another_size_are_refused(shape):
    with one_sentence(f"x has shape {shape}", "must have 3 entries"):
        NET.apply(random_parameters(NET), np.ones(shape))


@pytest.mark.parametrize("other", [(3, 5, 4), (3, 5, 4, 1), (4, 5, 4, 2), (3, 5, 4, 2, 2)], ids=str)
def test_parameters_of_another_network_are_refused(other):
    with one_sentence("params hold shapes", "((5, 3), (5,)), ((4, 5), (4,)), ((2, 4), (2,))"):
        NET.apply(random_parameters(MLP(widths=other)), np.ones(3))


def test_weights_that_are_not_transposed_are_refused():
    with one_sentence("params hold shapes [((3, 2), (2,))]", "[((2, 3), (2,))]"):
        MLP(widths=(3, 2)).apply([(np.ones((3, 2)), np.ones(2))], np.ones(3))


@pytest.mark.parametrize(
    ("key", "words"), [(0, "key is 0"), (None, "key is None"), (jax.random.split(jax.random.key(0), 3), "shape (3,)")]
)
def test_what_is_no_key_is_refused(unhinted, key, words):
    with one_sentence(words, "jax.random.key"):
        MLP(widths=(3, 2)).init(key)


@pytest.mark.parametrize("dtype", [int, complex, "nonsense"])
def test_parameters_are_real_numbers(dtype):
    with one_sentence(f"dtype is {dtype!r}"):
        MLP(widths=(3, 2)).init(jax.random.key(0), dtype=dtype)


def test_hyperparameters_may_be_jax_arrays(unhinted):
    assert MLP((3, 4, 2), C_W=jnp.array([1.0, 2.0])) == MLP((3, 4, 2), C_W=(1.0, 2.0))
