"""RNGD against its rivals on 784-80-80-80-10: the cost of a step, and epochs and CPU time to a training cost.

MNIST where it is found (cost 0.15), else the bundled part of Fashion-MNIST (cost 0.6, and no promise but that of the
step). One rule tunes them all: of the same number of learning rates, the one that reaches the cost in the fewest epochs
on a seed that is not used afterwards. CPU seconds hold the steps and the whitening or centring of the inputs, not
compilation and evaluation. It takes about a quarter of an hour, and some minutes more with K-FAC;
`OPENBLAS_NUM_THREADS=1 python benchmarks/fisher.py quick` takes two seeds, fewer rates and the main rivals only (with
more threads of BLAS, which wait for each other, whitening would cost twice the CPU time; `run.py` sees to it).

K-FAC runs in an environment of its own, whose Python is named by the variable KFAC_PYTHON:

    python3.11 -m venv peer
    peer/bin/pip install kfac-jax==0.0.8 jax==0.8.1 jaxlib==0.8.1

Its curvature and its inverses are made as often as those of RNGD: progress per epoch is that of its own defaults (every
step, and every 5), for less than half the CPU time. Its damping, without momentum, is the best of a few that were tried
on the tuning seed.
"""

import contextlib
import dataclasses
import math
import sys
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from measure import Peer, Ratio, Seconds, in_turns, one_core, peer, timed

import neft
from neft import fisher
from neft._progress import track
from neft.fisher._glorot import glorot
from neft.fisher._optimizers import OPTIMIZERS, REFRESH_EVERY
from neft.fisher._task import Task, prepared, split

TUNING_SEED = 101
SEEDS = (1, 2, 3, 4)
HIDDEN = (80, 80, 80)
BATCH, L2 = 50, 1e-3
POINTS = 4
STEPS = 300
STEP_LIMIT, EPOCH_LIMIT = 1.5, 3.5
KFAC = "K-FAC (kfac-jax 0.0.8)"


@dataclasses.dataclass(frozen=True)
class Rival:
    """An optimizer on a form of the inputs, with the learning rates it is tried at."""

    optimizer: str
    inputs: str
    rates: tuple[float, ...]
    schedule: str = "constant"
    batch_norm: bool = False
    epochs: int = 12
    promised: float = 0.0

    def __str__(self) -> str:
        decay = ", cosine decay" if self.schedule == "cosine" else ""
        return f"{self.optimizer}, {self.inputs} inputs{decay}{', batch norm' if self.batch_norm else ''}"


GRIDS = {
    "sgd": (0.02, 0.05, 0.1, 0.2, 0.3),
    "momentum": (0.005, 0.01, 0.02, 0.05, 0.1),
    "adam": (3e-4, 6e-4, 1e-3, 2e-3, 4e-3),
    "muon": (5e-4, 1e-3, 2e-3, 5e-3, 1e-2),
    "rngd": (0.05, 0.07, 0.1, 0.15, 0.2),
    KFAC: (0.005, 0.007, 0.01, 0.015, 0.02),
}
assert len({len(rates) for rates in GRIDS.values()}) == 1


def rivals(quick: bool, kfac: bool) -> tuple[Rival, list[Rival]]:
    """RNGD, and what it is compared with, K-FAC if it is there; promises are about the same raw inputs."""

    def rates(name: str) -> tuple[float, ...]:
        return GRIDS[name][1:4] if quick else GRIDS[name]

    ours = Rival("rngd", "white", rates("rngd"))
    raw = [Rival(name, "raw", rates(name), promised=1.0) for name in ("sgd", "momentum", "adam")]
    honest = [Rival(name, inputs, rates(name)) for inputs in ("centred", "white") for name in ("momentum", "adam")]
    if quick:
        return ours, raw + honest[2:]
    peers = [Rival(KFAC, "raw", rates(KFAC))] if kfac else []
    decayed = [dataclasses.replace(one, schedule="cosine", epochs=4) for one in (ours, *honest)]
    normed = [dataclasses.replace(one, batch_norm=True, promised=0.0) for one in (ours, raw[2], honest[3])]
    muon = [Rival("muon", inputs, rates("muon")) for inputs in ("raw", "white")]
    return ours, [*raw, *honest, *decayed, *normed, *muon, *peers]


Trial = Callable[[float, int, int], tuple[float, float] | None]
"""Epochs and CPU seconds to the target by rate, seed and limit of epochs; None where it is not reached."""


def trial(rival: Rival, sets: tuple, target: float) -> Trial:
    """Of an optimizer that `neft.fisher.train` knows."""

    def one(rate: float, seed: int, epochs: int) -> tuple[float, float] | None:
        try:
            done = fisher.train(
                *sets,
                hidden=HIDDEN,
                optimizer=rival.optimizer,
                learning_rate=rate,
                schedule=rival.schedule,
                inputs=rival.inputs,
                batch_norm=rival.batch_norm,
                epochs=epochs,
                points=POINTS,
                batch=BATCH,
                l2=L2,
                seed=seed,
                until=target,
            )
        except ValueError:  # a rate that is too large ends in NaN
            return None
        return done.curves.reached(target)

    return one


def kfac(sets: tuple, rate: float, seed: int, **wanted: Any) -> contextlib.AbstractContextManager[Peer | None]:
    """The peer on the split, the initial weights and the batches that `neft.fisher.train` has."""
    parts = split(sets[0], sets[1], seed)
    net = neft.MLP(widths=(784, *HIDDEN, sets[0].classes), activation="relu")
    weights = {
        f"{name}{l}": np.asarray(value)
        for l, layer in enumerate(glorot(net, jax.random.key(seed)))
        for name, value in layer._asdict().items()
    }
    every = {name: getattr(fisher.Settings(), name) for name in ("update_every", "refresh_every")}
    job = {"batch": BATCH, "l2": L2, "rate": rate, "momentum": 0.0, "damping": 0.01, "seed": seed}
    job |= {"points": POINTS, "evaluated": len(parts.validation.x)}
    return peer("kfac.py", job | every | wanted, {"x": parts.train.x, "y": parts.train.y, **weights}, "KFAC_PYTHON")


def kfac_trial(sets: tuple, target: float) -> Trial:
    """Of K-FAC, in its own environment."""

    def one(rate: float, seed: int, epochs: int) -> tuple[float, float] | None:
        with kfac(sets, rate, seed, what="train", epochs=epochs, target=target) as found:
            curve = None if found is None else found.answer
        if curve is None or not curve["cost"][-1] <= target:
            return None
        last = slice(None, -3, -1)  # it stops at the target: between the last two points, backwards
        return tuple(float(np.interp(target, curve["cost"][last], curve[name][last])) for name in ("epochs", "seconds"))  # type: ignore[return-value]

    return one


def best_rate(rival: Rival, one: Trial) -> float | None:
    """The rate of the fewest epochs on the tuning seed, as CPU seconds of one run are noisy; None if all miss."""
    tuned: dict[float, float] = {}
    for rate in rival.rates:
        limit = rival.epochs
        if tuned and rival.schedule == "constant":  # what takes longer than the best so far is not chosen anyway
            limit = min(limit, math.ceil(min(tuned.values())))
        found = one(rate, TUNING_SEED, limit)
        if found is not None:
            tuned[rate] = found[0]
    return min(tuned, key=lambda r: tuned[r]) if tuned else None


class Entrant(NamedTuple):
    """A rival at its best rate."""

    rival: Rival
    one: Trial
    rate: float

    def reach(self, seed: int) -> tuple[float, float]:
        """Epochs and CPU seconds to the target; infinite where it is not reached."""
        return self.one(self.rate, seed, self.rival.epochs) or (np.inf, np.inf)


def race(ours: Entrant, theirs: Entrant, seeds: tuple[int, ...]) -> np.ndarray:
    """Epochs and CPU seconds of both, seed by seed in turns: (2, 2, seeds)."""
    return np.array([[entrant.reach(seed) for entrant in (ours, theirs)] for seed in seeds]).transpose(1, 2, 0)


def step_seconds(name: str, sets: tuple) -> Seconds:
    """What says the CPU seconds of a stretch of steps."""
    raw = split(sets[0], sets[1], 0)
    net = neft.MLP(widths=(784, *HIDDEN, sets[0].classes), activation="relu")
    index = np.random.default_rng(0).integers(len(raw.train.x), size=(STEPS, BATCH)).astype(np.int32)
    chosen = OPTIMIZERS[name]
    parts, white, _ = prepared(raw, chosen.inputs)
    task = Task(net, L2, white, chosen.make(chosen.rate))
    carry = task.init(jax.random.key(0))
    data = (jnp.asarray(parts.train.x), jnp.asarray(parts.train.y), jnp.asarray(index))
    compiled = task.compiled.lower(carry, *data).compile()

    def steps() -> None:
        nonlocal carry
        carry, _ = compiled(carry, *data)
        jax.block_until_ready(carry)
        if name in REFRESH_EVERY:
            for _ in range(STEPS // REFRESH_EVERY[name]):
                carry = (carry[0], fisher.refresh(carry[1]))

    return timed(steps)


@one_core()
def run(quick: bool = False) -> list[Ratio]:
    """The ratios: ours are promised at least 1/1.5 of an SGD step's speed, and less CPU time than raw rivals."""
    name = "mnist" if neft.data.available().get("mnist") else "fashion-mnist"
    sets = neft.data.load(name), neft.data.load(name, "test")
    target, promises = (0.15, True) if name == "mnist" else (0.6, False)
    names = ["sgd", "rngd", "adam", "rngd-published"]
    calls = [step_seconds(optimizer, sets) for optimizer in names]
    with kfac(sets, GRIDS[KFAC][0], 0, what="step", steps=STEPS) as found:
        if found is not None:
            names, calls = [*names, KFAC], [*calls, found.seconds]
        steps = dict(zip(names, np.array(in_turns(*calls)) / STEPS))
    label = f"{name} 784-80-80-80-10"
    promised = {("rngd", "sgd"): 1 / STEP_LIMIT}
    pairs = [("rngd", other) for other in steps if other != "rngd"]
    pairs += [("sgd", KFAC)] if KFAC in steps else []
    ratios = [
        Ratio.of(
            f"{label}: one {mine.upper()} step",
            f"{other} step",
            promised.get((mine, other), 0.0),
            steps[mine],
            steps[other],
        )
        for mine, other in pairs
    ]
    ours, others = rivals(quick, KFAC in steps)
    seeds = SEEDS[:2] if quick else SEEDS
    one = trial(ours, sets, target)
    rate = best_rate(ours, one)
    epochs = np.inf if rate is None else float(np.mean([Entrant(ours, one, rate).reach(seed)[0] for seed in seeds]))
    if rate is None or np.isinf(epochs):
        return [*ratios, Ratio(f"{label}: cost {target:g}", "itself", "not reached", "–", 0.0, float(promises))]
    ratios.append(
        Ratio(
            f"{label}: epochs to cost {target:g}, rate {rate:g}",
            f"{EPOCH_LIMIT:g} epochs",
            f"{epochs:.2f}",
            f"{EPOCH_LIMIT:g}",
            EPOCH_LIMIT / epochs,
            float(promises),
        )
    )
    for other in track(others, "rivals"):
        what, wanted = f"{label}: CPU time to cost {target:g}", other.promised if promises else 0.0
        their_one = kfac_trial(sets, target) if other.optimizer == KFAC else trial(other, sets, target)
        their_rate = best_rate(other, their_one)
        if their_rate is None:
            ratios.append(Ratio(what, str(other), f"{epochs:.2f} epochs", "not reached", np.inf, wanted))
            continue
        (_, mine), (their_epochs, seconds) = race(
            Entrant(ours, one, rate), Entrant(other, their_one, their_rate), seeds
        )
        named = f"{other}: {their_epochs.mean():.2f} epochs at {their_rate:g}"
        ratios.append(Ratio.of(what, named, wanted, mine, seconds))
    return ratios


if __name__ == "__main__":
    for row in run(quick="quick" in sys.argv[1:]):
        print(f"{row.what} | {row.peer} | {row.ours} | {row.theirs} | {row} | {row.holds}", flush=True)
