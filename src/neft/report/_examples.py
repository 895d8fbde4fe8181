"""The examples that a page is about."""

from .. import _check
from .. import data as sets
from .._public import public
from ..data import Dataset

_POOLED = "pool(49)+global"
"""What is done to the images of a named set by default: averages over 4×4 pixels, standardised."""


@public
def examples(
    source: str = "fashion-mnist",
    *,
    preprocess: str | None = None,
    full: bool | None = None,
    inputs: int | None = None,
) -> tuple[Dataset, Dataset | None]:
    """The training and test examples of a named set or a path; the latter None where the data has no splits.

    Args:
        source: as in `neft.data.load`.
        preprocess: steps joined by "+"; by default pool(49)+global for a named set, else global.
        full: as in `neft.data.load`.
        inputs: how many inputs a network has; without `preprocess` the images of a named set are averaged to as many
            where that is possible.

    >>> train, test = examples("fashion-mnist", full=False)
    >>> train.features, train.count, test.count
    (49, 6000, 1000)
    """
    named = source in sets.available()
    steps = (_POOLED if named else "global") if preprocess is None else preprocess
    if named and preprocess is None and inputs is not None:
        steps = _fitting(source, _check.integer("inputs", inputs, at_least=1), full)
    train = sets.load(source, "train", preprocess=steps, full=full)
    test = None if train.split == "all" else sets.load(source, "test", preprocess=steps, full=full)
    return train, test


def _fitting(source: str, inputs: int, full: bool | None) -> str:
    # Images as they are, or pooled; what neither gives is for the network to complain about.
    if inputs == sets.load(source, "test", preprocess="none", full=full).features:
        return "global"
    steps = f"pool({inputs})+global"
    try:
        sets.load(source, "test", preprocess=steps, full=full)
    except ValueError:
        return _POOLED
    return steps
