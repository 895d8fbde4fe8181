"""Learning curves on MNIST beside regressions on as many images, for two kernels: the numbers of docs/scale.md.

    NEFT_DATA=folder python tools/measure_learning.py OUT.json [--points 20000] [--sample 4096]

Errors are on 4,000 training images that no regression sees, because MNIST's own test images are by other writers.
"""

import argparse
import json
import time
from pathlib import Path

import numpy as np

from neft import MLP, data, training

SIZES = (500, 1000, 2000, 5000, 10_000)
RIDGES = (0.0, 0.01, 0.1, 1.0)


def main() -> None:
    """Both kernels, one after the other."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", type=Path)
    parser.add_argument("--points", type=int, default=20_000)
    parser.add_argument("--sample", type=int, default=4096)
    options = parser.parse_args()
    images = data.load("mnist", "train", full=True, preprocess="unit", dtype=np.float32)
    order = np.random.default_rng(0).permutation(images.count)
    held, used = order[:4000], order[4000 : 4000 + options.points]
    x, y = images.x[used], np.eye(10)[images.y[used]] - 0.1
    x_test, y_test = images.x[held], np.eye(10)[images.y[held]] - 0.1
    found = {}
    for name, activation, kernel, ridges in (
        ("relu NTK", "relu", "ntk", (0.0,)),
        ("gelu NNGP", "gelu", "nngp", RIDGES),
    ):
        net = MLP((784, 512, 512, 10), activation, C_W=2.0, C_b=0.0 if activation == "relu" else 0.1)
        ridge = 0.0
        if len(ridges) > 1:
            few = training.regress(net, x[:5000], y[:5000], kernel=kernel, ridge=list(ridges))
            assert few.leave_one_out is not None and few.leave_one_out_error is not None
            ridge, found[f"{name}, leave-one-out of 5000"] = (
                few.ridge,
                {
                    f"{r:g}": [float(value), float(error)]
                    for r, value, error in zip(few.ridges, few.leave_one_out, few.leave_one_out_error)
                },
            )
        fit = training.regress(net, x, y, kernel=kernel, ridge=ridge)
        error = float(np.mean((fit.predict(x_test) - y_test) ** 2))
        curve = fit.learning_curve([*SIZES, options.points], sample=options.sample)
        part = fit.learning_curve(SIZES, x_test=x_test, y_test=y_test, sample=64)
        assert part.measured is not None
        measured = [*part.measured.tolist(), error]
        found[name] = {
            "ridge": ridge,
            "sizes": curve.sizes.tolist(),
            "expected": curve.error.tolist(),
            "measured": measured,
            "ratio": (curve.error / measured).tolist(),
            "cost": fit.cost,
            "way": fit.way,
            "residual": fit.residual,
        }
        print(name, time.process_time(), json.dumps(found[name]), flush=True)
        options.out.write_text(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
