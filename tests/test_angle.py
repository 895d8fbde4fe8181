import jax
import numpy as np

from neft._angle import arcsine, arctan


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
