"""The dense blocks of a network one by one: what each of them adds to the NTK is linear in its rate."""

from collections.abc import Container, Iterator, Sequence
from typing import Any, NamedTuple

import jax
import numpy as np

from ._block import Block
from ._dense import Dense, Layer
from ._network import Network
from ._norm import Norm


class Weights(NamedTuple):
    """A dense block: its sizes, the variances of a weight and of a bias, and whether it has biases."""

    fan_in: int
    width: int
    variance_W: float
    variance_b: float
    biases: bool


def weights_of(net: Network) -> list[Weights]:
    """The dense blocks in the order of their parameters, those inside of residual blocks too.

    >>> [w.fan_in for w in weights_of(Network(3, [Dense(8), "relu", Dense(2)]))]
    [3, 8]
    """
    params = jax.eval_shape(net.init, jax.random.key(0))
    layers = jax.tree.leaves(params, is_leaf=lambda part: isinstance(part, Layer))
    shapes = [part.W.shape for part in layers if isinstance(part, Layer)]
    dense = [part for part in _parts(net.blocks)[0] if isinstance(part, Dense)]
    if len(shapes) != len(dense):
        raise ValueError("net holds blocks of one's own, whose dense blocks cannot be told from their parameters.")
    found = []
    for (m, n), of in zip(shapes, dense):
        W, b = (float(variance) for variance in of.variances(n))
        found.append(Weights(n, m, W, b, not _without_biases(of)))
    return found


def without_biases(net: Network) -> bool:
    """Whether no dense block has biases: none that are drawn or trained.

    >>> from neft import MLP
    >>> without_biases(MLP((3, 8, 1), "relu")), without_biases(MLP((3, 8, 1), "relu", lambda_b=0.0))
    (False, True)
    """
    dense = [part for part in _parts(net.blocks)[0] if isinstance(part, Dense)]
    return all(_without_biases(part) for part in dense)


def _without_biases(dense: Dense) -> bool:
    return bool(np.all(np.asarray([dense.C_b, dense.lambda_b]) == 0))


def norms_learn(blocks: Sequence[Block]) -> bool:
    """Whether a norm among the blocks, or inside of them, has gains or biases.

    >>> from neft import RMSNorm
    >>> norms_learn([RMSNorm()]), norms_learn([RMSNorm(lambda_gain=1.0)])
    (False, True)
    """
    norms = (part.to_dict() for part in _parts(blocks)[0] if isinstance(part, Norm))
    return any(name.startswith("lambda") and value is not None for norm in norms for name, value in norm.items())


def weights_alone(net: Network, chosen: Container[int]) -> Network:
    """The network in which only the weights of these dense blocks learn, at λ_W = 1.

    >>> alone = weights_alone(Network(3, [Dense(8), "relu", Dense(2)]), [1])
    >>> [block.lambda_W for block in alone.blocks if isinstance(block, Dense)]
    [0.0, 1.0]
    """
    count, blocks = 0, []
    # Equal blocks stay one object: networks of them are followed faster.
    made: dict[Any, Block] = {}
    for block in net.blocks:
        parts, tree = _parts((block,))
        learns = tuple(count + i in chosen for i in range(sum(isinstance(part, Dense) for part in parts)))
        count += len(learns)
        if (id(block), learns) not in made:
            rates = iter(learns)
            (made[id(block), learns],) = jax.tree.unflatten(tree, [_still(part, rates) for part in parts])
        blocks.append(made[id(block), learns])
    return Network(net.inputs, blocks)


def _parts(blocks: Sequence[Block]) -> tuple[list[Any], Any]:
    return jax.tree.flatten(tuple(blocks), is_leaf=lambda part: isinstance(part, Dense | Norm))


def _still(part: Any, learns: Iterator[bool]) -> Any:
    """The part with a rate of 1 for the weights of a dense block that learns, and 0 for all else."""
    if isinstance(part, Dense):
        return part.replace(lambda_b=0.0, lambda_W=float(next(learns)))
    if not isinstance(part, Norm):
        return part
    record = part.to_dict()
    rates = {name: 0.0 for name, value in record.items() if name.startswith("lambda") and value is not None}
    return type(part)(**{name: value for name, value in {**record, **rates}.items() if name != "type"})
