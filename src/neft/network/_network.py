"""A network: blocks one after the other, with `init` and `apply`."""

import copy
import functools
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from .. import _check
from .._activation import Activation
from .._promote import common_dtype
from .._public import public
from ._attention import Attention
from ._batch_norm import BatchNorm, Moments, moments_of
from ._block import Block, Means, Visit
from ._chain import applied, begun, blocks_of, fans, passed, rates_along, shapes, simply
from ._conv import Conv
from ._dense import Dense
from ._flatten import Flatten
from ._infinite import infinite_width
from ._nonlinearity import Nonlinearity
from ._norm import LayerNorm, RMSNorm
from ._parts import parameters_of, parts
from ._pool import AvgPool, GlobalAvgPool
from ._positions import facing
from ._residual import Residual
from ._runs import Segment, segments
from ._stage import Layout, Stage
from ._words import in_words


class Network(eqx.Module):
    """Specification of a network made of blocks. It holds no parameters; hyperparameters are leaves of a pytree.

    Attributes:
        inputs: n_0, the number of inputs. Given as (H, W, C) or (T, C), inputs are images (N, H, W, C) or sequences
            (N, T, C), or the same as (N, n_0), and this is how many entries one of them has.
        input_shape: (n_0,), (H, W, C) or (T, C).
        blocks: the blocks; a name, a function or an `Activation` between them is an activation.

    >>> net = Network(5, [Dense(64), Residual(RMSNorm(), Dense(128), "gelu", Dense(64), skip=0.9), Dense(2)])
    >>> net.apply(net.init(jax.random.key(0)), jnp.ones((3, 5))).shape
    (3, 2)
    >>> net.widths
    (5, 64, 64, 2)
    """

    inputs: int = eqx.field(static=True)
    input_shape: tuple[int, ...] = eqx.field(static=True)
    blocks: tuple[Block, ...]

    def __init__(self, inputs: "int | Sequence[int]", blocks: Iterable[Any]) -> None:
        if isinstance(blocks, str | Block) or not isinstance(blocks, Iterable):
            raise ValueError(f"blocks is {_check.brief(blocks)}, but must be a list of blocks.")
        self.input_shape = _shape(inputs)
        self.inputs = math.prod(self.input_shape)
        self.blocks = blocks_of(blocks)
        last = shapes(self.blocks, self.input_shape)[-1]
        if not any(block.weighs for block in self.blocks):
            raise ValueError("blocks hold no weights, but must hold at least one dense block or convolution.")
        if len(last) > 1:
            raise ValueError(
                f"blocks end at positions {last[:-1]}, but Flatten() or GlobalAvgPool() must come before the end."
            )
        if not self._norms():
            self.check_kernel()

    def check_kernel(self) -> None:
        """Refuse a network that is not Gaussian at infinite width: the step of the kernels says so itself."""
        layout = Layout(len(self.input_shape) - 1, self.crossed) if self.positions else None

        # Numbers do not matter here.
        def run(one):
            stage = Stage.itself(one, one, mean1=one, mean2=one, kind="input", layout=layout)
            if layout is not None and layout.crossed:
                one, two = facing(one, layout, False), facing(one, layout, True)
                both = one * two
                stage = Stage(one, two, both, both, both, both, mean1=one, mean2=two, kind="input", layout=layout)
            return passed(self.blocks, stage, _Nothing()).c

        jax.eval_shape(run, jax.ShapeDtypeStruct(self.positions, jnp.float32))

    @property
    def positions(self) -> tuple[int, ...]:
        """(H, W) of images, (T,) of sequences, () of vectors."""
        return self.input_shape[:-1]

    @property
    def crossed(self) -> bool:
        """Whether its kernels take all pairs of positions: where a block mixes positions, as pools do."""
        nodes = jax.tree.leaves(self.blocks, is_leaf=lambda node: isinstance(node, Block) and node.mixes)
        return any(isinstance(node, Block) for node in nodes)

    def refuse_positions(self, what: str, error: type[ValueError] = ValueError) -> None:
        """For what is known of vectors only; the first block that needs positions is named."""
        if self.positions:
            block = next((block for block in self.blocks if block.dimensions), self.blocks[0])
            raise error(
                f"net is {_check.brief(self)}, whose inputs have positions for {type(block).__name__}, but {what} are "
                "known for vectors only."
            )

    def flat(self, x: Any) -> Any:
        """Inputs (…, H, W, C) as (…, n_0); whatever has another shape as it is.

        >>> net = Network((4, 4, 1), [Conv(8, (3, 3)), "relu", Flatten(), Dense(2)])
        >>> net.flat(np.ones((5, 4, 4, 1))).shape
        (5, 16)
        """
        try:
            if not self.positions or np.shape(x)[-len(self.input_shape) :] != self.input_shape:
                return x
        except ValueError:  # a list of lists of different lengths, of which others say what is wrong
            return x
        return (x if hasattr(x, "reshape") else np.asarray(x)).reshape(
            *np.shape(x)[: -len(self.input_shape)], self.inputs
        )

    @property
    def widths(self) -> tuple[int, ...]:
        """n_0, and the width after each block at the top that holds weights."""
        return (self.inputs, *(n for block, n in zip(self.blocks, self.fans()[1:]) if block.weighs))

    def fans(self) -> tuple[int, ...]:
        """The widths before each block and after the last."""
        return fans(self.blocks, self.input_shape)

    def hidden_widths(self) -> tuple[int, ...]:
        """All widths between inputs and outputs, those inside residual blocks too."""
        found: list[int] = []

        def seen(n: int) -> int:
            found.append(n)
            return n

        self.resized(seen)
        return tuple(found)

    def resized(self, change: Callable[[int], int]) -> "Network":
        """The network with other hidden widths, `change` of each; a dense block at its end keeps its outputs.

        >>> Network(3, [Dense(8), Residual("relu", Dense(8)), Dense(2)]).resized(lambda n: 2 * n).widths
        (3, 16, 16, 2)
        """
        *inner, last = self.blocks
        end = last if isinstance(last, Dense) else last.resized(change)
        return Network(self.input_shape, [*(block.resized(change) for block in inner), end])

    @property
    def outputs(self) -> int:
        """The number of outputs."""
        return self.fans()[-1]

    @property
    def depth(self) -> int:
        """The number of blocks at the top that hold weights."""
        return sum(block.weighs for block in self.blocks)

    @property
    def activations(self) -> tuple[Activation, ...]:
        """The different activations in it, in the order in which they occur."""
        return tuple(dict.fromkeys(_activations(self.blocks)))

    def init(self, key: Array, *, dtype: Any = None) -> tuple[Any, ...]:
        """Random parameters, a tree for each block that has any, in JAX's default float type or in `dtype`."""
        dtype = jnp.zeros(()).dtype if dtype is None else dtype
        try:
            if isinstance(dtype, np.ndarray | jax.Array) or not jnp.issubdtype(jnp.dtype(dtype), jnp.floating):
                raise TypeError
        except (TypeError, ValueError):
            raise ValueError(
                f"dtype is {_check.brief(dtype)}, but must be a type of real floating-point numbers."
            ) from None
        key = _check.key("key", key)
        self.check_memory(dtype)
        return begun(self.blocks, key, self.input_shape, dtype)

    def apply(self, params: Sequence[Any], x: Float[Array, "*batch n_0"] | np.ndarray) -> Float[Array, "*rows n_L"]:
        """The outputs (…, n_L) for inputs of shape (…, n_0), or (…, H, W, C) where the network has positions."""
        return self._run(params, x)[-1]

    def visited(self, params: Sequence[Any], x: Any, visit: Visit) -> Float[Array, "*rows n_L"]:
        """The outputs, where `visit(block, params, x)` gives those of each block, in the order of the parameters."""
        return self._run(params, x, visit)[-1]

    @property
    def couples(self) -> bool:
        """Whether an output depends on the other inputs of a batch: by batch norms without given moments."""
        return any(block.moments is None for block in self._norms())

    @property
    def normalized(self) -> bool:
        """Whether norms divide by what fluctuates from draw to draw, so that averages have poles at small widths."""
        nodes = jax.tree.leaves(self.blocks, is_leaf=lambda node: isinstance(node, RMSNorm | LayerNorm))
        return any(isinstance(node, RMSNorm | LayerNorm) for node in nodes)

    def moments(self, params: Sequence[Any], x: Float[Array, "*batch n_0"] | np.ndarray) -> tuple[Moments, ...]:
        """Mean and variance of what enters each batch norm, over a batch of inputs.

        >>> net = Network(5, [Dense(64), BatchNorm(), "relu", Dense(2)])
        >>> [moments.mean.shape for moments in net.moments(net.init(jax.random.key(0)), jnp.ones((3, 5)))]
        [(64,)]
        """
        found = []

        def visit(block: Block, params: Any, x: Array) -> Array:
            if isinstance(block, BatchNorm):
                found.append(moments_of(x))
            return block.apply(params, x)

        self._run(params, x, visit)
        return tuple(found)

    def with_moments(self, moments: Iterable[Any]) -> "Network":
        """The network whose batch norms take these moments, one pair for each: a function of one input."""
        given, norms = list(moments), self._norms()
        if len(given) != len(norms):
            raise ValueError(f"moments are those of {len(given)} batch norms, but the network has {len(norms)}.")
        return eqx.tree_at(Network._norms, self, [norm.with_moments(one) for norm, one in zip(norms, given)])

    def _norms(self) -> list[BatchNorm]:
        nodes = jax.tree.leaves(self.blocks, is_leaf=lambda node: isinstance(node, BatchNorm))
        return [node for node in nodes if isinstance(node, BatchNorm)]

    def preactivations(
        self, params: Sequence[Any], x: Float[Array, "*batch n_0"] | np.ndarray
    ) -> tuple[Float[Array, "..."], ...]:
        """The outputs of all blocks at the top that hold weights, for inputs of shape (…, n_0)."""
        return tuple(z for block, z in zip(self.blocks, self._run(params, x)) if block.weighs)

    def _run(self, params: Sequence[Any], x: Any, visit: Visit = simply) -> list[Array]:
        self._check_call(params, x)
        dtype = common_dtype(x, *jax.tree.leaves(params))
        x = jnp.asarray(x, dtype)
        if not self.positions:
            return applied(self.blocks, params, x, visit)
        # Blocks on positions count axes from the first, which is that of the inputs.
        x = self.flat(x)
        found = applied(self.blocks, params, x.reshape(-1, *self.input_shape), visit)
        return [z.reshape(*x.shape[:-1], *z.shape[1:]) for z in found]

    def rates(self) -> tuple[Any, ...]:
        """Learning rates, a tree of numbers with the structure of the parameters."""
        return rates_along(self.blocks, self.input_shape)

    def parameter_count(self) -> int:
        """Number of parameters.

        >>> Network(784, [Dense(512), "tanh", Dense(10)]).parameter_count()
        407050
        """
        return sum(int(np.prod(shape)) for shape in self._shapes()[1])

    def parts(self) -> list[tuple[Block, ...]]:
        """The blocks cut into what statistics have an entry for: after each that holds weights, and the rest with it.

        >>> [len(part) for part in Network(3, [Dense(8), "relu", Dense(2)]).parts()]
        [1, 2]
        """
        return parts(self.blocks)

    def parameters_of_parts(self) -> tuple[int, ...]:
        """How many parameters each of the `parts` has.

        >>> Network(3, [Dense(8), "relu", Dense(2)]).parameters_of_parts()
        (32, 18)
        """
        return parameters_of(self.blocks, self.input_shape, jax.eval_shape(self.init, jax.random.key(0)))

    def in_words(self) -> tuple[str, ...]:
        """What each of the `parts` is; hyperparameters are named where they are not the usual ones.

        >>> Network(3, [Dense(8, C_W=2.0), Residual(RMSNorm(), "relu", Dense(8)), Dense(2)]).in_words()[:2]
        ('dense to 8 (C_W = 2)', 'skip 1 around [RMSNorm, relu, dense to 8]')
        """
        return tuple(in_words(part) for part in self.parts())

    def check_memory(self, dtype: Any = np.float32) -> None:
        """Refuse a network whose parameters do not fit into this machine's memory."""
        what = f"the {self.parameter_count():.2e} parameters of widths {_check.brief(self.widths)}"
        _check.memory(what, self.parameter_count(), itemsize=jnp.dtype(dtype).itemsize)

    def segments(self) -> list[Segment]:
        """The blocks cut after each one that holds weights: what the step of K and Θ is done for one by one."""
        return segments(self.blocks)

    def infinite_width(self, x: np.ndarray, *, slopes: bool = True) -> tuple[np.ndarray, np.ndarray]:
        """K and Θ of all blocks at the top that hold weights, (L, N, N), for inputs (N, n_0).

        Without `slopes` Θ is not that of the network: where σ itself jumps it has none.
        """
        self.refuse_positions("statistics of every block")
        return infinite_width(self.blocks, x, slopes)

    def to_dict(self) -> dict[str, Any]:
        """The specification as JSON can hold it."""
        inputs = list(self.input_shape) if self.positions else self.inputs
        # The same object says the same, and a deep network is made of few. Its class is asked, because Equinox walks
        # through a whole block to hand out one of its methods.
        seen = {id(block): block for block in self.blocks}
        said = {one: type(block).to_dict(block) for one, block in seen.items()}
        return {"type": "Network", "inputs": inputs, "blocks": [copy.deepcopy(said[id(b)]) for b in self.blocks]}

    @classmethod
    @public
    def from_dict(cls, record: Mapping[str, Any]) -> "Network":
        """The network that `to_dict` described; one with a user's own blocks or functions cannot be made again.

        >>> Network.from_dict(Network(2, [Dense(3), "relu", Dense(1)]).to_dict()).widths
        (2, 3, 1)
        """
        missing = [name for name in ("inputs", "blocks") if name not in record]
        if missing:
            raise ValueError(f"the record of a network lacks {', '.join(missing)}.")
        if not isinstance(record["blocks"], list):
            raise ValueError(f"blocks is {_check.brief(record['blocks'])}, but must be a list of blocks.")
        return cls(record["inputs"], [part for block in record["blocks"] for part in _made(block)])

    def __repr__(self) -> str:
        return f"Network({self.input_shape if self.positions else self.inputs}, [{', '.join(map(repr, self.blocks))}])"

    def _shapes(self) -> tuple[Any, list[tuple[int, ...]]]:
        return _shapes_of(jax.tree.structure(self.blocks), self.input_shape)

    def _check_call(self, params: Sequence[Any], x: Any) -> None:
        wanted = self._shapes()[1]
        if not isinstance(params, Sequence):
            raise ValueError(f"params is {_check.brief(params)}, but must be what `init` gives.")
        shapes = [np.shape(leaf) for leaf in jax.tree.leaves(params)]
        if shapes != wanted:
            raise ValueError(f"params hold arrays of shapes {shapes}, but must hold those of shapes {wanted}.")
        if not isinstance(x, jax.Array):
            _check.as_array("x", x)
        if self.positions and np.shape(x)[-len(self.input_shape) :] == self.input_shape:
            return
        if np.ndim(x) == 0 or np.shape(x)[-1] != self.inputs:
            images = f"its last axes must be {self.input_shape}, or " if self.positions else ""
            raise ValueError(f"x has shape {np.shape(x)}, but {images}its last axis must have {self.inputs} entries.")


def _shape(inputs: Any) -> tuple[int, ...]:
    if isinstance(inputs, Sequence) and not isinstance(inputs, str):
        if len(inputs) not in (1, 2, 3):
            raise ValueError(f"inputs is {_check.brief(inputs)}, but must be a number, (T, C) or (H, W, C).")
        return tuple(_check.integer("each of inputs", n, at_least=1) for n in inputs)
    return (_check.integer("inputs", inputs, at_least=1),)


@functools.lru_cache(maxsize=1024)
def _shapes_of(structure: Any, inputs: tuple[int, ...]) -> tuple[Any, list[tuple[int, ...]]]:
    # The tree of the parameters and their shapes, which do not depend on hyperparameters.
    blocks = jax.tree.unflatten(structure, [1.0] * structure.num_leaves)
    tree = jax.eval_shape(lambda key: begun(blocks, key, inputs, jnp.float32), jax.random.key(0))
    return jax.tree.structure(tree), [leaf.shape for leaf in jax.tree.leaves(tree)]


class _Nothing:
    # Averages of the right shapes, to find out what a network refuses.
    def pair(self, activation: Activation, stage: Stage) -> Means:
        return Means(stage.K1, stage.K2, stage.c, stage.c)

    def mean(self, activation: Activation, stage: Stage) -> tuple[Any, Any]:
        return stage.K1, stage.K2

    def tilted(self, activation: Activation, stage: Stage) -> Any:
        return stage.c

    def alone(self, stage: Stage, function: Callable[[Any], Any]) -> tuple[Any, Any]:
        return function(stage.c), function(stage.c)


def _activations(blocks: Iterable[Block]):
    for block in blocks:
        if isinstance(block, Nonlinearity):
            yield block.activation
        elif isinstance(block, Residual):
            yield from _activations(block.branch)


_NAMED: dict[str, type[Block]] = {
    "Dense": Dense,
    "Conv": Conv,
    "Attention": Attention,
    "AvgPool": AvgPool,
    "GlobalAvgPool": GlobalAvgPool,
    "Flatten": Flatten,
    "RMSNorm": RMSNorm,
    "LayerNorm": LayerNorm,
    "BatchNorm": BatchNorm,
}


def _made(record: Any) -> list[Any]:
    # The blocks of a record: one, but for activations that compose.
    if isinstance(record, str):
        return [record]
    if not isinstance(record, Mapping) or "type" not in record:
        raise ValueError(
            f"a block is {_check.brief(record)}, but must be a record with a type or the name of an activation."
        )
    record = dict(record)
    kind = record.pop("type")
    if not record.pop("named", True):
        what = f"activation {record['activations']}" if kind == "Nonlinearity" else f"block {kind}"
        raise ValueError(f"{what} is a user's own, which a file cannot hold.")
    try:
        if kind == "Nonlinearity":
            return list(record["activations"])
        if kind == "Residual":
            skip = record.get("skip", 1.0)
            branch = [part for block in record["branch"] for part in _made(block)]
            return [Residual(*branch, skip=_made(skip)[0] if isinstance(skip, Mapping) else skip)]
        return [_NAMED[_check.one_of("type", kind, (*_NAMED, "Residual", "Nonlinearity"))](**record)]
    except (KeyError, TypeError) as error:
        raise ValueError(f"the record of a {kind} block does not hold what it must: {error}.") from None
