"""Averages at kinks against averages without deltas, in which the density is differentiated instead."""

import jax
import numpy as np
import pytest

from neft import activation
from neft._pinned_slopes import curved_slopes
from neft._tuples import almost_everywhere

# Two of a source, and two of a later stage.
K = np.array([[1.1, 0.5, 0.7, 0.3], [0.5, 0.8, 0.2, 0.6], [0.7, 0.2, 0.9, 0.4], [0.3, 0.6, 0.4, 1.3]])
ONE = np.ix_([0, 2, 3], [0, 2, 3])


def by_parts(act, K, nodes=40):
    """⟨G ∂_j∂_k(σ'_jσ'_k)⟩ and ⟨G ∂_j∂_j(σ'_jσ'_k)⟩ of the last two variables, G being σ of each other one, squared if
    there is one alone: between kinks, with the derivatives on the density.
    """
    x, w = np.polynomial.legendre.leggauss(nodes)
    axes, weights = [], []
    for spread in np.sqrt(np.diag(K)):
        edges = np.sort([-8 * spread, *(kink.position for kink in act.kinks), 8 * spread])
        half = np.diff(edges)[:, None] / 2
        axes.append((edges[:-1, None] + half * (1 + x)).ravel())
        weights.append((half * w).ravel())
    z = np.meshgrid(*axes, indexing="ij", sparse=True)
    P, size = np.linalg.inv(K), len(K)
    u = [sum(P[i, j] * z[j] for j in range(size)) for i in range(size)]
    density = np.exp(-sum(u[i] * z[i] for i in range(size)) / 2) / np.sqrt(np.linalg.det(2 * np.pi * K))
    power = 2 if size == 3 else 1
    with jax.enable_x64(True):
        values = [np.asarray(act(axis)) ** power for axis in axes[:-2]]
        values += [np.asarray(act.derivative(1)(axis)) for axis in axes[-2:]]
    factors = [value * weight for value, weight in zip(values, weights)]
    found = []
    for i, j in ((-2, -1), (-2, -2), (-1, -1)):
        value = (u[i] * u[j] - P[i, j]) * density
        for factor in reversed(factors):
            value = value @ factor
        found.append(float(value))
    return found


def with_deltas(act, K, rtol=1e-8):
    """⟨G σ''_jσ''_k⟩, ⟨G σ'''_jσ'_k⟩ and ⟨G σ'_jσ'''_k⟩."""
    N = len(K) - 2
    regular = almost_everywhere(act, [(0, 0, 3, 1), (0, 0, 2, 2)], K, rtol=rtol)
    td, ee = (some[:N, :N, N:, N:] + more for some, more in zip(regular, curved_slopes(act, K, N, rtol=rtol)))
    assert ee[0, -1, 1, 0] == ee[0, -1, 0, 1]
    return ee[0, -1, 0, 1], td[0, -1, 0, 1], td[0, -1, 1, 0]


@pytest.mark.slow
@pytest.mark.parametrize("name", ["relu", "hard_tanh", "elu", "elu(0.5)", "max(z, 0) + 0.3*z*abs(z)"])
def test_two_deltas_of_a_stage_are_derivatives_of_the_density(name):
    act = activation(name)
    np.testing.assert_allclose(with_deltas(act, K[ONE]), by_parts(act, K[ONE]), rtol=1e-8)


@pytest.mark.slow
def test_a_source_of_two_inputs_keeps_them_apart():
    act = activation("relu")
    np.testing.assert_allclose(with_deltas(act, K, rtol=1e-6), by_parts(act, K, nodes=28), rtol=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["relu", "hard_tanh", "elu(0.5)"])
def test_parallel_variables_have_the_limit_of_near_ones(name):
    # With z_2 = c z_1 what is asked is ½⟨G (∂_1 + c∂_2)²(σ'_1σ'_2)⟩, and the pair of deltas drops out.
    act, c = activation(name), 1.0 if name == "hard_tanh" else 1.7

    def asked(angle):
        rise = np.array([[1, 0, 0], [0, 1, 0], [0, c * np.cos(angle), c * np.sin(angle)]])
        at = rise @ np.array([[1.1, 0.7, 0.2], [0.7, 0.9, 0.0], [0.2, 0.0, 0.9]]) @ rise.T
        ee, td, dt = with_deltas(act, at, rtol=1e-6)
        # What moves both of them moves the second one by this.
        with_it = c * np.cos(angle)
        return td / 2 + with_it**2 * dt / 2 + with_it * ee

    limit = asked(0.0)
    far = [abs(asked(angle) / limit - 1) for angle in (1e-2, 1e-3)]
    assert far[0] < 0.05 and far[1] < 0.15 * far[0], far
