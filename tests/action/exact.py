"""The action in 50-digit arithmetic, and its Taylor coefficients by mpmath's own numerical differentiation."""

import functools
import itertools

import mpmath as mp
import numpy as np

LETTERS = "UWbc"
DIGITS = 50

SIGMA = {
    "silu": lambda x: x / (1 + mp.exp(-x)),
    "tanh": mp.tanh,
    "gelu": lambda x: x * mp.erfc(-x / mp.sqrt(2)) / 2,
    "softplus": lambda x: mp.log(1 + mp.exp(x)),
    "exp": mp.exp,
    "sigmoid": lambda x: 1 / (1 + mp.exp(-x)),
    "relu": lambda x: x if x > 0 else mp.mpf(0),
    "leaky_relu(0.1)": lambda x: x if x > 0 else x * mp.mpf(0.1),
}


def problem(balanced: bool, seed: int = 0, E: int = 2, H: int = 3, M: int = 3, n: int = 6):
    rng = np.random.default_rng(seed)
    params = {name: rng.normal(size=size) for name, size in zip("UcWb", [(M, H), (M,), (H, E), (H,)])}
    m = np.arange(n) % M if balanced else np.array([0, 1, 2, 0, 0, 1])[:n]
    return params, (rng.normal(size=(n, E)) + 0.3, m)


def action(params, data, sigma, factors) -> mp.mpf:
    """S with U, W, b, c multiplied by four factors."""
    u, w, b_, c_ = factors
    U, W, b, c = (params[name].tolist() for name in LETTERS)
    z, m = data
    total = mp.mpf(0)
    for row, label in zip(z.tolist(), m.tolist()):
        h = [sigma(w * mp.fdot(W[i], row) + b_ * b[i]) for i in range(len(b))]
        f = [u * mp.fdot(U[a], h) + c_ * c[a] for a in range(len(c))]
        total += mp.log(mp.fsum(mp.exp(value) for value in f)) - f[label]
    return total / len(m)


def along(params, data, sigma, order, factors=(1, 1, 1, 1), direction=0) -> list:
    """Taylor coefficients of S(tθ) by numerical differentiation at high precision."""
    with mp.workdps(DIGITS):
        return mp.taylor(lambda t: action(params, data, sigma, [t * x for x in factors]), 0, order, direction=direction)


@functools.cache
def _factors(degree: int):
    """As many scalings of the four letters as there are monomials of a degree, and the monomials."""
    monomials = [d for d in itertools.product(range(degree + 1), repeat=4) if sum(d) == degree]
    return monomials, [tuple(k + 1 for k in degrees) for degrees in monomials]


def graded(params, data, sigma, order) -> dict:
    """Every monomial of a homogeneous σ up to the order, in U, (W,b) together and c, for t > 0."""
    found = {}
    with mp.workdps(DIGITS):
        for degree in range(1, order + 1):
            monomials = [d for d in itertools.product(range(degree + 1), repeat=3) if sum(d) == degree]
            points = [tuple(k + 1 for k in degrees) for degrees in monomials]
            values = [along(params, data, sigma, degree, (u, w, w, c), direction=1)[degree] for u, w, c in points]
            matrix = mp.matrix([[mp.fprod(mp.mpf(x) ** k for x, k in zip(p, d)) for d in monomials] for p in points])
            for (u, w, c), value in zip(monomials, mp.lu_solve(matrix, mp.matrix(values))):
                found["U" * u + "(Wb)" * w + "c" * c] = value
    return found


def terms(params, data, sigma, order) -> dict:
    """Every monomial up to the order: Taylor coefficients along many scalings, and one linear system per order."""
    found = {}
    with mp.workdps(DIGITS):
        for degree in range(1, order + 1):
            monomials, points = _factors(degree)
            values = [along(params, data, sigma, degree, point)[degree] for point in points]
            matrix = mp.matrix([[mp.fprod(mp.mpf(x) ** k for x, k in zip(p, d)) for d in monomials] for p in points])
            for degrees, value in zip(monomials, mp.lu_solve(matrix, mp.matrix(values))):
                found["".join(letter * k for letter, k in zip(LETTERS, degrees))] = value
    return found
