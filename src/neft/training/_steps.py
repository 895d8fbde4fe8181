"""One network by steps on any loss, with mini-batches and momentum: outputs expanded around the first parameters.

A step with momentum holds gradients of earlier parameters, so kernels of the current ones do not close. But every
gradient is a combination of few fixed vectors with coefficients that obey recursions of their own
(docs/theory/training, eqs. 48-53), and outputs and kernels are polynomials in these.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from ._dynamics import Course, limit
from ._hierarchy import Hierarchy
from ._loss import Loss, slope, square

PLAIN = (1.0, 0.0, 0.0)
"""Gradient descent: how much of a gradient and of the velocity before it are in a step, and how much velocity stays."""


class Moved(NamedTuple):
    """θ(t) - θ(0) = -v_a E_a + λD²z_a v_b W_ab - λD²z_a λD²z_b v_c X_abc - ½ λD³z_a[v_b, v_c] V_abc, v_a = λ∇z_a.

    W, X and V are None beyond the order kept.
    """

    E: Float[Array, " A"]
    W: Float[Array, "A A"] | None
    X: Float[Array, "A A A"] | None
    V: Float[Array, "A A A"] | None


def descend(
    h: Hierarchy,
    y: Array,
    steps: Int[Array, " times"],
    eta: Any,
    batches: Int[Array, "steps batch"] | None = None,
    momentum: Any = PLAIN,
    *,
    loss: Loss = square,
    outputs: int | None = None,
) -> Course:
    """The course at increasing numbers of steps of size η; a pure function of arrays.

    `y` is what the loss takes for the N training inputs, whose `outputs` are by default as many as y has columns. Step
    t takes the inputs `batches[t]`, by default all, and N/|B| times the sum over them. `momentum` is (here, before, β)
    of `Momentum`.
    """
    N, O = len(y), y.shape[1] if outputs is None else outputs
    A = N * O
    here, before, beta = momentum
    wider = 1.0 if batches is None else N / batches.shape[1]
    bound = limit(loss, h.z[:A].reshape(N, O), y, wider / (1 - beta))

    def gradient(z: Array, t: Array) -> Array:
        if batches is None:
            return slope(loss, z, y).ravel()
        taken = batches[t]
        return wider * jax.grad(lambda z: loss(z[taken], y[taken]))(z).ravel()

    def trained(c: Moved) -> Array:
        return outputs_of(h, c, A, A).reshape(N, O)

    def step(now: Any) -> Any:
        t, c, velocity, z = now
        new = _coefficients(gradient(z, t), c)
        c = jax.tree.map(lambda old, g, v: old + eta * (here * g + before * v), c, new, velocity)
        velocity = jax.tree.map(lambda v, g: beta * v + g, velocity, new)
        return t + 1, c, velocity, trained(c)

    def unbounded(z: Array) -> Array:
        return loss(z, y) <= bound

    def several(now: Any, until: Array) -> Any:
        now = jax.lax.while_loop(lambda now: (now[0] < until) & unbounded(now[3]), step, now)
        return now, (now[1], (now[0] == until) & unbounded(now[3]))

    start = _start(h, A)
    _, (moved, reached) = jax.lax.scan(several, (jnp.zeros((), steps.dtype), start, start, trained(start)), steps)
    return Course(
        jax.vmap(lambda c: outputs_of(h, c, A, len(h.z)))(moved), jax.vmap(lambda c: kernel_of(h, c))(moved), reached
    )


def outputs_of(h: Hierarchy, c: Moved, A: int, rows: int) -> Float[Array, " rows"]:
    """The first `rows` outputs after parameters have moved: Taylor's series of z(θ) to the order kept."""
    z = h.z[:rows] - h.H[:rows, :A] @ c.E
    if h.dH is None or c.W is None:
        return z
    z = z + jnp.einsum("aib,ab->i", h.dH[:A, :rows], c.W) + h.dH[:rows, :A] @ c.E @ c.E / 2
    if h.I is None or h.II is None or h.III is None or c.X is None or c.V is None:
        return z
    z = z - jnp.einsum("aibc,abc->i", h.III[:A, :rows], c.X) - jnp.einsum("aibc,abc->i", h.I[:A, :rows], c.V) / 2
    return z - jnp.einsum("iacb,c,ab->i", h.II[:rows, :A], c.E, c.W) - h.I[:rows, :A] @ c.E @ c.E @ c.E / 6


def kernel_of(h: Hierarchy, c: Moved) -> Float[Array, "M M"]:
    """The NTK after parameters have moved, to one order less than the outputs."""
    if h.dH is None:
        return h.H
    half = -h.dH @ c.E
    if h.I is not None and h.II is not None and h.III is not None and c.W is not None:
        half = half + jnp.einsum("ijab,ab->ij", h.III, c.W) + (h.I + h.II) @ c.E @ c.E / 2
    return h.H + half + half.T


def _coefficients(g: Array, c: Moved) -> Moved:
    # Of the gradient λ∇z_a(θ)g_a at parameters that have moved by c.
    return Moved(
        g,
        None if c.W is None else g[:, None] * c.E[None, :],
        None if c.X is None or c.W is None else g[:, None, None] * c.W[None],
        None if c.V is None else g[:, None, None] * jnp.outer(c.E, c.E)[None],
    )


def _start(h: Hierarchy, A: int) -> Moved:
    zeros = jnp.zeros((A, A, A), h.z.dtype)
    third = None if h.I is None else zeros
    return Moved(zeros[0, 0], None if h.dH is None else zeros[0], third, third)
