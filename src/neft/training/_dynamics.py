"""The hierarchy z, H, dH, ddH in time: gradient flow and descent on L = ½Σ(z-y)² (docs/theory/training, eqs. 6-14).

With ddH frozen, dH(t) = dH - Y·E(t), and H(t) is a fixed combination of few integrals over the residuals ε of the
training set. These are the state, and not the kernels: E = ∫ε dt, W = ∫ε E dt, and for finite steps Q = Σ η² ε ε.
"""

from typing import Any, NamedTuple

import diffrax
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from ._hierarchy import Hierarchy

TOLERANCE = 1e-8
"""Of a step of the integrator, relative; absolute, times the initial |ε|."""

SMALL = 2e-4
"""|ε| relative to its initial value from which on the kernel is frozen and the rest is solved exactly."""

LARGE = 10.0
"""Growth of |ε| at which training is given up: |ε| cannot grow while H is positive."""

MOST_STEPS = 2**15


class State(NamedTuple):
    """Outputs, and the integrals over residuals that the kernels depend on."""

    z: Float[Array, "*times M"]
    E: Float[Array, "*times A"]
    W: Float[Array, "*times A A"]
    Q: Float[Array, "*times A A"]


class Course(NamedTuple):
    """States at the moments asked for, the kernels there, and whether each was reached, else the last state."""

    state: State
    H: Float[Array, "times M M"]
    reached: Bool[Array, " times"]


class Kernel(NamedTuple):
    """H(t) = H - d·E + Y·W + ½ Z·Q, with d, Y and Z None beyond the order kept; columns may be left out."""

    H: Float[Array, "M N"]
    d: Float[Array, "M N A"] | None
    Y: Float[Array, "M N A A"] | None
    Z: Float[Array, "M N A A"] | None

    def at(self, state: State) -> Float[Array, "M N"]:
        """The kernel in a state."""
        H = self.H
        if self.d is not None:
            H = H - self.d @ state.E
        if self.Y is not None and self.Z is not None:
            H = H + jnp.einsum("ijkl,kl->ij", self.Y, state.W) + jnp.einsum("ijkl,kl->ij", self.Z, state.Q) / 2
        return H


def kernel(h: Hierarchy) -> Kernel:
    """d_ijk = dH_ijk + dH_jik, Y_ijkl + Y_jikl with Y = I + II + III, and Z_ijkl = I_ijkl + II_ijkl + (i ↔ j)."""

    def symmetric(values: Array) -> Array:
        return values + values.swapaxes(0, 1)

    if h.dH is None:
        return Kernel(h.H, None, None, None)
    if h.I is None or h.II is None or h.III is None:
        return Kernel(h.H, symmetric(h.dH), None, None)
    return Kernel(h.H, symmetric(h.dH), symmetric(h.I + h.II + h.III), symmetric(h.I + h.II))


def flow(h: Hierarchy, y: Float[Array, " A"], times: Float[Array, " times"] | None) -> Course:
    """Gradient flow to increasing `times`, or to its end for None; a pure function of arrays."""
    A, scale = len(y), _size(h.z[: len(y)] - y)

    def slope(t: Any, state: State, args: Any) -> State:
        trained, y = args
        e = state.z[:A] - y
        return State(-trained.at(state) @ e, e, jnp.outer(e, state.E), jnp.zeros_like(state.Q))

    def over(t: Any, state: State, args: Any, **more: Any) -> Array:
        size = _size(state.z[:A] - args[1])
        given_up = ~(size <= LARGE * scale)
        return given_up if times is not None else given_up | (size <= SMALL * scale)

    solution = diffrax.diffeqsolve(
        diffrax.ODETerm(slope),
        diffrax.Dopri5(),
        t0=0.0,
        t1=jnp.inf if times is None else times[-1],
        dt0=None,
        y0=_start(h, y),
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
    reached = _size(end.z[:A] - y) <= SMALL * scale
    end = jax.tree.map(lambda a, b: jnp.where(reached, a, b)[None], _completed(h, end, y), end)
    return _course(h, end, reached[None])


def descend(h: Hierarchy, y: Float[Array, " A"], steps: Int[Array, " times"], eta: Any) -> Course:
    """Gradient descent with steps of size η, to increasing numbers of steps; a pure function of arrays.

    z(t+1) = z - ηHε + η²dHεε/2 - η³Iεεε/6 and H(t+1) = H - η(dH_ijk + dH_jik)ε_k + η²Z_ijkl ε_kε_l/2 with the kernels
    of step t: the Taylor series of z and H in a step of the parameters.
    """
    A, scale = len(y), _size(h.z[: len(y)] - y)
    trained = _columns(kernel(h), A)

    def step(state: State) -> State:
        e = state.z[:A] - y
        z = state.z - eta * trained.at(state) @ e
        if h.dH is not None:
            z = z + eta**2 / 2 * jnp.einsum("iab,a,b", h.dH[:, :A], e, e)
        if h.I is not None and h.II is not None and h.III is not None:
            Y = (h.I + h.II + h.III)[:, :A]
            z = z - eta**2 / 2 * jnp.einsum("iabc,a,b,c", Y, e, e, state.E)
            z = z - eta**3 / 6 * jnp.einsum("iabc,a,b,c", h.I[:, :A], e, e, e)
        return State(
            z,
            state.E + eta * e,
            state.W + eta * jnp.outer(e, state.E),
            state.Q + eta**2 * jnp.outer(e, e),
        )

    def several(state: State, count: Array) -> tuple[State, tuple[State, Array]]:
        def unfinished(now: Any) -> Array:
            return (now[0] < count) & (_size(now[1].z[:A] - y) <= LARGE * scale)

        done, state = jax.lax.while_loop(unfinished, lambda now: (now[0] + 1, step(now[1])), (0, state))
        return state, (state, (done == count) & (_size(state.z[:A] - y) <= LARGE * scale))

    counts = jnp.diff(steps, prepend=0)
    return _course(h, *jax.lax.scan(several, _start(h, y), counts)[1])


def _columns(whole: Kernel, A: int) -> Kernel:
    # Only the columns of the training set meet residuals.
    return Kernel(whole.H[:, :A], *(None if part is None else part[:, :A] for part in whole[1:]))


def _start(h: Hierarchy, y: Array) -> State:
    zeros = jnp.zeros((len(y), len(y)), h.z.dtype)
    return State(h.z, zeros[0], zeros, zeros)


def _size(e: Array) -> Array:
    return jnp.sqrt(jnp.sum(e * e))


def _completed(h: Hierarchy, state: State, y: Array) -> State:
    # With H frozen the rest is linear, and ∫ε dt = H⁻¹ε.
    A = len(y)
    H = kernel(h).at(state)
    rest = jnp.linalg.solve(H[:A, :A], state.z[:A] - y)
    return State(state.z - H[:, :A] @ rest, state.E + rest, state.W + jnp.outer(rest, state.E), state.Q)


def _course(h: Hierarchy, states: State, reached: Array) -> Course:
    whole = kernel(h)
    return Course(states, jax.vmap(whole.at)(states), reached)
