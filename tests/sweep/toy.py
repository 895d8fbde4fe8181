"""A kind of work that needs no JAX, for tests that start and kill many processes.

As a program it runs a sweep of it: `python toy.py FOLDER`.
"""

import sys
import time

import numpy as np

from neft import sweep


@sweep.kind("toy", headline="mean")
def toy(*, number: int, seconds: float = 0.0, size: int = 10, fails: bool = False) -> dict:
    time.sleep(seconds)
    if fails:
        raise RuntimeError(f"number {number} was asked to fail")
    values = np.random.default_rng(number).normal(size=size)
    return {"values": values, "mean": values.mean(), "cpu_seconds": time.process_time()}


def specification(count: int = 40, seconds: float = 0.05, size: int = 50_000) -> sweep.Specification:
    fixed = {"seconds": seconds, "size": size}
    return sweep.Specification(kind="toy", fixed=fixed, grid={"number": list(range(count))})


if __name__ == "__main__":
    print(sweep.run(specification(), sys.argv[1]).line())
