"""From the graph of a model to pieces: each cut of the graph is a layer, an activation, a norm or a branch."""

import math
from collections.abc import Sequence
from typing import NoReturn

import numpy as np

from .._activation import Activation
from ..network import AvgPool, Flatten, GlobalAvgPool
from ._graph import MARK, Known, Node, between, segments
from ._pieces import Branched, Normed, Piece, Plain, Weighted, Window, common, multiplied, tail
from ._recognize import centres, expressed, named, norm_of, own, scale_of
from ._refuse import refuse, refuse_by_name
from ._values import elementwise, function_of

Labels = tuple[str, ...]
"""What each axis is: "N" the inputs, "H" and "W" positions, "C" entries or channels, "1" an axis of one."""

POSITIONS = ("H", "W")
_ORDER = ": there the order of entries is another one than the network's, positions before channels"


class Chain:
    """What one way through the graph has given so far.

    Attributes:
        pieces: in the order of the way.
        labels: of the axes at its end.
        scale: a number that what follows is still to be multiplied by.
        flattened: whether the input was made a vector before anything else.
        notes: what a reader should know.
    """

    def __init__(self, start: Node, end: Node, labels: Labels, known: list[Activation] | None = None) -> None:
        self.pieces: list[Piece] = []
        # Activations without a name, those of the ways that this one is part of among them.
        self._own: list[Activation] = [] if known is None else known
        self.labels = labels
        self.scale = 1.0
        self.flattened = False
        self.notes: list[str] = []
        # Where the network's entries stand among the model's, where their orders differ.
        self._columns: np.ndarray | None = None
        self._centred = False
        self._given = [label for label, size in zip(labels, start.shape) if size > 1 and label != "N"]
        self._run: list[tuple[Node, list[Node]]] = []
        at = start
        for nodes in segments(start, end):
            self._take(at, nodes)
            at = nodes[-1]
        self._flush()
        if self._centred:
            self._refuse_mean(at)
        if self._columns is not None:
            refuse_by_name("Flatten, or moved axes, with no weights after it", at.where, _ORDER)
        if self.scale != 1 and self.pieces:
            self._finish(at)

    def _take(self, start: Node, nodes: list[Node]) -> None:
        if self._centred and len(nodes) == 1:
            self._refuse_mean(nodes[0])
        if len(nodes) == 1 and self._vector(nodes[0]) is not None:
            self._flush()
            self._affine(nodes[0])
        elif elementwise(nodes):
            self._run.append((start, nodes))
        elif len(nodes) == 1:
            self._flush()
            self._single(start, nodes[0])
        else:
            self._flush()
            self._several(start, nodes)

    # Functions of one entry are collected, because several operations in a row are one activation.

    def _flush(self) -> None:
        run, self._run = self._run, []
        if not run:
            return
        whole = _joined(run)
        if self._named(*whole):
            return
        while run and (factor := scale_of(function_of(run[0][1], run[0][0]))) is not None:
            self._multiply(factor)
            run = run[1:]
        after = 1.0
        while len(run) > 1 and (factor := scale_of(function_of(run[-1][1], run[-1][0]))) is not None:
            after *= factor
            run = run[:-1]
        start, nodes = _joined(run)
        if self._named(start, nodes):
            pass
        elif (written := expressed(nodes, start, self.scale)) is not None:
            self.scale = 1.0
            self.pieces.append(Plain(written))
        else:
            function = self._scaled(function_of(nodes, start))
            ops = dict.fromkeys(node.op for node in nodes if node.op not in ("convert_element_type", "copy"))
            found = own(function, f"function of {', '.join(ops)}", self._own)
            self._own.append(found)
            self.pieces.append(Plain(found))
        self._multiply(after)

    def _named(self, start: Node, nodes: Sequence[Node]) -> bool:
        function = function_of(nodes, start)
        if (factor := scale_of(function)) is not None:
            self._multiply(factor)
            return True
        if self.scale != 1 or (found := named(function)) is None:
            return False
        self.pieces.append(Plain(found))
        return True

    def _scaled(self, function):
        scale, self.scale = self.scale, 1.0
        return function if scale == 1 else lambda z: function(scale * z)

    def _multiply(self, factor: float) -> None:
        # Rounding of 4/4 and of √2·√2/2 is no factor.
        if abs(factor - 1) > 1e-7 and not multiplied(self.pieces, factor):
            self.scale *= factor
            self.scale = 1.0 if abs(self.scale - 1) < 1e-6 else self.scale

    def _finish(self, end: Node) -> None:
        last = self.pieces[-1]
        if not (isinstance(last, Plain) and last.names == () and hasattr(last.of, "function")):
            refuse([end], ": a factor follows a norm or a pool at the end of it")
        activation, scale = last.of, self.scale
        found = own(lambda z: scale * activation(z), f"{scale:g} {activation.name}", self._own)  # type: ignore[union-attr, operator]
        self._own.append(found)
        self.pieces[-1] = Plain(found)
        self.scale = 1.0

    # Vectors of parameters: biases and gains.

    def _vector(self, node: Node) -> Known | None:
        if node.op not in ("add", "sub", "mul", "div") or len(node.before) != 1:
            return None
        known = next(arg for arg in node.args if isinstance(arg, Known))
        return None if known.uniform else known

    def _affine(self, node: Node) -> None:
        known = self._vector(node)
        assert known is not None
        if node.op in ("sub", "div") and node.args[0] is known:
            refuse([node])
        value = self._entries(node, known)
        if node.op in ("add", "sub"):
            done = self._plus(value if node.op == "add" else -value, known.names)
        else:
            done = self._times(value if node.op == "mul" else 1 / value, known.names)
        if not done:
            refuse([node], f": {_list(known.names) or 'a vector'} stands where no weights or norm come before it")

    @property
    def _last(self) -> Piece | None:
        return self.pieces[-1] if self.pieces and self.scale == 1 else None

    def _plus(self, value: np.ndarray, names: tuple[str, ...]) -> bool:
        last = self._last
        if isinstance(last, Normed) and last.bias is None:
            self._bias(last, value, names)
        elif last is not None and (found := tail(self.pieces)) is not None:
            found[0].plus(value, names)
        else:
            return False
        return True

    def _times(self, value: np.ndarray, names: tuple[str, ...]) -> bool:
        last = self._last
        if isinstance(last, Normed) and last.bias is None:
            last.gain = value if last.gain is None else last.gain * value
            last.names += names
        elif isinstance(last, Weighted):
            self.notes.append(f"The gains {_list(names)} are multiplied into the weights before them.")
            last.times(np.broadcast_to(value, (last.width,)))
        else:
            return False
        return True

    def _bias(self, norm: Normed, value: np.ndarray, names: tuple[str, ...]) -> None:
        if norm.centres:
            norm.bias = value
            norm.names += names
        elif np.any(value):
            raise ValueError(f"the biases {_list(names)} follow RMSNorm, which is known without biases only.")
        else:
            self.notes.append(
                f"The biases {_list(names)} after RMSNorm are zero and left out: it is known without them."
            )

    def _entries(self, node: Node, known: Known) -> np.ndarray:
        # The numbers along the axis of the entries, of which there may be no others.
        value = np.asarray(known.value)
        shape = (1,) * (len(node.shape) - value.ndim) + value.shape
        axis = self._axis(node)
        if any(size > 1 for i, size in enumerate(shape) if i != axis):
            refuse([node], f": {_list(known.names) or 'an array'} has a number for every position")
        value = np.broadcast_to(value.ravel(), (node.shape[axis],))
        return value if self._columns is None else value[self._columns]

    def _axis(self, node: Node) -> int:
        if "C" not in self.labels:
            refuse([node], ": the axis of the entries is gone there")
        return self.labels.index("C")

    # One operation.

    def _single(self, start: Node, node: Node) -> None:
        handler = getattr(self, f"_op_{node.op.removeprefix(MARK)}", None)
        if handler is None or sum(arg is start for arg in node.args) != 1:
            refuse([node])
        handler(node, node.args[0] is start)

    def _op_dot_general(self, node: Node, first: bool) -> None:
        (left, right), batch = node.params["dimension_numbers"]
        known = node.args[1 if first else 0]
        assert isinstance(known, Known)
        (live_axes, known_axes) = (left, right) if first else (right, left)
        value = np.asarray(known.value)
        if any(batch) or len(live_axes) != 1 or value.ndim != 2 or self.labels[live_axes[0]] != "C":
            refuse([node], ": weights must be a matrix that sums over the entries")
        W = value if known_axes[0] == 1 else value.T
        W = W if self._columns is None else W[:, self._columns]
        self._columns = None
        rest = tuple(label for label in self.labels if label != "C")
        positions = sum(label in POSITIONS for label in self.labels)
        self.labels = (*rest, "C") if first else ("C", *rest)
        window = None
        if positions:
            W, window = W.T.reshape((1,) * positions + W.T.shape), Window((1,) * positions, "VALID")
        self._push(Weighted(W, None, known.names, window))

    def _op_conv_general_dilated(self, node: Node, first: bool) -> None:
        params, known = node.params, node.args[1]
        lhs, rhs, out = params["dimension_numbers"]
        if not first or not isinstance(known, Known):
            refuse([node])
        plain = (params["feature_group_count"], params["batch_group_count"], *params["lhs_dilation"])
        if any(n != 1 for n in (*plain, *params["rhs_dilation"])):
            refuse([node], ": it has groups or is dilated")
        if self.labels[lhs[1]] != "C" or self.labels[lhs[0]] not in ("N", "1"):
            refuse([node], ": its channels are not those of the layer before it")
        # The network has positions in the order H, W, whatever the model made of them.
        places = [self.labels[axis] for axis in lhs[2:]]
        order = sorted(range(len(places)), key=lambda i: places[i] if set(places) <= set(POSITIONS) else "")
        W = np.transpose(known.value, (*(rhs[2 + i] for i in order), rhs[1], rhs[0]))
        strides = tuple(params["window_strides"][i] for i in order)
        sizes = [node.args[0].shape[lhs[2 + i]] for i in order]  # type: ignore[union-attr]
        padding = _padding(W.shape[:-2], strides, tuple(tuple(params["padding"][i]) for i in order), sizes)
        if padding is None:
            refuse([node], f": its padding {params['padding']} is neither SAME nor VALID")
        labels = [""] * len(out)
        labels[out[0]], labels[out[1]] = self.labels[lhs[0]], "C"
        for axis, source in zip(out[2:], lhs[2:]):
            labels[axis] = self.labels[source]
        self.labels = tuple(labels)
        self._push(Weighted(W, None, known.names, Window(strides, padding)))

    def _op_transpose(self, node: Node, first: bool) -> None:
        self.labels = tuple(self.labels[axis] for axis in node.params["permutation"])

    def _op_squeeze(self, node: Node, first: bool) -> None:
        gone = node.params["dimensions"]
        self.labels = tuple(label for axis, label in enumerate(self.labels) if axis not in gone)

    def _op_broadcast_in_dim(self, node: Node, first: bool) -> None:
        kept = dict(zip(node.params["broadcast_dimensions"], self.labels))
        before = node.args[0].shape  # type: ignore[union-attr]
        if math.prod(before) != math.prod(node.shape):
            refuse([node], ": it repeats what it is given")
        self.labels = tuple(kept.get(axis, "1") for axis in range(len(node.shape)))

    _op_expand_dims = _op_broadcast_in_dim

    def _op_reshape(self, node: Node, first: bool) -> None:
        before = node.args[0].shape  # type: ignore[union-attr]
        found = _regrouped(before, node.shape, self.labels)
        if found is None:
            refuse([node], f": it makes {node.shape} of {before}, which is no flattening")
        sizes = dict(zip(self.labels, before))
        self.labels, merged = found
        if not merged:
            return
        # The model's order of entries, channels first perhaps, in the network's: that of the inputs as they are given,
        # or that of Flatten, positions, then channels.
        first_of_all = not self.pieces
        kept = self._given if first_of_all else [*POSITIONS, "C"]
        index = np.arange(math.prod(sizes[label] for label in merged)).reshape([sizes[label] for label in merged])
        columns = index.transpose([merged.index(label) for label in kept if label in merged]).ravel()
        if first_of_all:
            self.flattened = True
        else:
            self._push(Plain(Flatten()))
        self._columns = None if np.array_equal(columns, np.arange(columns.size)) else columns

    def _op_reduce_sum(self, node: Node, first: bool) -> None:
        before, axes = node.args[0].shape, tuple(node.params["axes"])  # type: ignore[union-attr]
        gone = {self.labels[axis] for axis in axes if before[axis] > 1}
        there = {label for label, size in zip(self.labels, before) if label in POSITIONS and size > 1}
        if gone != there or not there:
            refuse([node], ": only means over all positions are known")
        self.labels = tuple(label for axis, label in enumerate(self.labels) if axis not in axes)
        self._push(Plain(GlobalAvgPool()))
        self._multiply(math.prod(before[axis] for axis in axes))

    def _op_reduce_window_sum(self, node: Node, first: bool) -> None:
        params = node.params
        places = [axis for axis, label in enumerate(self.labels) if label in POSITIONS]
        outside = [size for axis, size in enumerate(params["window_dimensions"]) if axis not in places]
        dilated = (*params["base_dilation"], *params["window_dilation"], *outside)
        if any(n != 1 for n in dilated) or np.any(params["padding"]):
            refuse([node], ": only means over windows that stay inside are known")
        shape, strides = (
            tuple(params[f"window_{name}"][axis] for axis in places) for name in ("dimensions", "strides")
        )
        self._push(Plain(AvgPool(shape, strides=strides)))
        self._multiply(math.prod(shape))

    def _op_batch_norm(self, node: Node, first: bool) -> None:
        known = [arg for arg in node.args[1:] if isinstance(arg, Known)]
        mean, variance, gain, bias, epsilon = (np.asarray(arg.value) for arg in known)
        if self._columns is not None:
            mean, variance, gain, bias = (
                np.broadcast_to(value, self._columns.shape)[self._columns] for value in (mean, variance, gain, bias)
            )
        gain, bias = (value if arg.names else None for arg, value in zip(known[2:], (gain, bias)))
        names = tuple(name for arg in known for name in arg.names)
        self._push(Normed(True, float(epsilon), gain, bias, names, (mean, variance)))

    # Several operations that begin and end at one each.

    def _several(self, start: Node, nodes: list[Node]) -> None:
        if "C" in self.labels and (found := norm_of(nodes, start, self.labels.index("C"))) is not None:
            gain = found.gain if found.gain is None or self._columns is None else found.gain[self._columns]
            self._push(Normed(found.centres or self._centred, found.epsilon, gain, None, found.names))
            self._centred = False
        elif "C" in self.labels and centres(nodes, start, self.labels.index("C")):
            # The first half of a LayerNorm, if nothing else uses what it began with.
            self._centred = True
        elif nodes[-1].op in ("add", "sub", "add_any") and len(nodes[-1].before) == 2 and self.scale == 1:
            self._residual(start, nodes)
        else:
            refuse(nodes)

    def _residual(self, start: Node, nodes: list[Node]) -> None:
        if self._centred:
            self._refuse_mean(nodes[-1])
        if self._columns is not None:
            refuse_by_name("a residual sum that begins behind Flatten or moved axes", nodes[-1].where, _ORDER)
        ways = [Chain(start, arg, self.labels, self._own) for arg in nodes[-1].before if between(start, arg)]
        if len(ways) != 2:
            refuse(nodes)
        if nodes[-1].op == "sub":
            ways[1]._multiply(-1.0)
        skips = [way for way in ways if not way.pieces] or [way for way in ways if way.lone]
        if not skips:
            refuse(nodes)
        skip = skips[0]
        branch = ways[0] if skip is ways[1] else ways[1]
        if not branch.pieces or branch.flattened:
            refuse(nodes)
        _refuse_ends(branch.pieces)
        self.notes += skip.notes + branch.notes
        self.labels = branch.labels
        along = skip.pieces[0] if skip.pieces else skip.scale
        assert isinstance(along, Weighted | float)
        self.pieces.append(Branched(branch.pieces, along))

    @staticmethod
    def _refuse_mean(node: Node) -> NoReturn:
        refuse_by_name("a mean over entries that is subtracted without a norm", node.where)

    @property
    def lone(self) -> bool:
        """Whether it is weights and nothing else."""
        return len(self.pieces) == 1 and isinstance(self.pieces[0], Weighted)

    def _push(self, piece: Piece) -> None:
        if isinstance(piece, Weighted):
            piece.times(self.scale)
            self.scale = 1.0
        elif isinstance(piece, Normed) and self.scale != 1:
            # The norm of c z with ε is that of z with ε/c².
            if piece.moments is not None or self.scale < 0:
                raise ValueError(
                    "a factor stands before a norm, which is known for positive ones and layer norms only."
                )
            piece.epsilon, self.scale = piece.epsilon / self.scale**2, 1.0
        self.pieces.append(piece)


def _refuse_ends(branch: Sequence[Piece]) -> None:
    # x + σ(W x): what is added is not Gaussian at infinite width.
    last = branch[-1]
    if isinstance(last, Normed):
        what = "a norm"
    elif isinstance(last, Plain) and isinstance(last.of, Activation):
        what = f"the activation {last.of.name}"
    else:
        return
    layers = [common(piece.names) for piece in branch if isinstance(piece, Weighted)]
    after = f" (after {layers[-1]})" if layers and layers[-1] else ""
    raise ValueError(
        f"the model holds a residual sum whose branch ends in {what}{after}, which is not among those that can be read:"
        " the last layer of a branch must be a linear one or a convolution."
    )


def _joined(run: Sequence[tuple[Node, list[Node]]]) -> tuple[Node, list[Node]]:
    return run[0][0], [node for _, nodes in run for node in nodes]


def _padding(shape: Sequence[int], strides: Sequence[int], pads: tuple, sizes: Sequence[int]) -> str | None:
    if not any(map(any, pads)):
        return "VALID"
    same = []
    for window, stride, n in zip(shape, strides, sizes):
        more = max((-(-n // stride) - 1) * stride + window - n, 0)
        same.append((more // 2, more - more // 2))
    return "SAME" if tuple(same) == pads else None


def _regrouped(before: Sequence[int], after: Sequence[int], labels: Labels) -> tuple[Labels, Labels] | None:
    """The labels after a reshape, and those that became one axis; None if it is anything else than a flattening."""
    found, merged = [], ()
    rest = [(size, label) for size, label in zip(before, labels) if size > 1]
    for size in after:
        if size == 1:
            found.append("1")
            continue
        taken, total = [], 1
        while total < size and rest:
            n, label = rest.pop(0)
            taken.append(label)
            total *= n
        if total != size:
            return None
        if len(taken) > 1:
            if merged or "N" in taken:
                return None
            merged = tuple(taken)
        found.append("C" if len(taken) > 1 else taken[0])
    if rest:
        return None
    if not merged and "C" not in found and len(positions := [label for label in found if label in POSITIONS]) == 1:
        # Channels were one, so the only axis of positions is that of the entries now.
        found = ["C" if label in positions else label for label in found]
        merged = tuple(positions)
    return tuple(found), merged


def _list(names: Sequence[str]) -> str:
    return ", ".join(names)
