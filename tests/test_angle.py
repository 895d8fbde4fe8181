import jax
import numpy as np

from neft._angle import arcsine, arcsine_and_secant, arctan


def test_the_arctangent_and_its_slope_are_those_of_numpy():
    ratio = np.linspace(-1, 1, 41)
    with jax.enable_x64(True):
        value, slope = jax.vmap(jax.value_and_grad(arctan))(ratio)
    np.testing.assert_allclose(value, np.arctan(ratio), rtol=1e-14, atol=1e-15)
    np.testing.assert_allclose(slope, 1 / (1 + ratio**2), rtol=1e-14)


def test_the_arcsine_and_its_slopes_are_those_of_numpy():
    angle = np.linspace(-np.pi / 2, np.pi / 2, 41)
    with jax.enable_x64(True):
        value = np.asarray(arcsine(np.sin(angle), np.abs(np.cos(angle))))
        along, across = jax.vmap(jax.grad(arcsine, argnums=(0, 1)))(np.sin(angle), np.cos(angle))
    np.testing.assert_allclose(value, angle, rtol=1e-14, atol=1e-16)
    np.testing.assert_allclose(along, np.cos(angle), atol=1e-15)
    np.testing.assert_allclose(across, -np.sin(angle), atol=1e-15)
    single = arcsine(np.sin(angle).astype(np.float32), np.cos(angle).astype(np.float32))
    np.testing.assert_allclose(single, angle, rtol=2e-7, atol=1e-9)


def test_the_fast_arcsine_and_secant_are_those_of_numpy_to_single_precision():
    sine = np.linspace(-32 / 33, 32 / 33, 2001).astype(np.float32)
    arc, secant = arcsine_and_secant(sine)
    # The sine alone fixes the angle to its rounding over the cosine.
    exact = sine.astype(np.float64)
    cosine = np.sqrt(1 - exact**2)
    assert np.abs((secant - 1 / cosine) * cosine**3).max() < 2e-7
    assert np.abs((arc - np.arcsin(exact)) * cosine).max() < 1.2e-7
    halved, _ = arcsine_and_secant(sine / 2, 2.0)
    np.testing.assert_allclose(2 * halved, arc, atol=2e-7)
