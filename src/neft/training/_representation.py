"""Representation learning: how far training moves the kernel, predicted and measured, against width and depth."""

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from .. import _check
from .._precision import float64
from .._progress import track
from .._public import public
from .._result import Made, Result, result
from ..network import Network
from ..network.engine import plain
from ..tangent import mlp_ntk
from ._descend import by_flow
from ._descend import drawn as parameters
from ._dynamics import SMALL, TOLERANCE, flow
from ._hierarchy import Hierarchy, drawn
from ._kernels import inputs, targets
from ._loss import chosen

_TOGETHER = 8
"""Draws whose second derivatives are held at once."""


@result
class Representation(Result):
    """Kernels over the training inputs before and after training, averages over draws, by depth and width.

    `before` and `after` (measured on trained networks) and `predicted` (by the hierarchy at order 3) have shape
    (depths, widths, N, N), each the mean over outputs i = j. `moved` is |H* - H|/|H| of each draw, averaged, of shape
    (depths, widths), `stderr` its standard error, and `moved_2` and `moved_3` are the same as predicted at orders 2 and
    3. Draws at which the hierarchy lost positivity are left out everywhere; `lost` counts them.
    """

    before: Float[np.ndarray, "depths widths N N"]
    after: Float[np.ndarray, "depths widths N N"]
    predicted: Float[np.ndarray, "depths widths N N"]
    moved: Float[np.ndarray, "depths widths"]
    stderr: Float[np.ndarray, "depths widths"]
    moved_2: Float[np.ndarray, "depths widths"]
    moved_3: Float[np.ndarray, "depths widths"]
    lost: Int[np.ndarray, "depths widths"]
    depths: tuple[int, ...]
    widths: tuple[int, ...]
    activation: str
    draws: int
    made: Made


@public
@float64
def representation(
    net: Network,
    x_train: Any,
    y_train: Any,
    *,
    widths: Sequence[int],
    depths: Sequence[int],
    draws: int = 16,
    key: Array,
) -> Representation:
    """How far gradient flow to its end moves the NTK of networks like `net` with other hidden widths and depths.

    Args:
        net: the specification; at depths other than its own, one with the same hyperparameters in all layers.
        x_train: training inputs, shape (N, n_0).
        y_train: targets, shape (N, n_L), or (N,) for one output.
        widths: of all hidden layers.
        depths: numbers of layers, at least 2.
        draws: networks at each width and depth, at least 2.
        key: a JAX key.

    >>> from neft import MLP

    >>> representation(MLP((2, 8, 1)), [[1.0, 0.0]], [0.3], widths=[32], depths=[1, 2], key=jax.random.key(0))
    Traceback (most recent call last):
    ValueError: each of depths is 1, but must be at least 2.
    """
    x = inputs(net, "x_train", x_train)
    y = targets(y_train, len(x), net.outputs)
    widths = tuple(_check.integer("each of widths", n, at_least=1) for n in widths)
    depths = tuple(_check.integer("each of depths", L, at_least=2) for L in depths)
    draws = _check.integer("draws", draws, at_least=2)
    if not widths or not depths:
        raise ValueError(f"widths is {widths} and depths is {depths}, but each must hold at least one number.")
    others = [_other(net, L, n) for L in depths for n in widths]
    cells = [_cell(other, x, y, draws, key) for other in track(others, "networks")]
    shape = (len(depths), len(widths))
    columns = [np.stack(column).reshape(*shape, *np.shape(column[0])) for column in zip(*cells)]
    specification = {"net": net.to_dict(), "x_train": x, "y_train": y}
    return Representation(
        **dict(zip(("before", "after", "predicted", "moved", "stderr", "moved_2", "moved_3", "lost"), columns)),
        depths=depths,
        widths=widths,
        activation=", ".join(act.name for act in net.activations),
        draws=draws,
        made=Made.by("neft.training.representation", specification=specification, key=key),
    )


def _other(net: Network, depth: int, width: int) -> Network:
    if depth == net.depth:
        return net.resized(lambda _: width)
    chain = plain(net)
    if chain is None:
        raise ValueError(
            f"each of depths is {depth}, but must be {net.depth}, that of net: only dense blocks with one activation "
            "between them are known at other depths."
        )
    return chain.replace(widths=(net.inputs, *(width,) * (depth - 1), net.outputs))


def _cell(net: Network, x: np.ndarray, y: np.ndarray, draws: int, key: Array) -> tuple[Any, ...]:
    index, x_, y_ = jnp.arange(draws), jnp.asarray(x), jnp.asarray(y)
    params = parameters(net, key, index, dtype=jnp.float64)
    h = _hierarchies(net, params, x_)
    third = _ends(h, y_)
    second = _ends(h._replace(I=0 * h.I, II=0 * h.II, III=0 * h.III), y_)
    near = SMALL * float(jnp.abs(h.z.reshape(-1, *y.shape) - y_[None]).max())
    trained, good = by_flow(net, chosen("square"), params, x_, y_, jnp.inf, TOLERANCE, near)
    after = np.asarray(_kernels(net, trained, x_))
    before, predicted, lower = (np.asarray(part) for part in (h.H, third[0], second[0]))
    kept = np.asarray(good & third[1] & second[1])
    if kept.sum() < 2:
        raise ValueError(
            f"of {draws} networks of widths {net.widths} only {kept.sum()} could be trained at all orders, but at "
            "least 2 are needed: take wider networks or more draws."
        )
    size = np.linalg.norm(before, axis=(1, 2))
    moved, moved_2, moved_3 = (np.linalg.norm(H - before, axis=(1, 2)) / size for H in (after, lower, predicted))
    N, O = y.shape

    def averaged(H: np.ndarray) -> np.ndarray:
        return np.einsum("saibi->ab", H[kept].reshape(-1, N, O, N, O)) / (kept.sum() * O)

    means = (
        moved[kept].mean(),
        moved[kept].std(ddof=1) / np.sqrt(kept.sum()),
        moved_2[kept].mean(),
        moved_3[kept].mean(),
    )
    return averaged(before), averaged(after), averaged(predicted), *means, draws - int(kept.sum())


@jax.jit
def _hierarchies(net: Network, params: Any, x: Array) -> Any:
    return jax.lax.map(lambda p: drawn(net, p, x, len(x), 3, net.rates()), params, batch_size=_TOGETHER)


@jax.jit
def _ends(h: Hierarchy, y: Array) -> tuple[Array, Array]:
    # One program for all widths and depths: shapes know the training set only.
    def end(h: Hierarchy) -> tuple[Array, Array]:
        course = flow(h, y, None)
        return course.H[0], course.reached[0]

    return jax.vmap(end)(h)


@jax.jit
def _kernels(net: Network, params: Any, x: Array) -> Array:
    def one(p: Any) -> Array:
        H = mlp_ntk(net, p, x, x)
        return H.transpose(0, 2, 1, 3).reshape(len(x) * net.outputs, -1)

    return jax.vmap(one)(params)
