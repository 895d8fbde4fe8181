"""Empirical NTK and predictions of neural-tangents: `PYTHON neural_tangents_training.py JOB.json DATA.npz ANSWER.npz`.

It runs in an environment of its own. The job says what is wanted ("ntk" or "predict") and how; the answer holds what
was found and the least CPU seconds of a compiled, warm call.
"""

import json
import sys
import time
from pathlib import Path

import jax
import jax.numpy as jnp
import neural_tangents as nt  # type: ignore[import-not-found]
import numpy as np
from neural_tangents import stax  # type: ignore[import-not-found]


def timed(call, repeat: int):
    found = jax.block_until_ready(call())
    seconds = []
    for _ in range(repeat):
        start = time.process_time()
        jax.block_until_ready(call())
        seconds.append(time.process_time() - start)
    return found, min(seconds)


def ntk(job: dict, data: dict) -> dict:
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
    found, seconds = timed(lambda: kernel(x, None, params), job["repeat"])
    return {"ntk": np.asarray(found), "seconds": seconds}


def predict(job: dict, data: dict) -> dict:
    """Mean and covariance of the trained ensemble at infinite width; time 0 stands for the end of training."""
    dense = {"W_std": job["C_W"] ** 0.5, "b_std": job["C_b"] ** 0.5, "parameterization": "ntk"}
    layers = [part for _ in range(job["hidden"]) for part in (stax.Dense(1, **dense), stax.Relu())]
    kernel = jax.jit(stax.serial(*layers, stax.Dense(1, **dense))[2], static_argnums=2)
    x, y, test = (jnp.asarray(data[name]) for name in ("x_train", "y_train", "x_test"))
    t = job["time"] or None

    def call():
        predict = nt.predict.gradient_descent_mse_ensemble(kernel, x, y, diag_reg=0.0)
        return predict(t=t, x_test=test, get="ntk", compute_cov=True)

    found, seconds = timed(call, job["repeat"])
    return {"mean": np.asarray(found.mean), "cov": np.asarray(found.covariance), "seconds": seconds}


if __name__ == "__main__":
    job = json.loads(Path(sys.argv[1]).read_text())
    jax.config.update("jax_enable_x64", job["dtype"] == "float64")
    answer = {"ntk": ntk, "predict": predict}[job["what"]](job, dict(np.load(sys.argv[2])))
    np.savez(sys.argv[3], **answer)
