"""Which tensors are known through all blocks of a network, and why others are not."""

import functools
from typing import Any

from .._activation import Activation
from ..network import Block, Chain, Division, Linear, Network, Nonlinearity, OneMatrix, Residual, TwoMatrices
from ._moments import existence
from ._norms import LACKS
from ._one_input import Tensors, present


class NoRecursion(Exception):
    """A block has no recursion of the tensors at order 1/width; the message names it."""


class _Same:
    # A network as a key by which it is, because its numbers need not be comparable.
    def __init__(self, net: Network) -> None:
        self.net = net

    def __hash__(self) -> int:
        return id(self.net)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Same) and other.net is self.net


def known_of(net: Network) -> list[Any]:
    """What each block says of its tensors."""
    return _known_of(_Same(net))


@functools.lru_cache(maxsize=4)
def _known_of(same: _Same) -> list[Any]:
    seen: dict[int, Any] = {}
    blocks = same.net.blocks
    for block in blocks:
        if id(block) not in seen:
            # Of its class, because Equinox walks through a whole block to hand out one of its methods.
            seen[id(block)] = type(block).tensors(block)
    return [seen[id(block)] for block in blocks]


def refused(net: Network, *, chains: bool = False) -> Network:
    """The network, or which of its blocks has no recursion; `chains` are branches of more than these programs know."""
    if any(existence(act) == "no derivative" for act in net.activations):
        raise NoRecursion("an activation jumps")
    begun, act, gain = False, False, None
    single = any(isinstance(known, OneMatrix | Chain) for known in known_of(net))
    before: Block | None = None
    for block, known in zip(net.blocks, known_of(net)):
        if gain is not None and not isinstance(known, Linear):
            raise NoRecursion(f"{gain!r} has a trained gain, and no dense block follows it")
        gain = None
        if isinstance(block, Nonlinearity):
            act = True
        elif isinstance(known, Division):
            if not begun or act:
                where = "activations" if begun else "the input"
                raise NoRecursion(f"{type(block).__name__} after {where} has no recursion of it yet")
            gain = block if known.gain is not None else None
        elif isinstance(known, Linear) or (not act and begun and known is not None and not _unknown(known, chains)):
            begun, act = True, False
        else:
            raise NoRecursion(f"{type(block).__name__} has no recursion of it yet{_why(block)}")
        if single:
            _refuse_norm(block, known, before)
        before = block
    if not net.blocks[0].weighs:
        raise NoRecursion("the network does not begin with a dense block")
    if not net.blocks[-1].weighs:
        raise NoRecursion(f"the network ends in {'an activation' if act else 'a norm'}")
    return net


def _refuse_norm(block: Block, known: Any, before: Block | None) -> None:
    """Say which norm among one-matrix branches has no recursion: one of the stream itself, or a trained one."""
    norm = known.norm if isinstance(known, OneMatrix) else None
    if norm is not None and (norm.gain is not None or norm.bias is not None):
        raise NoRecursion(f"{block!r} has no recursion of it yet, because the norm of its one matrix is trained")
    if isinstance(known, TwoMatrices) and known.norm is not None:
        raise NoRecursion(f"the norm of {block!r} in a stream of one-matrix branches has no recursion of it yet")
    last = None if before is None else before.tensors()
    if not isinstance(last, Division):
        return
    if isinstance(block, Nonlinearity) and (last.gain is not None or last.bias is not None):
        raise NoRecursion(
            f"{before!r} in a stream of one-matrix branches has no recursion of it yet, because it is trained and an "
            "activation follows"
        )
    if not isinstance(block, Nonlinearity) and not isinstance(known, Linear):
        raise NoRecursion(
            f"{before!r} in a stream of one-matrix branches has no recursion of it yet, because {block!r} follows it"
        )


def _why(block: Block) -> str:
    if not isinstance(block, Residual):
        return ""
    if isinstance(block.skip, Block):
        return f", because its skip is {block.skip!r}"
    norms = [one for one in block.branch if isinstance(one.tensors(), Division)]
    return f", because {norms[0]!r} in its branch is not followed by one or two dense blocks alone" if norms else ""


def _unknown(known: Any, chains: bool) -> bool:
    return isinstance(known, Chain) and not chains


def refuse_several(net: Network) -> None:
    """Say which block has no recursion for several inputs."""
    refused(net, chains=True)
    begun: Activation | None = None
    for block in net.blocks:
        if (chain := block.chain()) is None and block.weighs and not isinstance(block.tensors(), Linear):
            raise NoRecursion(f"{block!r} has no recursion for several inputs yet")
        if isinstance(block.tensors(), Division):
            raise NoRecursion(f"{type(block).__name__} has no recursion for several inputs yet")
        act = block.activation if isinstance(block, Nonlinearity) else chain and chain.steps[0].activation
        if act and begun and act != begun:
            raise NoRecursion(f"a stream of {begun.name} at the start of branches has no recursion for {act.name} yet")
        if chain:
            begun = act or begun
        elif block.weighs:
            begun = None


def known_names(net: Network) -> tuple[tuple[str, ...], str | None]:
    """The tensors that are known, and why others are not, where that is not for a kink alone."""
    acts, known = net.activations, known_of(net)
    exist = [present(act) for act in acts]
    names = [name for name in Tensors._fields if all(name in some for some in exist)]
    for block, one in zip(net.blocks, known):
        if isinstance(one, Division) or (isinstance(one, OneMatrix | TwoMatrices) and one.norm is not None):
            what = repr(block) if isinstance(one, Division) else f"the norm of {block!r}"
            return tuple(name for name in names if name not in LACKS), f"it has no recursion through {what} yet"
    return tuple(names), None
