"""The points of a regression as they are given."""

import hashlib
from typing import Any

import numpy as np

from .. import _check
from ..network import Network


def points(net: Network, name: str, x: Any) -> np.ndarray:
    """At least one input of the network, in float32 where it is given so, else in float64."""
    kept = np.float32 if getattr(x, "dtype", None) == np.float32 else np.float64
    x = _check.array(name, x, shape=(None, net.inputs), dtype=kept)
    if not len(x):
        raise ValueError(f"{name} has shape {x.shape}, but must hold at least one input.")
    return x


def distinct(x: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Without a ridge an input that is there twice makes the matrix singular: once is enough, if the targets agree."""
    first: dict[bytes, int] = {}
    for i, row in enumerate(x):
        # By their hashes, since the rows themselves would be the data once more; -0 is 0.
        found = first.setdefault(hashlib.blake2b((row + 0.0).tobytes(), digest_size=16).digest(), i)
        if found != i and (y[found] != y[i]).any():
            raise ValueError(
                f"x holds the same input at {found} and {i} with different targets, which ridge=0 cannot fit: give a "
                "ridge or leave one out."
            )
    if len(first) == len(x):
        return x, y
    rows = np.fromiter(first.values(), int)
    return x[rows], y[rows]
