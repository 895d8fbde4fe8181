"""All 15 quantities at depth 100 for one input: time of a call after compilation, and whether anything recompiles.

Of multilayer perceptrons, and of residual blocks of one matrix, those of relu with branches of 1/√L.
"""

import itertools
import time
from typing import Any

import numpy as np
from measure import Ratio

import neft
from neft.width._statistics import _compiled
from neft.width._through_blocks import _loop

PROMISED, PROMISED_OF_STREAMS = 0.020, 0.050
DEPTH = 100


def _programs(name: str) -> int:
    compiled: Any = _compiled(neft.activation(name))
    loop: Any = _loop
    return compiled._cache_size() + loop._cache_size()


def _perceptron(name: str, change: float) -> neft.Network:
    return neft.MLP(
        (3, *(64,) * (DEPTH - 1), 2), name, C_b=0.1 + change, C_W=1.3 - change, lambda_b=0.5 + change, lambda_W=0.8
    )


def _stream(name: str, change: float) -> neft.Network:
    scale = 1 / DEPTH if name == "relu" else 0.36
    block = neft.Residual(
        name, neft.Dense(64, C_b=0.1 * scale, C_W=scale + 0.1 * scale * change), skip=1 if name == "relu" else 0.8
    )
    return neft.Network(3, [neft.Dense(64, C_W=1 + change), *[block] * (DEPTH - 2), name, neft.Dense(2)])


def run() -> list[Ratio]:
    """Seconds against the promise, the slowest kind of activation included, while hyperparameters and x change."""
    ratios = []
    for make, kind, promised in (
        (_perceptron, "statistics", PROMISED),
        (_stream, "statistics of a stream", PROMISED_OF_STREAMS),
    ):
        for name in ("tanh", "gelu", "relu"):
            counter = itertools.count()

            def call(make=make, name=name, counter=counter) -> None:
                change = 1e-3 * next(counter)
                neft.width.statistics(make(name, change), np.array([1.0, -0.5, 0.3 + change]))

            call()
            programs = _programs(name)
            times = []
            for _ in range(20):
                start = time.perf_counter()
                call()
                times.append(time.perf_counter() - start)
            again = _programs(name) - programs
            label = f"{kind} of {name} at depth {DEPTH}, {again} recompilations in 20 calls"
            ratios.append(Ratio.of(label, "promise", 1, np.array(times), promised, scale=again == 0))
    return ratios
