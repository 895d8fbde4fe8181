"""Residual and normalized kernels of neural-tangents for `blocks.py`, in float64 (`serve.py` says how it is called).

The job is the record of a network (`neft.Network.to_dict`) of dense blocks, activations, norms and residual blocks;
data are inputs x, the answer K and Theta.
"""

import jax

jax.config.update("jax_enable_x64", True)

import jax.numpy as jnp  # noqa: E402
import numpy as np  # noqa: E402
from neural_tangents import stax  # type: ignore[import-not-found]  # noqa: E402
from neural_tangents._src.stax.requirements import layer as made  # type: ignore[import-not-found]  # noqa: E402
from serve import serve  # noqa: E402

ACTIVATIONS = {"relu": stax.Relu, "erf": stax.Erf, "sin": stax.Sin}


@made
def scale(factor):
    """A multiple, which it has only as an activation, and then takes for not Gaussian."""
    parts = ("nngp", "ntk", "cov1", "cov2")

    def kernel(k, **_):
        found = {name: getattr(k, name) for name in parts}
        return k.replace(**{name: None if part is None else factor**2 * part for name, part in found.items()})

    return lambda key, shape: (shape, ()), lambda params, x, **_: factor * x, kernel


def layer(record):
    if isinstance(record, str):
        return ACTIVATIONS[record]()
    if record["type"] == "Dense":
        return stax.Dense(1, W_std=record["C_W"] ** 0.5, b_std=record["C_b"] ** 0.5, parameterization="ntk")
    if record["type"] in ("RMSNorm", "LayerNorm"):
        # On preactivations, whose mean vanishes at infinite width, these are the same.
        return stax.LayerNorm(eps=record["epsilon"])
    assert record["type"] == "Residual"
    return stax.serial(
        stax.FanOut(2),
        stax.parallel(scale(record["skip"]), stax.serial(*map(layer, record["branch"]))),
        stax.FanInSum(),
    )


def solve(job: dict, data: dict):
    kernel = stax.serial(*map(layer, job["blocks"]))[2]
    compiled = jax.jit(lambda x: kernel(x, None, ("nngp", "ntk")))
    x = jnp.asarray(data["x"])
    found = compiled(x)
    answer = {"K": np.asarray(found.nngp), "Theta": np.asarray(found.ntk)}
    return answer, lambda: jax.block_until_ready(compiled(x))


if __name__ == "__main__":
    serve(solve)
