"""What draws at order 1/width cost: CPU seconds of tensors, draws and training, against inputs, outputs and steps.

    OPENBLAS_NUM_THREADS=1 .venv/bin/python benchmarks/order_one.py

Images of Fashion-MNIST, pooled to 49 inputs, two hidden layers of tanh, cross-entropy by batches with momentum. Each
case runs with one step and with all; programs are compiled before the clock starts.
"""

import time

import jax
import numpy as np

import neft
from neft.training._finite import output_tensors, sharing
from neft.training._response import TENSORS

DRAWS, STEPS = 16, 100
# Training inputs, test inputs, outputs.
CASES = ((8, 4, 2), (16, 4, 2), (16, 8, 2), (24, 8, 2), (32, 8, 2), (8, 4, 3), (8, 4, 5))


def taken(train, test, outputs):
    """CPU seconds of the tensors, of a draw, and of a step of a draw."""
    data = neft.data.load("fashion-mnist", preprocess="pool(49)+global", full=False, dtype=np.float64)
    chosen = np.flatnonzero(data.y < outputs)[: train + test]
    x, y = data.x[chosen], data.y[chosen]
    net = neft.MLP((49, 10**6, 10**6, outputs), "tanh")
    options = {"learning_rate": 0.001, "momentum": 0.9, "batch": train // 2, "order": 1, "key": jax.random.key(0)}
    clocks = {}
    with sharing():
        # The first ones compile.
        output_tensors(net, x[:6], (*TENSORS, "V"), rtol=3e-5)
        begin = time.process_time()
        output_tensors(net, x, (*TENSORS, "V"))
        tensors = time.process_time() - begin
        for steps in (1, 1, STEPS, STEPS):
            # The second time programs are there, and tensors are from the first on.
            begin = time.process_time()
            neft.training.sample(net, x[:train], y[:train], x[train:], steps=steps, draws=DRAWS, **options)
            clocks[steps] = time.process_time() - begin
    return tensors, clocks[1] / DRAWS, (clocks[STEPS] - clocks[1]) / DRAWS / (STEPS - 1)


if __name__ == "__main__":
    print(f"{'training':>8} {'test':>4} {'outputs':>7} {'tensors s':>9} {'draw ms':>8} {'step of a draw ms':>17}")
    for case in CASES:
        tensors, draw, step = taken(*case)
        print("{:8} {:4} {:7} {:9.1f} {:8.1f} {:17.3f}".format(*case, tensors, 1e3 * draw, 1e3 * step), flush=True)
