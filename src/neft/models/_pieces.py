"""Pieces of a model that blocks are made of: weights, norms, activations, branches, with their parameters."""

import dataclasses
import math
from collections.abc import Iterable
from typing import Any

import numpy as np

from .._activation import Activation
from ..network import BatchNorm, Block, Conv, Dense, LayerNorm, Nonlinearity, Residual, RMSNorm
from ._measure import measured


@dataclasses.dataclass
class Window:
    """Where the weights of a convolution stand."""

    strides: tuple[int, ...]
    padding: str


@dataclasses.dataclass
class Weighted:
    """Weights (out, in), or (*window, in, out) with a window, and biases (out,) or None."""

    W: np.ndarray
    b: np.ndarray | None = None
    names: tuple[str, ...] = ()
    window: Window | None = None

    @property
    def fan_in(self) -> int:
        """The number of entries that are summed."""
        return self.W.shape[1] if self.window is None else math.prod(self.W.shape[:-1])

    @property
    def width(self) -> int:
        """The number of outputs."""
        return self.W.shape[0] if self.window is None else self.W.shape[-1]

    def times(self, factor: Any) -> None:
        """Multiply the outputs by a number, or each by its own."""
        factor = np.asarray(factor, self.W.dtype)
        self.W = self.W * (factor if self.window is not None or factor.ndim == 0 else factor[:, None])
        self.b = None if self.b is None else self.b * factor

    def plus(self, b: np.ndarray, names: tuple[str, ...]) -> None:
        """Add to the biases."""
        b = np.broadcast_to(np.asarray(b, self.W.dtype), (self.width,))
        self.b = b if self.b is None else self.b + b
        self.names += tuple(name for name in names if name not in self.names)

    def block(self) -> Block:
        """Dense or Conv, with the variances of these numbers; a bias that is not there is not trained."""
        hyper = {"C_W": measured(self.W, self.fan_in).variance}
        hyper |= {"lambda_b": 0.0} if self.b is None else {"C_b": measured(self.b).variance}
        if self.window is None:
            return Dense(self.width, **hyper)
        shape = self.W.shape[:-2]
        return Conv(self.width, shape, strides=self.window.strides, padding=self.window.padding, **hyper)

    def leaves(self) -> list[np.ndarray]:
        """Weights and biases."""
        return [self.W, np.zeros(self.width, self.W.dtype) if self.b is None else self.b]


@dataclasses.dataclass
class Normed:
    """A norm along the entries: whether it subtracts the mean, its ε, gains and biases, None for none."""

    centres: bool
    epsilon: float
    gain: np.ndarray | None = None
    bias: np.ndarray | None = None
    names: tuple[str, ...] = ()
    moments: tuple[np.ndarray, np.ndarray] | None = None

    def block(self) -> Block:
        """RMSNorm, LayerNorm or, with moments, BatchNorm; gains and biases are trained where there are any."""
        trained = {"lambda_gain": None if self.gain is None else 1.0, "epsilon": self.epsilon}
        if not self.centres:
            return RMSNorm(**trained)
        trained["lambda_bias"] = None if self.bias is None else 1.0
        return LayerNorm(**trained) if self.moments is None else BatchNorm(**trained, moments=self.moments)

    def leaves(self) -> list[np.ndarray]:
        """Gains and biases."""
        return [part for part in (self.gain, self.bias) if part is not None]


@dataclasses.dataclass
class Plain:
    """A block without parameters: an activation, a pool, Flatten."""

    of: Block | Activation
    names: tuple[str, ...] = ()

    def block(self) -> Block:
        """The block."""
        return Nonlinearity(self.of) if isinstance(self.of, Activation) else self.of

    def leaves(self) -> list[np.ndarray]:
        """None."""
        return []


@dataclasses.dataclass
class Branched:
    """A skip, a number or weights, around a branch."""

    branch: list["Piece"]
    skip: float | Weighted
    names: tuple[str, ...] = ()

    def block(self) -> Block:
        """A residual block."""
        skip = self.skip.block() if isinstance(self.skip, Weighted) else self.skip
        return Residual(*(piece.block() for piece in self.branch), skip=skip)

    def leaves(self) -> list[np.ndarray]:
        """Those of the branch, then those of the skip: the order of the parameters."""
        found = [leaf for piece in self.branch for leaf in piece.leaves()]
        return found + (self.skip.leaves() if isinstance(self.skip, Weighted) else [])


Piece = Weighted | Normed | Plain | Branched


def each(pieces: Iterable[Piece]) -> Iterable[Piece]:
    """All pieces with parameters or functions of their own, those inside branches too, in the order of parameters."""
    for piece in pieces:
        if isinstance(piece, Branched):
            yield from each(piece.branch)
            if isinstance(piece.skip, Weighted):
                yield piece.skip
        else:
            yield piece


def tail(pieces: list[Piece]) -> list[Weighted] | None:
    """The weights whose sum the last piece gives, if it is linear in weights at its end; None if it is not."""
    if not pieces:
        return None
    last = pieces[-1]
    if isinstance(last, Weighted):
        return [last]
    if isinstance(last, Branched) and (found := tail(last.branch)) is not None:
        return found + ([last.skip] if isinstance(last.skip, Weighted) else [])
    return None


def multiplied(pieces: list[Piece], factor: float) -> bool:
    """Multiply what the last piece gives by a number, in its weights; False where that cannot be done."""
    if (found := tail(pieces)) is None:
        return False
    for weighted in found:
        weighted.times(factor)
    last = pieces[-1]
    while isinstance(last, Branched):
        if not isinstance(last.skip, Weighted):
            last.skip *= factor
        last = last.branch[-1]
    return True


def common(names: tuple[str, ...]) -> str:
    """The module that holds parameters of these names, "" where none does.

    >>> common(("layers.0.weight", "layers.0.bias"))
    'layers.0'
    """
    parts = [name.split(".") for name in names]
    if not parts:
        return ""
    if len(parts) == 1:
        return ".".join(parts[0][:-1]) or parts[0][0]
    shared = []
    for step in zip(*parts):
        if len(set(step)) > 1:
            break
        shared.append(step[0])
    return ".".join(shared)
