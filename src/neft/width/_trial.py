"""A short run that verifies an advice: the advised settings beside those of today, on a user's own data.

It stands apart from the advice, whose numbers come from theory and stated rules and never from training.
"""

import dataclasses
import functools
import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Float, Int

from .. import _check
from .._progress import track
from .._result import Made, Result, result
from ..network import Layer, Network
from ..network.engine import weights_of
from ._apply import transformation
from ._settings import Group, Settings, bias_groups, held, norm_group, with_frozen_norms

USUAL_RATE = {"sgd": 0.01, "momentum": 0.01, "adam": 0.001, "adamw": 0.001}
"""What tutorials start with, where nobody said what the present rate is."""

_CHUNK, _SEEN, _SHOWN = 20, 10_000, 20


@result
class Trial(Result):
    """Losses of the advised settings and of the present ones over the first steps of training.

    Attributes:
        optimizer: its name.
        loss: "cross-entropy" of whole-number targets, else "squared error", a mean over entries.
        names: "advised" and "present", along the first axis of the arrays.
        rates: the rate of the weights of the hidden layers (of one layer the only one).
        step: steps that were done.
        losses: mean loss of the batches since the step before.
        final: loss on the first training points, `points` of them, after the last step; infinite where it diverged.
        guess: the loss of the best answer that is the same for all inputs.
        batch: inputs in a step.
        summary: what was seen, in a sentence.
    """

    optimizer: str
    loss: str
    names: tuple[str, ...]
    rates: Float[np.ndarray, " settings"]
    step: Int[np.ndarray, " steps"]
    losses: Float[np.ndarray, "settings steps"]
    final: Float[np.ndarray, " settings"]
    guess: float
    batch: int
    points: int
    summary: str
    made: Made


class Tried:
    """An advice that can be tried: it has a `network` and `settings`."""

    def trial(
        self,
        x: Any,
        y: Any,
        *,
        optimizer: str | Settings = "sgd",
        present: tuple[Network, Any] | None = None,
        rate: float | None = None,
        steps: int = 300,
        batch: int = 128,
        key: Any = None,
    ) -> Trial:
        """A short run on data of one's own, as advised and as it is now: it verifies the advice and is no part of it.

        Args:
            x: inputs, (N, n_0).
            y: classes as whole numbers, for the cross-entropy, or any numbers, (N, n_L), for the squared error.
            optimizer: "sgd", "momentum", "adam" or "adamw".
            present: the network and its parameters as they are, such as `network` and `params` of `neft.read`; by
                default the advised network with uniform weights and biases ±1/√fan-in, as PyTorch and Equinox draw.
            rate: the present rate of all parameters, by default 0.01, or 0.001 with Adam.
            steps: how many.
            batch: inputs in a step.
            key: of the weights and the batches, `jax.random.key(0)` by default.

        >>> from neft.width import advise
        >>> x = np.linspace(-1, 1, 32).reshape(16, 2)
        >>> advise("tanh", depth=2, width=8, inputs=2).trial(x, x[:, :1], steps=4).losses.shape
        (2, 4)
        """
        key = jax.random.key(0) if key is None else _check.key("key", key)
        of: Any = self
        net = vars(self).get("_tried") or of.network()
        more: dict[str, Any] = {"present": present, "rate": rate, "steps": steps, "batch": batch, "key": key}
        return trial(net, self._chosen(optimizer), x, y, **more)

    def _chosen(self, optimizer: str | Settings) -> Settings:
        """The settings themselves, if they fit, or those of the name."""
        of: Any = self
        if not isinstance(optimizer, Settings):
            return of.settings(optimizer)
        wanted = of.settings(optimizer.optimizer)
        optimizer = held(optimizer, len(wanted.rate_W))
        if wanted.norms is not None:
            return with_frozen_norms(optimizer)
        if optimizer.norms is not None:
            raise ValueError(
                "optimizer holds settings of another network: the advice is for one without trained norms."
            )
        return optimizer


class Contender(NamedTuple):
    """A network, its parameters, and the rates of its layers and norms."""

    name: str
    net: Network
    params: Any
    chosen: Settings


def trial(
    net: Network,
    chosen: Settings,
    x: Any,
    y: Any,
    *,
    present: tuple[Network, Any] | None,
    rate: float | None,
    steps: int,
    batch: int,
    key: Any,
) -> Trial:
    """Both settings trained on the same batches; without a present network it has uniform weights ±1/√fan-in."""
    x = _check.array("x", x, ndim=2, dtype=np.float32)
    if not len(x):
        raise ValueError(f"x has shape {x.shape}, but must hold at least one input.")
    y, loss = _targets(y, len(x), net.widths[-1])
    steps, batch = _check.integer("steps", steps, at_least=1), _check.integer("batch", batch, at_least=1)
    rate = USUAL_RATE[chosen.optimizer] if rate is None else _check.real("rate", rate, above=0.0)
    if x.shape[1] != net.inputs:
        raise ValueError(f"x has {x.shape[1]} entries in an input, but the network takes {net.inputs}.")
    batch = min(batch, len(x))
    weights, usual, order = jax.random.split(key, 3)
    now, params = _usual(net, usual) if present is None else _given(present, net)
    both = (
        Contender("advised", net, net.init(weights, dtype=jnp.float32), chosen),
        Contender("present", now, params, _one_rate(chosen, rate)),
    )
    rows = _batches(order, len(x), steps, batch)
    losses, final = zip(*(_trained(one, rows, x, y, loss) for one in both))
    edges = np.unique(np.linspace(0, steps, min(_SHOWN, steps) + 1).round().astype(int))
    means = np.array([[part.mean() for part in np.split(one, edges[1:-1])] for one in losses])
    middle = [float(one.chosen.rate_W[min(1, len(one.chosen.rate_W) - 1)]) for one in both]
    guess, points = _guess(y, loss), min(len(x), _SEEN)
    found: dict[str, Any] = {"optimizer": chosen.optimizer, "loss": loss, "guess": guess, "points": points}
    return Trial(
        **found,
        names=tuple(one.name for one in both),
        rates=np.array(middle),
        step=edges[1:],
        losses=np.where(np.isfinite(means), means, np.inf),
        final=np.array(final),
        batch=batch,
        summary=_summary(found, middle, final, steps, batch, kept=present is not None),
        made=Made.by(
            "neft.width.results.Advice.trial",
            specification={"optimizer": chosen.optimizer, "steps": steps, "batch": batch, "rate": rate},
        ),
    )


def _given(present: Any, net: Network) -> tuple[Network, Any]:
    if not (isinstance(present, tuple | list) and len(present) == 2 and isinstance(present[0], Network)):
        raise ValueError(
            f"present is {_check.brief(present)}, but must be a network and its parameters, such as "
            "(found.network, found.params) of what neft.read gives."
        )
    now, params = present
    sizes, wanted = (f"{one.inputs} inputs and {one.widths[-1]} outputs" for one in (now, net))
    if sizes != wanted:
        raise ValueError(f"present is a network of {sizes}, but the advice is for one of {wanted}.")
    return now, params


def _targets(y: Any, count: int, outputs: int) -> tuple[np.ndarray, str]:
    y = np.asarray(y)
    if y.ndim == 1 and np.issubdtype(y.dtype, np.integer):
        y = _check.array("y", y, ndim=1, at_least=0, dtype=np.int32)
        if y.max(initial=0) >= outputs:
            raise ValueError(f"y holds class {y.max()}, but the network has {outputs} outputs, for classes 0 and on.")
        loss = "cross-entropy"
    else:
        y = _check.array("y", y if y.ndim != 1 else y[:, None], ndim=2, dtype=np.float32)
        if y.shape[1] != outputs:
            raise ValueError(f"y has {y.shape[1]} numbers for an input, but the network has {outputs} outputs.")
        loss = "squared error"
    if len(y) != count:
        raise ValueError(f"y is of {len(y)} inputs, but x holds {count}.")
    return y, loss


def _usual(net: Network, key: Any) -> tuple[Network, Any]:
    """The network as PyTorch and Equinox draw it: uniform weights and biases of ±1/√fan-in."""
    params = net.init(key, dtype=jnp.float32)
    biases = iter([layer.biases for layer in weights_of(net)])
    keys = iter(jax.random.split(key, 2 * len(jax.tree.leaves(params))))

    def drawn(part: Any) -> Any:
        if not isinstance(part, Layer):
            return part
        most = part.W.shape[-1] ** -0.5
        W, b = (jax.random.uniform(next(keys), leaf.shape, leaf.dtype, minval=-most, maxval=most) for leaf in part)
        return Layer(W, b if next(biases) else jnp.zeros_like(b))

    return net, jax.tree.map(drawn, params, is_leaf=lambda part: isinstance(part, Layer))


def _one_rate(chosen: Settings, rate: float) -> Settings:
    same = {name: np.where(getattr(chosen, name) > 0, rate, 0.0) for name in ("rate_W", "rate_b")}
    return dataclasses.replace(chosen, **same, rate_norm=rate if chosen.rate_norm else 0.0, why="one rate")


def _batches(key: Any, count: int, steps: int, batch: int) -> np.ndarray:
    """Rows of each step: the data in random orders one after the other."""
    seed = np.asarray(jax.random.key_data(key)).ravel().tolist()
    rng = np.random.default_rng(seed)
    turns = math.ceil(steps * batch / count)
    return np.concatenate([rng.permutation(count) for _ in range(turns)])[: steps * batch].reshape(steps, batch)


def _trained(of: Contender, rows: np.ndarray, x: np.ndarray, y: np.ndarray, loss: str) -> tuple[np.ndarray, float]:
    """Losses of the batches, and on the first points in the end."""
    chosen, groups = of.chosen, _groups(of)
    each = list(dict.fromkeys(groups))
    how = How(chosen.optimizer, chosen.momentum, chosen.betas, tuple(each.index(group) for group in groups))
    carry, losses = _begun(of.params, each, how), []
    given = (of.net, each, jnp.asarray(x), jnp.asarray(y))
    with jax.numpy_dtype_promotion("standard"), jax.numpy_rank_promotion("allow"):
        # Parts of equal length but for the last, so that there are two programs at most.
        for start in track(range(0, len(rows), _CHUNK), of.name):
            carry, some = _steps(carry, jnp.asarray(rows[start : start + _CHUNK]), *given, how=how, loss=loss)
            losses.append(np.asarray(some))
        final = float(_cost(of.net, carry[0], given[2][:_SEEN], given[3][:_SEEN], loss))
    return np.concatenate(losses), final if math.isfinite(final) else math.inf


def _groups(of: Contender) -> list[Group]:
    """The groups of the parameters of a network, in the order of its leaves."""
    chosen = of.chosen
    parts = jax.tree.leaves(of.params, is_leaf=lambda part: isinstance(part, Layer))
    pairs = list(zip(chosen.weights, bias_groups(chosen)))
    # A model that was read may have other layers than the advice: all of them then have the rates of a middle one.
    count = sum(isinstance(part, Layer) for part in parts)
    pairs += [pairs[len(pairs) // 2]] * max(0, count - len(pairs))
    each, found = iter(pairs), []
    for part in parts:
        found += next(each) if isinstance(part, Layer) else [norm_group(chosen)]
    return found


class How(NamedTuple):
    """What of an optimizer a program is compiled for; `labels` say to which group a parameter belongs."""

    optimizer: str
    momentum: float
    betas: tuple[float, float] | None
    labels: tuple[int, ...]


def _begun(params: Any, groups: Sequence[Group], how: How) -> Any:
    params = jax.tree.map(lambda leaf: jnp.asarray(leaf, jnp.float32), params)
    return params, transformation(*how, groups).init(params)


@functools.partial(jax.jit, static_argnames=("how", "loss"))
def _steps(carry: Any, rows: Any, net: Any, groups: Any, x: Any, y: Any, *, how: How, loss: str) -> Any:
    def step(carry: Any, some: Any) -> Any:
        params, state = carry
        value, slope = jax.value_and_grad(lambda p: _cost(net, p, x[some], y[some], loss))(params)
        moves, state = transformation(*how, groups).update(slope, state, params)
        return (optax.apply_updates(params, moves), state), value

    return jax.lax.scan(step, carry, rows)


def _cost(net: Any, params: Any, x: Any, y: Any, loss: str) -> Any:
    z = net.apply(params, x)
    if loss == "squared error":
        return jnp.mean((z - y) ** 2)
    return jnp.mean(jax.nn.logsumexp(z, -1) - jnp.take_along_axis(z, y[:, None], 1)[:, 0])


def _guess(y: np.ndarray, loss: str) -> float:
    if loss == "squared error":
        return float(y.astype(float).var(0).mean())
    share = np.bincount(y) / len(y)
    return float((share[share > 0] * np.log(1 / share[share > 0])).sum())


def _summary(found: dict[str, Any], rates: Any, final: Any, steps: int, batch: int, *, kept: bool) -> str:
    advised, present = (f"{value:.3g}" if math.isfinite(value) else "infinite, diverged," for value in final)
    weights = "the model's own weights" if kept else "weights drawn as frameworks do"
    better = "better" if final[0] < final[1] else "not better"
    return (
        f"After {steps} steps of {found['optimizer']} with batches of {batch} the {found['loss']} on "
        f"{found['points']} training points is {advised} as advised and {present} with {weights} and one rate of "
        f"{rates[1]:.3g} ({found['guess']:.3g} with the same answer for all inputs), so the advice is {better} on this "
        "data."
    )
