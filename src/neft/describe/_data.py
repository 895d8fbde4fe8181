"""The card of a data set, and what data there is."""

import numpy as np
from jaxtyping import Float, Int

import neft

from .._public import public
from .._result import Made, Result, result


@result
class DataCard(Result):
    """What a data set is, with the first example of each class where they were asked for.

    `shape` is the height and width of an image (None for feature vectors), `statistics` the numbers that
    preprocessing took from the training split, and `checksum` the SHA-256 of the preprocessed data.
    """

    name: str
    split: str
    count: int
    features: int
    shape: tuple[int, int] | None
    per_class: Int[np.ndarray, " classes"]
    preprocessing: str
    statistics: dict[str, float]
    checksum: str
    examples: Float[np.ndarray, "classes features"] | None
    made: Made


@result
class Available(Result):
    """The named data sets and where each was found, the place that is used first."""

    places: dict[str, tuple[str, ...]]
    made: Made


@public
def data(dataset: "neft.data.Dataset", *, examples: bool = True) -> DataCard:
    """The card of a data set, with the first example of each class unless `examples` is False.

    >>> data(neft.data.load(([[0.0, 1.0], [2.0, 3.0], [4.0, 5.0]], [1, 0, 1]))).examples.tolist()
    [[2.0, 3.0], [0.0, 1.0]]
    """
    _, first = np.unique(dataset.y, return_index=True)
    return DataCard(
        name=dataset.name,
        split=dataset.split,
        count=dataset.count,
        features=dataset.x.shape[1],
        shape=dataset.shape,
        per_class=np.bincount(dataset.y, minlength=dataset.classes),
        preprocessing=dataset.preprocessing,
        statistics=dict(dataset.statistics),
        checksum=dataset.checksum,
        examples=dataset.x[first].astype(np.float64) if examples else None,
        made=Made.by("neft.describe.data", specification={"data": dataset.description()}),
    )


def available() -> Available:
    """Which data sets `neft.data.load` knows by name, and where it finds them."""
    return Available(places=neft.data.available(), made=Made.by("neft.describe.available"))
