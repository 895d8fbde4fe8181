"""Networks made of blocks: functions, kernels by every engine, what they refuse, and blocks of one's own."""

import equinox as eqx
import jax
import jax.numpy as jnp
import mpmath
import numpy as np
import pytest
from helpers import one_of_each, one_sentence

import neft
from neft import MLP, Dense, LayerNorm, Network, Residual, RMSNorm, activation
from neft.network import Block, Nonlinearity, Stage
from neft.network.engine import plain
from neft.width import AbsentTensor, kernel, pair_kernel, statistics

X = np.array([[0.9, -0.4, 1.2], [0.3, 1.1, -0.8], [-0.5, 0.3, 0.8]])
PRE = Residual(RMSNorm(lambda_gain=0.5), Dense(6, C_b=0.3), "relu", Dense(4, C_W=0.8, lambda_b=0.4), skip=0.9)
NETWORKS = {
    "residual": Network(3, [Dense(4, C_b=0.1), Residual("relu", Dense(4, C_W=0.8), skip=0.7), "relu", Dense(2)]),
    "norm before": Network(3, [Dense(4), PRE, RMSNorm(), Dense(2)]),
    "norms after": Network(3, [LayerNorm(), Dense(4), "gelu", LayerNorm(lambda_gain=0.5, lambda_bias=0.3), Dense(2)]),
    "smooth": Network(3, [Dense(4, C_W=1.3), LayerNorm(lambda_gain=0.7), "tanh", Dense(4), "silu", Dense(2)]),
}


def test_a_network_of_dense_blocks_is_the_multilayer_perceptron():
    hyper = {"C_b": 0.2, "C_W": 1.3, "lambda_b": 0.3, "lambda_W": 0.7}
    net = Network(3, [Dense(5, **hyper), "tanh", Dense(2, **hyper)])
    mlp = MLP((3, 5, 2), "tanh", **hyper)
    key = jax.random.key(3)
    assert jax.tree.structure(net.init(key)) == jax.tree.structure(mlp.init(key))
    for one, two in zip(jax.tree.leaves(net.init(key)), jax.tree.leaves(mlp.init(key))):
        np.testing.assert_array_equal(one, two)
    assert isinstance(mlp, Network) and plain(net) == mlp and net.rates() == mlp.rates()
    assert (net.widths, net.depth, net.parameter_count()) == (mlp.widths, 2, mlp.parameter_count())
    np.testing.assert_array_equal(statistics(net, X[0]).V, statistics(mlp, X[0]).V)


def test_outputs_are_those_of_the_equations():
    net = Network(3, [Dense(4, C_b=0.1), PRE, LayerNorm(lambda_gain=1.0, lambda_bias=1.0), Dense(2)])
    params = jax.tree.map(lambda leaf: leaf + 0.1, net.init(jax.random.key(0)))
    (W1, b1), ((gain, (W2, b2), (W3, b3)), skip), (g, b), (W4, b4) = jax.tree.map(np.asarray, params)
    assert skip is None and gain.bias is None
    z = X @ W1.T + b1
    normed = z / np.sqrt((z**2).mean(1, keepdims=True) + 1e-6) * gain.gain
    z = 0.9 * z + np.maximum(normed @ W2.T + b2, 0) @ W3.T + b3
    z = (z - z.mean(1, keepdims=True)) / np.sqrt(z.var(1, keepdims=True) + 1e-6) * g + b
    np.testing.assert_allclose(net.apply(params, X.astype(np.float32)), z @ W4.T + b4, rtol=2e-5)
    rates = net.rates()
    assert jax.tree.structure(rates) == jax.tree.structure(params)
    assert (
        rates[1].branch[0].gain == 0.5 and rates[1].branch[2].b == 0.4 and pytest.approx(1 / 6) == rates[1].branch[2].W
    )


@pytest.mark.slow
@pytest.mark.parametrize("name", one_of_each(list(NETWORKS), quick=list(NETWORKS)[:1]))
def test_all_engines_agree(name):
    # Tiles, quadrature with moments of gaussian, and single pairs share no average but that of closed forms.
    net = NETWORKS[name]
    only = ("K", "Theta")
    found, several, single = kernel(net, X), statistics(net, X, only=only), statistics(net, X[1], only=only)
    with jax.enable_x64(True):
        pairs = [
            np.asarray(value) for value in pair_kernel(net, jnp.asarray(X)[:, None], jnp.asarray(X)[None], terms=400)
        ]
    for value, other, pair in zip(found, (several.K, several.Theta), pairs):
        np.testing.assert_allclose(value, other[-1], rtol=1e-11)
        np.testing.assert_allclose(value, pair, rtol=1e-9)
    np.testing.assert_allclose(single.Theta, several.Theta[:, 1, 1], rtol=1e-12)
    assert single.K.shape == (net.depth,)
    with pytest.raises(AbsentTensor, match="V was not computed"):
        _ = several.V


def averaged(f, K1, K2, c):
    """⟨f(z₁, z₂)⟩ by a product of Gauss-Hermite rules, which is exact to 1e-12 for what is asked here."""
    x, w = np.polynomial.hermite_e.hermegauss(120)
    w = w / w.sum()
    z1 = np.sqrt(K1) * x[:, None]
    z2 = c / np.sqrt(K1) * x[:, None] + np.sqrt(K2 - c * c / K1) * x[None, :]
    return float((w[:, None] * w[None, :] * f(z1, z2)).sum())


@pytest.mark.slow
def test_a_trained_gain_before_an_activation_and_before_weights():
    # By hand: Dense, RMSNorm with a gain, tanh, LayerNorm with gain and bias, Dense.
    C, gain, second, bias, epsilon = 1.3, 0.7, 0.4, 0.3, 0.05
    norm = LayerNorm(lambda_gain=second, lambda_bias=bias, epsilon=epsilon)
    blocks = [
        Dense(4, C_W=C),
        RMSNorm(lambda_gain=gain, epsilon=epsilon),
        "tanh",
        norm,
        Dense(1, C_W=0.9, lambda_W=0.6),
    ]
    (K1, c), (_, K2) = C * X[:2] @ X[:2].T / 3
    sizes = np.sqrt((K1 + epsilon) * (K2 + epsilon))
    first = (1 + c / C) / sizes
    K1, K2, c = K1 / (K1 + epsilon), K2 / (K2 + epsilon), c / sizes
    slope = lambda z: 1 / np.cosh(z) ** 2  # noqa: E731
    Theta = first * averaged(lambda a, b: slope(a) * slope(b), K1, K2, c)
    Theta += gain * averaged(lambda a, b: a * slope(a) * b * slope(b), K1, K2, c)
    # tanh has no mean, so LayerNorm divides only.
    square = averaged(lambda a, b: np.tanh(a) * np.tanh(b), K1, K2, c)
    own = [averaged(lambda a, _: np.tanh(a) ** 2, K, K, 0.0) for K in (K1, K2)]
    sizes = np.sqrt((own[0] + epsilon) * (own[1] + epsilon))
    square, Theta = square / sizes, Theta / sizes + bias + second * square / sizes
    wanted = 1 + 0.6 * square + 0.9 * Theta
    assert kernel(Network(3, blocks), X[:2]).Theta[0, 1] == pytest.approx(wanted, rel=1e-9)


def test_a_product_of_stages_keeps_its_digits():
    one, two = Stage.of_inputs(X[0], X[0] + 1e-7 * X[1]), Stage.of_inputs(X[1], X[1] + 1e-7 * X[2])
    one, two = one.replace(Theta=np.float64(2.0)), two.replace(Theta=np.float64(5.0))
    found = one.times(two)
    assert found.Theta == pytest.approx(2 * two.c + 5 * one.c, rel=1e-14)
    with mpmath.workdps(50):
        both = []
        for a, b in ((X[0], X[0] + 1e-7 * X[1]), (X[1], X[1] + 1e-7 * X[2])):
            a, b = mpmath.matrix(a), mpmath.matrix(b)
            both.append(tuple((u.T * v)[0] / 3 for u, v in ((a, a), (b, b), (a, b))))
        (K1, K2, c), (L1, L2, d) = both
        wanted = mpmath.sqrt(K1 * L1 * K2 * L2) - c * d
        assert found.gap == pytest.approx(float(wanted), rel=1e-7, abs=0) and 0 < float(wanted) < 1e-12


@pytest.mark.slow
@pytest.mark.parametrize("angle", [1e-3, 1e-5, 1e-8])
def test_small_angles_lose_no_digit(angle):
    # z' = γz + Wσ(z/√K) of relu, in 40 digits.
    net = Network(2, [Dense(4, C_W=2.0), Residual(RMSNorm(epsilon=0.0), "relu", Dense(4), skip=0.8), "relu", Dense(1)])
    x = np.array([[1.0, 0.0], [np.cos(angle), np.sin(angle)]])
    with mpmath.workdps(40):
        rho = 1 - 2 * mpmath.sin(mpmath.mpf(angle) / 2) ** 2
        K, c, Theta = mpmath.mpf(1), rho, 1 + rho / 2

        def averages(rho):
            theta = mpmath.acos(rho)
            half = 1 / mpmath.mpf(2) - theta / (2 * mpmath.pi)
            return mpmath.sin(theta) / (2 * mpmath.pi) + half * rho, half

        square, slope = averages(c / K)
        gamma = mpmath.mpf(0.8) ** 2
        new, c = gamma * K + mpmath.mpf(1) / 2, gamma * c + square
        Theta = gamma * Theta + 1 + square + Theta * slope / K
        square, slope = averages(c / new)
        wanted = 1 + new * square + Theta * slope
    found = kernel(net, x).Theta[0, 1]
    assert found == pytest.approx(float(wanted), rel=4e-15)
    # The angle itself is seen: a correlation of doubles would miss it.
    assert abs(float(wanted) - kernel(net, x).Theta[0, 0]) > 0.05 * angle


@pytest.mark.parametrize("name", ["relu", pytest.param("tanh", marks=pytest.mark.slow)])
@pytest.mark.parametrize("other", [0, pytest.param(1, marks=pytest.mark.slow)])
def test_derivatives_by_every_hyperparameter(name, other):
    net = Network(
        3,
        [
            Dense(4, C_b=0.1, C_W=1.2),
            Residual(RMSNorm(lambda_gain=0.5, epsilon=0.1), Dense(4, C_b=0.2), name, Dense(4, C_W=0.7), skip=0.8),
            LayerNorm(lambda_bias=0.3, epsilon=0.2),
            Dense(2, lambda_W=0.5),
        ],
    )
    with jax.enable_x64(True):
        leaves, structure = jax.tree.flatten(net)
        theta = jnp.asarray(leaves)
        x1, x2 = jnp.asarray(X[0]), jnp.asarray(X[other])

        @jax.jit
        def Theta(values):
            return pair_kernel(jax.tree.unflatten(structure, list(values)), x1, x2).Theta

        gradient = np.asarray(jax.jit(jax.grad(Theta))(theta))
        steps = 1e-5 * np.eye(len(leaves))
        numeric = [float(Theta(theta + step) - Theta(theta - step)) / 2e-5 for step in jnp.asarray(steps)]
    np.testing.assert_allclose(gradient, numeric, rtol=1e-7, atol=1e-8)
    assert np.count_nonzero(np.abs(gradient) > 1e-3) >= len(leaves) - 2


def test_a_hundred_values_are_one_compilation():
    traces, (one, two, _) = [], jnp.asarray(X, jnp.float32)

    @jax.jit
    def Theta(C_W):
        traces.append(1)
        return jax.vmap(lambda c: pair_kernel(MLP((3, 8, 2), "relu", C_W=c), one, two).Theta)(C_W)

    values = np.linspace(0.5, 2.5, 100)
    found = Theta(jnp.asarray(values, jnp.float32))
    assert len(traces) == 1
    assert float(found[37]) == pytest.approx(
        kernel(MLP((3, 8, 2), "relu", C_W=values[37]), X[:2]).Theta[0, 1], rel=1e-5
    )


def test_twenty_simulations_are_one_compilation():
    from neft.ensemble import _estimate

    before = _estimate._chunk._cache_size()
    for C_W in np.linspace(0.5, 2.0, 20):
        neft.ensemble.estimate(MLP((2, 3, 1), C_W=C_W), X[0, :2], draws=4, key=jax.random.key(0), only=("K",))
    assert _estimate._chunk._cache_size() == before + 1


REFUSED = [
    (["relu", Dense(2)], "relu follows the input"),
    ([Residual("relu", Dense(3)), Dense(2)], "the skip starts at the input"),
    ([Dense(3), Residual("relu"), Dense(2)], "must end in a dense block"),
    ([Dense(3), Residual(RMSNorm()), Dense(2)], "must end in a dense block"),
    ([Dense(3), Residual(Residual("relu", Dense(3))), Dense(2)], "must end in a dense block"),
    ([Dense(3), "relu", Residual(Dense(3)), Dense(2)], "the skip starts at activations"),
    (
        [Dense(3), Residual("relu", Dense(4)), Dense(2)],
        "Dense(4, C_b=0, C_W=1, lambda_b=1, lambda_W=1), skip=1): the branch has width 4 and the skip 3",
    ),
    ([Dense(3), "relu", RMSNorm(), "tanh", Dense(2)], "tanh follows a norm of activations"),
    ([Dense(3), RMSNorm(lambda_gain=1.0), Residual("relu", Dense(3)), "tanh", Dense(2)], "a skip over a trained gain"),
    ([RMSNorm()], "no weights"),
    ([], "no blocks"),
    ([Dense], "the class Dense"),
    ([Dense(3), 7], "a block is 7"),
]


@pytest.mark.parametrize(("blocks", "words"), REFUSED)
def test_what_is_not_gaussian_is_refused_by_name(blocks, words):
    with one_sentence(words):
        Network(3, blocks)


@pytest.mark.parametrize("arguments", [{"C_W": -1.0}, {"C_b": np.nan}, {"lambda_W": "fast"}, {"lambda_b": None}])
def test_hyperparameters_are_checked_where_they_are_numbers(arguments):
    with one_sentence(next(iter(arguments))):
        Dense(3, **arguments)


def test_a_network_goes_to_a_record_and_back():
    net = Network(
        3, [LayerNorm(), Dense(4), "tanh", "relu", Dense(4), PRE, Residual("elu", Dense(2), skip=Dense(2)), Dense(1)]
    )
    assert Network.from_dict(net.to_dict()) == net
    for record, words in (({}, "lacks inputs, blocks"), ({"inputs": 2, "blocks": [{"type": "Conv"}]}, "Conv")):
        with one_sentence(words):
            Network.from_dict(record)
    with one_sentence("a user's own"):
        Network.from_dict(Network(2, [Dense(2), jnp.tanh, Dense(1)]).to_dict())


def test_activations_in_a_row_are_one():
    net = Network(3, [Dense(4), "tanh", "relu", Dense(1)])
    assert [type(block) for block in net.blocks] == [Dense, Nonlinearity, Dense]
    composed = MLP((3, 4, 1), activation(lambda z: jnp.maximum(jnp.tanh(z), 0), kinks=[0.0]))
    np.testing.assert_allclose(statistics(net, X[0]).Theta, statistics(composed, X[0]).Theta, rtol=1e-10)


class Gated(Block):
    """W₂(σ(W₁z) ⊙ W₃z): a block that is no composition of ours."""

    gate: Dense
    value: Dense
    last: Dense
    sigma: Nonlinearity

    def __init__(self, inner, width, name):
        self.gate, self.value, self.last = Dense(inner, C_b=0.3), Dense(inner, C_W=1.5), Dense(width, C_W=0.8)
        self.sigma = Nonlinearity(name)

    def init(self, key, fan_in, *, dtype):
        keys = jax.random.split(key, 3)
        return tuple(
            block.init(one, n, dtype=dtype)
            for block, one, n in zip(self._parts, keys, (fan_in, fan_in, self.gate.width))
        )

    def apply(self, params, x):
        gate, value, last = params
        inner = self.sigma.apply((), self.gate.apply(gate, x)) * self.value.apply(value, x)
        return self.last.apply(last, inner)

    def rates(self, fan_in):
        return tuple(block.rates(n) for block, n in zip(self._parts, (fan_in, fan_in, self.gate.width)))

    def kernel(self, stage, average):
        gate = self.sigma.kernel(self.gate.kernel(stage, average), average)
        return self.last.kernel(gate.times(self.value.kernel(stage, average)), average)

    @property
    def _parts(self):
        return self.gate, self.value, self.last


@pytest.mark.slow
def test_a_block_of_ones_own_has_kernels_statistics_and_predictions():
    net = Network(3, [Dense(4, C_W=1.2), Residual(RMSNorm(), Gated(6, 4, "sigmoid"), skip=0.8), Dense(1)])
    found, stats = kernel(net, X), statistics(net, X)
    np.testing.assert_allclose(found.Theta, stats.Theta[-1], rtol=1e-11)
    wide = Network(3, [Dense(256, C_W=1.2), Residual(RMSNorm(), Gated(256, 256, "sigmoid"), skip=0.8), Dense(1)])
    keys = jax.random.split(jax.random.key(0), 256)

    @jax.jit
    def one(key):
        params = wide.init(key)
        return neft.tangent.mlp_ntk(wide, params, jnp.asarray(X, jnp.float32), trace=True)

    drawn = np.asarray(jax.lax.map(one, keys), float)
    error = drawn.std(0) / 16
    # The next order is a part of 1/256.
    assert (np.abs(drawn.mean(0) - found.Theta) < 5 * error + 0.02 * np.abs(found.Theta)).all()
    assert (error < 0.02 * np.abs(found.Theta)).all()
    predicted = neft.training.predict(net, X[:2], [[1.0], [-1.0]], X[2:])
    wanted = found.Theta[2:, :2] @ np.linalg.solve(found.Theta[:2, :2], [[1.0], [-1.0]])
    np.testing.assert_allclose(predicted.mean, wanted, rtol=1e-8)
    assert eqx.tree_equal(jax.tree.unflatten(jax.tree.structure(net), jax.tree.leaves(net)), net)
    with one_sentence("Gated"):
        Network.from_dict(net.to_dict())


@pytest.mark.slow
def test_what_takes_a_multilayer_perceptron_takes_any_network():
    net = NETWORKS["norm before"]
    params = net.init(jax.random.key(0))
    x, y = X.astype(np.float32), np.array([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]])
    np.testing.assert_allclose(
        neft.tangent.ntk(net, params, x, rates=net.rates()),
        neft.tangent.mlp_ntk(net, params, jnp.asarray(x)),
        rtol=1e-4,
        atol=1e-6,
    )
    draws = {"draws": 4, "key": jax.random.key(1)}
    assert neft.training.nngp(net, X[:2], y[:2], X[2:], noise=0.1).mean.shape == (1, 2)
    assert neft.training.sample(net, X[:2], y[:2], X[2:], time=1.0, loss="square", **draws).outputs.shape[-2:] == (1, 2)
    trained = neft.training.ensemble(net, X[:2], y[:2], X[2:], steps=30, learning_rate=0.05, **draws)
    assert trained.test.shape == (4, 1, 2) and np.isfinite(trained.test).all()
    evolved = neft.training.evolve(net, params, X[:2], y[:2], truncation=1, time=0.5)
    assert np.isfinite(np.asarray(evolved.train)).all()
