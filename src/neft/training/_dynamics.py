"""The hierarchy z, H, dH, ddH in time: gradient flow on any loss (docs/theory/training, eqs. 6-10).

With ddH frozen, dH(t) = dH - Y·E(t), and H(t) is a fixed combination of few integrals over the slopes ε = dL/dz of the
training set, which are residuals for the square loss. These are the state, and not the kernels: E = ∫ε dt, W = ∫ε E dt.
"""

from typing import Any, NamedTuple

import diffrax
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from ._hierarchy import Hierarchy
from ._loss import Loss, slope, square

TOLERANCE = 1e-8
"""Of a step of the integrator, relative; absolute, times the initial |ε|."""

SMALL = 2e-4
"""|ε| relative to its initial value from which on the kernel is frozen and the rest is solved exactly."""

LARGE = 10.0
"""Growth of |ε| at which training is given up: |ε| cannot grow while H is positive. Other losses grow by its square."""

MOST_STEPS = 2**15


class State(NamedTuple):
    """Outputs, and the integrals over residuals that the kernels depend on."""

    z: Float[Array, "*times M"]
    E: Float[Array, "*times A"]
    W: Float[Array, "*times A A"]


class Course(NamedTuple):
    """Outputs and kernels at the moments asked for, and whether each was reached, else those of the last state."""

    z: Float[Array, "times M"]
    H: Float[Array, "times M M"]
    reached: Bool[Array, " times"]


class Kernel(NamedTuple):
    """H(t) = H - d·E + Y·W, with d and Y None beyond the order kept; columns may be left out."""

    H: Float[Array, "M N"]
    d: Float[Array, "M N A"] | None
    Y: Float[Array, "M N A A"] | None

    def at(self, state: State) -> Float[Array, "M N"]:
        """The kernel in a state."""
        H = self.H
        if self.d is not None:
            H = H - self.d @ state.E
        return H if self.Y is None else H + jnp.einsum("ijkl,kl->ij", self.Y, state.W)


def kernel(h: Hierarchy) -> Kernel:
    """d_ijk = dH_ijk + dH_jik, and Y_ijkl + Y_jikl with Y = I + II + III."""

    def symmetric(values: Array) -> Array:
        return values + values.swapaxes(0, 1)

    if h.dH is None:
        return Kernel(h.H, None, None)
    if h.I is None or h.II is None or h.III is None:
        return Kernel(h.H, symmetric(h.dH), None)
    return Kernel(h.H, symmetric(h.dH), symmetric(h.I + h.II + h.III))


def limit(loss: Loss, z: Float[Array, "N O"], y: Array, growth: Any = 1.0) -> Float[Array, ""]:
    """The loss beyond which training is given up, from outputs z before it; `growth` is what |ε| may grow by itself."""
    bound = (LARGE * growth) ** 2 * jnp.maximum(loss(z, y), loss(jnp.zeros_like(z), y))
    # A loss of one's own may be negative, and then says nothing.
    return jnp.where(bound > 0, bound, jnp.inf)


def flow(
    h: Hierarchy,
    y: Array,
    times: Float[Array, " times"] | None,
    *,
    loss: Loss = square,
    outputs: int | None = None,
) -> Course:
    """Gradient flow to increasing `times`, or for None to its end on the square loss; a pure function of arrays.

    `y` is what the loss takes for the N training inputs, whose `outputs` are by default as many as y has columns.
    """
    N, O = len(y), y.shape[1] if outputs is None else outputs
    A = N * O
    bound, scale = limit(loss, h.z[:A].reshape(N, O), y), _size(slope(loss, h.z[:A].reshape(N, O), y))

    def trained(state: State) -> Array:
        return state.z[:A].reshape(N, O)

    def velocity(t: Any, state: State, args: Any) -> State:
        kernel, y = args
        e = slope(loss, trained(state), y).ravel()
        return State(-kernel.at(state) @ e, e, jnp.outer(e, state.E))

    def over(t: Any, state: State, args: Any, **more: Any) -> Array:
        y = args[1]
        given_up = ~(loss(trained(state), y) <= bound)
        if times is not None:
            return given_up
        return given_up | (_size(slope(loss, trained(state), y)) <= SMALL * scale)

    solution = diffrax.diffeqsolve(
        diffrax.ODETerm(velocity),
        diffrax.Dopri5(),
        t0=0.0,
        t1=jnp.inf if times is None else times[-1],
        dt0=None,
        y0=_start(h, A),
        args=(_columns(kernel(h), A), y),
        saveat=diffrax.SaveAt(t1=True, ts=times),
        # An exact start (ε = 0) has no scale of its own.
        stepsize_controller=diffrax.PIDController(rtol=TOLERANCE, atol=TOLERANCE * scale + 1e-300),
        event=diffrax.Event(over),
        adjoint=diffrax.DirectAdjoint(),
        max_steps=MOST_STEPS,
        throw=False,
    )
    state: Any = solution.ys
    # What was saved: the moments that were reached, the state in which it ended, and infinities.
    last = jnp.isfinite(state.z).all(1).sum() - 1
    if times is not None:
        moments = jnp.arange(len(times))
        kept = jax.tree.map(lambda leaf: leaf[jnp.minimum(moments, last)], state)
        return _course(h, kept, moments < last)
    end = jax.tree.map(lambda leaf: leaf[last], state)
    e = slope(loss, trained(end), y).ravel()
    reached = _size(e) <= SMALL * scale
    end = jax.tree.map(lambda a, b: jnp.where(reached, a, b)[None], _completed(h, end, e), end)
    return _course(h, end, reached[None])


def _columns(whole: Kernel, A: int) -> Kernel:
    # Only the columns of the training set meet residuals.
    return Kernel(whole.H[:, :A], *(None if part is None else part[:, :A] for part in whole[1:]))


def _start(h: Hierarchy, A: int) -> State:
    zeros = jnp.zeros((A, A), h.z.dtype)
    return State(h.z, zeros[0], zeros)


def _size(e: Array) -> Array:
    return jnp.sqrt(jnp.sum(e * e))


def _completed(h: Hierarchy, state: State, e: Array) -> State:
    # With H frozen the rest is linear, and ∫ε dt = H⁻¹ε.
    H = kernel(h).at(state)
    rest = jnp.linalg.solve(H[: len(e), : len(e)], e)
    return State(state.z - H[:, : len(e)] @ rest, state.E + rest, state.W + jnp.outer(rest, state.E))


def _course(h: Hierarchy, states: State, reached: Array) -> Course:
    whole = kernel(h)
    return Course(states.z, jax.vmap(whole.at)(states), reached)
