"""Kernels of neural-tangents for `blocks.py` and `images.py`, in the inputs' dtype (`serve.py` says how it is called).

The job is the record of a network (`neft.Network.to_dict`) of dense blocks, convolutions, pools, attention,
activations, norms and residual blocks; data are inputs x, the answer K and Theta.
"""

import jax
import jax.numpy as jnp
import numpy as np
from neural_tangents import stax  # type: ignore[import-not-found]
from neural_tangents._src.stax.requirements import layer as made  # type: ignore[import-not-found]
from serve import serve

ACTIVATIONS = {
    "relu": stax.Relu,
    "erf": stax.Erf,
    "sin": stax.Sin,
    "gelu": stax.Gelu,
    # Its own default, 25 nodes in each of two dimensions.
    "silu": lambda: stax.ElementwiseNumerical(jax.nn.silu, deg=25),
}


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
    if record["type"] == "Conv":
        sizes = {"filter_shape": tuple(record["shape"]), "strides": tuple(record["strides"])}
        stds = {"W_std": record["C_W"] ** 0.5, "b_std": record["C_b"] ** 0.5}
        return stax.Conv(1, **sizes, **stds, padding=record["padding"], parameterization="ntk")
    if record["type"] == "AvgPool":
        return stax.AvgPool(tuple(record["shape"]), tuple(record["strides"]), "VALID")
    if record["type"] in ("Flatten", "GlobalAvgPool"):
        return getattr(stax, record["type"])()
    if record["type"] == "Attention":
        return attention(record)
    assert record["type"] == "Residual"
    skip = record["skip"]
    along = layer(skip) if isinstance(skip, dict) else scale(skip)
    return stax.serial(
        stax.FanOut(2), stax.parallel(along, stax.serial(*map(layer, record["branch"]))), stax.FanInSum()
    )


def attention(record):
    names = {"softmax": "SOFTMAX", "linear": "IDENTITY"}
    options = {}
    if record["encoding"] is not None:
        # Its encodings are trained, which Θ sees where values or random logits do; its distance is squared.
        assert record["encoding"] == "gaussian" and record["tied"] and not record["encode_values"]
        spread = 2 * record["length"] ** 2
        options = {"pos_emb_type": "SUM", "pos_emb_decay_fn": lambda d: jnp.exp(-d / spread)}
        options["W_pos_emb_std"] = record["C_e"] ** 0.5
    sizes = {"n_chan_out": 1, "n_chan_key": 1, "n_chan_val": 1, "n_heads": 1}
    both = record["C_K"] ** 0.5
    stds = {"W_key_std": both, "W_query_std": both, "W_value_std": record["C_V"] ** 0.5}
    return stax.GlobalSelfAttention(
        **sizes,
        **stds,
        **options,
        linear_scaling=record["tied"],
        W_out_std=record["C_W"] ** 0.5,
        b_std=record["C_b"] ** 0.5,
        attention_mechanism=names[record["weights"]],
    )


def solve(job: dict, data: dict):
    jax.config.update("jax_enable_x64", data["x"].dtype == np.float64)
    kernel = stax.serial(*map(layer, job["blocks"]))[2]
    compiled = jax.jit(lambda x: kernel(x, None, ("nngp", "ntk")))
    x = jnp.asarray(data["x"])
    found = compiled(x)
    answer = {"K": np.asarray(found.nngp), "Theta": np.asarray(found.ntk)}
    return answer, lambda: jax.block_until_ready(compiled(x))


if __name__ == "__main__":
    serve(solve)
