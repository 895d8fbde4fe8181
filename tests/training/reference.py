"""What finite-width tests compare with: trained networks, and responses in composite indices."""

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree
from scipy.integrate import solve_ivp

X = np.array([[1.0, 0.2], [-0.3, 1.0]])
XT = np.array([[0.4, 0.9]])
Y = np.array([[0.5, -0.3], [0.2, 0.8]])


class Trained:
    """One network in parameter space: gradient flow by SciPy's integrator, gradient descent step by step."""

    def __init__(self, net, params, x_train, y, x_test):
        self.x = jnp.concatenate([x_train, x_test])
        self.count = len(x_train)
        self.start, back = ravel_pytree(params)
        full = jax.tree.map(lambda rate, leaf: jnp.full_like(leaf, rate), net.rates(), params)
        self.rates = np.asarray(ravel_pytree(full)[0])
        self.z = jax.jit(lambda theta: net.apply(back(theta), self.x))
        y = jnp.asarray(y)
        self.gradient = jax.jit(jax.grad(lambda theta: 0.5 * jnp.sum((self.z(theta)[: self.count] - y) ** 2)))
        self.J = jax.jit(jax.jacrev(self.z))

    def slope(self, theta):
        return -self.rates * np.asarray(self.gradient(jnp.asarray(theta)))

    def flow(self, t):
        return solve_ivp(
            lambda _, theta: self.slope(theta), (0, t), np.asarray(self.start), method="DOP853", rtol=1e-11, atol=1e-13
        ).y[:, -1]

    def descend(self, steps, eta):
        theta = np.asarray(self.start)
        for _ in range(steps):
            theta = theta + eta * self.slope(theta)
        return theta

    def outputs(self, theta):
        return np.asarray(self.z(jnp.asarray(theta)))

    def kernel(self, theta):
        J = np.asarray(self.J(jnp.asarray(theta)))
        return np.einsum("aip,p,bjp->abij", J, self.rates, J)


def spread(array, outputs):
    """An array over samples as one over composite indices (sample, output), diagonal in outputs."""
    return np.kron(array, np.eye(outputs))


def composite(X):
    """A correlator (3, N, N, N, N) of pairings, as a function of the number of outputs, over composite indices."""

    def full(outputs):
        eye = np.eye(outputs)
        deltas = ("ij,kl", "ik,jl", "il,jk")
        total = sum(np.einsum(f"abcd,{d}->aibjckdl", part, eye, eye) for part, d in zip(X, deltas))
        return total.reshape((X.shape[1] * outputs,) * 4)

    return full
