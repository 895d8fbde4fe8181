"""K-FAC of kfac-jax for `fisher.py`, in an environment of its own (`serve.py` says how it is called).

The job says what is wanted: "train", one network until its training cost is at most the target, and the answer holds
the curve; "race", the same with a cosine to 0 at the horizon, until levels of cost and accuracy; or "step", where each
turn is a stretch of steps. Neither holds compilation or evaluation. Steps are called
one by one: the library forbids to compile them into a loop.
"""

import time

import jax
import jax.numpy as jnp
import kfac_jax  # type: ignore[import-not-found]
import numpy as np
from serve import serve


def cost(params, batch, l2: float, scale=None):
    """Mean cross-entropy of relu layers and ½·L2·|W|², weights only; K-FAC is told of the layers and the loss.

    A scale is that of whitened inputs, whose raw weights L2 is about.
    """
    x, y = batch
    for l, layer in enumerate(params):
        h = jax.nn.relu(x) if l else x
        x = kfac_jax.register_dense(h @ layer["W"] + layer["b"], h, layer["W"], layer["b"])
    kfac_jax.register_softmax_cross_entropy_loss(x, y)
    first, *rest = (layer["W"] for layer in params)
    first = first if scale is None else first * scale[:, None]
    penalty = l2 / 2 * sum(jnp.square(W).sum() for W in (first, *rest))
    return -jnp.take_along_axis(jax.nn.log_softmax(x), y[:, None], 1).mean() + penalty


def rates(job: dict, steps: int):
    """The schedule: constant, or a cosine to 0 after as many epochs of `steps` as the horizon says."""
    if "horizon" not in job:
        return lambda step: np.float32(job["rate"])
    end = job["horizon"] * steps
    return lambda step: np.float32(job["rate"] * 0.5 * (1 + np.cos(np.pi * min(step / end, 1.0))))


class Training:
    """Parameters and the optimizer's state, compiled and ready to go."""

    def __init__(self, job: dict, data: dict):
        self.x, self.y, self.done = data["x"], data["y"], 0
        # Rate and momentum are arguments of the steps, so that a cache of programs serves them all.
        self.rate, self.momentum = rates(job, len(data["x"]) // job["batch"]), np.float32(job["momentum"])
        layers = range(sum(name.startswith("W") for name in data))
        self.params = [{"W": jnp.asarray(data[f"W{l}"].T), "b": jnp.asarray(data[f"b{l}"])} for l in layers]
        self.key = jax.random.PRNGKey(job["seed"])
        self.optimizer = kfac_jax.Optimizer(
            value_and_grad_func=jax.value_and_grad(
                lambda params, batch: cost(params, batch, job["l2"], data.get("scale"))
            ),
            l2_reg=job["l2"],
            regularized_parameters_path_exclusions="b",
            damping_schedule=lambda step: job["damping"],
            curvature_update_period=job["update_every"],
            inverse_update_period=job["refresh_every"],
            num_burnin_steps=0,
        )
        batch = self.x[: job["batch"]], self.y[: job["batch"]]
        self.state = self.optimizer.init(self.params, self.key, batch)
        # Steps with curvature and inverse, with neither, and with curvature alone are three programs. On copies: a step
        # uses its memory again.
        params, state = jax.tree.map(jnp.copy, (self.params, self.state))
        for step in (0, 1, job["update_every"]):
            params, state, _ = self.optimizer.step(
                params,
                state,
                self.key,
                batch=batch,
                learning_rate=self.rate(step),
                momentum=self.momentum,
                global_step_int=step,
            )
        jax.block_until_ready(params)

    def steps(self, index: np.ndarray) -> float:
        """The CPU seconds of one step for each row of the index."""
        self.keys(len(index))  # once for nothing: they are compiled at the first call
        started = time.process_time()
        keys = self.keys(len(index))
        for rows, key in zip(index, keys):
            batch = self.x[rows], self.y[rows]
            # The number of the step is given, so that it need not be waited for.
            self.params, self.state, _ = self.optimizer.step(
                self.params,
                self.state,
                key,
                batch=batch,
                learning_rate=self.rate(self.done),
                momentum=self.momentum,
                global_step_int=self.done,
            )
            self.done += 1
        jax.block_until_ready(self.params)
        return time.process_time() - started

    def keys(self, count: int) -> np.ndarray:
        """The random keys of the next steps."""
        return np.asarray(jax.random.split(jax.random.fold_in(self.key, self.done), count))


def train(job: dict, data: dict) -> dict:
    """Epochs, CPU seconds and training cost at each point, until the target is reached or the cost is not finite."""
    training, count, batch = Training(job, data), len(data["x"]), job["batch"]
    steps = count // batch
    stretch = -(-steps // job["points"])
    evaluated = data["x"][: job["evaluated"]], data["y"][: job["evaluated"]]
    evaluate = jax.jit(lambda params, examples: cost(params, examples, job["l2"]))
    curve = [(0.0, 0.0, float(evaluate(training.params, evaluated)))]
    for epoch in range(job["epochs"]):
        order = np.random.default_rng((job["seed"], 1, epoch)).permutation(count)[: steps * batch].reshape(steps, batch)
        for start in range(0, steps, stretch):
            seconds = training.steps(order[start : start + stretch])
            value = float(evaluate(training.params, evaluated))
            curve.append((training.done / steps, curve[-1][1] + seconds, value))
            if value <= job["target"] or not np.isfinite(value):
                return dict(zip(("epochs", "seconds", "cost"), np.array(curve).T))
    return dict(zip(("epochs", "seconds", "cost"), np.array(curve).T))


def race(job: dict, data: dict) -> dict:
    """Epochs, CPU seconds, training cost and accuracy on the judged examples, until both levels or the horizon."""
    training, count, batch = Training(job, data), len(data["x"]), job["batch"]
    steps = count // batch
    tenth, left = max(round(steps / job["points"]), 1), round(job["horizon"] * steps)
    seen = data["x"][: job["evaluated"]], data["y"][: job["evaluated"]]
    evaluate = jax.jit(lambda params, examples: cost(params, examples, job["l2"], data.get("scale")))
    right = jax.jit(lambda params: (outputs(params, data["judged_x"]).argmax(-1) == data["judged_y"]).mean())
    curve, clock, order = [], 0.0, np.empty((0, batch), int)
    while True:
        curve.append(
            (training.done / steps, clock, float(evaluate(training.params, seen)), float(right(training.params)))
        )
        best, most = min(row[2] for row in curve), max(row[3] for row in curve)
        cost_level, accuracy_level = job["levels"]
        there = cost_level is None or best <= cost_level, accuracy_level is None or most >= accuracy_level
        # A level that is not reached before its limit does not matter any more.
        over = [reached or clock > limit for reached, limit in zip(there, job["limits"] or (np.inf, np.inf))]
        if not left or not np.isfinite(curve[-1][2]) or all(over):
            return dict(zip(("epochs", "seconds", "cost", "accuracy"), np.array(curve).T))
        if not len(order):
            epoch = training.done // steps
            order = np.random.default_rng((job["seed"], 1, epoch)).permutation(count)[: steps * batch]
            order = order.reshape(steps, batch)
        piece, order = order[: min(tenth, left)], order[min(tenth, left) :]
        clock, left = clock + training.steps(piece), left - len(piece)


def outputs(params, x):
    """What the network gives."""
    for l, layer in enumerate(params):
        x = (jax.nn.relu(x) if l else x) @ layer["W"] + layer["b"]
    return x


def solve(job: dict, data: dict):
    if job["what"] == "race":
        return race(job, data), lambda: None
    if job["what"] == "train":
        return train(job, data), lambda: None
    training = Training(job, data)
    index = np.random.default_rng(0).integers(len(data["x"]), size=(job["steps"], job["batch"]))
    return {}, lambda: training.steps(index)


if __name__ == "__main__":
    serve(solve)
