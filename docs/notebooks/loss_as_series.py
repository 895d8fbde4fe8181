# %% [markdown]
# # A loss as a power series
#
# A small classifier on Fashion-MNIST: which terms carry its loss, how far the series reaches, and what is left of it
# after training.

# %%
import jax
import numpy as np

import neft

load = {"preprocess": "pool(16)+global", "full": False}
train, test = (neft.data.load("fashion-mnist", split, **load) for split in ("train", "test"))
fit = neft.action.fit(train, test, hidden=8, epochs=3, learning_rate=0.003, key=jax.random.key(0))
print(f"evaluation loss {fit.evaluation_loss[fit.best]:.3f} against ln 10 = {np.log(10):.3f}")
assert fit.evaluation_loss[fit.best] < np.log(10) - 0.5

# %% [markdown]
# Order by order and term by term. The UW term, linear in the mean images of the classes, is nearly all of the second
# order.

# %%
found = neft.action.analyse(fit, test, order=4)
print(found)
assert found.expansion.terms["UW"].share > 0.9

# %% [markdown]
# How far does the series reach along tθ? Inside its radius the partial sums must converge to the loss.

# %%
reach = found.convergence
print(f"t = 1 is {reach.verdict()} the radius")
t, loss, partial = reach.t, reach.loss, reach.partial
inside = t < 0.5 * neft.action.radius(fit.params, test).radius
error = np.abs(partial[-1, inside] - loss[inside]).max()
print(f"largest error of the partial sums for t within half of the radius: {error:.1e}")
assert error < 1e-3

# %% [markdown]
# Beyond it the loss comes back by re-expansion along the ray.

# %%
z, is_class = np.asarray(test.x, float), np.eye(test.classes)[test.y]


def loss_at(theta):
    f = jax.nn.silu(z @ theta["W"].T + theta["b"]) @ theta["U"].T + theta["c"]
    return (jax.nn.logsumexp(f, axis=1) - (is_class * f).sum(axis=1)).mean()


recovered = neft.action.recover(loss_at, fit.params)
print(f"recovered {recovered.value:.5f}, true {reach.loss[-1]:.5f}, plain partial sum {recovered.partial:.3g}")
assert abs(recovered.value - reach.loss[-1]) < 1e-2
