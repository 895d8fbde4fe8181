"""The data's side of the expansion: J, Z and their contractions with parameters (docs/theory/action, eqs. 8, 15)."""

import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from .. import _check
from .._blocks import block_size, blocks
from .._precision import float64
from .._public import public
from .._result import Made, Result, result
from ._model import Parameters, parameters, samples

_LARGEST = 2 * 2**30
"""Bytes that the tensors of all classes may take together."""


@result
class Moments(Result):
    """Moments of the inputs, class against class.

    `J[n]` has shape (M, E, …, E) with n axes of inputs: J_αγ… = E[z_γ…]/M - p(α)E[z_γ…|α], so that J[0] = 1/M - p(α).
    `Z` = E[z]. Action notes A and B call M times this J, note C this one.
    """

    J: tuple[Float[np.ndarray, "classes ..."], ...]
    Z: Float[np.ndarray, " inputs"]
    prior: Float[np.ndarray, " classes"]
    made: Made

    @property
    def classes(self) -> int:
        """M."""
        return len(self.prior)


@public
@float64
def moments(data: Any, order: int = 2) -> Moments:
    """J with 0 to `order` indices of inputs, and Z, streamed over the data for any prior.

    The tensors of order n have M·E^n elements; above 2 GB they are refused, and `contracted` serves every order without
    them.

    >>> found = moments(([[1.0], [3.0]], [0, 1]), 1)
    >>> found.J[1][:, 0], found.Z
    (array([ 0.5, -0.5]), array([2.]))
    """
    order = _check.integer("order", order, at_least=0, at_most=_check.HIGHEST_ORDER)
    source, data = data, samples(data)
    M, E = data.classes, data.z.shape[1]
    size = 8 * M * E**order
    if size > _LARGEST:
        raise ValueError(
            f"order is {order}, whose tensor takes {size / 2**30:.3g} GB for {M} classes and {E} inputs, but at most "
            f"{_LARGEST / 2**30:g} GB are allowed; action.contracted needs no tensor."
        )
    sums = [np.zeros((M, E**n)) for n in range(order + 1)]
    # Class by class, so that the products have no zeros in them.
    sorted_, edges = np.argsort(data.m, kind="stable"), np.searchsorted(np.sort(data.m), np.arange(M + 1))
    each = 8 * (E + sum(E ** (n // 2) + E ** (n - n // 2) for n in range(1, order + 1)))
    for alpha in range(M):
        rows = sorted_[edges[alpha] : edges[alpha + 1]]
        for part in blocks(len(rows), block_size(each, len(rows)), label=f"class {alpha}"):
            for n, total in enumerate(_power_sums(np.asarray(data.z[rows[part]], np.float64), order)):
                sums[n][alpha] += total
    counts = len(data.m)
    J = tuple(((total.sum(axis=0) / M - total) / counts).reshape(M, *[E] * n) for n, total in enumerate(sums))
    Z = sums[1].sum(axis=0) / counts if order else data.z.mean(axis=0, dtype=np.float64)
    known = source.description() if hasattr(source, "description") else {"count": counts}
    return Moments(
        J=J, Z=Z, prior=data.prior, made=Made.by("neft.action.moments", specification={"order": order, "data": known})
    )


def _power_sums(z: np.ndarray, order: int) -> list[np.ndarray]:
    # Σ z⊗…⊗z as one product of two halves.
    powers = [np.ones((len(z), 1))]
    for _ in range(-(-order // 2)):
        powers.append((powers[-1][:, :, None] * z[:, None, :]).reshape(len(z), -1))
    return [(powers[n // 2].T @ powers[n - n // 2]).ravel() for n in range(order + 1)]


@public
@float64
def contracted(params: Any, data: Any, order: int) -> Float[np.ndarray, "{order}+1 classes"]:
    """J contracted with U and n factors W, for n = 0..order and each class, in one pass and without the tensors.

        Σ_γ J_αγ1..γn Σ_β U_αβ W_βγ1..W_βγn = Σ_β U_αβ (E[(Wz)_β^n]/M - p(α)E[(Wz)_β^n|α])

    Times σ^(n)(0)/n! and summed over α it is the main term of S_{n+1} (docs/theory/action, eq. 14).

    >>> theta = dict(U=np.eye(2), c=np.zeros(2), W=np.eye(2), b=np.zeros(2))
    >>> contracted(theta, (np.eye(2), [0, 1]), 1).sum(axis=1)
    array([ 0. , -0.5])
    """
    order = _check.integer("order", order, at_least=0, at_most=_check.HIGHEST_ORDER)
    theta = parameters(params)
    data = samples(data, classes=theta.classes, features=theta.features)
    theta = Parameters(*(a.astype(np.float64) for a in theta))
    sums = np.zeros((2, order + 1, theta.classes))
    each = 8 * (2 * theta.features + 4 * theta.hidden + 2 * theta.classes)
    for part in blocks(len(data.m), block_size(each, len(data.m)), label="samples"):
        z = np.asarray(data.z[part], np.float64)
        sums += np.asarray(_contracted(theta, z, data.m[part], order))
    whole, labelled = sums / len(data.m)
    return whole / theta.classes - labelled


@functools.partial(jax.jit, static_argnums=3)
def _contracted(theta: Parameters, z: Any, m: Any, order: int) -> Any:
    x = z @ theta.W.T
    power, whole, labelled = jnp.ones_like(x), [], []
    own = jax.nn.one_hot(m, theta.classes, dtype=x.dtype)
    for n in range(order + 1):
        projected = power @ theta.U.T
        whole.append(projected.sum(axis=0))
        labelled.append((projected * own).sum(axis=0))
        power = power * x if n < order else power
    return jnp.stack([jnp.stack(whole), jnp.stack(labelled)])
