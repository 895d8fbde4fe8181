"""A residual block: a skip around a branch."""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array

from .._activation import Activation
from .._promote import cast
from ._block import Averages, Block, Chain, OneMatrix, Step, TwoMatrices, Visit, hyperparameter
from ._chain import applied, begun, blocks_of, passed, rates_along, simply
from ._conv import Conv
from ._dense import Dense
from ._nonlinearity import Nonlinearity
from ._norm import Norm
from ._stage import Stage, added, scaled


class Branched(NamedTuple):
    """Parameters (or rates) of a residual block: those of the branch, and those of a dense skip, else None."""

    branch: tuple[Any, ...]
    skip: Any = None


class Residual(Block):
    """skip · z + branch(z) (docs/theory/blocks, eq. 5).

    The branch begins at preactivations and ends in a dense block, so that it is Gaussian and independent of the stream.
    The skip is a number, or a dense block where the width changes, or a convolution where positions do.

    >>> Residual("relu", Dense(8), skip=0.5)
    Residual(Nonlinearity('relu'), Dense(8, C_b=0, C_W=1, lambda_b=1, lambda_W=1), skip=0.5)
    """

    branch: tuple[Block, ...]
    skip: Any

    def __init__(self, *branch: "Block | str | Activation | Callable[[Any], Any]", skip: Any = 1.0) -> None:
        self.branch = blocks_of(branch)
        if isinstance(skip, Block) and not isinstance(skip, Dense | Conv):
            raise ValueError(f"skip is {skip!r}, but must be a number, a dense block or a convolution.")
        self.skip = skip if isinstance(skip, Block) else hyperparameter("skip", skip, at_least=None)

    @property
    def dimensions(self) -> int:
        """That of the blocks in it."""
        return max(
            block.dimensions for block in (*self.branch, *((self.skip,) if isinstance(self.skip, Block) else ()))
        )

    def init(self, key: Array, fan_in: int, *, dtype: Any) -> Branched:
        """The parameters of the branch and of the skip."""
        if not isinstance(self.skip, Block):
            return Branched(begun(self.branch, key, fan_in, dtype))
        key, key_skip = jax.random.split(key)
        return Branched(begun(self.branch, key, fan_in, dtype), self.skip.init(key_skip, fan_in, dtype=dtype))

    def apply(self, params: Any, x: Array) -> Array:
        """skip · x + branch(x)."""
        return self.visited(params, x, simply)

    def visited(self, params: Any, x: Array, visit: Visit) -> Array:
        """The same, each block of the branch and then the skip by `visit`: the order of the parameters."""
        branch, skip = params
        found = applied(self.branch, branch, x, visit)[-1]
        along = visit(self.skip, skip, x) if isinstance(self.skip, Block) else jnp.asarray(self.skip, x.dtype) * x
        if found.shape != along.shape:
            if found.shape[-1] != along.shape[-1] or found.ndim != along.ndim:
                raise ValueError(
                    f"the branch has width {found.shape[-1]} and the skip {along.shape[-1]}, but both must be the same:"
                    " skip=Dense(…) changes the width."
                )
            raise ValueError(
                f"the branch has positions {found.shape[1:-1]} and the skip {along.shape[1:-1]}, but both must be the "
                "same: skip=Conv(…, strides=…) changes them."
            )
        return along + found

    def rates(self, fan_in: int) -> Branched:
        """Those of the branch and of the skip."""
        skip = self.skip.rates(fan_in) if isinstance(self.skip, Block) else None
        return Branched(rates_along(self.branch, fan_in), skip)

    def kernel(self, stage: Stage, average: Averages) -> Stage:
        """K' = γ²K + K_branch and Θ' = γ²Θ + Θ_branch."""
        if stage.kind != "gaussian":
            start = "the input" if stage.kind == "input" else "activations"
            raise ValueError(f"the skip starts at {start}, but must start at preactivations, after a dense block.")
        found = passed(self.branch, stage.replace(fresh=False), average)
        if not (found.kind == "gaussian" and found.fresh):
            raise ValueError(f"the branch ends in {self.branch[-1]!r}, but must end in a dense block or a convolution.")
        if isinstance(self.skip, Block):
            return added(self.skip.kernel(stage, average), found)
        square = cast(self.skip, stage.c) ** 2
        along = scaled(stage, square, square * stage.mean_theta).replace(
            mixed=stage.mixed or stage.gain is not None, fresh=False
        )
        return added(along, found)

    def tensors(self) -> OneMatrix | TwoMatrices | Chain | None:
        """The skip and one matrix or two of them, after a norm if there is one, or any number of them."""
        norm, branch = None, self.branch
        if isinstance(self.skip, Block):
            return None
        if isinstance(branch[0], Norm):
            norm, branch = branch[0].tensors(), branch[1:]
        if len(branch) == 3:
            first, between, last = branch
            if isinstance(first, Dense) and isinstance(between, Nonlinearity) and isinstance(last, Dense):
                return TwoMatrices(self.skip, Dense.tensors(first), Dense.tensors(last), first.width, norm)
        if len(branch) == 2 and isinstance(branch[0], Nonlinearity) and isinstance(branch[1], Dense):
            return OneMatrix(self.skip, branch[0].activation, Dense.tensors(branch[1]), norm)
        return None if norm is not None else self.chain()

    def chain(self) -> Chain | None:
        """The skip and the steps of the branch, where it holds dense blocks and activations only."""
        steps, act, width = [], None, None
        for block in self.branch:
            if isinstance(block, Nonlinearity) and act is None:
                act = block.activation
            elif isinstance(block, Dense):
                steps.append(Step(act, block, width))
                act, width = None, block.width
            else:
                return None
        return None if act is not None or isinstance(self.skip, Block) else Chain(self.skip, tuple(steps))

    def resized(self, change: Callable[[int], int]) -> "Residual":
        """With other widths in the branch, and of a dense skip."""
        skip = self.skip.resized(change) if isinstance(self.skip, Block) else self.skip
        return Residual(*(block.resized(change) for block in self.branch), skip=skip)

    def to_dict(self) -> dict[str, Any]:
        """The block as JSON can hold it."""
        skip = self.skip.to_dict() if isinstance(self.skip, Block) else self.skip
        # Of their classes, because Equinox walks through a whole block to hand out one of its methods.
        return {"type": "Residual", "branch": [type(block).to_dict(block) for block in self.branch], "skip": skip}

    def __repr__(self) -> str:
        skip = repr(self.skip) if isinstance(self.skip, Block) else f"{self.skip:g}"
        return f"Residual({', '.join(map(repr, self.branch))}, skip={skip})"
