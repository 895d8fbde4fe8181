"""The dense blocks of a network one by one: what each of them adds to the NTK is linear in its rate."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import jax

from ._block import Block
from ._dense import Dense
from ._network import Network
from ._norm import Norm


class Weights(NamedTuple):
    """A dense block: its sizes and the variances that it is drawn with."""

    fan_in: int
    width: int
    C_b: float
    C_W: float


def weights_of(net: Network) -> list[Weights]:
    """The dense blocks in the order of their parameters, those inside of residual blocks too.

    >>> [w.fan_in for w in weights_of(Network(3, [Dense(8), "relu", Dense(2)]))]
    [3, 8]
    """
    params = jax.eval_shape(net.init, jax.random.key(0))
    shapes = [leaf.shape for leaf in jax.tree.leaves(params) if len(leaf.shape) == 2]
    dense = [part for part in _parts(net.blocks)[0] if isinstance(part, Dense)]
    return [Weights(shape[1], shape[0], float(of.C_b), float(of.C_W)) for shape, of in zip(shapes, dense, strict=True)]


def weights_alone(net: Network, chosen: Sequence[int]) -> Network:
    """The network in which only the weights of these dense blocks learn, at λ_W = 1.

    >>> alone = weights_alone(Network(3, [Dense(8), "relu", Dense(2)]), [1])
    >>> [block.lambda_W for block in alone.blocks if isinstance(block, Dense)]
    [0.0, 1.0]
    """
    parts, tree = _parts(net.blocks)
    count, found = 0, []
    for part in parts:
        if isinstance(part, Dense):
            found.append(part.replace(lambda_b=0.0, lambda_W=1.0 if count in chosen else 0.0))
            count += 1
        elif isinstance(part, Norm):
            found.append(_still(part))
        else:
            found.append(part)
    return Network(net.inputs, jax.tree.unflatten(tree, found))


def _parts(blocks: Sequence[Block]) -> tuple[list[Any], Any]:
    return jax.tree.flatten(tuple(blocks), is_leaf=lambda part: isinstance(part, Dense | Norm))


def _still(norm: Norm) -> Norm:
    record = norm.to_dict()
    rates = {name: 0.0 for name, value in record.items() if name.startswith("lambda") and value is not None}
    return type(norm)(**{name: value for name, value in {**record, **rates}.items() if name != "type"})
