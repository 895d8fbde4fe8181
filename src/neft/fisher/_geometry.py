"""What a metric says about the data: its spectrum, and the most informative inputs (Sun, Nielsen 2017, section 2.1)."""

import numpy as np
from jaxtyping import Float, Int

from .._public import public
from .._result import Made, Result, result
from ._metric import Metric, SeparateNeurons


@result
class Geometry(Result):
    """The spectrum of a metric, and how much each input contributes to it.

    Attributes:
        kind: which metric it is.
        parameters: m(d+1).
        samples: N, the number of inputs.
        rank: at most N times the outputs; with independent neurons full rank needs at least d+1 inputs.
        spectrum: all eigenvalues, largest first.
        information: of each input, its trace of ν over the neurons, of shape (N,): the inputs in the linear region of
            the activation, or ambiguous to the outputs, have most of it.
        order: the inputs from the most to the least informative.
        effective_samples: (Σc)²/Σc², c the information times the input's weight: how many inputs speak.
    """

    kind: str
    parameters: int
    samples: int
    rank: int
    spectrum: Float[np.ndarray, " parameters"]
    information: Float[np.ndarray, " samples"]
    order: Int[np.ndarray, " samples"]
    effective_samples: float
    made: Made


@public
def geometry(metric: Metric) -> Geometry:
    """The spectrum of a metric and the informative inputs behind it.

    >>> from neft.fisher import neuron
    >>> geometry(neuron("tanh", [1.0, 0.0], [[0.0], [5.0], [0.1]])).order.tolist()
    [0, 2, 1]
    """
    information = _information(metric)
    spectrum = metric.spectrum()
    share = information * metric.weights
    total = float(np.square(share).sum())
    return Geometry(
        kind=metric.kind,
        parameters=metric.size,
        samples=len(metric.inputs),
        rank=int((spectrum > 0).sum()),
        spectrum=spectrum,
        information=information,
        order=np.argsort(-information, kind="stable"),
        effective_samples=float(share.sum()) ** 2 / total if total > 0 else 0.0,
        made=Made.by("neft.fisher.geometry", specification={"metric": metric.made}),
    )


def _information(metric: Metric) -> Float[np.ndarray, " N"]:
    if isinstance(metric, SeparateNeurons):
        copies = metric.neurons // metric.information.shape[1]
        return copies * metric.information.sum(axis=1)
    return sum(np.square(factor.mixing).sum(axis=(1, 2)) for factor in metric._factors)  # type: ignore[return-value]
