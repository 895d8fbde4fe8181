"""RNGD against its rivals on 784-80-80-80-10: the cost of a step, and epochs and CPU time to a training cost.

MNIST where it is found (cost 0.15), else the bundled part of Fashion-MNIST (cost 0.6, and no promise but that of the
step). Each rival runs at its best of the same number of learning rates, chosen on a seed that is not used afterwards.
CPU seconds hold the steps and the whitening or centring of the inputs, not compilation and evaluation. It takes about
a quarter of an hour; `python benchmarks/fisher.py quick` takes two seeds, fewer rates and the main rivals only.
"""

import dataclasses
import sys
import time
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from measure import Ratio

import neft
from neft import fisher
from neft._progress import track
from neft.fisher._task import Task, prepared, split

TUNING_SEED = 101
SEEDS = (1, 2, 3, 4)
HIDDEN = (80, 80, 80)
BATCH, L2 = 50, 1e-3
STEP_LIMIT, EPOCH_LIMIT = 1.5, 3.5


@dataclasses.dataclass(frozen=True)
class Rival:
    """An optimizer on a form of the inputs, with the learning rates it is tried at."""

    optimizer: str
    inputs: str
    rates: tuple[float, ...]
    schedule: str = "constant"
    batch_norm: bool = False
    epochs: int = 8
    promised: float = 0.0

    def __str__(self) -> str:
        decay = ", cosine decay" if self.schedule == "cosine" else ""
        return f"{self.optimizer}, {self.inputs} inputs{decay}{', batch norm' if self.batch_norm else ''}"


GRIDS = {
    "sgd": (0.02, 0.05, 0.1, 0.2, 0.3),
    "momentum": (0.005, 0.01, 0.02, 0.05, 0.1),
    "adam": (3e-4, 6e-4, 1e-3, 2e-3, 4e-3),
    "muon": (2e-3, 5e-3, 1e-2, 2e-2, 5e-2),
    "rngd": (0.05, 0.07, 0.1, 0.15, 0.2),
}


def rivals(quick: bool) -> tuple[Rival, list[Rival]]:
    """RNGD, and what it is compared with; promises are about the same raw inputs."""

    def rates(name: str) -> tuple[float, ...]:
        return GRIDS[name][1:4] if quick else GRIDS[name]

    ours = Rival("rngd", "white", rates("rngd"), epochs=5)
    raw = [Rival(name, "raw", rates(name), epochs=12, promised=1.0) for name in ("sgd", "momentum", "adam")]
    honest = [Rival(name, inputs, rates(name)) for inputs in ("centred", "white") for name in ("momentum", "adam")]
    if quick:
        return ours, raw + honest[2:]
    decayed = [dataclasses.replace(one, schedule="cosine", epochs=4) for one in (ours, *honest)]
    normed = [dataclasses.replace(one, batch_norm=True) for one in (ours, raw[2], honest[3])]
    muon = [Rival("muon", inputs, rates("muon")) for inputs in ("raw", "white")]
    return ours, [*raw, *honest, *decayed, *normed, *muon]


class Reached(NamedTuple):
    """Mean epochs and CPU seconds to the target over seeds, at the best rate; None where a seed misses it."""

    rate: float
    epochs: float
    seconds: float


def to_target(rival: Rival, sets: tuple, target: float, seeds: tuple[int, ...]) -> Reached | None:
    """The rival at its best rate."""

    def one(rate: float, seed: int) -> tuple[float, float] | None:
        try:
            done = fisher.train(
                *sets,
                hidden=HIDDEN,
                optimizer=rival.optimizer,
                learning_rate=rate,
                schedule=rival.schedule,
                inputs=rival.inputs,
                batch_norm=rival.batch_norm,
                epochs=rival.epochs,
                points=4,
                batch=BATCH,
                l2=L2,
                seed=seed,
                until=target,
            )
        except ValueError:  # a rate that is too large ends in NaN
            return None
        return done.curves.reached(target)

    tuned = {rate: found for rate in rival.rates if (found := one(rate, TUNING_SEED)) is not None}
    if not tuned:
        return None
    rate = min(tuned, key=lambda r: tuned[r][0])  # by epochs: CPU seconds of one run are noisy
    found = [one(rate, seed) for seed in seeds]
    reached = [pair for pair in found if pair is not None]
    if len(reached) < len(seeds):
        return None
    epochs, seconds = np.mean(reached, axis=0)
    return Reached(rate, float(epochs), float(seconds))


def step_seconds(names: tuple[str, ...], sets: tuple, steps: int = 300, repeat: int = 5) -> dict[str, float]:
    """The least CPU time of a step, the optimizers taking turns so that they meet the same machine."""
    raw = split(sets[0], sets[1], 0)
    net = neft.MLP(widths=(784, *HIDDEN, sets[0].classes), activation="relu")
    index = np.random.default_rng(0).integers(len(raw.train.x), size=(steps, BATCH)).astype(np.int32)
    programs = {}
    for name in names:
        chosen = fisher.OPTIMIZERS[name]
        parts, white, _ = prepared(raw, chosen.inputs)
        task = Task(net, L2, white, chosen.make(chosen.rate))
        carry = task.init(jax.random.key(0))
        data = (jnp.asarray(parts.train.x), jnp.asarray(parts.train.y), jnp.asarray(index))
        programs[name] = [task.compiled.lower(carry, *data).compile(), carry, data]
    least = dict.fromkeys(names, np.inf)
    for _ in range(repeat):
        for name, program in programs.items():
            compiled, carry, data = program
            started = time.process_time()
            carry, _ = compiled(carry, *data)
            jax.block_until_ready(carry)
            if name in fisher._optimizers.REFRESH_EVERY:
                for _ in range(steps // fisher._optimizers.REFRESH_EVERY[name]):
                    carry = (carry[0], fisher.refresh(carry[1]))
            least[name] = min(least[name], (time.process_time() - started) / steps)
            program[1] = carry
    return least


def run(quick: bool = False) -> list[Ratio]:
    """The ratios: ours are promised at least 1/1.5 of an SGD step's speed, and less CPU time than raw rivals."""
    name = "mnist" if neft.data.available().get("mnist") else "fashion-mnist"
    sets = neft.data.load(name), neft.data.load(name, "test")
    target, promises = (0.15, True) if name == "mnist" else (0.6, False)
    steps = step_seconds(("sgd", "rngd", "adam", "rngd-published"), sets)
    label = f"{name} 784-80-80-80-10"

    def milliseconds(which: str) -> str:
        return f"{1e3 * steps[which]:.3f} ms"

    ratios = [
        Ratio(
            f"{label}: one RNGD step",
            f"{peer} step",
            milliseconds("rngd"),
            milliseconds(peer),
            steps[peer] / steps["rngd"],
            1 / STEP_LIMIT if peer == "sgd" else 0.0,
        )
        for peer in ("sgd", "adam", "rngd-published")
    ]
    ours, others = rivals(quick)
    seeds = SEEDS[:2] if quick else SEEDS
    best = to_target(ours, sets, target, seeds)
    if best is None:
        return [*ratios, Ratio(f"{label}: cost {target:g}", "itself", "not reached", "–", 0.0, float(promises))]
    ratios.append(
        Ratio(
            f"{label}: epochs to cost {target:g}, rate {best.rate:g}",
            f"{EPOCH_LIMIT:g} epochs",
            f"{best.epochs:.2f}",
            f"{EPOCH_LIMIT:g}",
            EPOCH_LIMIT / best.epochs,
            float(promises),
        )
    )
    for other in track(others, "rivals"):
        found = to_target(other, sets, target, seeds)
        theirs = (
            "not reached" if found is None else f"{found.seconds:.2f} s, {found.epochs:.2f} epochs at {found.rate:g}"
        )
        ratio = np.inf if found is None else found.seconds / best.seconds
        what = f"{label}: CPU time to cost {target:g}"
        mine = f"{best.seconds:.2f} s, {best.epochs:.2f} epochs"
        ratios.append(Ratio(what, str(other), mine, theirs, float(ratio), other.promised if promises else 0.0))
    return ratios


if __name__ == "__main__":
    for row in run(quick="quick" in sys.argv[1:]):
        print(f"{row.what} | {row.peer} | {row.ours} | {row.theirs} | {row.ratio:.3g} | {row.holds}", flush=True)
