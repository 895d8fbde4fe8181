"""Tensors at order 1/width of residual streams of one matrix, and of one and two."""

import json
import math
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import integrate, special

from neft import MLP, Dense, LayerNorm, Network, Residual, RMSNorm
from neft.gaussian import AccuracyWarning
from neft.width import AbsentTensor, _functionals, _through_blocks, statistics
from neft.width._functionals import squares

X = np.array([1.0, -0.5, 0.8])
HERE = Path(__file__).parent
DRAWN = {k: v for k, v in json.loads((HERE / "drawn.json").read_text()).items() if "matri" in k}
KEPT = json.loads((HERE / "kept.json").read_text())
DIFFERENTIALS = json.loads((HERE / "drawn_differentials.json").read_text())
HYPER = [
    dict(zip(("C_b", "C_W", "lambda_b", "lambda_W"), values))
    for values in ((0.1, 1.2, 0.4, 0.8), (0.2, 1.3, 0.3, 0.7), (0.1, 0.9, 0.5, 0.6), (0.1, 1.1, 0.2, 0.9))
]


def one(act, n=8, skip=0.8, hyper=HYPER[2]):
    return Residual(act, Dense(n, **hyper), skip=skip)


def of(entry):
    return statistics(Network.from_dict(entry["network"]), np.array(entry["x"]))


def distances(name):
    """By tensor, how far theory is from a drawn network at every stage, and how large it is, in standard errors."""
    theory, found = of(DRAWN[name]), {}
    for tensor, rows in DRAWN[name]["tensors"].items():
        value, error = np.array(rows).T
        wanted = getattr(theory, tensor)[1:]
        found[tensor] = np.abs(value - wanted) / error, np.abs(wanted) / error
    return found


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", [name if "one and two" in name else pytest.param(name, marks=pytest.mark.slow) for name in DRAWN]
)
def test_every_tensor_is_that_of_drawn_networks(name):
    for tensor, (z, _) in distances(name).items():
        assert (z < 5).all(), (tensor, z)


@pytest.mark.slow
def test_every_tensor_is_seen_in_drawn_networks():
    sizes = {}
    for name in DRAWN:
        for tensor, (_, size) in distances(name).items():
            sizes[tensor] = max(sizes.get(tensor, 0.0), size.max())
    for name in DIFFERENTIALS:
        theory = of(DIFFERENTIALS[name])
        for tensor, (_, error) in DIFFERENTIALS[name]["tensors"].items():
            sizes[tensor] = max(sizes.get(tensor, 0.0), abs(getattr(theory, tensor)[-1]) / error)
    # P and K1 are small in these networks, and seen at 4 and 7 standard errors.
    assert min(size for name, size in sizes.items() if name not in ("P", "K1")) > 10, sizes


@pytest.mark.parametrize("name", [pytest.param(name, marks=pytest.mark.slow) for name in DIFFERENTIALS])
def test_differentials_are_those_of_drawn_networks(name):
    theory = of(DIFFERENTIALS[name])
    for tensor, (value, error) in DIFFERENTIALS[name]["tensors"].items():
        wanted = getattr(theory, tensor)[-1]
        assert abs(value - wanted) < 5 * error, (tensor, value, wanted, error)


@pytest.mark.parametrize(
    "name", [name if name == "one and two" else pytest.param(name, marks=pytest.mark.slow) for name in KEPT]
)
def test_tensors_stay_what_they_were(name):
    # tools/mutate_blocks.py: every term of the recursions times 1.1 changes one of these.
    found = of(KEPT[name])
    for tensor, wanted in KEPT[name]["tensors"].items():
        np.testing.assert_allclose(getattr(found, tensor), wanted, rtol=1e-8, atol=1e-11, err_msg=tensor)


@pytest.mark.slow
def test_without_a_skip_a_block_is_a_plain_layer():
    single = one("gelu", skip=0.0)
    blocks = [single, "gelu", Dense(8, **HYPER[1]), single, "gelu", Dense(2, **HYPER[3])]
    net = Network(3, [Dense(8, **HYPER[0]), *blocks])
    hyper = {name: [HYPER[i][name] for i in (0, 2, 1, 2, 3)] for name in HYPER[0]}
    plain = statistics(MLP((3, 8, 8, 8, 8, 2), "gelu", **hyper), X)
    found = statistics(net, X)
    for name, value in plain.tensors.items():
        np.testing.assert_allclose(found.tensors[name], value, rtol=1e-12, atol=1e-13, err_msg=name)


@pytest.mark.slow
def test_the_second_layer_has_the_fluctuations_of_what_made_it():
    # n cov(z'_1², z'_2²) with z' = γz + ξ, where the variance of ξ is C mean(σ²): by quadrature.
    K, skip, C = HYPER[0]["C_b"] + HYPER[0]["C_W"] * float(X @ X) / 3, 0.8, HYPER[2]["C_W"]

    def mean(f):
        return integrate.quad(
            lambda x: f(math.sqrt(K) * x) * math.exp(-x * x / 2) / math.sqrt(2 * math.pi), -12, 12, epsabs=1e-13
        )[0]

    def s(z):
        return z * special.ndtr(z)

    square = mean(lambda z: s(z) ** 2)
    source = mean(lambda z: s(z) ** 4) - square**2
    shared = mean(lambda z: z**2 * s(z) ** 2) - K * square
    found = statistics(Network(3, [Dense(8, **HYPER[0]), one("gelu"), Dense(2)]), X)
    assert found.V[1] == pytest.approx(C**2 * source + 2 * skip**2 * C * shared, rel=1e-10)


@pytest.mark.slow
def test_a_linear_branch_of_one_matrix_is_one_of_two_without_fluctuations_inside():
    # σ = z: z' = (γ + W)z, the two-matrix block with C₁ = 1 and infinitely many neurons inside, whose first matrix
    # is not trained.
    wide = Dense(8_000_000_000, C_W=1.0, lambda_b=0.0, lambda_W=0.0)
    single = statistics(Network(3, [Dense(8, **HYPER[0]), *[one("linear")] * 3, Dense(2, **HYPER[3])]), X)
    two = [Residual(wide, "linear", Dense(8, **HYPER[2]), skip=0.8)] * 3
    double = statistics(Network(3, [Dense(8, **HYPER[0]), *two, Dense(2, **HYPER[3])]), X)
    for name in ("V", "A", "B", "D", "F", "P", "Q", "R", "S", "T", "U", "K1", "Theta1"):
        np.testing.assert_allclose(getattr(single, name), getattr(double, name), rtol=1e-8, atol=1e-8, err_msg=name)


@pytest.mark.slow
@pytest.mark.parametrize("act", ["relu", "tanh", "elu"])
def test_hermite_coefficients_are_their_integrals(act):
    import neft

    K, sigma = 1.7, neft.activation(act)
    with jax.enable_x64(True):
        found = squares(sigma, jnp.asarray(K), 224)
        values = [[float(v) for v in row[:12]] for row in (found.s, found.d)]

        def term(n, k):
            def f(x):
                u = float(sigma.derivative(n)(math.sqrt(K) * x)) ** 2
                return u * special.eval_hermitenorm(k, x) * math.exp(-x * x / 2)

            return integrate.quad(f, -12, 12, points=[0], limit=200)[0] / math.sqrt(2 * math.pi * math.factorial(k))

        for n in (0, 1):
            for k in (0, 1, 5, 11):
                assert values[n][k] == pytest.approx(term(n, k), abs=1e-9)


@pytest.mark.slow
def test_a_hundred_blocks_with_other_numbers_take_no_compiler():
    def net(skip, C_W, act):
        block = Residual(act, Dense(64, C_W=C_W, lambda_W=C_W), skip=skip)
        return Network(3, [Dense(64), *[block] * 100, act, Dense(1)])

    for act in ("tanh", "gelu", "relu"):
        statistics(net(1.0, 0.02, act), X)
        compiled = []
        jax.monitoring.register_event_duration_secs_listener(
            lambda event, seconds, compiled=compiled, **_: (
                compiled.append(event) if "backend_compile" in event else None
            )
        )
        found = statistics(net(0.99, 0.021, act), X)
        assert not compiled and found.V[-1] > 0


@pytest.mark.slow
@pytest.mark.parametrize(
    ("act", "wanted"), [("relu", (6.29, 3.51, 1.38)), ("tanh", (0.739, 0.079, 1.26)), ("gelu", (6.68, 4.15, 1.44))]
)
def test_small_branches_have_the_ratios_that_another_program_found(act, wanted):
    # V/K², A/Θ² and B/Θ² after 64 blocks with C_W = λ_W = 2/64, to the digits that are known of them.
    block = Residual(act, Dense(8, C_W=2 / 64, lambda_W=2 / 64, lambda_b=0.0))
    found = statistics(Network(3, [Dense(8, lambda_b=0.0), *[block] * 64]), np.ones(3))
    K, Theta = found.K[-1] ** 2, found.Theta[-1] ** 2
    ratios = (found.V[-1] / K, found.A[-1] / Theta, found.B[-1] / Theta)
    assert ratios == pytest.approx(wanted, rel=1e-2)


@pytest.mark.slow
def test_what_streams_do_not_know_is_named():
    def named(words, *blocks):
        with pytest.raises(AbsentTensor, match=words):
            _ = statistics(Network(3, [Dense(8), *blocks, Dense(2)]), X).V

    two = Residual(RMSNorm(), Dense(8), "tanh", Dense(8))
    named(
        r"^V is not known for tanh: RMSNorm\(.*\) in a stream .* because Residual.* follows it",
        one("tanh"),
        RMSNorm(),
        one("tanh"),
    )
    named("the norm of Residual.* in a stream of one-matrix branches", one("tanh"), two)
    named("the norm of its one matrix is trained", Residual(RMSNorm(lambda_gain=1.0), "tanh", Dense(8)))
    named("it is trained and an activation follows", one("tanh"), LayerNorm(lambda_bias=1.0), "tanh")
    relu = statistics(Network(3, [Dense(8), one("relu"), Dense(2)]), X)
    with pytest.raises(AbsentTensor, match=r"^R does not exist for relu: derivative 1 of the activation jumps at 0"):
        _ = relu.R


def behind(norm, act, skip=0.8, hyper=HYPER[2]):
    return Residual(norm, act, Dense(8, **hyper), skip=skip)


def same(found, wanted, rtol=1e-12):
    for name in ("K", "Theta", "V", "A", "B", "D", "F", "K1", "Theta1"):
        np.testing.assert_allclose(getattr(found, name)[-1], getattr(wanted, name)[-1], rtol=rtol, err_msg=name)


@pytest.mark.slow
@pytest.mark.parametrize("norm", [RMSNorm(epsilon=0.3), LayerNorm(epsilon=0.3)])
def test_a_norm_before_one_matrix_is_that_of_plain_layers_and_of_two_linear_matrices(norm):
    first, second, last = (Dense(n, **hyper) for n, hyper in zip((8, 8, 2), HYPER[1:]))
    plain = statistics(Network(3, [first, "gelu", second, norm, "gelu", last]), X)
    # Two programs: without a stream norms have recursions of their own.
    same(statistics(Network(3, [first, Residual("gelu", second, skip=0.0), norm, "gelu", last]), X), plain)
    same(
        statistics(Network(3, [first, one("gelu", skip=0.0, hyper=HYPER[2]), behind(norm, "gelu", 0.0, HYPER[3])]), X),
        plain,
    )
    wide = Dense(10**9, C_b=0.0, C_W=1.0, lambda_b=0.0, lambda_W=0.0)
    double = Residual(norm, wide, "linear", Dense(8, **HYPER[2]), skip=0.8)
    single = statistics(Network(3, [first, *[behind(norm, "linear")] * 3, norm, last]), X)
    same(single, statistics(Network(3, [first, *[double] * 3, norm, last]), X), rtol=1e-7)


@pytest.mark.slow
def test_one_matrix_behind_a_vector_of_fixed_length_has_the_moments_of_a_sphere():
    # After a first layer ẑ is uniform on a sphere, where moments are rational: of σ = z², E ẑ⁴ = 3n/(n + 2),
    # E ẑ⁸ = 105n³/(n+2)(n+4)(n+6) and E ẑ₁⁴ẑ₂⁴ = 9n³/(n+2)(n+4)(n+6).
    C = 0.7
    net = Network(3, [Dense(8), Residual(RMSNorm(epsilon=0.0), "quadratic", Dense(8, C_W=C), skip=1.0)])
    found = statistics(net, X)
    n = 1e6
    cube = n**3 / ((n + 2) * (n + 4) * (n + 6))
    kappa = n * C**2 * ((105 + 9 * (n - 1)) * cube / n - (3 * n / (n + 2)) ** 2)  # n times the variance of K'
    # With a skip V has n times twice the covariance of z² and κ besides, which is 0: |z|² is no part of ẑ.
    assert found.V[-1] == pytest.approx(kappa, rel=1e-4)
    assert found.K1[-1] == pytest.approx(n * C * (3 * n / (n + 2) - 3), rel=1e-4)


@pytest.mark.slow
@pytest.mark.parametrize("act", ["relu", "hard_tanh", "elu", "elu(0.5)"])
def test_deltas_in_hermite_terms_are_those_of_pinned_neurons(act):
    # One input has its functionals in Hermite terms, several have sources and average what is pinned to a kink.
    net = Network(3, [Dense(8, **HYPER[0]), *[one(act)] * 2, act, Dense(2, **HYPER[3])])
    found, wanted = statistics(net, X), statistics(net, X[None])
    for name, value in wanted.tensors.items():
        if value is not None:
            np.testing.assert_allclose(getattr(found, name), value.ravel(), rtol=1e-9, atol=1e-12, err_msg=name)
    assert abs(found.Q[-1]) > 0.1 and (abs(found.P[-1]) > 0.1) == (act != "relu")
    assert abs(found.Theta1[-1]) > 0.1 and wanted.Theta1 is not None


KINKS = json.loads((HERE / "kinks.json").read_text())


@pytest.mark.slow
@pytest.mark.parametrize("name", KINKS)
def test_P_and_Q_of_streams_with_kinks_are_those_of_drawn_networks(name):
    entry = KINKS[name]
    x = np.array(entry["x"])
    theory = statistics(Network.from_dict(entry["network"]), x if len(x) > 1 else x[0], only=("P", "Q"), rtol=1e-3)
    for tensor, (value, error) in entry["tensors"].items():
        wanted = getattr(theory, tensor)[-1].reshape(np.shape(value))
        assert (np.abs(value - wanted) < 5 * np.array(error)).all(), tensor
        assert (np.abs(wanted) / error).max() > 10, tensor
        # Without what autodiff does not see it would be far away.
        assert (np.abs(entry["of the deltas"][tensor]) / np.array(error)).max() > 10, tensor


@pytest.mark.slow
def test_terms_that_are_left_out_are_warned_of():
    with pytest.warns(AccuracyWarning, match="Hermite expansion of a residual stream"):
        statistics(Network(3, [Dense(8), *[one("hard_tanh", skip=1.0)] * 20, Dense(2)]), X)


@pytest.mark.slow
def test_what_very_deep_streams_of_relu_leave_out_is_estimated_from_above(monkeypatch):
    # ρ is 1 - 1/2L, so that few terms are too few for many blocks; three times as many leave out next to nothing.
    # 1024 terms and 160 blocks are to each other what 4096 and 640 are, which take sixteen times as long.
    def of_depth(L):
        block = Residual("relu", Dense(8, C_W=2 / L, lambda_W=2 / L, lambda_b=0.3 / L))
        return statistics(Network(3, [Dense(8), *[block] * L, Dense(1)]), X)

    of_depth(100)  # where a warning would be an error
    monkeypatch.setattr(_functionals, "_INVARIANT", 1024)
    with pytest.warns(AccuracyWarning, match="Hermite expansion of a residual stream") as caught:
        found = of_depth(160)
    said = float(str(caught[0].message).split("estimated relative error ")[1].split(",")[0])
    monkeypatch.setattr(_functionals, "_INVARIANT", 3 * 1024)
    exact = of_depth(160)
    lost = max(abs(getattr(found, name)[-1] / getattr(exact, name)[-1] - 1) for name in "VDAFB")
    assert 1e-9 < lost < said < 1e-4


@pytest.mark.slow
def test_other_hyperparameters_of_a_stream_take_the_program_there_is():
    def at(change):
        block = Residual("tanh", Dense(8, C_W=0.4 + change, lambda_W=0.7 + change), skip=0.8 - change)
        return Network(3, [Dense(8, C_b=change), *[block] * 4, "tanh", Dense(2, C_W=1 + change)])

    first = statistics(at(0.0), X)
    programs = _through_blocks._loop._cache_size()
    for change in (0.1, 0.2):
        assert statistics(at(change), X).V[-1] != first.V[-1]
    assert _through_blocks._loop._cache_size() == programs
