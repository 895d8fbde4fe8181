import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from helpers import one_sentence

from neft import _cauchy, activation


def test_a_function_of_the_modulus_is_not_taken_for_analytic():
    # |z| is constant on every circle: on one circle alone e^z + z⁴|z| is analytic, with a wrong fourth coefficient.
    sly = activation(lambda z: jnp.exp(z) + z**4 * jnp.abs(z), name="sly")
    with one_sentence("'sly'", "Maclaurin"):
        sly.taylor(6)
    assert math.isnan(sly.singularity) and "not known" in repr(sly)


def test_circles_of_an_analytic_function_agree_up_to_its_singularity():
    on = _cauchy.circles(lambda z: 1 / (1 + z**2))
    assert 0.9 < on.radii[-1] < 1 <= on.beyond < 1.1 and on.singularity == pytest.approx(1, rel=0.01)
    values, errors, _ = _cauchy.coefficients(on, 20)
    exact = np.where(np.arange(21) % 2, 0, (-1.0) ** (np.arange(21) // 2))
    assert (np.abs(values - exact) <= 4 * errors).all() and errors.max() < 1e-12


def test_a_pole_too_weak_to_be_heard_still_ends_the_circles():
    # Its residue is 1e-10 of the function, below what counts as noise, but coefficients change across it.
    on = _cauchy.circles(lambda z: z + 1e-10 / (z**2 + 1))
    assert 0.9 < on.radii[-1] < 1


@pytest.mark.parametrize(
    "f",
    [
        lambda z: jnp.maximum(z, 0) + jnp.log1p(jnp.exp(-jnp.abs(z))),
        jax.scipy.special.erf,
        lambda z: jnp.clip(z, -1, 1),
    ],
    ids=["softplus by modulus", "erf", "clip"],
)
def test_what_does_not_go_on_to_complex_numbers_has_no_known_singularity(f):
    own = activation(f, name="real")
    assert math.isnan(own.singularity)
    with pytest.raises(ValueError, match="Maclaurin"):
        own.taylor(4)


@pytest.mark.parametrize(
    ("f", "exact"),
    [
        (lambda z: z**6, [0] * 6 + [1] + [0] * 6),
        (lambda z: z / (1 + z**4), [0, 1, 0, 0, 0, -1, 0, 0, 0, 1, 0, 0, 0]),
        (lambda z: 1e-7 * z / (1 + z**2), [0, 1e-7, 0, -1e-7] * 3 + [0]),
        # Autodiff takes the constant at 0 and finds no slope there.
        (
            lambda z: jnp.where(z == 0, 1.0, jnp.expm1(z) / jnp.where(z == 0, 1.0, z)),
            [1 / math.factorial(k + 1) for k in range(13)],
        ),
    ],
    ids=["z^6", "gaps", "small", "guarded"],
)
def test_series_with_gaps_of_any_size_are_found(f, exact):
    np.testing.assert_allclose(activation(f).taylor(12), exact, atol=1e-13 * np.abs(exact).max(), rtol=1e-11)


def test_the_highest_order_is_named():
    with one_sentence("order is 504", "at most 503"):
        activation(jnp.tanh).taylor(504)
