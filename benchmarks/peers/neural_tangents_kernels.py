"""Kernels of neural-tangents for `kernels.py`: `PYTHON neural_tangents_kernels.py JOBS.json FOLDER`.

It runs in an environment of its own. Each job names an activation, the hidden layers, the hyperparameters and a .npy
file of inputs; each answer is FOLDER/<name>.npz with K, Theta and the least CPU seconds of a compiled, warm call.
"""

import json
import sys
import time
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
from neural_tangents import stax  # type: ignore[import-not-found]

NODES = 25  # its default
ACTIVATIONS = {
    "relu": stax.Relu,
    "erf": stax.Erf,
    "gelu": stax.Gelu,
    "tanh": lambda: stax.ElementwiseNumerical(jnp.tanh, deg=NODES),
    "silu": lambda: stax.ElementwiseNumerical(jax.nn.silu, deg=NODES),
}


def solve(job: dict) -> dict:
    dense = {"W_std": job["C_W"] ** 0.5, "b_std": job["C_b"] ** 0.5, "parameterization": "ntk"}
    layers = [part for _ in range(job["hidden"]) for part in (stax.Dense(1, **dense), ACTIVATIONS[job["activation"]]())]
    kernel = stax.serial(*layers, stax.Dense(1, **dense))[2]
    compiled = jax.jit(lambda x: kernel(x, None, ("nngp", "ntk")))
    x = jnp.asarray(np.load(job["inputs"]), jnp.float32)
    found = jax.block_until_ready(compiled(x))
    seconds = []
    for _ in range(job["repeat"]):
        start = time.process_time()
        jax.block_until_ready(compiled(x))
        seconds.append(time.process_time() - start)
    return {"K": np.asarray(found.nngp), "Theta": np.asarray(found.ntk), "seconds": min(seconds)}


if __name__ == "__main__":
    for job in json.loads(Path(sys.argv[1]).read_text()):
        np.savez(Path(sys.argv[2]) / f"{job['name']}.npz", **solve(job))
