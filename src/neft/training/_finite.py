"""What an ensemble of trained networks gives, with corrections of order 1/width (docs/theory/training, eqs. 29-30)."""

import contextlib
import contextvars
import dataclasses
import functools
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from jaxtyping import Float, Int

from .. import _check, width
from .._blocks import blocks
from .._public import public
from .._result import Made, Result, result
from .._warn import warn
from ..network import Network
from ._kernels import digest, inputs, targets
from ._response import PARTS, TENSORS, Corrections, corrections
from ._schedule import Schedule, schedule
from ._weights import Moment, initial

LARGE = 0.25
"""Expansion parameter beyond which a first correction is not to be trusted."""

SINGULAR = 1e-10
"""Smallest eigenvalue of Θ over the training set, relative to the largest, that the expansion can be made with."""


FEW, ACCURATE, AFFORDABLE = 12, 1e-7, 3e-5
"""Tolerance of averages over four inputs: of up to 12 inputs, and of more, where it is 1e-3 of the corrections."""

TOGETHER, LEAST = 60, 8
"""Inputs whose tensors are held at once, and test inputs among them at the least."""


class ExpansionWarning(UserWarning):
    """The corrections in 1/width are too large for the first of them to be trusted."""


@result
class FinitePrediction(Result):
    """Mean and covariance of the trained outputs over initializations, to order 1/width.

    `mean` is (N_test, n_L) and `cov` (N_test, n_L, N_test, n_L), with an axis in front for several moments;
    `train_mean` and `train_cov` are the same for the training inputs. `infinite_mean` (N_test, n_L) and `infinite_cov`
    (N_test, N_test) are infinite width. `mean_parts` and `cov_parts` hold what adds up to the difference, by its
    origin: initial outputs (K₁), kernel fluctuations (Θ₁, A, B, D, F), dNTK (P, Q) and ddNTK (R, S, T, U).
    `expansion` is what the series goes by: the size of E[ΔHΘ⁻¹ΔHΘ⁻¹], about A/(n l²) for the smallest eigenvalue l of
    Θ over the training set, or the largest of those parts in units of the outputs' and targets' size, whichever is
    larger. `width` is n, that of the last hidden layer. Many test inputs are taken in that many `blocks`; between
    inputs of different blocks `cov` is that of infinite width, and the corrections there are not made. `error` is an
    estimate of how far the tolerance of the tensors moves the corrections, relative to the largest of mean and
    covariance: what errors of that size do which have the same sign pattern in all indices (NaN for tensors of one's
    own).
    """

    mean: Float[np.ndarray, "*times tests outputs"]
    cov: Float[np.ndarray, "*times tests outputs tests outputs"]
    train_mean: Float[np.ndarray, "*times N outputs"]
    train_cov: Float[np.ndarray, "*times N outputs N outputs"]
    infinite_mean: Float[np.ndarray, "*times tests outputs"]
    infinite_cov: Float[np.ndarray, "*times tests tests"]
    mean_parts: dict[str, Float[np.ndarray, "*times tests outputs"]]
    cov_parts: dict[str, Float[np.ndarray, "*times tests outputs tests outputs"]]
    expansion: float
    width: int
    time: Float[np.ndarray, "*times"] | None
    steps: Int[np.ndarray, "*times"] | None
    learning_rate: float | None
    made: Made
    blocks: int = 1
    error: float = float("nan")

    @property
    def trusted_from(self) -> int:
        """The least width at which `expansion`, which goes as 1/width, is not above 0.25."""
        return max(1, math.ceil(self.expansion / LARGE * self.width))

    @property
    def std(self) -> Float[np.ndarray, "*times tests outputs"]:
        """The standard deviation of each output, in the shape of `mean`."""
        return np.sqrt(np.maximum(_variances(self.cov), 0.0))

    @property
    def correlation(self) -> Float[np.ndarray, "*times tests outputs outputs"]:
        """Correlations between the outputs for one input, which infinite width forbids; 0 where nothing varies."""
        same = np.einsum("...iaib->...iab", self.cov)
        scale = np.sqrt(np.maximum(_variances(self.cov), 0.0))
        scale = scale[..., :, None] * scale[..., None, :]
        # Training inputs end on their targets: rounding must not become a correlation.
        known = scale > 1e-12 * max(np.abs(self.infinite_cov).max(initial=0.0), 1e-300)
        return np.divide(same, scale, out=np.zeros_like(same), where=known)


def _variances(cov: np.ndarray) -> np.ndarray:
    return np.einsum("...iaia->...ia", cov)


def output_tensors(
    net: Network, x: np.ndarray, names: Sequence[str], *, rtol: float | None = None, first: int | None = None
) -> dict[str, np.ndarray]:
    """The named tensors of the output layer over the inputs, for networks and activations that have all of them.

    With `first`, only entries with at most two different inputs that are not among that many first ones.
    """
    kinks = [(act, kink) for act in net.activations for kink in act.kinks if kink.order < 2]
    if kinks:
        act, kink = kinks[0]
        raise ValueError(
            f"activation is {act.name}, but order 1 needs R, S, T and U, which do not exist where "
            f"derivative {kink.order} of the activation jumps."
        )
    rtol = tolerance(rtol, len(x))
    shared, mark = _SHARED.get(), (_without_scale(net), digest(x), tuple(names), rtol, first)
    if shared is not None and shared.get("mark") == mark:
        return shared["tensors"]
    try:
        tensors = width.output_tensors(net, x, names, rtol=rtol, first=first)
    except width.AbsentTensor as absent:
        raise ValueError(f"order is 1, which needs tensors that are not known here: {absent}") from None
    if shared is not None:
        shared.update(mark=mark, tensors=tensors)
    return tensors


def tolerance(rtol: float | None, count: int) -> float:
    """The tolerance of averages over four of that many inputs."""
    return (ACCURATE if count <= FEW else AFFORDABLE) if rtol is None else rtol


_SHARED: contextvars.ContextVar[dict[str, Any] | None] = contextvars.ContextVar("shared tensors", default=None)


@contextlib.contextmanager
def sharing() -> Iterator[None]:
    """Within it the tensors of the last inputs are kept, for networks that differ by a factor of all hidden widths."""
    token = _SHARED.set({})
    try:
        yield
    finally:
        _SHARED.reset(token)


def _without_scale(net: Network) -> str:
    # Tensors depend on widths by their ratios alone.
    described = net.to_dict()
    if "widths" in described:
        first, *hidden, last = described["widths"]
        described["widths"] = [first, *(n / hidden[-1] for n in hidden), last]
    return repr(described)


def predict_finite(
    net: Network,
    x_train: Any,
    y_train: Any,
    x_test: Any = None,
    *,
    time: Any = None,
    steps: Any = None,
    learning_rate: float | None = None,
    rtol: float | None = None,
) -> FinitePrediction:
    """Mean and covariance of networks trained on L = ½Σ(z-y)², to order 1/width: `predict` with order=1.

    Arguments as in `predict`. With ΔH = H - Θ each output after training is z* = m₀ + Πz(0) + c₁ + c₂, where c₁ is of
    first order in ΔH and c₂ of first order in ΔHΔH, dH and ddH; mean and covariance follow from the tensors of the
    output layer that `width.statistics` gives (docs/theory/training, eqs. 20-35). For a time or a number of steps the
    response is integrated or summed to it (eqs. 19 and 25 there). An `ExpansionWarning` says when the series cannot be
    trusted.

    >>> from neft import MLP

    >>> net = MLP(widths=(2, 64, 1), activation="tanh", C_b=0.1)
    >>> found = predict_finite(net, [[1.0, 0.0]], [1.0], [[0.6, 0.8]])
    >>> found.mean.shape, found.cov.shape, found.width
    ((1, 1), (1, 1, 1, 1), 64)
    """
    x_train = inputs(net, "x_train", x_train)
    y_train = targets(y_train, len(x_train), net.widths[-1])
    x_test = None if x_test is None else inputs(net, "x_test", x_test)
    plan = schedule(time, steps, learning_rate)
    train, n = len(x_train), net.widths[-2]
    made = Made.by(
        "neft.training.predict",
        specification={"net": net.to_dict(), "x_train": x_train, "y_train": y_train, "x_test": x_test} | plan.to_dict(),
        tolerances={} if rtol is None else {"rtol": rtol},
    )

    def found(x: np.ndarray) -> FinitePrediction:
        tensors = output_tensors(net, x, TENSORS, rtol=rtol, first=train)
        return dataclasses.replace(
            _predicted(tensors, y_train, n, plan, made), error=_error(tensors, y_train, plan, tolerance(rtol, len(x)))
        )

    if x_test is None:
        prediction = found(x_train)
    else:
        size = max(LEAST, TOGETHER - train)
        cuts = list(blocks(len(x_test), size, label="test inputs" if len(x_test) > size else None))
        parts = [found(np.concatenate([x_train, x_test[cut]])) for cut in cuts]
        prediction = parts[0] if len(parts) == 1 else _joined(net, x_train, x_test, plan, cuts, parts)
    _warn_of(prediction)
    return prediction


def _joined(
    net: Network, x_train: np.ndarray, x_test: np.ndarray, plan: Schedule, cuts: list[slice], parts: list
) -> FinitePrediction:
    """One prediction of all blocks of test inputs, with infinite width's covariance between different blocks."""
    train, O = len(x_train), net.widths[-1]
    kernel = width.kernel(net, np.concatenate([x_train, x_test]), dtype="float64")
    Pi = np.stack([initial(moment, kernel.Theta, train)[train:] for moment in _moments(plan)])
    infinite = (Pi @ kernel.K @ Pi.mT).reshape(*plan.shape, len(x_test), len(x_test))
    cov = np.einsum("...ij,IJ->...iIjJ", infinite, np.eye(O))
    cov_parts = {name: np.zeros_like(cov) for name in PARTS}
    for cut, part in zip(cuts, parts):
        cov[..., cut, :, cut, :] = part.cov
        for name in PARTS:
            cov_parts[name][..., cut, :, cut, :] = part.cov_parts[name]

    def joined(values: list[np.ndarray]) -> np.ndarray:
        return np.concatenate(values, axis=-2)

    return dataclasses.replace(
        parts[0],
        mean=joined([part.mean for part in parts]),
        cov=cov,
        infinite_mean=joined([part.infinite_mean for part in parts]),
        infinite_cov=infinite,
        mean_parts={name: joined([part.mean_parts[name] for part in parts]) for name in PARTS},
        cov_parts=cov_parts,
        expansion=max(part.expansion for part in parts),
        blocks=len(parts),
        error=max(part.error for part in parts),
    )


@public
def predict_from_tensors(
    tensors: Mapping[str, Any],
    y_train: Any,
    width: int,
    *,
    time: Any = None,
    steps: Any = None,
    learning_rate: float | None = None,
) -> FinitePrediction:
    """What `predict` gives at order 1, from tensors of the output layer of one's own, such as estimated ones.

    Args:
        tensors: K, Theta, K1, Theta1 of shape (N+M, N+M) and A, B, D, F, P, Q, R, S, T, U of shape (N+M,)*4 over
            training and test inputs, training inputs first, axes as in docs/theory/width, eqs. 39-44; with M = 0 the
            training inputs are predicted.
        y_train: targets, shape (N, O), or (N,) for one output; their number says where the training inputs end.
        width: n, that of the last hidden layer, by which the tensors are divided.
        time: as in `predict`.
        steps: as in `predict`.
        learning_rate: as in `predict`.

    >>> tensors = {name: np.zeros((2,) * (2 if name[0] in "KT" and name != "T" else 4)) for name in TENSORS}
    >>> predict_from_tensors(tensors | {"K": np.eye(2), "Theta": np.eye(2)}, [1.0], 32).mean.tolist()
    [[0.0]]
    """
    y_train = targets(y_train, None, None)
    plan = schedule(time, steps, learning_rate)
    missing = [name for name in TENSORS if name not in tensors]
    if missing:
        raise ValueError(f"tensors lack {', '.join(missing)}, but must hold {', '.join(TENSORS)}.")
    count = len(_check.array("Theta", tensors["Theta"], ndim=2))
    if count < len(y_train):
        raise ValueError(f"Theta has {count} rows, but y_train has {len(y_train)}, which come first.")
    shapes = {name: (count,) * (2 if name in ("K", "Theta", "K1", "Theta1") else 4) for name in TENSORS}
    arrays = {name: _check.array(name, tensors[name], shape=shapes[name]) for name in TENSORS}
    n = _check.integer("width", width, at_least=1)
    specification = {"y_train": y_train, "width": n} | plan.to_dict()
    prediction = _predicted(
        arrays, y_train, n, plan, Made.by("neft.training.predict_from_tensors", specification=specification)
    )
    _warn_of(prediction)
    return prediction


def _predicted(
    tensors: Mapping[str, np.ndarray], y: np.ndarray, n: int, plan: Schedule, made: Made
) -> FinitePrediction:
    train = len(y)
    eigenvalues = np.linalg.eigvalsh(tensors["Theta"][:train, :train])
    if eigenvalues[0] <= SINGULAR * eigenvalues[-1]:
        raise ValueError(
            f"the NTK of the training inputs has smallest eigenvalue {eigenvalues[0]:.3g} and largest "
            f"{eigenvalues[-1]:.3g}, but order 1 divides by their products: leave out repeated inputs."
        )
    plan.check_stable(float(eigenvalues[-1]))
    found = [corrections(tensors, y, moment) for moment in _moments(plan)]
    expansion = max(found[0].expansion, *(_relative_size(one, tensors["K"], y) for one in found)) / n

    def gathered(get: Any) -> np.ndarray:
        values = np.stack([get(one) for one in found])
        return values.reshape(*plan.shape, *values.shape[1:])

    rows = slice(train, None) if len(tensors["Theta"]) > train else slice(None)
    A = slice(train)

    def mean(one: Corrections, part: slice) -> np.ndarray:
        return (one.mean + one.mean_correction / n)[part]

    def cov(one: Corrections, part: slice) -> np.ndarray:
        whole = np.einsum("ij,IJ->iIjJ", one.cov, np.eye(y.shape[1])) + one.cov_correction / n
        return whole[part, :, part]

    return FinitePrediction(
        mean=gathered(lambda one: mean(one, rows)),
        cov=gathered(lambda one: cov(one, rows)),
        train_mean=gathered(lambda one: mean(one, A)),
        train_cov=gathered(lambda one: cov(one, A)),
        infinite_mean=gathered(lambda one: one.mean[rows]),
        infinite_cov=gathered(lambda one: one.cov[rows, rows]),
        mean_parts={part: gathered(lambda one, part=part: one.mean_parts[part][rows] / n) for part in PARTS},
        cov_parts={part: gathered(lambda one, part=part: one.cov_parts[part][rows, :, rows] / n) for part in PARTS},
        expansion=expansion,
        width=n,
        time=plan.time,
        steps=plan.steps,
        learning_rate=plan.learning_rate,
        blocks=1,
        made=made,
    )


def _error(tensors: Mapping[str, np.ndarray], y: np.ndarray, plan: Schedule, rtol: float) -> float:
    # Signs by sample leave all symmetries of the tensors as they are. The last moment has learned most.
    moment, rng = _moments(plan)[-1], np.random.default_rng(0)
    found, worst = corrections(tensors, y, moment), 0.0
    for _ in range(2):
        signs = rng.choice([-1.0, 1.0], size=len(tensors["K"]))
        moved = dict(tensors)
        for name, values in tensors.items():
            if name not in ("K", "Theta"):
                pattern = functools.reduce(np.multiply.outer, [signs] * values.ndim)
                moved[name] = values + rtol * np.abs(values).max() * pattern
        other = corrections(moved, y, moment)
        pairs = ((found.mean_correction, other.mean_correction), (found.cov_correction, other.cov_correction))
        worst = max(worst, *(np.abs(a - b).max() / max(np.abs(a).max(), 1e-300) for a, b in pairs))
    return float(worst)


def _warn_of(prediction: FinitePrediction) -> None:
    expansion, n = prediction.expansion, prediction.width
    if expansion > LARGE:
        message = (
            f"the expansion parameter is {expansion:.2g} at width {n}, so corrections of order 1/width are not to be "
            f"trusted: it should be below {LARGE}, which needs width {prediction.trusted_from}."
        )
        warn(message, ExpansionWarning)


def _relative_size(found: Corrections, K: np.ndarray, y: np.ndarray) -> float:
    # n times the largest correction in units of what outputs and targets are like. A small eigenvalue of Θ enters the
    # ddNTK's with its third power and more, so it may be large where kernels hardly fluctuate.
    square = float(np.diagonal(K).mean() + (y**2).mean())
    means = max(np.abs(part).max() for part in found.mean_parts.values())
    variances = max(np.abs(_variances(part)).max() for part in found.cov_parts.values())
    return max(means / np.sqrt(square), variances / square)


def _moments(plan: Schedule) -> list[Moment]:
    if plan.steps is not None and plan.learning_rate is not None:
        return [Moment(np.inf, int(T), plan.learning_rate) for T in np.atleast_1d(plan.steps)]
    assert plan.time is not None
    return [Moment(float(t)) for t in np.atleast_1d(plan.time)]
