"""What each input has by itself on its way through a network: variances, and averages at every activation it meets."""

import functools
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
from ..network import Means, Network, Stage
from ._kernel_expansion import over

_OWN = 1e-12  # tolerance of averages of a user's own function


class Occurrence(NamedTuple):
    """An activation in a network, and N inputs that meet it: their variances, ⟨σ²⟩, and ⟨σ⟩ if anything asks for it.

    `tilted` says whether anything asks for averages of zσ'.
    """

    act: Activation
    K: np.ndarray
    square: np.ndarray
    mean: np.ndarray | None = None
    tilted: bool = False


class Own(NamedTuple):
    """K and Θ of each input after every block at the top that holds weights, (L, N), and the activations on the way."""

    K: np.ndarray
    Theta: np.ndarray
    occurrences: tuple[Occurrence, ...]


def own(net: Network, x: np.ndarray) -> Own:
    """The recursion of one input, for many inputs (N, n_0) at once."""
    q = np.einsum("ij,ij->i", x, x, dtype=np.float64) / x.shape[1]
    mean = x.mean(1, dtype=np.float64)
    engine = _Recorder()
    stage = Stage.itself(q, np.zeros_like(q), mean1=mean, mean2=mean, kind="input")
    Ks, Thetas = [], []
    for segment in net.segments():
        stage = segment.kernel(stage, engine)
        if segment.weighs:
            Ks.append(np.asarray(stage.c))
            Thetas.append(np.asarray(stage.mean_theta))
    # What comes after the last weights belongs to the output.
    Ks[-1], Thetas[-1] = np.asarray(stage.c), np.asarray(stage.mean_theta)
    return Own(np.stack(Ks), np.stack(Thetas), tuple(engine.seen))


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
        self.seen[i] = self.seen[i]._replace(**what)


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
    return np.asarray(_compiled(act, jnp.asarray(padded), means, slopes))[:, : len(K)]


@functools.partial(jax.jit, static_argnums=(0, 2, 3))
def _compiled(act: Activation, K: Array, means: bool, slopes: bool) -> Array:
    form = form_of(act)
    if form is not None and not means:
        return jnp.stack([average(Pair.one(K, jnp.sqrt(K))) for average in (form.value, form.derivative)[: 1 + slopes]])
    # In pieces, because every variance has nodes of its own.
    return lax.map(lambda k: pure_moments(act, _powers(means, slopes), k), K, batch_size=64).T


def _powers(means: bool, slopes: bool) -> list[Powers]:
    return [Powers(s=1)] if means else [Powers(s=2), Powers(s1=2)][: 1 + slopes]
