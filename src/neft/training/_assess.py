"""How well classifiers answer: their probabilities, right answers and calibration, and how they differ."""

from typing import Any

import numpy as np
from jaxtyping import Float, Int

from .. import _check
from .._public import public
from .._result import Made, Result, result
from .._show import brief
from ._ensemble import TrainedEnsemble
from ._kernels import digest
from ._sample import Trajectories


@result
class Assessment(Result):
    """What classifiers say at test inputs whose labels are known, on average over draws, and its spread over them.

    `probabilities` (tests, classes) is the mean of softmax(outputs) and `probability_spread` its standard deviation
    over draws. `accuracy` is the mean share of right answers of one network, `together` that of the answers by
    `probabilities`, all draws at once. `confidence` is the mean of a network's largest probabilities, and
    `overconfidence` is by how much it is above its share of right answers; 0 is calibrated. `nll` is -ln of the
    probability of the right class, averaged over inputs. Each has a `_spread`, its standard deviation over draws.

    For calibration in more detail answers of all draws at all inputs are sorted by confidence into equal `bins`:
    `bin_confidence` and `bin_accuracy` are the means in each (NaN where it is empty), `bin_share` which part of all
    answers it has, and `calibration_error` is Σ share |accuracy - confidence| (Guo et al. 2017). There is an axis of
    moments in front where there are several.
    """

    probabilities: Float[np.ndarray, "*times tests classes"]
    probability_spread: Float[np.ndarray, "*times tests classes"]
    accuracy: Float[np.ndarray, "*times"]
    accuracy_spread: Float[np.ndarray, "*times"]
    together: Float[np.ndarray, "*times"]
    confidence: Float[np.ndarray, "*times"]
    confidence_spread: Float[np.ndarray, "*times"]
    overconfidence: Float[np.ndarray, "*times"]
    overconfidence_spread: Float[np.ndarray, "*times"]
    nll: Float[np.ndarray, "*times"]
    nll_spread: Float[np.ndarray, "*times"]
    bins: Float[np.ndarray, " edges"]
    bin_confidence: Float[np.ndarray, "*times bins"]
    bin_accuracy: Float[np.ndarray, "*times bins"]
    bin_share: Float[np.ndarray, "*times bins"]
    calibration_error: Float[np.ndarray, "*times"]
    labels: Int[np.ndarray, " tests"]
    draws: int
    made: Made

    def _shown(self):
        yield "draws", repr(self.draws)
        yield "test inputs", repr(len(self.labels))
        for name in ("accuracy", "together", "overconfidence", "calibration_error", "nll"):
            yield name, brief(getattr(self, name))
        yield "accuracy_spread", brief(self.accuracy_spread)


@public
def assess(outputs: Any, y_test: Any, *, bins: int = 10) -> Assessment:
    """How well an ensemble of classifiers answers at test inputs: accuracy, calibration and their spread over draws.

    Args:
        outputs: logits: what `sample` or `ensemble` gave, or an array (draws, tests, classes), with moments on axes
            after the first if there are several. Draws that did not get to the end are left out.
        y_test: the right classes of the test inputs, 0, 1, 2, …, shape (tests,).
        bins: into how many equal parts confidences from 0 to 1 are sorted.

    >>> found = assess(np.array([[[2.0, 0.0], [1.0, 0.0]], [[0.0, 1.0], [3.0, 0.0]]]), [0, 0])
    >>> found.accuracy.tolist(), found.together.tolist(), found.accuracy_spread.round(3).tolist()
    (0.75, 1.0, 0.354)
    """
    if isinstance(outputs, Trajectories | TrainedEnsemble):
        given = outputs.outputs if isinstance(outputs, Trajectories) else outputs.test
        z = given[outputs.good]
    else:
        z = _check.array("outputs", outputs, dtype=np.float64)
    if z.ndim < 3 or 0 in z.shape or z.shape[-1] < 2:
        raise ValueError(
            f"outputs has shape {z.shape}, but must be (draws, tests, classes) with at least one draw and two classes."
        )
    labels = _check.array("y_test", y_test, shape=z.shape[-2:-1], at_least=0, dtype=np.int64)
    if labels.max() >= z.shape[-1]:
        raise ValueError(f"y_test holds the label {labels.max()}, but labels must be from 0 to {z.shape[-1] - 1}.")
    edges = np.linspace(0.0, 1.0, _check.integer("bins", bins, at_least=1) + 1)
    shifted = z - z.max(axis=-1, keepdims=True)
    logs = shifted - np.log(np.exp(shifted).sum(axis=-1, keepdims=True))
    p = np.exp(logs)
    right = (z.argmax(-1) == labels).astype(float)
    confidence = p.max(-1)
    nll = -np.take_along_axis(logs, np.broadcast_to(labels[:, None], (*z.shape[:-1], 1)), axis=-1)[..., 0]
    each = {"accuracy": right, "confidence": confidence, "overconfidence": confidence - right, "nll": nll}
    by_draw = {name: value.mean(-1) for name, value in each.items()}
    mean = p.mean(0)
    return Assessment(
        probabilities=mean,
        probability_spread=_spread(p),
        together=np.asarray((mean.argmax(-1) == labels).mean(-1)),
        **{name: np.asarray(value.mean(0)) for name, value in by_draw.items()},
        **{f"{name}_spread": _spread(value) for name, value in by_draw.items()},
        bins=edges,
        **_reliability(confidence, right, edges),
        labels=labels,
        draws=len(z),
        made=Made.by("neft.training.assess", specification={"data": digest(z, labels, None), "bins": len(edges) - 1}),
    )


def _spread(values: np.ndarray) -> np.ndarray:
    return np.asarray(values.std(axis=0, ddof=1)) if len(values) > 1 else np.full(values.shape[1:], np.nan)


def _reliability(confidence: np.ndarray, right: np.ndarray, edges: np.ndarray) -> dict[str, np.ndarray]:
    # Of each moment the answers of all draws at all inputs, by their confidence.
    shape = confidence.shape[1:-1]
    flat = [
        np.moveaxis(v.reshape(len(v), -1, v.shape[-1]), 1, 0).reshape(-1, v.shape[0] * v.shape[-1])
        for v in (confidence, right)
    ]
    count = len(edges) - 1
    where = np.clip(np.digitize(flat[0], edges) - 1, 0, count - 1)
    sums = np.zeros((3, len(where), count))
    for moment, into in enumerate(where):
        for kind, values in enumerate((np.ones(len(into)), flat[0][moment], flat[1][moment])):
            sums[kind, moment] = np.bincount(into, values, minlength=count)
    number, sure, good = sums
    error = np.abs(good - sure).sum(-1) / number.sum(-1)
    empty = np.full_like(number, np.nan)
    return {
        "bin_confidence": np.divide(sure, number, out=empty.copy(), where=number > 0).reshape(*shape, count),
        "bin_accuracy": np.divide(good, number, out=empty, where=number > 0).reshape(*shape, count),
        "bin_share": (number / number.sum(-1, keepdims=True)).reshape(*shape, count),
        "calibration_error": error.reshape(shape),
    }
