"""Every metric against both definitions of the Fisher matrix, with ln p written out here and nothing shared."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from helpers import one_sentence

from neft import fisher, load

OMEGA, IOTA, ALPHA, VARIANCE = 0.7, 0.1, 1.3, 0.6
NODES, MASSES = np.polynomial.hermite_e.hermegauss(5)
MASSES = MASSES / MASSES.sum()
D, M = 3, 4
RNG = np.random.default_rng(3)
X = RNG.normal(size=(6, D))
W = RNG.normal(size=(M, D + 1))
C = RNG.normal(size=(2, M + 1))

MEANS = {
    "tanh": jnp.tanh,
    "sigmoid": lambda t: 1 / (1 + jnp.exp(-t)),
    "relu": lambda t: OMEGA * jnp.log(jnp.exp(IOTA * t / OMEGA) + jnp.exp(t / OMEGA)),
    "elu": lambda t: jnp.where(t >= 0, t, ALPHA * (jnp.exp(jnp.minimum(t, 0)) - 1)),
    "linear": lambda t: t,
}
OPTIONS = {"omega": OMEGA, "iota": IOTA, "alpha": ALPHA, "variance": VARIANCE}
NEURONS = [(name, "gaussian") for name in MEANS] + [("tanh", "bernoulli"), ("sigmoid", "bernoulli")]


def augmented(x):
    return jnp.append(x, 1.0)


def states(name, output, mean):
    """The values that the output of one neuron takes (Gaussian ones: the nodes about the mean) and their masses."""
    if output == "gaussian":
        return [(float(mean) + np.sqrt(VARIANCE) * z, float(m)) for z, m in zip(NODES, MASSES)]
    if name == "tanh":
        return [(y, (1 + y * float(mean)) / 2) for y in (-1.0, 1.0)]
    return [(y, float(mean) if y else 1 - float(mean)) for y in (0.0, 1.0)]


def log_p(name, output, t, y):
    mean = MEANS[name](t)
    if output == "gaussian":
        return -((y - mean) ** 2) / (2 * VARIANCE)
    if name == "tanh":
        return jnp.log((1 + y * mean) / 2)
    return jnp.log(y * mean + (1 - y) * (1 - mean))


def by_definition(log_density, outcomes, parameters):
    """E[∂ln p ∂ln pᵀ] and -E[∂²ln p] at flat parameters, over a list of (outcome, probability)."""
    values, masses = zip(*outcomes)
    both = jax.jit(jax.vmap(lambda p, y: (jax.grad(log_density)(p, y), jax.hessian(log_density)(p, y)), (None, 0)))
    scores, hessians = both(parameters, jnp.array(values))
    return np.einsum("s,si,sj->ij", masses, scores, scores), -np.einsum("s,sij->ij", masses, hessians)


def product(each):
    """The outcomes of independent outputs."""
    for combination in itertools.product(*each):
        yield np.array([y for y, _ in combination]), float(np.prod([m for _, m in combination]))


def layer(name, output, weights, x):
    def log_density(flat, y):
        t = flat.reshape(weights.shape) @ augmented(x)
        return log_p(name, output, t, y).sum()

    means = MEANS[name](weights @ augmented(x))
    return by_definition(log_density, product([states(name, output, m) for m in means]), jnp.asarray(weights.ravel()))


def agree(found, exact):
    scale = np.abs(exact[0]).max()
    for definition in exact:
        np.testing.assert_allclose(found, definition, rtol=0, atol=1e-12 * max(scale, 1))


def slowly(cases, quick):
    return [case if case in quick else pytest.param(*case, marks=pytest.mark.slow) for case in cases]


TABLE = [("relu", "gaussian"), ("elu", "gaussian"), ("tanh", "bernoulli"), ("sigmoid", "bernoulli")]


@pytest.mark.parametrize(("name", "output"), slowly(NEURONS, TABLE))
def test_a_neuron_is_both_definitions(name, output):
    with jax.enable_x64(True):
        exact = layer(name, output, W[:1], X[0])
    agree(fisher.neuron(name, W[0], X[0], output=output, **OPTIONS).dense(), exact)


@pytest.mark.parametrize(("name", "output"), slowly(TABLE, TABLE[:1]))
def test_a_non_linear_layer_is_both_definitions(name, output):
    with jax.enable_x64(True):
        exact = layer(name, output, W[:2], X[0])
    agree(fisher.nonlinear_layer(name, W[:2], X[0], output=output, **OPTIONS).dense(), exact)


def test_a_linear_layer_is_both_definitions():
    with jax.enable_x64(True):
        exact = layer("linear", "gaussian", W[:2], X[0])
    agree(fisher.linear_layer(W[:2], X[0], variance=VARIANCE).dense(), exact)
    agree(fisher.linear_layer(2, X[0], variance=VARIANCE).dense(), exact)


def test_a_softmax_layer_is_both_definitions():
    def log_density(flat, y):
        logits = flat.reshape(W.shape) @ augmented(X[0])
        return logits[y] - jnp.log(jnp.exp(logits).sum())

    with jax.enable_x64(True):
        eta = np.exp(W @ augmented(X[0]))
        exact = by_definition(log_density, list(enumerate(eta / eta.sum())), jnp.asarray(W.ravel()))
    agree(fisher.softmax_layer(W, X[0]).dense(), exact)


def two_layers_exact(hidden, name, output, x):
    """For a deterministic hidden layer; the hidden slope is autodiff's."""

    def means(flat):
        h = MEANS[hidden](flat.reshape(W.shape) @ augmented(x))
        return jnp.asarray(C) @ augmented(h)

    def log_density(flat, y):
        if name == "softmax":
            logits = means(flat)
            return logits[y] - jnp.log(jnp.exp(logits).sum())
        return log_p(name, output, means(flat), y).sum()

    t = means(jnp.asarray(W.ravel()))
    if name == "softmax":
        outcomes = list(enumerate(np.exp(t) / np.exp(t).sum()))
    else:
        outcomes = list(product([states(name, output, m) for m in MEANS[name](t)]))
    return by_definition(log_density, outcomes, jnp.asarray(W.ravel()))


OUTPUTS = [
    ("sigmoid", "bernoulli"),
    ("tanh", "bernoulli"),
    ("linear", "gaussian"),
    ("relu", "gaussian"),
    ("softmax", ""),
]
TWO = [("relu", *out) for out in OUTPUTS] + [("elu", *OUTPUTS[0]), ("tanh", *OUTPUTS[0]), ("sigmoid", *OUTPUTS[4])]


@pytest.mark.parametrize(("hidden", "name", "output"), slowly(TWO, [TWO[0], TWO[4]]))
def test_two_layers_are_both_definitions(hidden, name, output):
    with jax.enable_x64(True):
        exact = two_layers_exact(hidden, name, output, X[1])
    agree(fisher.two_layers(hidden, W, name, C, X[1], **OPTIONS).dense(), exact)


@pytest.mark.slow
def test_two_layers_take_different_responses():
    with jax.enable_x64(True):
        exact = two_layers_exact("relu", "tanh", "gaussian", X[1])
    hidden = fisher.response("relu", omega=OMEGA, iota=IOTA)
    output = fisher.response("tanh", output="gaussian", variance=VARIANCE)
    agree(fisher.two_layers(hidden, W, output, C, X[1]).dense(), exact)


def test_equation_12_as_printed_is_right_for_tanh_and_wrong_for_relu():
    def printed(name, nu):
        t, x = W @ np.append(X[1], 1), np.append(X[1], 1)
        with jax.enable_x64(True):
            logits = C @ np.append(MEANS[name](t), 1)
        out = 1 / (1 + np.exp(-logits))
        coupling = np.einsum("l,li,lj,i,j->ij", out * (1 - out), C[:, :-1], C[:, :-1], nu(t), nu(t))
        return np.kron(coupling, np.outer(x, x))

    def relu(t):
        return (IOTA + (1 - IOTA) / (1 + np.exp(-(1 - IOTA) * t / OMEGA))) ** 2

    right = fisher.two_layers("tanh", W, "sigmoid", C, X[1]).dense()
    np.testing.assert_allclose(printed("tanh", lambda t: 1 / np.cosh(t) ** 2), right, atol=1e-13)
    other = fisher.two_layers("relu", W, "sigmoid", C, X[1], **OPTIONS).dense()
    assert np.abs(printed("relu", relu) - other).max() > 0.05 * np.abs(other).max()


MAKERS = {
    "neuron": lambda x, **more: fisher.neuron("tanh", W[0], x, **more),
    "linear": lambda x, **more: fisher.linear_layer(W, x, **more),
    "layer": lambda x, **more: fisher.nonlinear_layer("relu", W, x, **more),
    "softmax": lambda x, **more: fisher.softmax_layer(W, x, **more),
    "two": lambda x, **more: fisher.two_layers("elu", W, "sigmoid", C, x, **more),
}
BATCHES = {"one": X[0], "few": X[:2], "many": RNG.normal(size=(40, D))}


@pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS)
def test_a_batch_is_the_average_of_its_inputs(make):
    each = np.array([make(x).dense() for x in X])
    np.testing.assert_allclose(make(X).dense(), each.mean(0), atol=1e-14)
    share = np.arange(1.0, len(X) + 1)
    np.testing.assert_allclose(make(X, weights=share).dense(), np.average(each, axis=0, weights=share), atol=1e-14)


@pytest.mark.parametrize("x", BATCHES.values(), ids=BATCHES)
@pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS)
def test_operators_agree_with_the_dense_matrix(make, x):
    metric = make(x)
    G = metric.dense()
    v = np.random.default_rng(0).normal(size=metric.size)
    damped = G + 0.03 * np.eye(metric.size)
    np.testing.assert_allclose(metric.matvec(v), G @ v, rtol=1e-12, atol=1e-13)
    np.testing.assert_allclose(metric.solve(v, damping=0.03), np.linalg.solve(damped, v), rtol=1e-11, atol=1e-11)
    np.testing.assert_allclose(metric.logdet(damping=0.03), np.linalg.slogdet(damped)[1], rtol=1e-12)
    np.testing.assert_allclose(metric.spectrum(), np.linalg.eigvalsh(G)[::-1], atol=1e-12)
    assert metric.rank() == np.linalg.matrix_rank(G)
    assert metric.trace() == pytest.approx(np.trace(G), rel=1e-13)


@pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS)
def test_only_dense_builds_the_matrix(make, monkeypatch):
    metric = make(X[:2])  # two inputs: fewer rows than parameters
    monkeypatch.setattr(fisher._factor.Factor, "gram", lambda self: pytest.fail("the matrix was built"))
    shape = (metric.neurons, D + 1)
    v = np.ones(shape)
    assert metric.matvec(v).shape == metric.solve(v, damping=0.1).shape == shape
    assert np.isfinite(metric.logdet(damping=0.1)) and metric.rank() <= 2 * M


def test_large_systems_are_solved_without_a_factorization(monkeypatch):
    metric = fisher.softmax_layer(W, BATCHES["many"])
    v = np.random.default_rng(1).normal(size=metric.size)
    exact = metric.solve(v, damping=0.01)
    monkeypatch.setattr(fisher._factor, "LIMIT", 8)
    again = fisher.softmax_layer(W, BATCHES["many"])
    np.testing.assert_allclose(again.solve(v, damping=0.01), exact, rtol=1e-9)
    with one_sentence("16 parameters", "160 rows"):
        again.logdet(damping=0.01)


def test_full_rank_needs_as_many_samples_as_weights():
    for count in range(1, 7):
        assert fisher.neuron("tanh", W[0], X[:count]).rank() == min(count, D + 1)
    v = np.ones(D + 1)
    metric = fisher.neuron("tanh", W[0], X[: D + 1])
    np.testing.assert_allclose(metric.matvec(metric.solve(v)), v, rtol=1e-8)
    with one_sentence("damping is 0", "rank 3 of 4"):
        fisher.neuron("tanh", W[0], X[:D]).solve(v)
    assert fisher.neuron("tanh", W[0], X[:D]).logdet() == -np.inf


def test_the_softmax_metric_is_singular_along_common_shifts():
    metric = fisher.softmax_layer(W, BATCHES["many"])
    shift = np.tile(RNG.normal(size=D + 1), (M, 1))
    np.testing.assert_allclose(metric.matvec(shift), 0, atol=1e-14)
    assert metric.rank() == (M - 1) * (D + 1)


def test_a_metric_survives_a_file(tmp_path):
    for make in MAKERS.values():
        make(X).save(tmp_path / "metric.npz")
        assert load(tmp_path / "metric.npz") == make(X)


def test_saturated_neurons_give_finite_metrics():
    metric = fisher.neuron("tanh", [1e3, 0, 0, 0], X)
    assert np.isfinite(metric.dense()).all() and np.isfinite(metric.solve(np.ones(4), damping=1e-8)).all()


@pytest.mark.parametrize(
    ("words", "call"),
    [
        (("damping", "-1"), lambda: fisher.softmax_layer(W, X).solve(np.ones(16), damping=-1.0)),
        (("damping", "-0.5"), lambda: fisher.softmax_layer(W, X).logdet(damping=-0.5)),
        (("v has shape (3,)", "(16,)"), lambda: fisher.softmax_layer(W, X).matvec(np.ones(3))),
        (("w has 4 weights", "2 features"), lambda: fisher.neuron("tanh", W[0], np.ones(2))),
        (("W", "bias last"), lambda: fisher.softmax_layer(W, np.ones(4))),
        (("C has shape", "(any, 5)"), lambda: fisher.two_layers("relu", W, "sigmoid", np.ones((2, 4)), X)),
        (("x holds nan",), lambda: fisher.neuron("tanh", W[0], [np.nan, 0, 0])),
        (("weights", "-1"), lambda: fisher.linear_layer(2, X, weights=[-1, 1, 1, 1, 1, 1])),
        (("at least one input",), lambda: fisher.neuron("tanh", W[0], np.ones((0, 3)))),
    ],
)
def test_bad_input_is_told_in_one_sentence(words, call):
    with one_sentence(*words):
        call()
