"""What several tests share."""

import functools
import json
from pathlib import Path

import numpy as np
from beartype import BeartypeConf, beartype

# Whole numbers are real numbers, as every Python user expects.
typechecker = beartype(conf=BeartypeConf(is_pep484_tower=True))

GOLD = Path(__file__).parent / "gold.json"


@functools.cache
def gold() -> dict:
    """The 50-digit file of `tools/make_gold.py`, which shares no code with neft."""
    return json.loads(GOLD.read_text())


NAMES = tuple(gold()["taylor"])


def numbers(texts) -> np.ndarray:
    """The gold file keeps numbers as text."""
    return np.array(texts, dtype=np.float64)


def covariance(count: int, rank: int, seed: int = 0) -> np.ndarray:
    """A random covariance of the given rank with ones on the diagonal."""
    x = np.random.default_rng(seed).normal(size=(count, rank))
    x /= np.linalg.norm(x, axis=1, keepdims=True)
    return x @ x.T
