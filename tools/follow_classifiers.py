"""How far each order of `evolve` is off classifiers trained by mini-batches with momentum, against their width.

    .venv/bin/python tools/follow_classifiers.py DRAWS tanh gelu

keeps rms errors and their standard errors in `tests/training/orders.json`. Each network is followed from its own
kernels with its own batches (`training.orders`), so what is left is what an order cuts off: 1/n at orders 1 and 2,
1/n² at order 3.
"""

import json
import sys
import time
from pathlib import Path

import jax
import numpy as np

import neft

FILE = Path(__file__).parents[1] / "tests" / "training" / "orders.json"
X = 1.6 * np.array([[1.0, 0.0, 0.2], [0.0, 1.0, -0.1], [0.1, -0.2, 1.0]])
XT = np.array([[0.9, -0.8, 0.5], [0.3, 0.9, 0.6]])
LABELS = [0, 1, 0]
WIDTHS = (32, 64, 128, 256, 512)
TRAINING = {"loss": "cross_entropy", "steps": 20, "learning_rate": 0.05, "momentum": 0.8, "batch": 2}
SEED = 11


def run(activation: str, draws: int) -> dict:
    """Errors of orders 1, 2 and 3, by width."""
    net = neft.MLP((3, 1, 2), activation, C_b=0.05, C_W=(1.0, 0.25), lambda_b=1.0, lambda_W=1.0)
    begin = time.process_time()
    found = neft.training.orders(net, X, LABELS, XT, widths=WIDTHS, draws=draws, key=jax.random.key(SEED), **TRAINING)
    print(activation, found.rms, found.stderr, found.powers, sep="\n", flush=True)
    return {
        "command": f"python tools/follow_classifiers.py {draws} {activation}",
        "seed": SEED,
        "draws": draws,
        "widths": WIDTHS,
        "rms": found.rms.tolist(),
        "stderr": found.stderr.tolist(),
        "lost": found.lost.tolist(),
        "cpu_seconds": round(time.process_time() - begin),
    }


if __name__ == "__main__":
    for name in sys.argv[2:]:
        kept = json.loads(FILE.read_text()) if FILE.exists() else {}
        FILE.write_text(json.dumps(kept | {name: run(name, int(sys.argv[1]))}, indent=1) + "\n")
