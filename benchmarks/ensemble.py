"""How many networks a second an ensemble draws and measures: one input, depth 4, float32."""

import time

import jax
import numpy as np
from measure import Ratio

import neft

SEVEN = ("K", "Theta", "V", "A", "B", "D", "F")
CASES = ((64, SEVEN, "K, Theta, V, A, B, D, F", 2000, 8192), (32, None, "all tensors", 3000, 16384))


def rate(width: int, only: tuple[str, ...] | None, draws: int) -> float:
    """Draws per second of wall-clock time, compilation left out; the best of three runs."""
    net = neft.MLP((3, width, width, width, 2), "tanh", C_b=0.1, C_W=1.3)
    x = np.array([1.0, -0.5, 0.3])

    def run(count: int) -> float:
        start = time.perf_counter()
        neft.ensemble.estimate(net, x, draws=count, key=jax.random.key(0), only=only, dtype=np.float32)
        return time.perf_counter() - start

    run(2)
    return draws / min(run(draws) for _ in range(3))


def run() -> list[Ratio]:
    """Rates, as ratios to what was promised."""
    ratios = []
    for width, only, what, promised, draws in CASES:
        found = rate(width, only, draws)
        label = f"ensemble of depth 4 and width {width}: {what}"
        ratios.append(Ratio(label, "promise", f"{found:.0f}/s", f"{promised}/s", found / promised, 1))
    return ratios
