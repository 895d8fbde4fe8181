"""What is said of a part of a model that is not known."""

from collections.abc import Sequence
from typing import NoReturn

from ._graph import MARK, Node, between

_NAMES = {
    "while": "control flow on data (a loop whose end depends on the input)",
    "cond": "control flow on data (a branch that depends on the input)",
    "part": "an operation with several results",
    "concatenate": "a concatenation",
    "gather": "a look-up by index",
    "dynamic_slice": "a look-up by index",
    "slice": "a part of a vector taken by itself",
    "split": "a vector split into parts",
    "reduce_window_max": "max pooling",
    "argmax": "an argmax",
    "sort": "sorting",
    "cumsum": "a cumulative sum",
    "reduce_max": "a largest entry, as in softmax",
    "rng_bit_generator": "random numbers",
    "random_bits": "random numbers",
    "pad": "padding",
    "reduce_prod": "a product of entries",
    "exp": "a function of several entries, as softmax is",
}


def refuse(nodes: Sequence[Node], more: str = "") -> NoReturn:
    """Say in one sentence which operation is not known, and where it stands."""
    ops = [node.op for node in nodes]
    for node in nodes:
        if node.op in ("dot_general", "conv_general_dilated") and len({id(arg) for arg in node.before}) > 1:
            _say("a product of two things that both come from the input, as in attention", node, more)
    for op, name in _NAMES.items():
        if op in ops:
            _say(name, nodes[ops.index(op)], more)
    if ops[-1] == "mul" and len(nodes[-1].before) == 2:
        _say("a product of two branches, as a gate is", nodes[-1], more)
    if ops[-1] in ("add", "sub") and len(nodes[-1].before) == 2:
        _say("a sum of branches of which none is a plain skip", nodes[-1], more)
    _say(nodes[-1].op.removeprefix(MARK), nodes[-1], more)


ATTENTION = "attention, a softmax over a product of two things that both come from the input"


def refuse_attention(start: Node, end: Node) -> None:
    """Say so of a model that holds attention, whatever its axes are."""
    behind: set[int] = set()
    for node in between(start, end):
        if node.op == "dot_general" and len({id(arg) for arg in node.before}) > 1:
            behind.add(id(node))
        elif any(id(arg) in behind for arg in node.before):
            if node.op == "exp":
                _say(ATTENTION, node, "")
            behind.add(id(node))


def _say(name: str, node: Node, more: str) -> NoReturn:
    refuse_by_name(name, node.where, more)


def refuse_by_name(name: str, where: str, more: str = "") -> NoReturn:
    """The sentence, of a thing that has a name; `where` is the layer it stands in, "" if that is not known."""
    where = f" (in {where})" if where else ""
    raise ValueError(f"the model holds {name}{where}, which is not among the layers that can be read{more}.")
