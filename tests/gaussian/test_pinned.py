"""Averages at kinks against averages without deltas, in which the density is differentiated instead."""

import jax
import numpy as np
import pytest

from neft import activation
from neft._pinned_slopes import curved_slopes
from neft._tuples import almost_everywhere

# A source, and two variables of a later stage.
K = np.array([[1.1, 0.7, 0.3], [0.7, 0.9, 0.4], [0.3, 0.4, 1.3]])


def by_parts(act, K):
    """⟨σ_e² ∂_1∂_1(σ'_1σ'_2)⟩ and ⟨σ_e² ∂_1∂_2(σ'_1σ'_2)⟩ with the derivatives on the density, between kinks."""
    x, w = np.polynomial.legendre.leggauss(48)
    axes, weights = [], []
    for spread in np.sqrt(np.diag(K)):
        inside = [kink.position for kink in act.kinks]
        edges = np.sort([-9 * spread, *inside, -2 * spread, 2 * spread, 9 * spread])
        half = np.diff(edges)[:, None] / 2
        axes.append((edges[:-1, None] + half * (1 + x)).ravel())
        weights.append((half * w).ravel())
    z = np.meshgrid(*axes, indexing="ij", sparse=True)
    P = np.linalg.inv(K)
    u = [sum(P[i, j] * z[j] for j in range(3)) for i in range(3)]
    density = np.exp(-sum(u[i] * z[i] for i in range(3)) / 2) / np.sqrt(np.linalg.det(2 * np.pi * K))
    with jax.enable_x64(True):
        values = [np.asarray(act(axes[0])) ** 2, *(np.asarray(act.derivative(1)(axis)) for axis in axes[1:])]
    factors = [value * weight for value, weight in zip(values, weights)]
    moved = ((u[1] ** 2 - P[1, 1]) * density, (u[1] * u[2] - P[1, 2]) * density)
    return [np.einsum("efg,e,f,g->", one, *factors, optimize=True) for one in moved]


@pytest.mark.slow
@pytest.mark.parametrize("name", ["relu", "hard_tanh", "elu", "elu(0.5)"])
def test_two_deltas_of_a_stage_are_derivatives_of_the_density(name):
    act = activation(name)
    regular = almost_everywhere(act, [(0, 0, 3, 1), (0, 0, 2, 2)], K, rtol=1e-8)
    td, ee = (some[:1, :1, 1:, 1:] + more for some, more in zip(regular, curved_slopes(act, K, 1, rtol=1e-8)))
    own, both = by_parts(act, K)
    assert td[0, 0, 0, 1] == pytest.approx(own, rel=1e-8)
    assert ee[0, 0, 0, 1] == pytest.approx(both, rel=1e-8)
    assert ee[0, 0, 1, 0] == ee[0, 0, 0, 1]


@pytest.mark.slow
@pytest.mark.parametrize("name", ["relu", "hard_tanh", "elu(0.5)"])
def test_parallel_variables_have_the_limit_of_near_ones(name):
    # With z_2 = c z_1 what is asked is ½⟨G (∂_1 + c∂_2)²(σ'_1σ'_2)⟩, and the pair of deltas drops out.
    act, c = activation(name), 1.0 if name == "hard_tanh" else 1.7

    def asked(angle):
        rise = np.array([[1, 0, 0], [0, 1, 0], [0, c * np.cos(angle), c * np.sin(angle)]])
        at = rise @ np.array([[1.1, 0.7, 0.2], [0.7, 0.9, 0.0], [0.2, 0.0, 0.9]]) @ rise.T
        regular = almost_everywhere(act, [(0, 0, 3, 1), (0, 0, 2, 2)], at, rtol=1e-8)
        found = (some[:1, :1, 1:, 1:] + more for some, more in zip(regular, curved_slopes(act, at, 1, rtol=1e-8)))
        td, ee = (one[0, 0] for one in found)
        # What moves both of them moves the second one by this.
        with_it = c * np.cos(angle)
        return td[0, 1] / 2 + with_it**2 * td[1, 0] / 2 + with_it * ee[0, 1]

    limit = asked(0.0)
    far = [abs(asked(angle) / limit - 1) for angle in (1e-2, 1e-3)]
    assert far[0] < 0.05 and far[1] < 0.15 * far[0], far
