"""How many networks a second an ensemble draws and measures: one input, depth 4, float32."""

import time

import jax
import numpy as np
from measure import Ratio

import neft

SEVEN = ("K", "Theta", "V", "A", "B", "D", "F")
CASES = ((64, SEVEN, "K, Theta, V, A, B, D, F", 2000, 8192), (32, None, "all tensors", 3000, 16384))


def seconds(width: int, only: tuple[str, ...] | None, draws: int) -> np.ndarray:
    """The wall-clock time of several runs, compilation left out."""
    net = neft.MLP((3, width, width, width, 2), "tanh", C_b=0.1, C_W=1.3)
    x = np.array([1.0, -0.5, 0.3])

    def run(count: int) -> float:
        start = time.perf_counter()
        neft.ensemble.estimate(net, x, draws=count, key=jax.random.key(0), only=only, dtype=np.float32)
        return time.perf_counter() - start

    run(2)
    return np.array([run(draws) for _ in range(5)])


def run() -> list[Ratio]:
    """Rates, as ratios to what was promised."""
    ratios = []
    for width, only, what, promised, draws in CASES:
        label = f"{draws} draws of depth 4 and width {width}: {what}"
        ratios.append(Ratio.of(label, f"{promised}/s", 1, seconds(width, only, draws), draws / promised))
    return ratios
