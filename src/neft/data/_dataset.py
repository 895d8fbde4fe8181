"""A data set in the form the theories take it, which says what it is."""

import hashlib
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
from jaxtyping import Float, Float64, Int64

from .. import _check
from .._samples import first_of_each_class


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class Dataset:
    """Examples `x` (count × features) and their labels `y` (count; 0 to classes - 1), both read-only.

    `shape` is the height and width of an image after preprocessing, None for feature vectors; `statistics` holds the
    mean and std that `global` used.

    >>> import neft
    >>> data = neft.data.load(([[0.0, 1.0], [2.0, 3.0], [4.0, 5.0]], [0, 1, 1]))
    >>> data
    Dataset('arrays', split='all', count=3, features=2, classes=2, preprocessing='none')
    """

    x: Float[np.ndarray, "count features"]
    y: Int64[np.ndarray, " count"]
    name: str
    split: str
    shape: tuple[int, int] | None
    preprocessing: str
    statistics: dict[str, float] = field(default_factory=dict)

    def __post_init__(self):
        for name in ("name", "split", "preprocessing"):
            if not isinstance(getattr(self, name), str):
                raise ValueError(f"{name} is {_check.brief(getattr(self, name))}, but must be a text.")
        if self.shape is not None and not (isinstance(self.shape, tuple) and len(self.shape) == 2):
            raise ValueError(f"shape is {_check.brief(self.shape)}, but must be (rows, columns) of an image, or None.")
        # What could still be written to belongs to somebody else.
        for letter in ("x", "y"):
            values = getattr(self, letter)
            shape = "(count, features)" if letter == "x" else "(count,)"
            if not isinstance(values, np.ndarray) or values.ndim != (2 if letter == "x" else 1):
                raise ValueError(f"{letter} is {_check.brief(values)}, but must be a NumPy array of shape {shape}.")
            if values.dtype.kind not in "biuf" or not np.isfinite(values).all():
                raise ValueError(f"{letter} is {_check.brief(values)}, but must hold finite real numbers.")
            if values.flags.writeable:
                values = values.copy()
                values.setflags(write=False)
                object.__setattr__(self, letter, values)

    @property
    def count(self) -> int:
        """The number of examples."""
        return len(self.x)

    @property
    def features(self) -> int:
        """The number of inputs of a network for this data."""
        return self.x.shape[1]

    @cached_property
    def classes(self) -> int:
        """The number of classes; none of them is empty."""
        return int(self.y.max()) + 1

    @cached_property
    def prior(self) -> Float64[np.ndarray, " classes"]:
        """The frequency of each class."""
        prior = np.bincount(self.y) / self.count
        prior.setflags(write=False)
        return prior

    @cached_property
    def checksum(self) -> str:
        """SHA-256 of types, shapes and bytes of x and y: equal for equal data, whatever its name."""
        digest = hashlib.sha256()
        for values in (self.x, self.y):
            digest.update(f"{values.dtype.str} {values.shape}\n".encode())
            digest.update(np.ascontiguousarray(values).data)
        return digest.hexdigest()

    def balanced(self, per_class: int) -> "Dataset":
        """The first `per_class` examples of each class, in the order they have here.

        >>> import neft
        >>> neft.data.load("fashion-mnist", split="test").balanced(5).count
        50
        """
        fewest = int(np.bincount(self.y).min())
        index = first_of_each_class(self.y, _check.integer("per_class", per_class, at_least=1, at_most=fewest))
        name = f"{self.name}, {per_class} per class"
        return replace(self, x=_frozen(self.x[index]), y=_frozen(self.y[index]), name=name)

    def description(self) -> dict[str, Any]:
        """What this data is, as values that JSON can hold."""
        return {
            "name": self.name,
            "split": self.split,
            "count": self.count,
            "features": self.features,
            "classes": self.classes,
            "prior": self.prior.tolist(),
            "preprocessing": self.preprocessing,
            "statistics": dict(self.statistics),
            "checksum": self.checksum,
        }

    def __repr__(self) -> str:
        shown = ("split", "count", "features", "classes", "preprocessing")
        return f"Dataset({self.name!r}, {', '.join(f'{name}={getattr(self, name)!r}' for name in shown)})"

    def __str__(self) -> str:
        low, high = self.prior.min(), self.prior.max()
        image = f" ({self.shape[0]}×{self.shape[1]})" if self.shape else ""
        numbers = "".join(f", {name} {value:.6g}" for name, value in self.statistics.items())
        lines = {
            "name": self.name,
            "split": self.split,
            "count": self.count,
            "features": f"{self.features}{image}",
            "classes": self.classes,
            "prior": f"{low:.4g} each" if low == high else f"{low:.4g} to {high:.4g}",
            "preprocessing": f"{self.preprocessing}{numbers}",
            "checksum": f"{self.checksum[:16]}…",
        }
        return "\n".join(["Dataset", *(f"  {name:<13}  {value}" for name, value in lines.items())])


def _frozen(values: np.ndarray) -> np.ndarray:
    values.setflags(write=False)
    return values
