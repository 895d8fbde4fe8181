"""Kernels of neural-tangents for `kernels.py`, in an environment of its own (`serve.py` says how it is called).

The job names an activation, the hidden layers and the hyperparameters; data are inputs x, the answer K and Theta.
"""

import jax
import jax.numpy as jnp
import numpy as np
from neural_tangents import stax  # type: ignore[import-not-found]
from serve import serve

NODES = 25  # its default
ACTIVATIONS = {
    "relu": stax.Relu,
    "erf": stax.Erf,
    "gelu": stax.Gelu,
    "tanh": lambda: stax.ElementwiseNumerical(jnp.tanh, deg=NODES),
    "silu": lambda: stax.ElementwiseNumerical(jax.nn.silu, deg=NODES),
}


def solve(job: dict, data: dict):
    dense = {"W_std": job["C_W"] ** 0.5, "b_std": job["C_b"] ** 0.5, "parameterization": "ntk"}
    layers = [part for _ in range(job["hidden"]) for part in (stax.Dense(1, **dense), ACTIVATIONS[job["activation"]]())]
    kernel = stax.serial(*layers, stax.Dense(1, **dense))[2]
    compiled = jax.jit(lambda x: kernel(x, None, ("nngp", "ntk")))
    x = jnp.asarray(data["x"], jnp.float32)
    found = compiled(x)
    answer = {"K": np.asarray(found.nngp), "Theta": np.asarray(found.ntk)}
    return answer, lambda: jax.block_until_ready(compiled(x))


if __name__ == "__main__":
    serve(solve)
