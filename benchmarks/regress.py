"""Kernel regression on all of MNIST within 8 GiB: seconds against the machine's own rates in the same run.

The least that the direct way can take is N³/3 multiplications and additions at the rate of BLAS's float32 matrix
product, the kernel once in float32, and once in float64 for each product with it that refinement takes:

    NEFT_DATA=folder python benchmarks/regress.py [--points N] [--memory 8GiB] [--activation relu] [--ridge 0]
        [--folder FOLDER]

It prints all that was measured, and the line of the table in docs/scale.md. Several ridges are told apart by
leave-one-out.

`python benchmarks/run.py regress` takes 10,000 points and compares with SciPy's Cholesky factorization and the kernel.
"""

import argparse
import json
import os
import resource
import time
from typing import Any

import numpy as np
import scipy.linalg
from measure import Ratio

import neft
from neft import MLP, data, training, width

POINTS, TILE, LEAST = 10_000, 1024, 1 / 1.3


def images(split: str, count: int | None = None) -> tuple[np.ndarray, np.ndarray]:
    """Images and labels of MNIST."""
    found = data.load("mnist", split, full=True, preprocess="unit", dtype=np.float32)
    return found.x[:count].copy(), found.y[:count].copy()


def network(activation: str) -> MLP:
    return MLP((784, 512, 512, 10), activation, C_W=2.0 if activation == "relu" else 1.0)


def targets(labels: np.ndarray) -> np.ndarray:
    return np.eye(10)[labels] - 0.1


def _cpu(call: Any) -> float:
    call()
    start = time.process_time()
    for _ in range(3):
        call()
    return (time.process_time() - start) / 3


def rates(net: MLP, x: np.ndarray) -> dict[str, float]:
    """CPU seconds of one multiplication and addition in float32, and of an entry of the kernel."""
    blas: Any = scipy.linalg.blas
    a = np.ones((2 * TILE, 2 * TILE), np.float32, order="F")
    found = {"flop": _cpu(lambda: blas.sgemm(1.0, a, a)) / (2 * a.size * len(a))}
    x1, x2 = x[:TILE], x[TILE : 2 * TILE]
    for dtype in ("float32", "float64"):
        seconds = _cpu(lambda dtype=dtype: width.kernel(net, x1, x2, dtype=dtype))
        found[dtype] = seconds / (len(x1) * len(x2))
    return found


def least(count: int, products: float, rate: dict[str, float]) -> float:
    """CPU seconds that factorization, kernel and refinement take at these rates."""
    entries = count * (count + 1) / 2
    return count**3 / 3 * rate["flop"] + entries * (rate["float32"] + products * rate["float64"])


def measured(
    count: int | None, memory: str, activation: str, ridges: list[float], folder: str | None = None
) -> dict[str, Any]:
    """One regression, its cost, its accuracy on the test images, and the least that it could have taken."""
    net = network(activation)
    x, labels = images("train", count)
    before = rates(net, x)
    ridge = ridges if len(ridges) > 1 else ridges[0]
    fit = training.regress(net, x, targets(labels), ridge=ridge, memory=memory, folder=folder)
    bytes_at_peak = fit.cost["bytes at the peak"]
    after = rates(net, x)
    rate = {name: (before[name] + after[name]) / 2 for name in before}
    floor = least(len(x), fit.cost["products"], rate)
    tests, truth = images("test")
    accuracy = float((fit.predict(tests).argmax(1) == truth).mean())
    cores = len(os.sched_getaffinity(0))
    direct = fit.way.startswith("direct") and len(ridges) == 1
    return {
        "points": len(x),
        "activation": activation,
        "ridge": fit.ridge,
        "ridges": ridges,
        "leave-one-out": None if fit.leave_one_out is None else fit.leave_one_out.tolist(),
        "leave-one-out error": None if fit.leave_one_out_error is None else fit.leave_one_out_error.tolist(),
        "memory": memory,
        "way": fit.way,
        "residual": fit.residual,
        "accuracy": accuracy,
        "minutes": fit.cost["seconds"] / 60,
        "CPU seconds": fit.cost["CPU seconds"],
        "least CPU seconds": floor,
        "CPU seconds to the least": fit.cost["CPU seconds"] / floor if direct else None,
        "seconds to the least on all cores": fit.cost["seconds"] / (floor / cores) if direct else None,
        "seconds to those expected": fit.cost["seconds"] / fit.cost["seconds expected"],
        "peak GiB": bytes_at_peak / 2**30,
        "peak GiB after prediction": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20,
        "peak GiB of the largest child": resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 2**20,
        "GFLOP/s of float32 products, one core": 1e-9 / rate["flop"],
        "cost": fit.cost,
        "CPU seconds of an operation and an entry, before": before,
        "CPU seconds of an operation and an entry, after": after,
        "cores": cores,
        "load at the end": os.getloadavg(),
        "versions": neft.Made.by("benchmark").versions,
    }


def line(found: dict[str, Any]) -> str:
    """The line of the table in docs/scale.md."""
    cost = found["cost"]
    cells = (
        f"{found['points']:,}",
        found["memory"],
        found["way"] + (f"; {found['activation']}, ridge {found['ridge']:g}" if found["activation"] != "relu" else ""),
        f"{cost['products']:.0f}",
        f"{found['residual']:.1e}",
        f"{cost['CPU seconds']:.4g}",
        f"{cost['seconds']:.4g}",
        f"{cost['seconds expected']:.4g}",
        f"{cost['bytes at the peak'] / 1e9:.3g} GB",
        f"{found['CPU seconds to the least']:.2f}" if found["CPU seconds to the least"] else "",
        f"{100 * found['accuracy']:.2f} %",
    )
    return f"| {' | '.join(cells)} |"


def run() -> list[Ratio]:
    """CPU seconds of 10,000 points against SciPy's float32 factorization plus the kernel."""
    net = network("relu")
    x, labels = images("train", POINTS)
    lapack: Any = scipy.linalg.lapack
    ours, theirs = [], []
    for _ in range(3):
        start = time.process_time()
        training.regress(net, x, targets(labels))
        ours.append(time.process_time() - start)
        start = time.process_time()
        lapack.spotrf(width.kernel(net, x, dtype="float32").Theta.T, lower=0, overwrite_a=1)
        theirs.append(time.process_time() - start)
    what = f"kernel regression on {POINTS} images of MNIST to a residual of 1e-6"
    return [Ratio.of(what, "SciPy's float32 Cholesky and the kernel", LEAST, np.array(ours), np.array(theirs))]


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Kernel regression on MNIST.")
    parser.add_argument("--points", type=int, help="training images; all 60,000 by default")
    parser.add_argument("--memory", default="8GiB")
    parser.add_argument("--activation", default="relu")
    parser.add_argument("--ridge", type=float, nargs="+", default=[0.0])
    parser.add_argument("--folder")
    options = parser.parse_args()
    found = measured(options.points, options.memory, options.activation, options.ridge, options.folder)
    print(json.dumps(found, indent=1))
    print(line(found))
