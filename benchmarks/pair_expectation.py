"""⟨σ(z₁)σ(z₂)⟩ on 1000 × 1000 pairs against 25 × 25-node Gauss-Hermite in JAX, the way neural-tangents does it."""

import math

import jax
import jax.numpy as jnp
import numpy as np
from measure import Ratio, in_turns, timed

import neft

N, NODES, K_MAX, SAMPLE = 1000, 25, 5.0, 200


def inputs():
    """Variances up to 5 and correlations of random inputs with lengths that differ, the diagonal included."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(N, 20)) * rng.uniform(0.4, 1.0, size=(N, 1))
    gram = x @ x.T
    gram *= K_MAX / gram.diagonal().max()
    K = gram.diagonal().copy()
    rho = np.clip(gram / np.sqrt(np.outer(K, K)), -1, 1)
    np.fill_diagonal(rho, 1.0)
    return K, rho


def peer(function):
    """Gauss-Hermite in both variables, compiled, a row of pairs at a time so that it stays in the cache."""
    x, w = np.polynomial.hermite_e.hermegauss(NODES)
    w = w / math.sqrt(2 * math.pi)

    @jax.jit
    def kernel(K, rho):
        across = jnp.sqrt(1 - rho**2)

        def row(arguments):
            k, r, a = arguments
            first = function(jnp.sqrt(k) * x) * w
            second = function(jnp.sqrt(K)[:, None, None] * (r[:, None, None] * x[:, None] + a[:, None, None] * x))
            return jnp.einsum("a,b,jab->j", first, w, second)

        return jax.lax.map(row, (K, rho, across))

    return kernel


def exact(function, K1, K2, rho):
    """A fine trapezoid rule in both variables: exact to rounding for poles at π/2 or beyond and K ≤ 5."""
    x = np.linspace(-12, 12, 301)
    w = np.exp(-x * x / 2) * (x[1] - x[0]) / math.sqrt(2 * math.pi)
    values = []
    for k1, k2, r in zip(K1, K2, rho):
        second = function(math.sqrt(k2) * (r * x[:, None] + math.sqrt(1 - r * r) * x))
        values.append((w * function(math.sqrt(k1) * x)) @ second @ w)
    return np.array(values)


def run() -> list[Ratio]:
    """Speed and accuracy for tanh and SiLU."""
    K, rho = inputs()
    rng = np.random.default_rng(1)
    rows, columns = rng.integers(N, size=(2, SAMPLE))
    functions = {"tanh": (jnp.tanh, np.tanh), "silu": (jax.nn.silu, lambda z: z / (1 + np.exp(-z)))}
    ratios = []
    for name, (traced, plain) in functions.items():
        truth = exact(plain, K[rows], K[columns], rho[rows, columns])
        ours = neft.gaussian.pair(name, K[:, None], K[None, :], rho)
        with jax.enable_x64(True):
            kernel, arguments = peer(traced), (jnp.asarray(K), jnp.asarray(rho))
            theirs = np.asarray(kernel(*arguments))
            seconds = in_turns(
                timed(lambda name=name: neft.gaussian.pair(name, K[:, None], K[None, :], rho)),
                timed(lambda k=kernel, a=arguments: k(*a).block_until_ready()),
                repeat=5,
            )
        our_error, their_error = (np.abs(found[rows, columns] - truth).max() for found in (ours, theirs))
        what, label = f"pair averages of {name}, {N}×{N}, K ≤ {K_MAX:g}", f"Gauss-Hermite {NODES}×{NODES}"
        ratios += [
            Ratio.of(f"{what}: speed", label, 50, *seconds),
            Ratio(f"{what}: accuracy", label, f"{our_error:.0e}", f"{their_error:.0e}", their_error / our_error, 1000),
        ]
    return ratios
