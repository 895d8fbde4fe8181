"""Powers of the width that sizes and changes of layers follow, and what they say of each layer."""

from collections.abc import Mapping, Sequence
from typing import Literal

import numpy as np

Verdict = Literal["right", "size grows", "size shrinks", "updates grow", "updates shrink", "changes grow", "not clear"]

Fit = tuple[np.ndarray, np.ndarray]
"""Powers of layers, and their standard errors; NaN of what is 0 somewhere, which has no power."""

TOLERANCE = 0.25
"""Half of what a rate or a size off by √n does to a power; a change whose standard error is more than half of this is
not clear."""

STEEPEST = 3.0
"""A change follows what enters its layer as its square (gradient descent) or itself (Adam); powers much beyond are
noise."""


def powers(widths: Sequence[int], values: np.ndarray, entering: np.ndarray | None = None) -> Fit:
    """Powers of the width of values (layers, widths, draws), and their standard errors over draws.

    They are slopes of means of logarithms, in which a width n counts √n times: fluctuations and corrections to infinite
    width are of order depth/n. From values that change with what enters the layer, `entering`, the part that follows
    its fluctuations over draws is taken out, since in narrow deep networks these are large and skew: the value over
    entering to a power fitted within widths. Where the root mean square of `entering`, as of a log-normal, has itself a
    power of at least 1/4 nothing is taken out. Layers that are 0 in some draw have no power, NaN.

    >>> powers((16, 64, 256), np.tile([[[2.0], [4.0], [8.0]]], 2))[0].round(6)
    array([0.5])
    """
    log = _log(values)
    if entering is not None:
        given = _log(entering)
        follows = _follows(widths, log, given)
        level = given.mean(2, keepdims=True) + given.var(2, ddof=1, keepdims=True)
        log = log - np.where(np.abs(_slopes(widths, level)) < TOLERANCE, follows[:, None], 0.0)[..., None] * given
    slopes = _slopes(widths, log)
    none = (values == 0).any((1, 2))
    power, error = slopes.mean(1), slopes.std(1, ddof=1) / np.sqrt(slopes.shape[1])
    return np.where(none, np.nan, power), np.where(none, np.nan, error)


def _log(values: np.ndarray) -> np.ndarray:
    return np.log(np.maximum(values, 1e-300))


def _weights(widths: Sequence[int]) -> np.ndarray:
    weights = np.sqrt(np.asarray(widths, float))
    return weights / weights.sum()


def _slopes(widths: Sequence[int], log: np.ndarray) -> np.ndarray:
    # Of each layer and draw.
    weights, t = _weights(widths), np.log(np.asarray(widths, float))
    t = t - weights @ t
    return np.einsum("w,lwd->ld", weights * t / (weights @ t**2), log)


def _follows(widths: Sequence[int], log: np.ndarray, given: np.ndarray) -> np.ndarray:
    # The power of `given` in each layer, by least squares within widths, held to be normal of deviation STEEPEST.
    both = [one - one.mean(2, keepdims=True) for one in (log, given)]
    y, x = both
    count = y.shape[1] * (y.shape[2] - 1)
    weights = len(widths) * _weights(widths)[:, None]
    noise = (weights * y**2).sum((1, 2)) / count
    return (weights * x * y).sum((1, 2)) / ((weights * x**2).sum((1, 2)) + noise / STEEPEST**2 + 1e-300)


def verdicts_of(fits: Mapping[str, Fit], ends: Sequence[bool], fixed: Sequence[bool]) -> tuple[Verdict, ...]:
    """Of each layer, by the powers of its "size", "change", "own" change, and "gain", its size over what enters it.

    `ends` are layers that make a few numbers of ever more, which may shrink; `fixed` those that are not trained, which
    have no own change. What has no power is not held against a layer but for its own change.
    """
    found: list[Verdict] = []
    for i, end in enumerate(ends):
        size, change, own, gain = ((power[i], error[i]) for power, error in map(fits.get, _JUDGED))  # type: ignore[misc]
        passed = max(0.0, *np.nan_to_num(fits["change"][0][:i]), 0.0)
        # Layers after a wrong one follow it, so that they are blamed for what they add alone.
        if _grows(*size) and (_grows(*gain) or "size grows" not in found):
            found.append("size grows")
        elif not end and _grows(*size, -1) and (_grows(*gain, -1) or "size shrinks" not in found):
            found.append("size shrinks")
        elif own[1] > TOLERANCE / 2 or (np.isnan(own[0]) and not fixed[i]):
            found.append("not clear")
        elif abs(own[0]) >= TOLERANCE:
            found.append("updates grow" if own[0] > 0 else "updates shrink")
        elif _grows(change[0] - passed, change[1]) and not _GROWING.intersection(found):
            found.append("changes grow")
        else:
            found.append("right")
    return tuple(found)


_JUDGED = ("size", "change", "own", "gain")
_GROWING = {"size grows", "updates grow", "changes grow", "not clear"}


def _grows(power: float, error: float, sign: int = 1) -> bool:
    return bool(sign * power >= TOLERANCE and sign * power > 2 * error)


def summary_of(names: Sequence[str], verdicts: Sequence[Verdict], fits: Mapping[str, Fit], steps: Sequence[int]) -> str:
    """What the verdicts come to, in sentences; `steps` are those by which layers were judged, 0 of those by none."""

    def said(what: str, *wanted: Verdict) -> str:
        return ", ".join(
            f"{name} ({verdict} as width^{power:.2f})"
            for name, verdict, power in zip(names, verdicts, fits[what][0])
            if verdict in wanted and not np.isnan(power)
        )

    sentences = []
    if sizes := said("size", "size grows", "size shrinks"):
        sentences.append(
            f"The initialization, not the rate, is wrong in {sizes}; what updates do can be judged when it is mended."
        )
    if updates := said("own", "updates grow", "updates shrink", "not clear"):
        sentences.append(f"Not all layers learn alike at all widths: {updates}.")
    if changes := said("change", "changes grow"):
        sentences.append(
            f"The initial weights are too large for these rates in {changes}: own updates and all layers before do not "
            "grow, but what the initial weights make of changes before them does."
        )
    unclear = [name for name, step, verdict in zip(names, steps, verdicts) if not step and verdict == "not clear"]
    if unclear:
        sentences.append(
            f"What rates do is not clear in {', '.join(unclear)}: gradients are 0 there in these steps, as they are "
            "while what follows is 0; take more steps."
        )
    if not sentences and np.isnan(fits["own"][0]).all():
        sentences.append("No layer is trained, so that nothing can be said of rates; no layer starts wrong.")
    elif not sentences:
        sentences.append("Every layer's own update has the same size at all widths, and no layer starts wrong.")
    for step in sorted({step for step in steps if step > 1}):
        late = ", ".join(name for name, own in zip(names, steps) if own == step)
        sentences.append(f"By step {step} are judged: {late}. Before it gradients are 0 there, as what follows is.")
    return " ".join(sentences)
