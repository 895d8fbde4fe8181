"""Training networks by simulation, many at once: gradient descent, and gradient flow by adaptive steps."""

import functools
from typing import Any, NamedTuple

import diffrax
import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, Bool, Int

from ..network import Network
from ..tangent import mlp_ntk
from ._loss import Loss, slope

_MOST_STEPS = 1 << 14


@functools.partial(jax.jit, static_argnames="dtype")
def drawn(net: Network, key: Array, index: Array, *, dtype: Any) -> Any:
    """Parameters of the draws of an index, on a first axis; draw i depends on (key, i) alone."""
    return jax.vmap(lambda i: net.init(jax.random.fold_in(key, i), dtype=dtype))(index)


@functools.partial(jax.jit, static_argnums=1)
def by_steps(
    net: Network,
    loss: Loss,
    params: Any,
    x: Array,
    y: Array,
    steps: Array,
    learning_rate: Array,
    momentum: tuple[Array, Array, Array] | None = None,
    batches: Int[Array, "draws steps batch"] | None = None,
) -> tuple[Any, Bool[Array, " draws"]]:
    """The networks after `steps` steps θ ← θ - η λ dL/dθ, all in one loop.

    `momentum` is (here, before, β) of `Momentum`; the inputs `batches` of a step stand for all of them.
    """
    rates = net.rates()

    def one(p, batches):
        def gradient(t, p):
            if batches is None:
                return jax.grad(lambda q: loss(net.apply(q, x), y))(p)
            taken = batches[t]
            g = jax.grad(lambda q: loss(net.apply(q, x[taken]), y[taken]))(p)
            return jax.tree.map(lambda leaf: len(x) / batches.shape[1] * leaf, g)

        def step(t, p):
            return jax.tree.map(lambda a, rate, g: a - learning_rate * rate * g, p, rates, gradient(t, p))

        def with_velocity(t, now):
            assert momentum is not None
            here, before, beta = momentum
            p, velocity = now
            g = gradient(t, p)
            move = jax.tree.map(lambda g, v: here * g + before * v, g, velocity)
            p = jax.tree.map(lambda a, rate, m: a - learning_rate * rate * m, p, rates, move)
            return p, jax.tree.map(lambda g, v: beta * v + g, g, velocity)

        if momentum is None:
            return jax.lax.fori_loop(0, steps, step, p)
        return jax.lax.fori_loop(0, steps, with_velocity, (p, jax.tree.map(jnp.zeros_like, p)))[0]

    trained = jax.vmap(one, in_axes=(0, None if batches is None else 0))(params, batches)
    return trained, jnp.ones(len(params[0][0]), bool)


@functools.partial(jax.jit, static_argnums=1)
def by_flow(
    net: Network, loss: Loss, params: Any, x: Array, y: Array, time: Array, tolerance: Array, near: Array
) -> tuple[Any, Bool[Array, " draws"]]:
    """The networks that dθ/dt = -λ dL/dθ takes to `time`, or to where |dL/dz| < near at all training inputs.

    And which of them got there.
    """

    def one(p):
        theta, back = ravel_pytree(p)
        rates = ravel_pytree(jax.tree.map(lambda rate, leaf: jnp.full(leaf.shape, rate, leaf.dtype), net.rates(), p))[0]

        def field(t, theta, args):
            return -rates * jax.grad(lambda q: loss(net.apply(back(q), x), y))(theta)

        def arrived(t, theta, args, **_):
            return jnp.abs(slope(loss, net.apply(back(theta), x), y)).max() < near

        solution = diffrax.diffeqsolve(
            diffrax.ODETerm(field),  # type: ignore[arg-type]
            diffrax.Dopri5(),
            t0=jnp.zeros((), theta.dtype),
            t1=time,
            dt0=None,
            y0=theta,
            saveat=diffrax.SaveAt(t1=True),
            stepsize_controller=diffrax.PIDController(rtol=tolerance, atol=tolerance),  # type: ignore[arg-type]
            event=diffrax.Event(arrived),
            max_steps=_MOST_STEPS,
            throw=False,
        )
        assert solution.ys is not None
        # An infinite time is never reached; who is near before time is up has reached it.
        good = (solution.result == diffrax.RESULTS.successful) | (solution.result == diffrax.RESULTS.event_occurred)
        return back(solution.ys[-1]), good

    return jax.vmap(one)(params)


class Outputs(NamedTuple):
    """Outputs at training inputs (draws, N, O) and test inputs (draws, M, O), and None or the NTK between all of them
    and the training inputs (draws, N+M, N, O, O).
    """

    train: Any
    test: Any
    kernel: Any


@functools.partial(jax.jit, static_argnames="kernel")
def outputs(net: Network, params: Any, x: Array, x_test: Array, *, kernel: bool) -> Any:
    """The `Outputs` of a block of networks."""
    every = jnp.concatenate([x, x_test])

    def one(p):
        z = net.apply(p, every)
        return Outputs(z[: len(x)], z[len(x) :], mlp_ntk(net, p, every, x) if kernel else None)

    return jax.vmap(one)(params)


def completed(found: Outputs, y: np.ndarray, cutoff: float) -> Outputs:
    """The networks at the end of gradient flow on the square loss: z - H_xA H_AA⁻¹(z_A - y) with the kernels reached.

    What is left of the residual ε moves the kernel by O(ε), so this is good to O(ε²). On the host, for batched
    inverses in compiled code can hang; directions with a vanishing eigenvalue stay as they are.
    """
    assert found.kernel is not None
    D, N, O = found.train.shape
    H = found.kernel.transpose(0, 1, 3, 2, 4).reshape(D, -1, N * O)
    residual = (found.train - y).reshape(D, N * O, 1)
    move = H @ (np.linalg.pinv(H[:, : N * O], rcond=cutoff, hermitian=True) @ residual)
    move = move.reshape(D, -1, O)
    return Outputs(found.train - move[:, :N], found.test - move[:, N:], None)
