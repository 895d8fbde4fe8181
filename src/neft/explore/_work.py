"""What takes seconds: drawn and trained networks, corrections of order 1/width, fine phase diagrams.

Each function is given settings and a listener, `say(part, record)`, and runs in a process of its own.
"""

import math
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from .. import MLP, Network, ensemble, training
from .._blocks import blocks
from .._progress import heard_by
from ..tangent import mlp_ntk
from . import _flow, _limits, _phases, _regression
from ._numbers import short
from ._page import ACTIVATIONS
from ._settings import Refused, Settings

Say = Callable[[float, dict[str, Any] | None], None]

TRAINED = 32
_BLOCK, _BINS = 250, 31
_ESTIMATED = ("K", "Theta", "V", "A", "B", "D", "F", "K1", "Theta1")
_FEWEST, _ONE_BY_ONE = 16, 30_000_000  # networks, and random numbers a second


def refuse_too_large(settings: Settings) -> None:
    """Refuse a simulation that would draw for too long."""
    refuse_too_wide(settings, "drawn", _limits.MOST_NUMBERS / _FEWEST)
    numbers = settings.draws * settings.width**2 * _matrices(settings)
    if numbers > _limits.MOST_NUMBERS:
        most = int(settings.draws * _limits.MOST_NUMBERS / numbers)
        raise Refused(
            {
                "draws": f"draws is {settings.draws}, whose {numbers:.0e} random numbers take about "
                f"{numbers / _ONE_BY_ONE / 60:.0f} minutes, but must be at most {most} at this depth and width."
            }
        )


def refuse_too_wide(settings: Settings, done: str, most: float) -> None:
    """Refuse a simulation of networks that have more weights than `most`."""
    widest = math.isqrt(int(most / _matrices(settings)))
    if settings.width > widest:
        raise Refused(
            {
                "width": f"width is {settings.width}, but must be at most {widest} for networks of depth "
                f"{settings.depth} to be {done} here."
            }
        )


def _matrices(settings: Settings) -> int:
    return (settings.depth - 1) * (2 if settings.residual == "two" else 1)


def drawn(settings: Settings, say: Say) -> dict[str, Any]:
    """Outputs, their NTK and estimates of the tensors from networks drawn at random."""
    refuse_too_large(settings)
    net, x, key = settings.network(), np.ones(settings.width), jax.random.key(settings.seed)
    with heard_by(lambda _, done, total: say(0.5 * done / (total or done), None)):
        outputs, tangents = _outputs(net, x, settings.draws, key)
    found = {"draws": settings.draws, "outputs": _counted(outputs), "ntk": _counted(tangents)}
    say(0.5, found)
    names = _ESTIMATED if settings.plain else None
    with heard_by(lambda _, done, total: say(0.5 + 0.5 * done / (total or done), None)):
        tensors = ensemble.estimate(net, x, draws=settings.draws, key=key, only=_existing(settings, names)).tensors
    return found | {
        "tensors": {name: {"mean": short(one.mean, 8), "stderr": short(one.stderr, 4)} for name, one in tensors.items()}
    }


def _existing(settings: Settings, names: tuple[str, ...] | None) -> tuple[str, ...] | None:
    # Of an activation that jumps there is no NTK.
    if names is None:
        return None
    absent = _flow.flow(settings)["absent"]
    return tuple(name for name in names if name not in absent)


def _outputs(net: Network, x: np.ndarray, draws: int, key: Any) -> tuple[np.ndarray, np.ndarray]:
    at = jnp.asarray(x, jnp.float32)
    rates = net.rates()

    def tangent(params: Any) -> Any:
        if isinstance(net, MLP):
            return mlp_ntk(net, params, at[None])[0, 0, 0, 0]
        # Squares of gradients are all that a diagonal element takes.
        gradients = jax.grad(lambda params: net.apply(params, at)[0])(params)
        pairs = zip(jax.tree.leaves(rates), jax.tree.leaves(gradients), strict=True)
        return sum((rate * jnp.sum(leaf**2) for rate, leaf in pairs), jnp.zeros(()))

    @jax.jit
    def several(key: Any, index: Any) -> Any:
        def one(i: Any) -> Any:
            params = net.init(jax.random.fold_in(key, i), dtype=jnp.float32)
            return net.apply(params, at)[0], tangent(params)

        # One network at a time: it compiles much faster than a batch of them.
        return jax.lax.map(one, index)

    size, parts = min(draws, _BLOCK), []
    for part in blocks(draws, size, label="draws"):
        found = several(key, jnp.arange(part.start, part.start + size))
        parts.append([np.asarray(values, float)[: part.stop - part.start] for values in found])
    outputs, tangents = (np.concatenate(column) for column in zip(*parts))
    if not (np.isfinite(outputs).all() and np.isfinite(tangents).all()):
        raise ValueError("outputs of drawn networks overflow float32: take a smaller C_W.")
    return outputs, tangents


def _counted(values: np.ndarray) -> dict[str, Any]:
    """A histogram as a density, with standard errors, between the values that hold all but the farthest."""
    low, high = np.quantile(values, [0.002, 0.998])
    room = 0.1 * (high - low) or 1e-6 * max(1.0, abs(high))
    counts, edges = np.histogram(values, np.linspace(low - room, high + room, _BINS + 1))
    size = len(values) * np.diff(edges)
    share = counts / len(values)
    return {
        "at": short((edges[1:] + edges[:-1]) / 2, 6),
        "density": short(counts / size, 6),
        "stderr": short(np.sqrt(share * (1 - share) / len(values)) * len(values) / size, 4),
        "mean": short(float(values.mean())),
        "mean_stderr": short(float(values.std(ddof=1) / np.sqrt(len(values))), 4),
        "std": short(float(values.std(ddof=1))),
    }


def fine_phases(settings: Settings, say: Say) -> dict[str, Any]:
    """The refined phase diagram."""
    return _phases.phases(settings, fine=True)


def words(settings: Settings, say: Say) -> dict[str, Any]:
    """Sentences about a network of blocks, which take longer than those about a perceptron."""
    return _flow.words(settings)


def finite(settings: Settings, say: Say) -> dict[str, Any]:
    """Trained networks to order 1/width."""
    layers, inside = 0, 0.0

    def heard(label: str, done: int, total: int | None) -> None:
        # Layer by layer, and within a layer by its averages; what follows them takes as long as two layers.
        nonlocal layers, inside
        layers, inside = (done, 0.0) if label == "layers" else (layers, done / (total or done))
        say(round((layers + inside) / (settings.depth + 1), 2), None)

    with heard_by(heard):
        return _regression.finite(settings)


def trained(settings: Settings, say: Say) -> dict[str, Any]:
    """Networks trained by simulation, moment by moment: the same draws at each of them."""
    refuse_too_wide(settings, "trained", _limits.MOST_TRAINED)
    net, (x, y) = _regression.network(settings), _regression.arrays(settings)
    at, places = _regression.times(settings), _regression.line(_regression.FEW)
    key, draws = jax.random.key(settings.seed), min(settings.draws, TRAINED)
    found = {"x": short(places[:, 0]), "times": short(at), "draws": draws}
    moments: list[dict[str, Any] | None] = [None] * len(at)
    # Early moments take the least; before training is what each of them began with. The end of training takes ten times
    # as long as the last moment before it, so that it is left to theory.
    moving = np.flatnonzero(np.isfinite(at) & (at > 0))
    for i in moving:
        one = training.ensemble(net, x, y, places, draws=draws, key=key, dtype=np.float32, time=float(at[i]))
        if one.good.sum() < 2:
            raise ValueError("fewer than two networks could be trained to the end: take a smaller C_W or more width.")
        moments[i] = _moment(one.test[one.good][..., 0])
        moments[0] = _moment(one.start[..., 0])
        # Steps are as many as time is long.
        say(0.1 + 0.9 * float(at[moving[moving <= i]].sum() / at[moving].sum()), found | {"moments": moments})
    return found | {"moments": moments}


def _moment(outputs: np.ndarray) -> dict[str, Any]:
    # Of networks by places.
    std = outputs.std(axis=0, ddof=1)
    return {
        "mean": short(outputs.mean(axis=0).astype(float), 5),
        "std": short(std.astype(float), 5),
        "stderr": short((std / np.sqrt(len(outputs))).astype(float), 3),
        "some": short(outputs[:6].astype(float), 4),
    }


def ahead(settings: Settings, say: Say) -> dict[str, Any]:
    """The coarse phase diagrams of the activations that the page names, one by one."""
    for i, name in enumerate(ACTIVATIONS, start=1):
        say(i / len(ACTIVATIONS), {"activation": name, "phases": _phases.phases(Settings(activation=name))})
    return {}


JOBS: dict[str, Callable[[Settings, Say], dict[str, Any]]] = {
    "draw": drawn,
    "phases": fine_phases,
    "words": words,
    "finite": finite,
    "train": trained,
    "ahead": ahead,
}
