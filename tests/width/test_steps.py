"""Activations that jump: K, V and K1, whose averages move all derivatives on the Gaussian."""

import math
import warnings

import jax
import jax.numpy as jnp
import mpmath
import numpy as np
import pytest
from helpers import one_of_each
from scipy.special import erfc

from neft import MLP, activation, width
from neft._pair_derivatives import pair_derivatives
from neft.gaussian import AccuracyWarning

SIGN = jnp.sign
STEP = lambda z: jnp.where(z > 0, 1.0, 0.0)  # noqa: E731
LATER = lambda z: jnp.where(z > 0.7, 1.0, 0.0)  # noqa: E731
C_b, C_W = 0.1, 1.4


def test_one_input_has_the_derivatives_of_the_normal_distribution():
    # ⟨s²⟩ = ⟨s⁴⟩ = Φ(-0.7/√K), and layer by layer docs/theory/width, eqs. 22 and 37.
    square = lambda K: mpmath.ncdf(-0.7 / mpmath.sqrt(K))  # noqa: E731
    K, V, K1, exact = C_b + C_W * 0.5, mpmath.mpf(0), mpmath.mpf(0), [0.0]
    widths = (2, 20, 30, 10, 1)
    for r in (0.0, 1.5, 1 / 3):
        mean, g, second = square(K), mpmath.diff(square, K), mpmath.diff(square, K, 2)
        K1, V = r * C_W * (K1 * g + V / 2 * second), C_W**2 * (mean - mean**2 + r * V * g**2)
        K = C_b + C_W * mean
        exact.append(float(K1))
    found = width.statistics(MLP(widths, LATER, C_b=C_b, C_W=C_W), [1.0, 0.0])
    assert list(found.tensors) and {name for name, v in found.tensors.items() if v is not None} == {"K", "V", "K1"}
    np.testing.assert_allclose(found.K1, exact, rtol=1e-10, atol=1e-15)
    assert abs(found.K1[-1]) > 0.01


@pytest.mark.parametrize("rho", one_of_each([0.4, -0.97, 0.9999], quick=[0.4]))
def test_pairs_have_the_derivatives_of_the_arcsine_law(rho):
    a, b = 1.3, 0.8
    c = rho * math.sqrt(a * b)
    found = pair_derivatives(activation(SIGN), ((4, 0), (3, 1), (2, 2), (2, 0), (1, 1)), np.array([[a, c], [c, b]]))
    law = lambda a, b, c: 2 / mpmath.pi * mpmath.asin(c / mpmath.sqrt(a * b))  # noqa: E731
    for order, factor, by in (
        ((4, 0), 4, (2, 0, 0)),
        ((3, 1), 2, (1, 0, 1)),
        ((2, 2), 1, (0, 0, 2)),
        ((2, 0), 2, (1, 0, 0)),
        ((1, 1), 1, (0, 0, 1)),
    ):
        exact = factor * float(mpmath.diff(law, (a, b, c), by))
        np.testing.assert_allclose(found[order][0, 1], exact, rtol=1e-11)


@pytest.mark.slow
def test_two_inputs_have_the_arcsine_law_of_the_second_layer():
    # K₁₂ of layer 3 is C_W f(c) with f = (2/π) arcsin(c/K), and c fluctuates with V = C_W²(1 - f²) of layer 2.
    x = np.array([[1.0, 0.2], [0.3, 0.8]])
    found = width.statistics(MLP((2, 8, 12, 1), SIGN, C_b=C_b, C_W=C_W), x, only=("K1", "V"))
    K = C_b + C_W * x @ x.T / 2
    f = 2 / math.pi * math.asin(K[0, 1] / math.sqrt(K[0, 0] * K[1, 1]))
    c, total = C_b + C_W * f, C_b + C_W
    second = 2 / math.pi * c / (total**2 - c**2) ** 1.5
    V = C_W**2 * (1 - f**2)
    np.testing.assert_allclose(found.V[1, 0, 1, 0, 1], V, rtol=1e-9)
    np.testing.assert_allclose(
        found.K1[2], 1.5 * C_W / 2 * V * second * np.array([[0, 1], [1, 0]]), rtol=1e-8, atol=1e-12
    )


@pytest.mark.slow
def test_aligned_and_repeated_inputs_are_those_of_one():
    x = np.array([1.0, 0.2])
    net = MLP((2, 8, 8, 8, 1), LATER, C_W=C_W)
    found = width.statistics(net, np.stack([x, 3 * x, x]), only=("K1",)).K1
    for row, scale in ((0, 1), (1, 3)):
        np.testing.assert_allclose(found[:, row, row], width.statistics(net, scale * x).K1, rtol=1e-6, atol=1e-10)
    np.testing.assert_array_equal(found[:, 0], found[:, 2])


@pytest.mark.slow
def test_inputs_that_are_nearly_parallel_are_warned_of():
    x = np.array([[1.0, 0.0], [1.0, 1e-3]])
    net = MLP((2, 8, 8, 1), SIGN)
    with pytest.warns(AccuracyWarning, match="nearly parallel"):
        width.statistics(net, x, only=("K1",))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        width.statistics(net, x, only=("V",))


@pytest.mark.slow
def test_the_mean_kernel_of_drawn_steps_is_that_of_theory():
    # Of layer 3, given layer 1: the arcsine law of the kernel that a draw has in layer 2, less what is linear in it.
    x = np.array([[1.0, 0.2], [0.3, 0.8]])
    K = C_b + C_W * x @ x.T / 2
    limits = lambda G: 0.25 + np.arcsin(G[..., 2] / np.sqrt(G[..., 0] * G[..., 1])) / (2 * np.pi)  # noqa: E731
    rng, draws = np.random.default_rng(3), 60_000
    mean = np.array([0.5, 0.5, limits(np.array([K[0, 0], K[1, 1], K[0, 1]]))])
    start = C_b + C_W * mean
    # The gradient of the arcsine law at the mean, by hand.
    size = start[0] * start[1] - start[2] ** 2
    slope = np.array([-start[2] / (2 * start[0]), -start[2] / (2 * start[1]), 1.0]) / (2 * np.pi * math.sqrt(size))
    found, errors, widths = [], [], np.array([8, 16, 32])
    for n in widths:
        # Of n neurons, how many are on for both inputs, for the first alone, and for the second alone.
        both = mean[2]
        counts = rng.multinomial(n, [both, 0.5 - both, 0.5 - both, both], size=draws)[:, :3]
        G = C_b + C_W / n * np.stack([counts[:, 0] + counts[:, 1], counts[:, 0] + counts[:, 2], counts[:, 0]], axis=1)
        values = n * C_W * (limits(G) - limits(start) - (G - start) @ slope)
        found.append(values.mean())
        errors.append(values.std() / math.sqrt(draws))
    design = np.stack([np.ones(3), 1 / widths, 1 / widths**2], axis=1)
    weights = np.linalg.inv(design)[0]
    value, error = weights @ found, math.sqrt(weights**2 @ np.square(errors))
    exact = width.statistics(MLP((2, 8, 8, 1), STEP, C_b=C_b, C_W=C_W), x, only=("K1",)).K1[2, 0, 1]
    assert abs(exact) > 10 * error
    assert abs(value - exact) < 5 * error


@pytest.mark.slow
@pytest.mark.parametrize("inputs", [1, 2])
def test_simulated_networks_agree(inputs):
    own = activation(lambda z: jnp.where(z > 0.4, 1.0 + 0.5 * z, -0.3))
    x = np.array([[1.0, 0.5, -0.3], [0.2, -0.7, 1.1]])[:inputs]
    net = MLP((3, 8, 8, 2), own, C_b=0.2, C_W=1.3)
    found = width.check(net, x[0] if inputs == 1 else x, draws=8_000, key=jax.random.key(1))
    assert set(found.z) == {"K", "V", "K1"}
    assert found.agrees
    # Between the two inputs K1 is smaller; the arcsine law above resolves it.
    assert np.diagonal(np.atleast_2d(found.resolved("K1")[2])).min() > 10


def test_the_density_of_steps_has_the_corrected_variance():
    net = MLP((2, 10, 10, 1), LATER, C_b=C_b, C_W=C_W)
    stats = width.statistics(net, [1.0, 0.5])
    half = erfc(0.7 / math.sqrt(2 * stats.K[1])) / 2
    np.testing.assert_allclose(stats.K[2], C_b + C_W * half, rtol=1e-10)
    assert width.density(stats).variance == pytest.approx(stats.K[2] + stats.K1[2] / 10)
    assert width.interpret(stats).sizes["K1"] is not None
