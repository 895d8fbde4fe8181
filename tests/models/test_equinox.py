"""Equinox models as their users write them, read and run again as networks."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from helpers import one_sentence

import neft
from neft._framework_functions import GELU_BY_TANH
from neft.models._measure import measured
from neft.width import initializer_code

SLOW = pytest.mark.slow
KEYS = jax.random.split(jax.random.key(3), 64)


class Plain(eqx.Module):
    layers: list

    def __init__(self, key):
        keys = jax.random.split(key, 3)
        sizes = [(6, 40), (40, 40), (40, 3)]
        self.layers = [eqx.nn.Linear(*size, key=one) for size, one in zip(sizes, keys)]

    def __call__(self, x):
        for layer in self.layers[:-1]:
            x = jnp.tanh(layer(x))
        return self.layers[-1](x)


class PreNorm(eqx.Module):
    norm: eqx.nn.LayerNorm
    up: eqx.nn.Linear
    down: eqx.nn.Linear
    dropout: eqx.nn.Dropout

    def __init__(self, width, key):
        one, two, three = jax.random.split(key, 3)
        # A norm that has learned something.
        norm = eqx.nn.LayerNorm(width)
        self.norm = eqx.tree_at(lambda of: of.weight, norm, 1 + 0.1 * jax.random.normal(three, (width,)))
        self.up = eqx.nn.Linear(width, 2 * width, use_bias=False, key=one)
        self.down = eqx.nn.Linear(2 * width, width, use_bias=False, key=two)
        self.dropout = eqx.nn.Dropout(0.1)

    def __call__(self, x, *, key=None):
        return x + 0.5 * self.dropout(self.down(jax.nn.gelu(self.up(self.norm(x)), approximate=False)), key=key)


class PreNormStack(eqx.Module):
    first: eqx.nn.Linear
    blocks: list[PreNorm]
    norm: eqx.nn.RMSNorm
    last: eqx.nn.Linear

    def __init__(self, depth, key):
        one, two, *rest = jax.random.split(key, depth + 2)
        self.first = eqx.nn.Linear(5, 24, key=one)
        self.blocks = [PreNorm(24, k) for k in rest]
        self.norm = eqx.nn.RMSNorm(24)
        self.last = eqx.nn.Linear(24, 2, key=two)

    def __call__(self, x, key=None):
        x = self.first(x)
        for block in self.blocks:
            x = block(x, key=key)
        return self.last(self.norm(x))


class PostNorm(eqx.Module):
    first: eqx.nn.Linear
    inner: list
    norms: list
    last: eqx.nn.Linear

    def __init__(self, key):
        keys = jax.random.split(key, 6)
        self.first = eqx.nn.Linear(5, 24, key=keys[0])
        self.inner = [eqx.nn.MLP(24, 24, 32, 1, activation=jax.nn.silu, key=k) for k in keys[1:3]]
        self.norms = [eqx.nn.LayerNorm(24) for _ in range(2)]
        self.last = eqx.nn.Linear(24, 2, key=keys[3])

    def __call__(self, x):
        x = self.first(x)
        for inner, norm in zip(self.inner, self.norms):
            x = norm(x + inner(x))
        return self.last(x)


class ByHand(eqx.Module):
    """Arrays and no layers: weights in the NTK parameterization, a scaled sum, an activation of its own."""

    W: list
    b: list

    def __init__(self, key):
        keys = jax.random.split(key, 3)
        self.W = [jax.random.normal(k, shape) for k, shape in zip(keys, [(5, 40), (40, 40), (40, 2)])]
        self.b = [jnp.zeros(40), 0.1 * jax.random.normal(key, (40,)), jnp.zeros(2)]

    def __call__(self, x):
        first, inner, last = (lambda x, W=W, b=b: x @ W / jnp.sqrt(len(W)) + b for W, b in zip(self.W, self.b))
        z = first(x)
        z = (z + inner(z * jnp.tanh(z) ** 2)) / jnp.sqrt(2.0)
        return last(jnp.sqrt(2.0) * jnp.tanh(z))


def convolutional(key):
    one, two, three = jax.random.split(key, 3)
    return eqx.nn.Sequential(
        [
            eqx.nn.Conv2d(2, 8, 3, padding=1, key=one),
            eqx.nn.Lambda(jax.nn.relu),
            eqx.nn.AvgPool2d(2, 2),
            eqx.nn.Conv2d(8, 4, 3, key=two),
            eqx.nn.Lambda(jax.nn.relu),
            eqx.nn.Lambda(jnp.ravel),
            eqx.nn.Linear(16, 3, key=three),
        ]
    )


MODELS = {
    "plain": (lambda: Plain(KEYS[0]), (6,)),
    "library's MLP of 20 layers": (lambda: eqx.nn.MLP(4, 2, 16, 19, activation=jax.nn.silu, key=KEYS[1]), (4,)),
    "pre-norm": (lambda: PreNormStack(3, KEYS[2]), (5,)),
    "post-norm": (lambda: PostNorm(KEYS[3]), (5,)),
    "arrays by hand": (lambda: ByHand(KEYS[6]), (5,)),
    "convolutional": (lambda: convolutional(KEYS[4]), (2, 8, 8)),
}


@pytest.mark.parametrize("name", [name if name == "plain" else pytest.param(name, marks=SLOW) for name in MODELS])
def test_the_network_gives_what_the_model_gives(name):
    make, shape = MODELS[name]
    model = eqx.nn.inference_mode(make())
    found = neft.read(make(), x=np.ones(shape) if len(shape) > 1 else None)
    x = jax.random.normal(KEYS[5], (4, *shape))
    with jax.numpy_rank_promotion("allow"):
        wanted = jax.vmap(model)(x)
    np.testing.assert_allclose(found.apply(x), wanted, rtol=1e-5, atol=1e-5)
    if len(shape) == 1:
        np.testing.assert_allclose(found.network.apply(found.params, x), wanted, rtol=1e-5, atol=1e-5)


@SLOW
def test_blocks_are_those_of_the_program():
    found = neft.read(PreNormStack(2, KEYS[2]))
    one, *blocks, norm, last = found.network.blocks
    assert [type(block).__name__ for block in (one, norm, last)] == ["Dense", "RMSNorm", "Dense"]
    assert [type(part).__name__ for part in blocks[0].branch] == ["LayerNorm", "Dense", "Nonlinearity", "Dense"]
    assert blocks[0].skip == 1 and blocks[0].branch[2].activation.name == "gelu" and blocks[0].branch[1].lambda_b == 0
    assert [layer.name for layer in found.layers[:3]] == ["first", "blocks.0.norm", "blocks.0.up"]
    assert "Dropout" in found.notes[0] and any("told from fresh" in note for note in found.notes)


@SLOW
def test_numbers_that_multiply_are_in_the_weights():
    found = neft.read(ByHand(KEYS[6]))
    _, block, tanh, _ = found.network.blocks
    assert block.skip == pytest.approx(0.5**0.5) and tanh.activation.name == "tanh"
    for layer, wanted in zip([one for one in found.layers if one.C_W], (1.0, 0.5, 2.0)):
        assert abs(layer.C_W - wanted) < 4 * layer.error_W and layer.error_W < 0.2 * wanted
    assert found.layers[0].drawn == "normal, LeCun"


KINDS = {
    "uniform": lambda rng, n: rng.uniform(-1, 1, n),
    "truncated normal": lambda rng, n: (z := rng.normal(size=3 * n))[np.abs(z) < 2][:n],
    "normal": lambda rng, n: rng.normal(size=n),
}


@pytest.mark.parametrize("kind", KINDS)
def test_initializers_are_named_where_there_are_enough_weights(kind):
    rng = np.random.default_rng(0)
    kinds = {n: [measured(KINDS[kind](rng, n)).kind for _ in range(200)] for n in (20, 40, 72, 128, 640)}
    # 72 numbers of a truncated normal variable were called uniform in most cases.
    unsure = {"too few to tell"} | ({"normal, perhaps truncated"} if "normal" in kind else set())
    wrong = {n: sum(one not in {kind, *unsure} for one in names) for n, names in kinds.items()}
    assert all(count <= 3 for count in wrong.values()), wrong
    assert set(kinds[20]) == {"too few to tell"} and set(kinds[640]) == {kind}
    assert "too few to tell" in kinds[40] and kinds[128].count("too few to tell") < 40


def test_numbers_of_another_kind_are_called_so():
    rng = np.random.default_rng(0)
    assert measured(rng.laplace(size=4000)).kind == "of another kind"
    assert measured(np.sign(rng.normal(size=400))).kind == "of another kind"


@pytest.mark.parametrize(
    ("function", "name"),
    [
        (jax.nn.gelu, GELU_BY_TANH),
        pytest.param(jax.nn.relu6, "min(relu(z),6)", marks=SLOW),
        pytest.param(jax.nn.hard_swish, "z*min(relu(z+3),6)/6", marks=SLOW),
        pytest.param(jnp.cos, "cos(z)", marks=SLOW),
        pytest.param(lambda z: jax.nn.relu(z) ** 2, "relu(z)^2", marks=SLOW),
        pytest.param(lambda z: jax.lax.rsqrt(1 + z**2) - jnp.tanh(-z), "(1+z^2)^-0.5-tanh(-z)", marks=SLOW),
        pytest.param(lambda z: 3 * jnp.arctan(jnp.clip(z, -2, 1)), "arctan(min(max(z,-2),1))", marks=SLOW),
    ],
)
def test_functions_without_a_name_are_read_as_expressions(function, name):
    model = eqx.nn.MLP(6, 2, 20, 2, activation=function, key=KEYS[8])
    found = neft.read(model)
    assert found.network.activations[0].name == name and found.network.activations[0].remakable
    x = 2 * jax.random.normal(KEYS[5], (40, 6))
    with jax.numpy_rank_promotion("allow"):
        wanted = jax.vmap(model)(x)
    np.testing.assert_allclose(found.apply(x), wanted, rtol=1e-5, atol=1e-5)
    # The record is enough to make it again.
    assert neft.Network.from_dict(found.specification) == found.network
    for framework, line in (("jax", "jax.nn.gelu(z, approximate=True)"), ("torch", 'gelu(z, approximate="tanh")')):
        code = initializer_code(found.network, framework)
        assert "NotImplementedError" not in code and (line in code) == (name == GELU_BY_TANH)


@SLOW
def test_what_no_expression_can_say_stays_a_function():
    found = neft.read(eqx.nn.MLP(6, 2, 20, 2, activation=lambda z: jnp.where(z > 1, z, z**2), key=KEYS[8]))
    assert not found.network.activations[0].remakable and "function of" in found.network.activations[0].name
    assert "put your own activation here" in initializer_code(found.network, "jax")


@pytest.mark.parametrize("function", [lambda z: z * (z > 0.1).astype(z.dtype), lambda z: jnp.clip(z, 0, 32)])
def test_what_is_nearly_a_known_function_is_not_read_as_it(function):
    model = eqx.nn.Sequential([eqx.nn.Linear(6, 20, key=KEYS[8]), eqx.nn.Lambda(function)])
    found = neft.read(model)
    # Of these, some are where the two differ: between 0 and 0.1, and above 32.
    x = jnp.concatenate([scale * jax.random.normal(KEYS[5], (40, 6)) for scale in (0.1, 100)])
    wanted = jax.vmap(model)(x)
    assert float(jnp.abs(wanted - jax.nn.relu(jax.vmap(model.layers[0])(x))).max()) > 0.05
    np.testing.assert_allclose(found.apply(x), wanted, rtol=1e-5, atol=1e-5)


def test_a_factor_of_the_last_function_is_read():
    layers = [eqx.nn.Linear(6, 20, key=KEYS[8]), eqx.nn.Lambda(lambda z: 3 * jnp.tanh(z / 3))]
    x = 3 * jax.random.normal(KEYS[5], (40, 6))
    model = eqx.nn.Sequential(layers)
    np.testing.assert_allclose(neft.read(model).apply(x), jax.vmap(model)(x), rtol=1e-5, atol=1e-5)
    model = eqx.nn.MLP(6, "scalar", 8, 1, key=KEYS[8])
    assert neft.read(model).apply(x).shape == jax.vmap(model)(x).shape == (40,)


class Odd(eqx.Module):
    """A layer, and something else."""

    linear: eqx.nn.Linear
    then: object = eqx.field(static=True)

    def __call__(self, x):
        return self.then(self.linear(x), x)


def odd(then):
    return Odd(eqx.nn.Linear(4, 4, key=KEYS[7]), then)


@pytest.mark.parametrize(
    ("then", "words"),
    [
        (lambda z, x: jax.nn.softmax(z), ["softmax"]),
        (lambda z, x: z if z.sum() > 0 else -z, ["values of what it computes"]),
        (lambda z, x: jax.lax.while_loop(lambda v: v.sum() < 1, lambda v: v + 1, z), ["control flow on data"]),
        (lambda z, x: jnp.concatenate([z, x]), ["a concatenation"]),
        (lambda z, x: z * jnp.outer(z, z)[0], ["part of a vector"]),
        (lambda z, x: z @ jnp.outer(x, x), ["both come from the input", "attention"]),
        (lambda z, x: z[:2], ["part of a vector"]),
        (lambda z, x: z * x, ["as a gate is"]),
        (lambda z, x: z - z.mean(), ["a mean over entries", "without a norm"]),
        (lambda z, x: z + x, ["the skip starts at the input"]),
        (lambda z, x: (z, x), ["returns 2 arrays"]),
        (lambda z, x: jnp.ones(3), ["do not depend on its input"]),
    ],
)
def test_what_is_not_known_is_named(then, words):
    with one_sentence(*words):
        neft.read(odd(then))


class Half(eqx.Module):
    """Layers that run in half precision, as mixed precision does, and with `stored` are kept in it."""

    layers: list
    stored: bool = eqx.field(static=True)

    def __call__(self, x):
        for layer in self.layers[:-1]:
            W, b = layer.weight.astype(jnp.bfloat16), layer.bias.astype(jnp.bfloat16)
            x = jax.nn.relu(W @ x.astype(jnp.bfloat16) + b)
        return self.layers[-1](x.astype(jnp.float32))


@pytest.mark.parametrize("stored", [False, True])
def test_half_precision_is_no_function_of_an_entry(stored, tmp_path):
    layers = Plain(KEYS[0]).layers
    layers = jax.tree.map(lambda leaf: leaf.astype(jnp.bfloat16), layers) if stored else layers
    model = Half(layers, stored)
    found = neft.read(model)
    assert [layer.block for layer in found.layers] == ["Dense", "relu", "Dense", "relu", "Dense"]
    # Weights are those of the model, not what it rounds them to on the way.
    assert [leaf.dtype for leaf in found.values] == [np.float32] * 6
    np.testing.assert_array_equal(found.values[0], np.asarray(layers[0].weight, np.float32))
    x = jax.random.normal(KEYS[5], (40, 6))
    with jax.numpy_dtype_promotion("standard"):
        wanted = np.asarray(jax.vmap(model)(x), np.float32)
    # bfloat16 has 8 binary digits, and three layers round.
    np.testing.assert_allclose(found.apply(x), wanted, atol=3 * 2**-8 * np.abs(wanted).max())
    found.save(tmp_path / "model.npz")
    np.testing.assert_array_equal(neft.load(tmp_path / "model.npz").apply(x), found.apply(x))


def test_weights_that_several_layers_have_are_named():
    one, last = eqx.nn.Linear(6, 6, key=KEYS[0]), eqx.nn.Linear(6, 4, key=KEYS[1])
    back = eqx.tree_at(lambda of: of.weight, eqx.nn.Linear(4, 6, key=KEYS[2]), last.weight.T)
    plain = neft.read(eqx.nn.Sequential([one, eqx.nn.Lambda(jnp.tanh), last]))
    assert not any("same weights" in note for note in plain.notes)
    for layers, names in (((one, one, last), "(layers.0, layers.2)"), ((one, last, back), "(layers.2, layers.4)")):
        parts = [part for layer in layers for part in (layer, eqx.nn.Lambda(jnp.tanh))][:-1]
        (note,) = [note for note in neft.read(eqx.nn.Sequential(parts)).notes if "same weights" in note]
        assert names in note and "independent" in note


def test_complex_parameters_are_refused():
    with one_sentence("parameters layers.0.weight, layers.0.bias are complex", "must be real"):
        neft.read(eqx.nn.Sequential([eqx.nn.Linear(4, 4, dtype=jnp.complex64, key=KEYS[0])]))


class Refusing:
    """As a tensor of PyTorch that needs a gradient."""

    def __array__(self, *_, **__):
        raise RuntimeError("it needs a gradient")


def test_what_is_no_model_gets_a_sentence():
    for bad in (3, eqx.nn.Linear, lambda x: x, None):
        with one_sentence("model is"):
            neft.read(bad)
    with one_sentence("params are for flax.linen"):
        neft.read(Plain(KEYS[0]), {})
    with one_sentence("shape (7,)"):
        neft.read(Plain(KEYS[0]), x=np.ones(7))
    with one_sentence("x cannot be read as an array: it needs a gradient"):
        neft.read(Plain(KEYS[0])).apply(Refusing())
    with one_sentence("give x"):
        neft.read(eqx.nn.Sequential([eqx.nn.Conv2d(1, 2, 3, key=KEYS[0])]))
    with one_sentence("BatchNorm"):
        neft.read(eqx.nn.BatchNorm(3, "batch", mode="batch"))
    with one_sentence("takes state"):
        neft.read(Stateful(eqx.nn.Linear(2, 2, key=KEYS[0])))
    broken = eqx.tree_at(lambda of: of.layers[0].weight, Plain(KEYS[0]), jnp.full((40, 6), jnp.nan))
    with one_sentence("layers.0.weight", "finite"):
        neft.read(broken)
    norm = eqx.tree_at(lambda of: of.weight, eqx.nn.LayerNorm(4), jnp.full(4, jnp.nan))
    with one_sentence("layers.1.weight", "finite"):
        neft.read(eqx.nn.Sequential([eqx.nn.Linear(4, 4, key=KEYS[0]), norm]))


class Attention(eqx.Module):
    query: eqx.nn.Linear
    key: eqx.nn.Linear

    def __call__(self, x):
        return jax.nn.softmax(jax.vmap(self.query)(x) @ jax.vmap(self.key)(x).T) @ x


def test_attention_is_named_whatever_its_axes():
    with one_sentence("holds attention, a softmax over a product of two things that both come from the input"):
        neft.read(Attention(*(eqx.nn.Linear(4, 4, key=key) for key in KEYS[:2])), x=np.ones((3, 4)))


@pytest.mark.parametrize(
    ("last", "words"), [(jnp.tanh, "the activation tanh (after inner)"), (eqx.nn.LayerNorm(4), "a norm (after inner)")]
)
def test_branches_that_end_in_no_layer_are_named_as_the_model_has_them(last, words):
    class Sum(eqx.Module):
        first: eqx.nn.Linear
        inner: eqx.nn.Linear

        def __call__(self, x):
            x = self.first(x)
            return x + last(self.inner(x))

    with one_sentence("a residual sum whose branch ends in", words, "must be a linear one or a convolution"):
        neft.read(Sum(*(eqx.nn.Linear(4, 4, key=key) for key in KEYS[:2])))


class Stateful(eqx.Module):
    linear: eqx.nn.Linear

    def __call__(self, x, state):
        return self.linear(x), state


@pytest.mark.slow
def test_a_reading_is_saved_and_loaded(tmp_path):
    found = neft.read(Plain(KEYS[0]))
    found.save(tmp_path / "model.npz")
    again = neft.load(tmp_path / "model.npz")
    x = np.ones((2, 6), np.float32)
    np.testing.assert_array_equal(again.network.apply(again.params, x), found.apply(x))
    assert "uniform ±1/√fan-in" in found._repr_html_() and str(found).startswith("Reading")
