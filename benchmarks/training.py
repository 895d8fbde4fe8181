"""Predictions against neural-tangents, and training networks together against training them one by one."""

import jax
import jax.numpy as jnp
import numpy as np
from measure import Ratio, in_turns, one_core, peer, timed

import neft

C_B, C_W, HIDDEN = 0.1, 1.5, 2  # in the peer's parameterization the learning rates are λ_b = C_b, λ_W = C_W
TRAIN, TEST, FEATURES, OUTPUTS = 1000, 100, 784, 10
DRAWS, WIDTH, STEPS, ETA = 256, 64, 200, 0.5


def predictions() -> list[Ratio]:
    """`predict` with 1000 training inputs, at the end of training and at a time, kernels included."""
    rng = np.random.default_rng(0)
    data = {
        "x_train": rng.normal(size=(TRAIN, FEATURES)),
        "y_train": rng.normal(size=(TRAIN, OUTPUTS)),
        "x_test": rng.normal(size=(TEST, FEATURES)),
    }
    net = neft.MLP((FEATURES, *(1,) * HIDDEN, OUTPUTS), "relu", C_b=C_B, C_W=C_W, lambda_b=C_B, lambda_W=C_W)
    ratios = []
    for time, what in ((None, "to the end"), (5.0, "to a time")):
        job = {"what": "predict", "C_b": C_B, "C_W": C_W, "hidden": HIDDEN, "dtype": "float64"}
        job["time"] = (time or 0.0) * TRAIN * OUTPUTS  # its loss is a mean
        with peer("neural_tangents_training.py", job, data) as theirs:
            if theirs is None:
                return []
            found = neft.training.predict(net, *data.values(), time=time)
            assert np.abs(found.mean - theirs.answer["mean"]).max() < 1e-5
            assert np.abs(found.cov - theirs.answer["cov"]).max() < 1e-5
            ours = timed(lambda time=time: neft.training.predict(net, *data.values(), time=time))
            label = f"predict {what}, {TRAIN} training inputs, float64"
            ratios.append(Ratio.of(label, "neural-tangents", 1, *in_turns(ours, theirs.seconds, repeat=5)))
    return ratios


def together(hidden: int, promised: float) -> Ratio:
    """All networks in one call against a loop over networks and compiled steps, compilation left out."""
    net = neft.MLP((2, *(WIDTH,) * hidden, 1), "tanh", C_b=0.1)
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(4, 2)).astype(np.float32), rng.normal(size=(4, 1)).astype(np.float32)
    key = jax.random.key(0)
    options = {"draws": DRAWS, "key": key, "steps": STEPS, "learning_rate": ETA / 4}
    rates, device = net.rates(), (jnp.asarray(x), jnp.asarray(y))

    @jax.jit
    def step(params, x, y):
        gradient = jax.grad(lambda p: ((net.apply(p, x) - y) ** 2).sum() / 2)(params)
        return jax.tree.map(lambda p, rate, g: p - ETA / 4 * rate * g, params, rates, gradient)

    init, alone = jax.jit(net.init), 16

    def one_by_one():
        for i in range(alone):
            params = init(jax.random.fold_in(key, i))
            for _ in range(STEPS):
                params = step(params, *device)
            jax.block_until_ready(net.apply(params, device[0]))

    all_at_once = timed(lambda: neft.training.ensemble(net, x, y, **options))
    ours, theirs = in_turns(all_at_once, timed(one_by_one), repeat=5)
    label = f"training {DRAWS} networks of width {WIDTH}, {hidden + 1} layers"
    return Ratio.of(label, "one by one, compiled steps", promised, ours, theirs * DRAWS / alone)


@one_core()
def run() -> list[Ratio]:
    """Predictions, then training.

    With one hidden layer a step is all overhead, which is shared; with two, arithmetic begins to count.
    """
    return [*predictions(), together(1, 20), together(2, 4)]
