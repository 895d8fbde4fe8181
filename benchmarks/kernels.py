"""Infinite-width kernels against neural-tangents 0.6.5: CPU seconds on one core, and errors, in one run.

neural-tangents needs an old JAX, so it runs in an environment of its own, whose Python is named by the variable
NEURAL_TANGENTS_PYTHON or by `python benchmarks/kernels.py --peer PYTHON`:

    python3.11 -m venv peer
    peer/bin/pip install neural-tangents==0.6.5 jax==0.4.23 jaxlib==0.4.23 numpy==1.26.4 scipy==1.12.0 \
        ml_dtypes==0.5.4 tensorflow==2.21.0 tf2jax==0.3.6        (--no-deps where it finds no solution)

The truth is computed here, in float64, without neft: arc-cosine kernels, or a fine trapezoid rule in both variables.
"""

import argparse
import math
import os

import numpy as np
from measure import VARIABLE, Ratio, in_turns, one_core, peer, timed
from scipy import special

import neft

C_B, C_W = 0.1, 1.5  # in its parameterization the learning rates are λ_b = C_b, λ_W = C_W
FEATURES, SAMPLE = 784, 60
# activation, hidden layers, inputs, dtype of ours, promised speed and accuracy
JOBS = [
    ("relu", 16, 2000, "float32", 5.0, 1.0),
    ("erf", 16, 2000, "float32", 10.0, 1.0),
    ("gelu", 16, 2000, "float32", 5.0, 1.0),
    ("tanh", 4, 1000, "float64", 300.0, 1000.0),
    ("silu", 4, 1000, "float64", 300.0, 1000.0),
]
PLAIN = {
    "erf": (special.erf, lambda z: 2 / math.sqrt(math.pi) * np.exp(-z * z)),
    "gelu": (
        lambda z: z * special.ndtr(z),
        lambda z: special.ndtr(z) + z * np.exp(-z * z / 2) / math.sqrt(2 * math.pi),
    ),
    "tanh": (np.tanh, lambda z: 1 / np.cosh(z) ** 2),
    "silu": (lambda z: z * special.expit(z), lambda z: special.expit(z) * (1 + z * special.expit(-z))),
}


def inputs(count: int) -> np.ndarray:
    """Random inputs of lengths that differ, some of them close to the one before."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(count, FEATURES)) * rng.uniform(0.7, 1.3, size=(count, 1))
    x[1::50] = x[::50] + 1e-3 * rng.normal(size=x[::50].shape)
    return x.astype(np.float32)


def pairs(count: int) -> np.ndarray:
    """The pairs (2, SAMPLE) where errors are measured: random ones, the diagonal, and inputs close to each other."""
    rng, third = np.random.default_rng(1), SAMPLE // 3
    same = rng.integers(count, size=third)
    close = 50 * rng.integers(count // 50, size=third)
    return np.concatenate([rng.integers(count, size=(2, third)), [same, same], [close, close + 1]], axis=1)


def truth(name: str, hidden: int, x1: np.ndarray, x2: np.ndarray) -> tuple[float, float]:
    """K and Θ of one pair."""
    x1, x2 = x1.astype(np.float64), x2.astype(np.float64)
    a, b, c = (C_B + C_W * float(p @ q) / FEATURES for p, q in ((x1, x1), (x2, x2), (x1, x2)))
    far = C_W * float((x1 - x2) @ (x1 - x2)) / (2 * FEATURES)  # half the mean square of z₁ - z₂, without cancellation
    Theta = c
    for _ in range(hidden):
        values = _averages(name, a, b, c, far)
        Theta = C_B + C_W * (values[2] + Theta * values[3])
        a, b, c, far = C_B + C_W * values[0], C_B + C_W * values[1], C_B + C_W * values[2], C_W * values[4]
    return c, Theta


def _averages(name: str, a: float, b: float, c: float, far: float) -> tuple[float, ...]:
    # ⟨σ₁²⟩, ⟨σ₂²⟩, ⟨σ₁σ₂⟩, ⟨σ₁'σ₂'⟩ and ⟨(σ₁-σ₂)²⟩/2.
    scale = math.sqrt(a * b)
    gap = max(far - (math.sqrt(a) - math.sqrt(b)) ** 2 / 2, 0.0) / scale  # 1 - ρ
    theta = 2 * math.asin(min(math.sqrt(gap / 2), 1.0))
    if name == "relu":
        value = scale * (math.sin(theta) + (math.pi - theta) * math.cos(theta)) / (2 * math.pi)
        # 1 - cos θ once more by its half angle, for the same reason.
        lost = scale * (math.sin(theta / 2) ** 2 - (math.sin(theta) - theta * math.cos(theta)) / (2 * math.pi))
        return a / 2, b / 2, value, (math.pi - theta) / (2 * math.pi), (math.sqrt(a) - math.sqrt(b)) ** 2 / 4 + lost
    f, df = PLAIN[name]
    x = np.linspace(-12, 12, 401)
    w = np.exp(-x * x / 2) * (x[1] - x[0]) / math.sqrt(2 * math.pi)
    along, across = math.cos(theta / 2) * x[:, None], math.sin(theta / 2) * x
    z1, z2 = math.sqrt(a) * (along + across), math.sqrt(b) * (along - across)
    integrals = (f(z1) ** 2, f(z2) ** 2, f(z1) * f(z2), df(z1) * df(z2), (f(z1) - f(z2)) ** 2 / 2)
    return tuple(float(w @ values @ w) for values in integrals)


@one_core()
def run(chosen: tuple[str, ...] = ()) -> list[Ratio]:
    """Speed and accuracy of K and Θ; nothing where the peer's Python is not named."""
    return [ratio for job in JOBS if not chosen or job[0] in chosen for ratio in _compared(*job)]


def _compared(name: str, hidden: int, count: int, dtype: str, faster: float, truer: float) -> list[Ratio]:
    x, (rows, columns) = inputs(count), pairs(count)
    net = neft.MLP((FEATURES, *(1,) * hidden, 1), name, C_b=C_B, C_W=C_W, lambda_b=C_B, lambda_W=C_W)
    job = {"activation": name, "hidden": hidden, "C_b": C_B, "C_W": C_W}
    with peer("neural_tangents_kernels.py", job, {"x": x}) as theirs:
        if theirs is None:
            return []
        ours = neft.width.kernel(net, x, dtype=dtype)
        exact = np.array([truth(name, hidden, x[i], x[j]) for i, j in zip(rows, columns)]).T
        errors = [
            max(
                np.abs(found[rows, columns] - value).max() / np.abs(value).max() for found, value in zip(kernels, exact)
            )
            for kernels in (ours, (theirs.answer["K"], theirs.answer["Theta"]))
        ]
        our_seconds = timed(lambda: neft.width.kernel(net, x, dtype=dtype))
        seconds = in_turns(our_seconds, theirs.seconds, repeat=7 if hidden > 4 else 2)
    what, label = f"K, Θ: {name}, {hidden} hidden layers, N = {count}, {dtype}", "neural-tangents, float32"
    found = (f"{errors[0]:.1e}", f"{errors[1]:.1e}")
    return [
        Ratio.of(f"{what}: speed", label, faster, *seconds),
        Ratio(f"{what}: accuracy", label, *found, errors[1] / errors[0], truer),
    ]


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Infinite-width kernels against neural-tangents.")
    parser.add_argument("--peer", help="the Python of the environment that has neural-tangents")
    parser.add_argument("activations", nargs="*", help="which of them; all by default")
    options = parser.parse_args()
    if options.peer:
        os.environ[VARIABLE] = options.peer
    for row in run(tuple(options.activations)):
        print(f"{row.what} | {row.peer} | {row.ours} | {row.theirs} | {row} | {row.holds}", flush=True)
