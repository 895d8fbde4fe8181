"""Empirical NTK and predictions of neural-tangents, in an environment of its own (`serve.py` says how it is called).

The job says what is wanted ("ntk" or "predict") and how; the answer holds what was found.
"""

import jax
import jax.numpy as jnp
import neural_tangents as nt  # type: ignore[import-not-found]
import numpy as np
from neural_tangents import stax  # type: ignore[import-not-found]
from serve import serve


def ntk(job: dict, data: dict):
    """The full empirical NTK of tanh layers, by the implementation named in the job."""
    layers = range(len([name for name in data if name.startswith("W")]))
    # Weights stand as it likes them; transposed ones it does not see as a layer, and takes hundreds of times longer.
    params = [(jnp.asarray(data[f"W{l}"].T), jnp.asarray(data[f"b{l}"])) for l in layers]

    def apply(params, x):
        for l, (W, b) in enumerate(params):
            x = (jnp.tanh(x) if l else x) @ W + b
        return x

    implementation = nt.NtkImplementation[job["implementation"]]
    kernel = jax.jit(
        nt.empirical_ntk_fn(apply, trace_axes=(), vmap_axes=job["vmap_axes"], implementation=implementation),
        static_argnums=1,
    )
    x = jnp.asarray(data["x"])
    return {"ntk": np.asarray(kernel(x, None, params))}, lambda: jax.block_until_ready(kernel(x, None, params))


def predict(job: dict, data: dict):
    """Mean and covariance of the trained ensemble at infinite width; time 0 stands for the end of training."""
    dense = {"W_std": job["C_W"] ** 0.5, "b_std": job["C_b"] ** 0.5, "parameterization": "ntk"}
    layers = [part for _ in range(job["hidden"]) for part in (stax.Dense(1, **dense), stax.Relu())]
    kernel = jax.jit(stax.serial(*layers, stax.Dense(1, **dense))[2], static_argnums=2)
    x, y, test = (jnp.asarray(data[name]) for name in ("x_train", "y_train", "x_test"))
    t = job["time"] or None

    def call():
        predict = nt.predict.gradient_descent_mse_ensemble(kernel, x, y, diag_reg=0.0)
        return predict(t=t, x_test=test, get="ntk", compute_cov=True)

    found = call()
    return {"mean": np.asarray(found.mean), "cov": np.asarray(found.covariance)}, lambda: jax.block_until_ready(call())


def solve(job: dict, data: dict):
    jax.config.update("jax_enable_x64", job["dtype"] == "float64")
    return {"ntk": ntk, "predict": predict}[job["what"]](job, data)


if __name__ == "__main__":
    serve(solve)
