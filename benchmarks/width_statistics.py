"""All 15 quantities at depth 100 for one input: time of a call after compilation, and whether anything recompiles."""

import itertools
import time
from typing import Any

import numpy as np
from measure import Ratio

import neft
from neft.width._statistics import _compiled

PROMISED = 0.020
DEPTH = 100


def _programs(name: str) -> int:
    compiled: Any = _compiled(neft.activation(name))
    return compiled._cache_size()


def run() -> list[Ratio]:
    """Seconds against the promise, the slowest kind of activation included, while hyperparameters and x change."""
    ratios = []
    for name in ("tanh", "gelu", "relu"):
        counter = itertools.count()

        def call(name=name, counter=counter) -> None:
            change = 1e-3 * next(counter)
            net = neft.MLP(
                (3, *(64,) * (DEPTH - 1), 2),
                name,
                C_b=0.1 + change,
                C_W=1.3 - change,
                lambda_b=0.5 + change,
                lambda_W=0.8,
            )
            neft.width.statistics(net, np.array([1.0, -0.5, 0.3 + change]))

        call()
        programs = _programs(name)
        times = []
        for _ in range(20):
            start = time.perf_counter()
            call()
            times.append(time.perf_counter() - start)
        again = _programs(name) - programs
        label = f"statistics of {name} at depth {DEPTH}, {again} recompilations in 20 calls"
        ratios.append(Ratio.of(label, "promise", 1, np.array(times), PROMISED, scale=again == 0))
    return ratios
