"""What each input has by itself on its way through a network: variances, and averages at every activation it meets."""

import dataclasses
import functools
from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array

from .._activation import Activation
from .._closed import Pair, form_of
from .._moments import Powers, pure_moments
from .._of_own import own_moments
from .._tilt import tilt_of
from ..network import Means, Stage
from ..network.engine import kept_along
from ._kernel_expansion import over

_OWN = 1e-12  # tolerance of averages of a user's own function


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Occurrence:
    """An activation in a network, and N inputs that meet it: their variances, ⟨σ²⟩, and ⟨σ⟩ if anything asks for it.

    `tilted` says whether anything asks for averages of zσ'.
    """

    act: Activation = dataclasses.field(metadata={"static": True})
    K: Any
    square: Any
    mean: Any = None
    tilted: bool = dataclasses.field(default=False, metadata={"static": True})


class Own(NamedTuple):
    """K and Θ of each input after every block at the top that holds weights, (L, N), and the activations on the way.

    `counts` says how many of them each segment has.
    """

    K: np.ndarray
    Theta: np.ndarray
    occurrences: tuple[Occurrence, ...]
    counts: tuple[int, ...]


def own(segments: Sequence[Any], q: np.ndarray, mean: np.ndarray) -> Own:
    """The recursion of one input, for inputs of mean squares q (N,) and these means, through segments of a network."""
    numbers, structure = jax.tree.flatten(segments)
    if _closed(structure):
        return _by_forms(structure, numbers, q, mean)
    stage = Stage.itself(q, np.zeros_like(q), mean1=mean, mean2=mean, kind="input")
    Ks, Thetas, seen, counts = [], [], [], []
    for segment in segments:
        stage, met = _recorded(segment, stage)
        seen += met
        counts.append(len(met))
        if segment.weighs:
            Ks.append(stage.c)
            Thetas.append(stage.mean_theta)
    # What comes after the last weights belongs to the output.
    Ks[-1], Thetas[-1] = stage.c, stage.mean_theta
    return Own(np.stack(Ks), np.stack(Thetas), tuple(seen), tuple(counts))


def _recorded(segment: Any, stage: Stage) -> tuple[Stage, list[Occurrence]]:
    engine = _Recorder()
    return segment.kernel(stage, engine), engine.seen


@functools.lru_cache(maxsize=1024)
def _closed(structure: Any) -> bool:
    # Whether all that segments ask for has a closed form; whatever their numbers are.
    segments = jax.tree.unflatten(structure, [1.0] * structure.num_leaves)
    return all(_closed_one(jax.tree.structure(segment)) for segment in segments)


@functools.lru_cache(maxsize=1024)
def _closed_one(structure: Any) -> bool:
    segment = jax.tree.unflatten(structure, [1.0] * structure.num_leaves)
    one, engine, taken = np.ones(1), _Closed(), False
    for kind in ("input", "gaussian"):
        stage = Stage.itself(one, one, mean1=0 * one, mean2=0 * one, kind=kind)
        try:
            segment.kernel(stage, engine)
            taken = True
        except ValueError:  # one of the two may be no place for it
            continue
    return taken and engine.closed


class _Closed:
    # Finds out whether closed forms serve.
    closed = True

    def pair(self, activation: Activation, stage: Stage) -> Means:
        self.closed &= form_of(activation) is not None
        return Means(stage.K1, stage.K1, stage.K1, stage.K1, 0 * stage.K1)

    def mean(self, activation: Activation, stage: Stage) -> tuple[Any, Any]:
        self.closed = False
        return stage.K1, stage.K1

    def tilted(self, activation: Activation, stage: Stage) -> Any:
        self.closed = False
        return stage.K1


def _by_forms(structure: Any, numbers: list[Any], q: np.ndarray, mean: np.ndarray) -> Own:
    # All layers in one compiled call; a NumPy call for each operation would take longer than small tiles.
    # Padded, so that compiled code is found again.
    count = len(q)
    q, mean = (np.pad(value, (0, (1 << (count - 1).bit_length()) - count), mode="edge") for value in (q, mean))
    runs = jax.tree.map(lambda values: np.asarray(values)[:, :count], _compiled(structure, numbers, q, mean))
    weigh = [segment.weighs for segment in jax.tree.unflatten(structure, numbers)]
    Ks, Thetas, seen, counts = [], [], [], []
    for K, Theta, met in runs:
        for n in range(len(K)):
            seen += jax.tree.map(lambda values: values[n], met)  # noqa: B023
            counts.append(len(met))
            Ks.append(K[n])
            Thetas.append(Theta[n])
    last = [i for i, one in enumerate(weigh) if one]
    # What comes after the last weights belongs to the output.
    last[-1] = len(weigh) - 1
    return Own(np.stack([Ks[i] for i in last]), np.stack([Thetas[i] for i in last]), tuple(seen), tuple(counts))


@functools.partial(jax.jit, static_argnums=0)
def _compiled(structure: Any, numbers: list[Any], q: Array, mean: Array) -> list[tuple[Any, Any, list[Occurrence]]]:
    # K, Θ and activations met, of each run of equal segments, whose axis comes first.
    def step(segment, _, stage):
        engine = _Forms()
        stage = segment.kernel(stage, engine)
        return stage, (stage.c, stage.mean_theta, engine.met)

    segments = jax.tree.unflatten(structure, [jnp.asarray(number, q.dtype) for number in numbers])
    stage = Stage.itself(q, jnp.zeros_like(q), mean1=mean, mean2=mean, kind="input")
    return kept_along([(segment, None) for segment in segments], stage, step)[1]


class _Forms(_Closed):
    # Averages in closed form, which are remembered; that nothing else is asked for is known.
    def __init__(self) -> None:
        self.met: list[Occurrence] = []

    def pair(self, activation: Activation, stage: Stage) -> Means:
        form = form_of(activation)
        assert form is not None
        one = Pair.one(stage.K1, jnp.sqrt(stage.K1))
        square, slope = form.value(one), form.derivative(one)
        self.met.append(Occurrence(activation, stage.K1, square))
        return Means(square, square, square, slope, jnp.zeros_like(square))


class _Recorder:
    # Averages over one input, which are remembered in the order in which blocks ask for them.
    def __init__(self) -> None:
        self.seen: list[Occurrence] = []
        self._places: list[Stage] = []

    def pair(self, activation: Activation, stage: Stage) -> Means:
        K = np.asarray(stage.K1)
        square, slope = averages(activation, K)
        self.seen.append(Occurrence(activation, K, square))
        self._places.append(stage)
        return Means(square, square, square, slope, np.zeros_like(square))

    def mean(self, activation: Activation, stage: Stage) -> tuple[np.ndarray, np.ndarray]:
        mean = averages(activation, np.asarray(stage.K1), means=True)[0]
        self._note(stage, mean=mean)
        return mean, mean

    def tilted(self, activation: Activation, stage: Stage) -> np.ndarray:
        self._note(stage, tilted=True)
        return averages(tilt_of(activation), np.asarray(stage.K1), slopes=False)[0]

    def _note(self, stage: Stage, **what: Any) -> None:
        i = next(i for i, place in enumerate(self._places) if place is stage)
        self.seen[i] = dataclasses.replace(self.seen[i], **what)


def averages(act: Activation, K: np.ndarray, *, means: bool = False, slopes: bool = True) -> np.ndarray:
    """⟨σ²⟩ and ⟨σ'²⟩, or ⟨σ⟩ alone, of many variances (N,): (2, N) or (1, N)."""
    exact = functools.partial(_averages, act, means=means, slopes=slopes)
    return exact(K) if form_of(act) and not means else over(K, exact)


def _averages(act: Activation, K: np.ndarray, *, means: bool, slopes: bool) -> np.ndarray:
    if not act.named and form_of(act) is None:
        # What a user's own function needs is not known beforehand.
        return own_moments(act, _powers(means, slopes), K, rtol=_OWN, what=f"an average of {act.name}")
    # Padded, so that compiled code is found again.
    padded = np.pad(K, (0, (1 << (len(K) - 1).bit_length()) - len(K)), mode="edge")
    return np.asarray(_one_by_one(act, jnp.asarray(padded), means, slopes))[:, : len(K)]


@functools.partial(jax.jit, static_argnums=(0, 2, 3))
def _one_by_one(act: Activation, K: Array, means: bool, slopes: bool) -> Array:
    form = form_of(act)
    if form is not None and not means:
        return jnp.stack([average(Pair.one(K, jnp.sqrt(K))) for average in (form.value, form.derivative)[: 1 + slopes]])
    # In pieces, because every variance has nodes of its own.
    return lax.map(lambda k: pure_moments(act, _powers(means, slopes), k), K, batch_size=64).T


def _powers(means: bool, slopes: bool) -> list[Powers]:
    return [Powers(s=1)] if means else [Powers(s=2), Powers(s1=2)][: 1 + slopes]
