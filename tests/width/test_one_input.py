import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from helpers import one_sentence

import neft
from neft import MLP, activation
from neft.width import AbsentTensor, Rates, flow, statistics
from neft.width._moments import averages

X = np.array([1.0, -0.5, 0.8])
SMOOTH = ("tanh", "silu", "gelu", "sin", "elu(1)")
KINKED = ("relu", "hard_tanh")
HYPER = {"C_b": 0.2, "C_W": 1.3, "lambda_b": 0.3, "lambda_W": 0.7}


def test_scale_invariant_activations_grow_as_the_closed_form_says():
    for slope in (0.0, 0.3):
        A2, A4 = (1 + slope**2) / 2, (1 + slope**4) / 2
        stats = statistics(MLP((3, *(10,) * 8), f"leaky_relu({slope})", C_W=1 / A2), X)
        layers = np.arange(len(stats.K))
        np.testing.assert_allclose(stats.V / stats.K**2, layers * (3 * A4 / A2**2 - 1), rtol=1e-12, atol=1e-12)
        np.testing.assert_allclose(stats.K, stats.K[0], rtol=1e-13)
        np.testing.assert_allclose(stats.K1, 0, atol=1e-12)


def test_a_linear_network_has_the_kernel_of_a_product_of_wishart_matrices():
    # For σ(z) = z, E[z²]/K = 1 at any width, and the four-point function grows as 2(l-1)/n to leading order.
    stats = statistics(MLP((4, *(6,) * 5), "linear"), np.ones(4))
    np.testing.assert_allclose(stats.V, 2.0 * np.arange(5), rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(stats.Theta, np.arange(1, 6) + np.arange(1, 6), rtol=1e-12)
    for name in ("P", "R", "S", "U"):
        assert np.abs(getattr(stats, name)).max() < 1e-12 or name in ("S",)


@pytest.mark.slow
def test_critical_tanh_reaches_its_asymptotics():
    stats = statistics(MLP((3, *(16,) * 400), "tanh"), X)
    l = np.arange(1, 401)
    assert (stats.K * 2 * l)[-1] == pytest.approx(1, rel=0.03)
    assert (stats.V / stats.K**2 / l)[-1] == pytest.approx(2 / 3, rel=0.03)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["tanh", "gelu", "hard_tanh"])
def test_units_of_the_preactivation_and_of_the_rates(name):
    # λ → cλ multiplies every tensor by c to the number of rates in it.
    powers = {"K": 0, "Theta": 1, "V": 0, "A": 2, "B": 2, "D": 1, "F": 1, "P": 2, "Q": 2}
    powers |= {"R": 3, "S": 3, "T": 3, "U": 3, "K1": 0, "Theta1": 1}
    base = statistics(MLP((3, 6, 7, 5, 2), name, **HYPER), X)
    scaled = statistics(MLP((3, 6, 7, 5, 2), name, **HYPER | {"lambda_b": 0.6, "lambda_W": 1.4}), X)
    for tensor, values in base.tensors.items():
        if values is not None:
            np.testing.assert_allclose(scaled.tensors[tensor], values * 2 ** powers[tensor], rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize("name", ["gelu", "elu(1)", "hard_tanh"])
def test_derivatives_in_k_agree_with_differences_for_every_kind_of_kink(name):
    K, step = 0.7, 1e-3
    with jax.enable_x64(True):
        around = jax.jit(functools.partial(averages, activation(name)))(jnp.asarray(K + step * np.arange(-2, 3)))
    first, second = np.array([1, -8, 0, 8, -1]) / (12 * step), np.array([-1, 16, -30, 16, -1]) / (12 * step**2)
    for value, slope, curvature in ((around.ss, around.g, around.ss2), (around.a, around.m, around.a2)):
        assert float(first @ np.asarray(value)) == pytest.approx(float(slope[2]), rel=1e-7, abs=1e-9)
        assert float(second @ np.asarray(value)) == pytest.approx(float(curvature[2]), rel=1e-4, abs=1e-7)


@pytest.mark.slow
def test_whole_numbers_flow_as_floating_ones():
    ones = jnp.ones(3)
    whole, real = (flow(activation("tanh"), q, ones[1:], Rates(0 * ones, ones, ones, ones)) for q in (2, 2.0))
    np.testing.assert_array_equal(whole.V, real.V)
    assert float(real.V[-1]) > 0


@pytest.mark.slow
def test_the_flow_is_a_pure_function_that_jits_vmaps_and_differentiates():
    act, L = activation("silu"), 5

    def output_variance(C_W):
        ones = jnp.ones(L)
        return flow(act, 0.8, ones[1:], Rates(0.1 * ones, C_W * ones, ones, ones)).V[-1]

    with jax.enable_x64(True):
        step = 1e-5
        slope = (float(output_variance(1.5 + step)) - float(output_variance(1.5 - step))) / (2 * step)
        assert float(jax.jit(jax.grad(output_variance))(1.5)) == pytest.approx(slope, rel=1e-7)
        assert jax.vmap(output_variance)(jnp.array([1.0, 1.5])).shape == (2,)


def test_no_weights_in_a_layer_divide_by_nothing():
    stats = statistics(MLP((3, 4, 5, 2), "tanh", C_b=0.5, C_W=(1.0, 0.0, 1.0)), X)
    assert all(np.isfinite(v).all() for v in stats.tensors.values() if v is not None)
    assert stats.K[1] == 0.5 and stats.V[1] == 0


def test_absent_tensors_raise_with_the_reason_and_are_null_in_a_file(tmp_path):
    stats = statistics(MLP((3, 4, 2), "relu"), X)
    with pytest.raises(AbsentTensor, match="R does not exist for relu: derivative 1 of the activation jumps at 0"):
        _ = stats.R
    assert stats.to_dict()["tensors"]["R"] is None
    stats.save(tmp_path / "stats.json")
    assert neft.load(tmp_path / "stats.json") == stats
    step = activation(lambda z: jnp.where(z > 0, 1.0, 0.0), name="step", kinks=((0.0, 0, 1.0),))
    only = statistics(MLP((3, 4, 2), step), X)
    assert only.V[1] == pytest.approx(1 / 4)
    assert {k for k, v in only.tensors.items() if v is not None} == {"K", "V", "K1"}


@pytest.mark.slow
def test_one_layer_is_gaussian_with_a_deterministic_ntk():
    stats = statistics(MLP((3, 2), "tanh", **HYPER), X)
    assert all(np.abs(values).max() == 0 for name, values in stats.tensors.items() if name not in ("K", "Theta"))


def test_bad_input_gets_one_clear_sentence():
    with one_sentence("K overflows at layer 8"):
        statistics(MLP((3, *(8,) * 12), "quadratic", C_W=3.0), np.ones(3))
    with one_sentence("K is 0 at layer 1", "dies"):
        statistics(MLP((3, 4, 2), "tanh"), np.zeros(3))
    with one_sentence("x has shape (2,)", "(3,)"):
        statistics(MLP((3, 4, 2), "tanh"), np.ones(2))
    with one_sentence("x holds inf"):
        statistics(MLP((3, 4, 2), "tanh"), [1.0, np.inf, 0.0])


@pytest.mark.slow
def test_the_next_order_of_the_kernel_is_resolved_by_a_control_variate():
    # Given G of layer 2, layer 3 has the mean f(G) = C_b + C_W⟨s²⟩ at variance G; its linear part averages to zero.
    n, draws, step = 300, 60_000, 1e-3
    net = MLP((3, n, n, 1), "tanh", C_b=0.2, C_W=1.3)
    stats = statistics(net, X)
    x, w = np.polynomial.hermite_e.hermegauss(60)
    w /= w.sum()

    def f(G):
        return 0.2 + 1.3 * (np.tanh(np.sqrt(G)[..., None] * x) ** 2 @ w)

    K = stats.K[1]
    slope = np.diff(f(np.array([K - step, K + step])))[0] / (2 * step)
    rng = np.random.default_rng(0)
    G = 0.2 + 1.3 * np.array([(np.tanh(np.sqrt(stats.K[0]) * rng.normal(size=n)) ** 2).mean() for _ in range(draws)])
    values = n * (f(G) - f(K) - slope * (G - K))
    stderr = values.std() / np.sqrt(draws)
    assert abs(values.mean()) > 10 * stderr
    assert values.mean() == pytest.approx(stats.K1[2], rel=0.03)


def test_nothing_compiles_again_when_hyperparameters_or_the_input_change():
    from neft.width._statistics import _compiled

    programs = []
    for change in (0.0, 0.1, 0.2):
        net = MLP((3, 5, 7, 2), "softplus", C_b=0.1 + change, C_W=1.0 + change, lambda_b=0.3 + change, lambda_W=0.5)
        statistics(net, X + change)
        programs.append(_compiled(net.activation)._cache_size())
    assert programs == [1, 1, 1]
