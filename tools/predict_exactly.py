"""Corrections of order 1/n for six images by nested integrals, as exactly as they can be had: takes minutes.

    .venv/bin/python tools/predict_exactly.py

keeps them in `tests/training/six_images.json`. The tests hold what is affordable for tens of inputs, and its own
estimate of its error, to these.
"""

import json
import time
from pathlib import Path

import numpy as np

import neft

FILE = Path(__file__).parents[1] / "tests" / "training" / "six_images.json"
TRAIN, WIDTH, RTOL = 4, 32, 1e-9


def case(activation: str = "tanh") -> tuple:
    """A network with two hidden layers, and four training and two test images of Fashion-MNIST with their targets."""
    images = neft.data.load("fashion-mnist", "train", preprocess="pool(49)+global", full=False, dtype=np.float64)
    net = neft.MLP((49, WIDTH, WIDTH, 1), activation, C_b=0.1, C_W=1.2)
    return net, images.x[:TRAIN], np.array([1.0, -1.0, 0.5, -0.5]), images.x[TRAIN : TRAIN + 2]


def corrections(rtol: float | None) -> tuple[np.ndarray, np.ndarray, float]:
    """n times what is of order 1/n in mean (2,) and covariance (2, 2), and the estimated error."""
    found = neft.training.predict(*case(), time=[2.0], order=1, rtol=rtol)
    mean = found.width * (found.mean - found.infinite_mean)[0, :, 0]
    return mean, found.width * (found.cov[0, :, 0, :, 0] - found.infinite_cov[0]), found.error


if __name__ == "__main__":
    begin = time.process_time()
    mean, cov, _ = corrections(RTOL)
    found = {"command": "python tools/predict_exactly.py", "rtol": RTOL, "mean": mean.tolist(), "cov": cov.tolist()}
    found["cpu_seconds"] = round(time.process_time() - begin)
    FILE.write_text(json.dumps(found, indent=1) + "\n")
    print(found)
