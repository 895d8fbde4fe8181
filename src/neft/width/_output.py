"""The tensors of the output layer alone, over tens of inputs: what trained networks need (docs/theory/width, eqs. 45-64)."""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Float

from .. import _check
from .._precision import float64
from .._public import public
from ..network import MLP
from . import _many_inputs
from ._statistics import check_layer, ratios

MOST = 80
"""Different inputs: 80⁴ numbers are 330 MB, and some thirty such arrays are held at once."""


@public
@float64
def output_tensors(
    net: MLP, x: Float[np.ndarray, "N n_0"], names: Sequence[str], *, rtol: float = 1e-7, first: int | None = None
) -> dict[str, np.ndarray]:
    """The named tensors of the output layer over several inputs, pairs (N, N) and others (N, N, N, N), in float64.

    They are the last entries of what `statistics` gives, but no other layer is kept, so that memory is for tens of inputs.

    Args:
        net: the specification.
        x: the inputs, shape (N, n_0).
        names: such as "K", "Theta", "A", "R".
        rtol: the tolerance of averages over four inputs, relative to the largest.
        first: with a number, entries are made only where at most two different inputs stand that are not among that
            many first ones, as predictions of test inputs need them; other entries are 0 or mean nothing.

    >>> from neft import MLP

    >>> net = MLP(widths=(2, 64, 1), activation="tanh", C_b=0.1)
    >>> output_tensors(net, np.eye(2), ["V"])["V"].shape
    (2, 2, 2, 2)
    """
    x = _check.array("x", x, ndim=2)
    distinct, found, where = np.unique(x, axis=0, return_index=True, return_inverse=True)
    # In the order in which they come, so that the first ones stay first.
    order = np.argsort(found)
    distinct, where = distinct[order], np.argsort(order)[where.ravel()]
    if len(distinct) > MOST:
        raise ValueError(
            f"x holds {len(distinct)} different inputs, whose tensors take {len(distinct) ** 4 * 8 / 2**30:.1f} GiB each, "
            f"but at most {MOST} are taken at once."
        )
    if first is not None:
        first = int((np.sort(found) < _check.integer("first", first, at_least=1)).sum())
    wanted = _many_inputs.closure(frozenset(names))
    layer = _many_inputs.first_layer(distinct @ distinct.T / net.inputs, net.dense[0], wanted)
    for l, r in zip(range(1, net.depth), [0.0, *ratios(net)[1:]]):
        check_layer(l, np.diagonal(layer.K))
        layer = _many_inputs.next_layer(net.activation, layer, r, net.dense[l], wanted, rtol=rtol, first=first)
    repeated = len(distinct) < len(x)
    tensors = {}
    for name in names:
        value = getattr(layer, name)
        tensors[name] = value[np.ix_(*(where,) * value.ndim)] if repeated else value
    return tensors
