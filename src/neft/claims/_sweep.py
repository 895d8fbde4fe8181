"""What the experiment of Sun, Nielsen 2017 found, measured by running it again.

At level full the claims read the sweep `sun-nielsen` on full MNIST, in the folder that $NEFT_SWEEP names (by default
one in the user's cache), and run first what is missing there. At level quick it is a small sweep on the bundled data.
"""

import functools
import os
import tempfile
from pathlib import Path
from typing import NamedTuple

import numpy as np

from .. import sweep
from ..sweep.results import Best
from ._claim import Level, Measurement
from ._ledger import claim

_WHERE = "section 4, figures 1-4"
_PAPER, _RIVALS = "rngd-published", ("sgd", "adam")
_OURS = {"rngd": "rngd with whole metrics", "rngd-units": "rngd in units"}
"""RNGD as it is here, what was the default of `train` and what is, beside the published method of the claims."""
_GOOD_RATES = (5e-3, 1e-2)
_EPOCHS = 100
"""Of the paper's experiment."""


class _Found(NamedTuple):
    best: dict[tuple[str, str], Best]
    data: str
    parts: int

    def architectures(self, batch_norm: bool | None = None) -> list[str]:
        """Those on which the paper's method and its rivals ran."""
        names = dict.fromkeys(architecture for architecture, _ in self.best)
        everything = (_PAPER, *_RIVALS)
        complete = [name for name in names if all((name, optimizer) in self.best for optimizer in everything)]
        return [n for n in complete if batch_norm is None or self.best[n, _PAPER].batch_norm == batch_norm]


def _quick() -> sweep.Specification:
    cases = (
        {"optimizer": ["sgd"], "learning_rate": [0.1]},
        {"optimizer": ["adam"], "learning_rate": [1e-3]},
        {"optimizer": [_PAPER], "learning_rate": [1e-2, 5e-2]},
    )
    fixed = {"data": "fashion-mnist", "full": False, "epochs": 3, "seeds": 2}
    return sweep.Specification(kind="train", fixed=fixed, grid={"batch_norm": [False, True]}, cases=cases)


@functools.cache
def _found(level: Level) -> _Found:
    if level == "quick":
        with tempfile.TemporaryDirectory() as folder:
            return _read(_quick(), Path(folder) / "sweep")
    return _read(sweep.Specification.read("sun-nielsen"), _kept())


def _kept() -> Path:
    if named := os.environ.get("NEFT_SWEEP"):
        return Path(named)
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "neft"
    # Half an hour of work is not thrown away because its folder was called otherwise before.
    now, before = cache / "sun-nielsen", cache / "seed003"
    return before if before.exists() and not now.exists() else now


def _read(specification: sweep.Specification, folder: Path) -> _Found:
    sweep.run(specification, folder)
    found = sweep.summary(folder)
    assert isinstance(found, sweep.results.Experiments)
    place = sweep.Folder.open(folder)
    (data,) = set(place.plan.data.values())
    # Validation and test part are each a seventh of all images.
    parts = 10_000 if specification.fixed["data"] == "mnist" else 1_000
    return _Found({(one.architecture, one.optimizer): one for one in found.best}, data, parts)


def _verdict(holds: bool, refuted: bool, *, fair: bool) -> str:
    # An experiment that is much shorter than the paper's can bear its outcome out, but not refute it.
    return "holds" if holds else "refuted" if refuted and fair else "depends"


def _between(values: list[float], form: str) -> str:
    # One number where there is one, else the least and the largest.
    low, high = f"{min(values):{form}}", f"{max(values):{form}}"
    return low if low == high else f"{low} to {high}"


def _ours(found: _Found, name: str) -> list[tuple[Best, str]]:
    return [(found.best[name, key], words) for key, words in _OURS.items() if (name, key) in found.best]


def _means(one: Best) -> np.ndarray:
    return one.train_cost.mean(0)


@claim(
    id="sun-nielsen-experiment-per-epoch",
    source="Sun, Nielsen 2017",
    equation=_WHERE,
    statement="Per epoch RNGD lowers the training cost faster than SGD and Adam.",
)
def per_epoch(level: Level) -> Measurement:
    """Mean training cost at the end of every epoch, each optimizer at its best rate."""
    found = _found(level)
    shares, values = [], {}
    for name in found.architectures():
        ours = _means(found.best[name, _PAPER])[1:]
        rivals = np.min([_means(found.best[name, rival])[1:] for rival in _RIVALS], axis=0)
        shares.append(float((ours < rivals).mean()))
        values[f"share of epochs, {name}"] = shares[-1]
        values[f"cost over the best rival's at the end, {name}"] = float(ours[-1] / rivals[-1])
        for ours_too, words in _ours(found, name):
            values[f"the same for {words}, {name}"] = float(_means(ours_too)[-1] / rivals[-1])
    verdict = _verdict(min(shares) == 1, max(shares) == 0, fair=level == "full")
    summary = f"The published method has the lowest cost in {_between(shares, '.0%')} of the epochs."
    return Measurement(verdict=verdict, summary=summary, values=values, data=found.data)


def _final(level: Level, batch_norm: bool) -> Measurement:
    found = _found(level)
    scores, values = [], {}
    for name in found.architectures(batch_norm):
        ours = 100 * found.best[name, _PAPER].validation_accuracy[:, -1]
        rival = max(
            (found.best[name, r] for r in _RIVALS), key=lambda one: float(one.validation_accuracy[:, -1].mean())
        )
        theirs = 100 * rival.validation_accuracy[:, -1]
        error = np.hypot(*(np.std(a, ddof=1) / np.sqrt(len(a)) for a in (ours, theirs)))
        difference = float(ours.mean() - theirs.mean())
        scores.append(difference / max(float(error), 1e-12))
        values |= {f"accuracy %, {name}": float(ours.mean()), f"best rival %, {name}": float(theirs.mean())}
        values[f"standard errors apart, {name}"] = scores[-1]
        for ours_too, words in _ours(found, name):
            values[f"{words} %, {name}"] = float(100 * ours_too.validation_accuracy[:, -1].mean())
        values["epochs"] = float(found.best[name, _PAPER].epochs[-1])
    verdict = _verdict(min(scores) > 3, max(scores) < -3, fair=values["epochs"] >= _EPOCHS)
    summary = (
        f"After {values['epochs']:.0f} epochs (the paper: {_EPOCHS}) the published method's accuracy less that of the "
        f"better of SGD and Adam is {_between(scores, '+.1f')} standard errors."
    )
    return Measurement(verdict=verdict, summary=summary, values=values, data=found.data)


@claim(
    id="sun-nielsen-experiment-final-accuracy",
    source="Sun, Nielsen 2017",
    equation="section 4, figures 1 and 3",
    statement="Without batch normalization RNGD ends with a slightly higher validation accuracy than SGD and Adam.",
)
def final_accuracy(level: Level) -> Measurement:
    """The last validation accuracy of all seeds, each optimizer at its best rate."""
    return _final(level, batch_norm=False)


@claim(
    id="sun-nielsen-experiment-final-accuracy-batch-norm",
    source="Sun, Nielsen 2017",
    equation="section 4, figures 2 and 4",
    statement="With batch normalization RNGD ends with a clearly higher validation accuracy than SGD and Adam.",
)
def final_accuracy_batch_norm(level: Level) -> Measurement:
    """The same with batch normalization."""
    return _final(level, batch_norm=True)


@claim(
    id="sun-nielsen-experiment-rates",
    source="Sun, Nielsen 2017",
    equation="section 4",
    statement="A good learning rate for RNGD is usually around 0.01 or 0.005.",
)
def rates(level: Level) -> Measurement:
    """The best of a grid that has a larger rate beside them."""
    found = _found(level)
    chosen = {name: found.best[name, _PAPER] for name in found.architectures()}
    good = [one.learning_rate in _GOOD_RATES for one in chosen.values()]
    values = {f"best rate, {name}": one.learning_rate for name, one in chosen.items()}
    for name, one in chosen.items():
        values |= {f"accuracy % at {r:g}, {name}": 100 * a for r, a in zip(one.rates, one.by_rate, strict=True)}
    verdict = _verdict(all(good), not any(good), fair=level == "full")
    grid = ", ".join(f"{rate:g}" for rate in next(iter(chosen.values())).rates)
    summary = f"Of the rates {grid} the best was 0.01 or 0.005 on {sum(good)} of {len(good)} networks."
    return Measurement(verdict=verdict, summary=summary, values=values, data=found.data)


@claim(
    id="sun-nielsen-experiment-test-accuracy",
    source="Sun, Nielsen 2017",
    equation="section 4",
    statement="The test accuracy is close to the validation accuracy.",
)
def test_accuracy(level: Level) -> Measurement:
    """Their difference in units of what two samples of that many images differ by."""
    found = _found(level)
    scores = []
    for one in found.best.values():
        test, validation = float(one.test_accuracy.mean()), float(one.validation_accuracy[:, -1].mean())
        error = np.sqrt((test * (1 - test) + validation * (1 - validation)) / found.parts)
        scores.append((test - validation) / error)
    worst = float(np.abs(scores).max())
    return Measurement(
        verdict="holds" if worst < 4 else "refuted",
        summary=f"They differ by at most {worst:.1f} standard errors of {found.parts} images each.",
        values={"largest difference in standard errors": worst, "mean difference": float(np.mean(scores))},
        data=found.data,
    )


@claim(
    id="sun-nielsen-experiment-time",
    source="Sun, Nielsen 2017",
    equation=_WHERE,
    statement="RNGD takes 4 to 10 times the time of SGD per epoch, and has no advantage in time.",
)
def time(level: Level) -> Measurement:
    """CPU seconds of an epoch's steps, and of the way to the cost at which SGD ends."""
    found = _found(level)
    values, ratios, gains = {}, [], []
    for name in found.architectures():
        ours, sgd = found.best[name, _PAPER], found.best[name, "sgd"]
        ratios.append(ours.seconds_per_epoch / sgd.seconds_per_epoch)
        values[f"time per epoch over SGD's, {name}"] = ratios[-1]
        below = np.flatnonzero(_means(ours) <= _means(sgd)[-1])
        gains.append(float(sgd.cpu_seconds[-1] / ours.cpu_seconds[below[0]]) if below.size else 0.0)
        values[f"SGD's time over ours to its last cost, {name}"] = gains[-1]
        for ours_too, words in _ours(found, name):
            values[f"time per epoch of {words}, {name}"] = ours_too.seconds_per_epoch / sgd.seconds_per_epoch
    slow, never = all(4 <= r <= 10 for r in ratios), max(gains) < 1
    summary = (
        f"An epoch takes {_between(ratios, '.1f')} times SGD's CPU time, and the cost at which SGD ends "
        f"is reached {'in no less time' if never else 'in less time'}."
    )
    # The ratio is that of two programs, so another one is no refutation.
    verdict = _verdict(slow and never, not never, fair=level == "full")
    return Measurement(verdict=verdict, summary=summary, values=values, data=found.data)
