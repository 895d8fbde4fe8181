"""How the error of the truncated hierarchy falls with the width: powers of 1/n, fitted with their uncertainty.

Each network is drawn, trained by gradient flow, and evolved by its tangent kernels at orders 1, 2 and 3. Theory:
the error falls like 1/n, 1/n and 1/n². `python benchmarks/evolve.py DRAWS` prints errors and powers.
"""

import sys

import jax
import numpy as np
from measure import Ratio

import neft

# Inputs far from collinear: a small eigenvalue of Θ makes the tails of all errors heavy.
X = 1.6 * np.array([[1.0, 0.0, 0.2], [0.0, 1.0, -0.1], [0.1, -0.2, 1.0]])
XT = np.array([[0.9, -0.8, 0.5], [0.3, 0.9, 0.6]])
# What is learned is half of the usual size, in targets and at initialization: the expansion goes in powers of how far
# outputs move over √n, and so reaches down to n = 16. With outputs of size one its first orders rule from n = 64 on.
Y = 0.5 * np.array([[0.6], [-0.5], [0.3]])
C_W_OUT = 0.25
WIDTHS = (16, 32, 64, 128, 256)
PROMISED = (0.9, 0.9, 1.8)
"""Powers that the fit must reach: 1, 1 and 2 for large n, a tenth less for what draws with heavy tails leave open."""

CASES = (("tanh", 1), ("gelu", 1), ("tanh", 2))


def errors(activation: str, layers: int, draws: int) -> neft.training.results.Orders:
    """Errors of orders 1, 2 and 3 against trained networks."""
    C_W = (1.0,) * layers + (C_W_OUT,)
    net = neft.MLP((3, *(1,) * layers, 1), activation, C_b=0.05, C_W=C_W, lambda_b=1.0, lambda_W=1.0)
    return neft.training.orders(net, X, Y, XT, widths=WIDTHS, draws=draws, key=jax.random.key(11))


def run(draws: int = 512) -> list[Ratio]:
    """Fitted powers, as ratios to what theory says."""
    ratios = []
    for activation, layers in CASES:
        # Two hidden layers of width 256 have a hundred times the parameters.
        powers = errors(activation, layers, draws // 4 if layers > 1 else draws).powers
        for order, ((p, stderr), promised) in enumerate(zip(powers, PROMISED), start=1):
            what = f"error of order {order}, {activation}, {layers} hidden, n = {WIDTHS[0]}..{WIDTHS[-1]}"
            theory = 2 if order == 3 else 1
            ratios.append(Ratio(what, "1/n^p", f"p = {p:.2f} ± {stderr:.2f}", f"p = {theory}", p, promised))
    return ratios


if __name__ == "__main__":
    for chosen, layers in CASES:
        measured = errors(chosen, layers, int(sys.argv[1]))
        print(chosen, layers, measured.rms, measured.stderr, measured.lost, measured.powers, sep="\n", flush=True)
