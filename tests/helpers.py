"""What several tests share."""

import contextlib
import functools
import json
from pathlib import Path

import numpy as np
import pytest
from beartype import BeartypeConf, beartype

# Whole numbers are real numbers, as every Python user expects.
typechecker = beartype(conf=BeartypeConf(is_pep484_tower=True))

GOLD = Path(__file__).parent / "gold.json"


@functools.cache
def gold() -> dict:
    """The 50-digit file of `tools/make_gold.py`, which shares no code with neft."""
    return json.loads(GOLD.read_text())


NAMES = tuple(gold()["taylor"])

KINDS = ("tanh", "gelu", "relu", "elu(1)")
"""One of each kind: no closed form, a closed form, a kink, a kink of the second derivative."""


def one_of_each(names=NAMES, quick=KINDS):
    """The names as parameters of a test; those beyond `quick` are left to the slow tests."""
    return [name if name in quick else pytest.param(name, marks=pytest.mark.slow) for name in names]


def numbers(texts) -> np.ndarray:
    """The gold file keeps numbers as text."""
    return np.array(texts, dtype=np.float64)


def covariance(count: int, rank: int, seed: int = 0) -> np.ndarray:
    """A random covariance of the given rank with ones on the diagonal."""
    x = np.random.default_rng(seed).normal(size=(count, rank))
    x /= np.linalg.norm(x, axis=1, keepdims=True)
    return x @ x.T


@contextlib.contextmanager
def one_sentence(*words: str):
    """The block raises a ValueError whose message is one sentence with these words in it."""
    with pytest.raises(ValueError) as refusal:
        yield
    message = str(refusal.value)
    assert type(refusal.value) is ValueError
    assert message.endswith(".") and ". " not in message and "\n" not in message, message
    for word in words:
        assert word in message, f"{word!r} is not in: {message}"
