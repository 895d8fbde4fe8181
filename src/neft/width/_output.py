"""The tensors of the output layer alone, over tens of inputs, as trained networks need them."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from .. import _check
from .._precision import float64
from .._progress import track
from .._public import public
from ..network import Network
from ..network.engine import plain
from . import _many_inputs
from ._one_input import present
from ._statistics import AbsentTensor, check_layer, named, ratios, statistics

MOST = 80
"""Different inputs: 80⁴ numbers are 330 MB, and some thirty such arrays are held at once."""


@public
@float64
def output_tensors(
    net: Network, x: Any, names: Sequence[str], *, rtol: float = 1e-7, first: int | None = None, others: int = 2
) -> dict[str, np.ndarray]:
    """The named tensors of the output layer over several inputs, pairs (N, N) and others (N, N, N, N), in float64.

    They are the last entries of what `statistics` gives (docs/theory/width, eqs. 45-64). No other layer is kept, which
    leaves memory for tens of inputs.

    Args:
        net: the specification.
        x: the inputs, shape (N, n_0).
        names: such as "K", "Theta", "A", "R".
        rtol: the tolerance of averages over four inputs, relative to the largest.
        first: with a number, entries are made only where at most `others` different inputs stand that are not among
            that many first ones, as predictions of test inputs need them; other entries are 0 or mean nothing.
        others: 2, or 1 where covariances between different test inputs are not asked for.

    >>> from neft import MLP

    >>> net = MLP(widths=(2, 64, 1), activation="tanh", C_b=0.1)
    >>> output_tensors(net, np.eye(2), ["V"])["V"].shape
    (2, 2, 2, 2)
    """
    net.refuse_positions("output_tensors", AbsentTensor)
    x = _check.array("x", x, ndim=2)
    if x.shape[1] != net.inputs or not len(x):
        raise ValueError(f"x has shape {x.shape}, but must be (N, {net.inputs}) for several inputs.")
    asked, rtol = named("names", names), _check.real("rtol", rtol, above=0.0)
    first = None if first is None else _check.integer("first", first, at_least=1)
    others = _check.integer("others", others, at_least=1, at_most=2)
    chain = plain(net)
    if chain is not None and (absent := asked - set(present(chain.activation))):
        # What does not exist at one input is refused before minutes of work over several.
        one = statistics(net, x[0], only=tuple(absent))
        for name in sorted(absent):
            getattr(one, name)
    if chain is None or not asked <= set(present(chain.activation)):
        stats = statistics(net, x, only=tuple(asked), rtol=rtol)
        return {name: np.asarray(getattr(stats, name))[-1] for name in asked}
    distinct, found, where = np.unique(x, axis=0, return_index=True, return_inverse=True)
    # In the order in which they come, so that the first ones stay first.
    order = np.argsort(found)
    distinct, where = distinct[order], np.argsort(order)[where.ravel()]
    if len(distinct) > MOST:
        size = len(distinct) ** 4 * 8 / 2**30
        raise ValueError(
            f"x holds {len(distinct)} different inputs, whose tensors take {size:.1f} GiB each, but at most {MOST} are "
            "taken at once."
        )
    first = None if first is None else int((found < first).sum())
    wanted = _many_inputs.closure(asked)
    options = {"rtol": rtol, "first": first, "others": others}
    layer = _many_inputs.first_layer(distinct @ distinct.T / chain.inputs, chain.dense[0], wanted)
    for l, r in track(list(zip(range(1, chain.depth), [0.0, *ratios(chain)[1:]])), "layers"):
        check_layer(l, np.diagonal(layer.K))
        layer = _many_inputs.next_layer(chain.activation, layer, r, chain.dense[l], wanted, **options)
    repeated = len(distinct) < len(x)
    tensors = {}
    for name in asked:
        value = getattr(layer, name)
        tensors[name] = value[np.ix_(*(where,) * value.ndim)] if repeated else value
    return tensors
