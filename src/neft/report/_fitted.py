"""A network trained as a classifier: minibatches with Adam, and the best of its epochs by the evaluation loss."""

import functools
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array, Float, Int

from .. import _optimizer
from ..network import Network

_BATCH, _PATIENCE, _PART = 128, 3, 2048


class Examples(NamedTuple):
    """Inputs and labels."""

    x: Float[np.ndarray, "count n_0"]
    y: Int[np.ndarray, " count"]


class Fitted(NamedTuple):
    """Parameters before training and at the best epoch; losses and right answers by epoch, the first before any step.

    `finished` is False where the epochs ran out before the patience did.
    """

    start: Any
    params: Any
    best: int
    finished: bool
    training_loss: Float[np.ndarray, " epochs"]
    evaluation_loss: Float[np.ndarray, " epochs"]
    accuracy: Float[np.ndarray, " epochs"]


def cross_entropy(net: Network, params: Any, x: Any, y: Any) -> Array:
    """The mean of -ln softmax(outputs) at the labels."""
    outputs = net.apply(params, x)
    own = jnp.take_along_axis(outputs, y[:, None], axis=1)[:, 0]
    return (jax.nn.logsumexp(outputs, axis=1) - own).mean()


def loss_of(net: Network, data: Examples, dtype: Any = np.float32) -> Any:
    """The cross-entropy as a function of the parameters, with the data as arguments of compiled code."""
    return jax.tree_util.Partial(functools.partial(_loss, dtype=dtype), net, data.x, data.y.astype(np.int32))


def _loss(net: Network, x: Any, y: Any, params: Any, *, dtype: Any) -> Array:
    # A new view: JAX remembers what it made of a NumPy array, in the precision of that moment.
    x, y = (a[...] if isinstance(a, np.ndarray) else a for a in (x, y))
    return cross_entropy(net, params, jnp.asarray(x, dtype), jnp.asarray(y))


def fitted(
    net: Network, data: Examples, evaluation: Examples, *, epochs: int, learning_rate: float, key: Array
) -> Fitted:
    """The network trained on the data until the evaluation loss no longer falls."""
    first, later = jax.random.split(key)
    start = params = best = net.init(first, dtype=jnp.float32)
    adam = optax.adam(learning_rate)
    state, history = adam.init(params), [_scores(net, params, data, evaluation)]
    x, y = jnp.asarray(data.x, jnp.float32), jnp.asarray(data.y.astype(np.int32))
    for epoch in range(epochs):
        order = jax.random.permutation(jax.random.fold_in(later, epoch), len(y))
        params, state = _epoch(net, learning_rate, params, state, x, y, order)
        history.append(_scores(net, params, data, evaluation))
        if not np.isfinite(history[-1]).all():
            raise ValueError(f"the loss is {history[-1][0]} after epoch {epoch + 1} with Adam at {learning_rate:g}.")
        least = int(np.argmin([loss for _, loss, _ in history]))
        best = params if least == epoch + 1 else best
        if epoch + 1 - least >= _PATIENCE:
            break
    training, losses, right = (np.array(column) for column in zip(*history))
    least = int(np.argmin(losses))
    finished = len(losses) - 1 - least >= _PATIENCE
    return Fitted(start, best, least, finished, training, losses, right)


@functools.partial(jax.jit, static_argnums=1)
def _epoch(net: Network, rate: float, params: Any, state: Any, x: Array, y: Array, order: Array) -> Any:
    batch = min(_BATCH, len(y))
    rows = order[: len(y) // batch * batch].reshape(-1, batch)

    def step(carry: Any, chosen: Array) -> Any:
        params, state = carry
        gradient = jax.grad(lambda params: cross_entropy(net, params, x[chosen], y[chosen]))(params)
        update, state = _optimizer.update(optax.adam(rate), gradient, state, params)
        return (optax.apply_updates(params, update), state), None

    return jax.lax.scan(step, (params, state), rows)[0]


def _scores(net: Network, params: Any, data: Examples, evaluation: Examples) -> tuple[float, float, float]:
    training, _ = _score(net, params, data)
    return training, *_score(net, params, evaluation)


def _score(net: Network, params: Any, data: Examples) -> tuple[float, float]:
    parts = [slice(i, i + _PART) for i in range(0, len(data.y), _PART)]
    sums = [_sums(net, params, data.x[part].astype(np.float32), data.y[part].astype(np.int32)) for part in parts]
    loss, right = (sum(float(one[i]) for one in sums) / len(data.y) for i in (0, 1))
    return loss, right


@jax.jit
def _sums(net: Network, params: Any, x: Any, y: Any) -> tuple[Array, Array]:
    right = (net.apply(params, x).argmax(1) == y).sum()
    return cross_entropy(net, params, x, y) * len(y), right
