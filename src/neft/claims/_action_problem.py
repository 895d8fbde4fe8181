"""A classifier and data small enough to differentiate three times, element by element."""

import numpy as np


def problem(balanced: bool = True) -> tuple[dict[str, np.ndarray], tuple[np.ndarray, np.ndarray]]:
    """Parameters and data small enough for nested autodiff."""
    rng = np.random.default_rng(7)
    shapes = {"U": (3, 4), "c": (3,), "W": (4, 2), "b": (4,)}
    m = np.arange(9) % 3 if balanced else np.array([0, 0, 0, 0, 1, 1, 1, 2, 2])
    return {name: rng.normal(size=shape) for name, shape in shapes.items()}, (rng.normal(size=(9, 2)) + 0.5, m)
