import jax
import numpy as np

from neft._angle import arctan


def test_the_arctangent_and_its_slope_are_those_of_numpy():
    ratio = np.linspace(-1, 1, 41)
    with jax.enable_x64(True):
        value, slope = jax.vmap(jax.value_and_grad(arctan))(ratio)
    np.testing.assert_allclose(value, np.arctan(ratio), rtol=1e-14, atol=1e-15)
    np.testing.assert_allclose(slope, 1 / (1 + ratio**2), rtol=1e-14)
