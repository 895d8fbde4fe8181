"""Draws plain networks of three and four layers; keeps their tensors, `tests/width/layers/*.npz`.

    .venv/bin/python tools/draw_layers.py "relu, one input" …

Without names all are drawn, which takes half an hour. `neft.width.check` draws them, at several widths from which it
extrapolates; the tests compare what is kept with the theory as it is then.
"""

import sys
from pathlib import Path

import jax
import numpy as np

from neft import MLP
from neft.width import check

FOLDER = Path(__file__).parents[1] / "tests" / "width" / "layers"
X = np.array([[1.0, -0.5, 0.8], [0.7, 0.4, 1.2], [1.1, 0.5, -0.3]])
HYPER = {"C_b": 0.2, "C_W": 1.3, "lambda_b": 0.3, "lambda_W": 0.7}
FOUR, THREE = (3, 8, 6, 9, 2), (3, 8, 10, 2)
NETWORKS = {
    "gelu, one input": (FOUR, "gelu", X[0], 40_000),
    "elu, one input": (FOUR, "elu(1)", X[0], 25_000),
    "hard_tanh, one input": (FOUR, "hard_tanh", X[0], 25_000),
    "relu, one input": (FOUR, "relu", X[0], 50_000),
    "tanh, three inputs": (THREE, "tanh", X, 20_000),
    "gelu, two inputs": (THREE, "gelu", X[:2], 20_000),
    "relu, two inputs": (THREE, "relu", X[:2], 30_000),
}
"""Widths, activation, inputs and draws at each width."""
# Theta of gelu has a third order of 0.01/f³ at a factor f, which the fit leaves out: from f = 1 on that is five errors.
FACTORS = {"gelu, one input": (2, 3, 4, 6)}


def network(name: str) -> MLP:
    """The network of that name."""
    widths, activation, _, _ = NETWORKS[name]
    return MLP(widths, activation, **HYPER)


def main(names: list[str]) -> None:
    """Draw the networks of these names, or all."""
    FOLDER.mkdir(exist_ok=True)
    for name in names or NETWORKS:
        _, _, x, draws = NETWORKS[name]
        found = check(network(name), x, draws=draws, factors=FACTORS.get(name), key=jax.random.key(7), dtype=np.float32)
        found.save(FOLDER / f"{name}.npz")
        print(f"{name}: worst |z| {found.worst:.2f}", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
