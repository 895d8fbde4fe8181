"""Draws K₁ and Θ₁ of the networks of `tools/draw_streams.py`; adds them to `tests/width/streams.json` as `means`.

    .venv/bin/python tools/draw_means.py "two inputs, one matrix, gelu" …

Without names all that are kept are drawn. K₁ and Θ₁ are the smallest part of what they are means of, so they have draws
of their own, of two kinds. Given the stage before, sums over weights are Gaussian with a covariance that is known, so
draws of *stages* need no weights: they are many, and give K, and a guess of Θ, the product of averages over neurons.
Draws of *weights* give the Θ of a draw by backpropagation, and the mean of its difference to the same guess. Both have
numbers of a draw whose means are exactly 0, and what these explain is taken away. Nothing here knows a recursion of
order 1/width.
"""

import functools
import json
import sys
import time

import jax
import jax.numpy as jnp
import numpy as np
from draw_streams import FILE, NETWORKS, Twin, X, coloured, context, fitted, root, without_zeros

from neft import Dense, Network, Residual
from neft.network import Nonlinearity

STAGES = {8: 512_000, 16: 1_536_000, 28: 1_536_000, 40: 1_536_000, 64: 1_024_000}  # draws by width
WEIGHTS = {8: 51_200, 16: 102_400, 28: 102_400, 40: 128_000, 64: 64_000}
FEWER = {"two inputs, one matrix, relu": 4, "two inputs, one matrix, elu(0.5)": 4}  # so many times fewer of both
SEED, GROUPS, AT_ONCE = 2, 20, 64


class Guess(Twin):
    """A walk that guesses the NTK too, from averages over the neurons of each stage."""

    Theta = 0.0

    def after(self, block, params, z, twin, K):
        """The stage and its twin after a block."""
        Theta = self.Theta
        found = super().after(block, params, z, twin, K)
        if isinstance(block, Dense):
            self.Theta = block.lambda_b + block.lambda_W * (z @ z.T) / z.shape[1] + block.C_W * Theta
        elif isinstance(block, Nonlinearity):
            slope = jax.vmap(jax.vmap(jax.grad(block.activation.function)))(z)
            self.Theta = Theta * (slope @ slope.T) / z.shape[1]
        elif isinstance(block, Residual):
            self.Theta = block.skip**2 * Theta + self.Theta
        else:
            scale = 1 / jnp.sqrt((z * z).mean(1) + block.epsilon)
            self.Theta = Theta * scale[:, None] * scale
        return found


class Stages(Guess):
    """A walk without weights."""

    def __init__(self, known, key):
        super().__init__(known)
        self.key = key

    def sums(self, block, params, z, covariance):
        """Sums over weights, and what they are of independent Gaussian numbers."""
        self.key, own = jax.random.split(self.key)
        g = jax.random.normal(own, (len(z), block.width), z.dtype)
        return coloured(root(covariance), g), g


class Weights(Guess):
    """A walk with weights, which sees what products of them are on average."""

    branches = ()

    def after(self, block, params, z, twin, K):
        """The stage and its twin after a block."""
        if isinstance(block, Dense):
            self.zeros.append((params.W**2).sum() / len(params.W) - np.float32(block.C_W))
        if isinstance(block, Residual):
            layers = list(params.branch)
            whole = functools.reduce(lambda a, b: b @ a, [one.W for one in layers])
            n, C = len(whole), np.float32(np.prod([one.C_W for one in dense(block.branch)]))
            self.zeros += [jnp.trace(whole) / n, ((whole * whole.T).sum() - C) / n]
            self.zeros += [(whole * other).sum() / n for one in self.branches for other in (one, one.T)]
            self.branches = (*self.branches, whole)
        return super().after(block, params, z, twin, K)


def readout(net, s, Theta):
    """K and Θ of the outputs from the last features and the NTK of a neuron of theirs, averaged over the readout."""
    last, square = net.blocks[-1], s @ s.T / s.shape[1]
    return last.C_b + last.C_W * square, last.lambda_b + last.lambda_W * square + last.C_W * Theta


def of_stages(net, known, x, key):
    """K and the guess of Θ of one draw, and numbers whose means are 0."""
    walk = Stages(known, key)
    s, _, _ = walk.along(net.blocks[:-1], None, x, x, None)
    return *readout(net, s, walk.Theta), jnp.stack(walk.zeros)


def of_weights(net, known, x, key):
    """Θ without its guess of one draw, and numbers whose means are 0."""
    params = net.init(key, dtype=jnp.float32)[:-1]
    walk = Weights(known)
    s, _, _ = walk.along(net.blocks[:-1], params, x, x, None)
    n = s.shape[1]

    def features(shifts):
        seen = []
        return shifted(net.blocks[:-1], params, x, iter(shifts), seen), seen

    shapes = [jnp.zeros((len(x), one.width), x.dtype) for one in dense(net.blocks[:-1])]
    _, back, seen = jax.vjp(features, shapes, has_aux=True)
    # The features of an input depend on its own shifts alone, so that all inputs go back at once.
    slopes = jax.vmap(lambda head: back(jnp.broadcast_to(head, s.shape))[0])(jnp.eye(n, dtype=s.dtype))
    Theta = sum(
        (block.lambda_b + block.lambda_W * (z @ z.T) / z.shape[1]) * jnp.einsum("han,hbn->ab", d, d) / n
        for block, z, d in zip(dense(net.blocks[:-1]), seen, slopes)
    )
    return readout(net, s, Theta)[1] - readout(net, s, walk.Theta)[1], jnp.stack(walk.zeros)


def dense(blocks):
    """All dense blocks, in the order in which they are applied."""
    for block in blocks:
        if isinstance(block, Dense):
            yield block
        elif isinstance(block, Residual):
            yield from dense(block.branch)


def shifted(blocks, params, z, shifts, seen):
    """The stage after these blocks with shifts of every sum over weights; collects what the weights multiply."""
    left = iter(params)
    for block in blocks:
        if isinstance(block, Dense):
            seen.append(z)
            z = block.apply(next(left), z) + next(shifts)
        elif isinstance(block, Residual):
            z = block.skip * z + shifted(block.branch, next(left).branch, z, shifts, seen)
        else:
            z = block.apply((), z)
    return z


@functools.partial(jax.jit, static_argnums=(0, 3, 4, 5))
def group(name, key, x, n, draws, stages):
    """Means over draws of what is found beyond infinite width, of zeros, and of products with zeros."""
    net, known, centre = Network(3, NETWORKS[name][0](n)), *context(name)

    def one(i):
        *found, zeros = (of_stages if stages else of_weights)(net, known, x, jax.random.fold_in(key, i))
        if stages:
            found = [value - at.astype(np.float32) for value, at in zip(found, centre)]
        flat = jnp.concatenate([value.ravel() for value in found])
        return flat, zeros, zeros[:, None] * zeros[None], zeros[:, None] * flat[None]

    several = jax.vmap(one)

    def step(total, i):
        found = several(i * AT_ONCE + jnp.arange(AT_ONCE))
        return jax.tree.map(lambda t, v: t + v.mean(0), total, found), None

    start = jax.tree.map(lambda v: jnp.zeros(v.shape, v.dtype), jax.eval_shape(one, 0))
    steps = draws // AT_ONCE
    return jax.tree.map(lambda v: v / steps, jax.lax.scan(step, start, jnp.arange(steps))[0])


def averaged(name, n, draws, stages):
    """Means over all draws without what zeros explain, times the width, and their errors."""
    key = jax.random.fold_in(jax.random.fold_in(jax.random.key(SEED), n), stages)
    x = jnp.asarray(X[: NETWORKS[name][1]], jnp.float32)
    rows = [group(name, jax.random.fold_in(key, g), x, n, draws // GROUPS, stages) for g in range(GROUPS)]
    parts = [np.stack([np.asarray(one, float) for one in column]) for column in zip(*rows)]
    whole = without_zeros(*(part.mean(0) for part in parts))
    without = [without_zeros(*(np.delete(part, g, 0).mean(0) for part in parts)) for g in range(GROUPS)]
    return n * whole, n * np.sqrt((GROUPS - 1) * np.stack(without).var(0))


def planned(name):
    """Widths, draws of stages and draws of weights."""
    return [(n, STAGES[n] // FEWER.get(name, 1), WEIGHTS[n] // FEWER.get(name, 1)) for n, _ in NETWORKS[name][3]]


def drawn(name):
    """K₁ and Θ₁ and their errors."""
    N = NETWORKS[name][1]
    values, errors = [], []
    for n, stages, weights in planned(name):
        start = time.process_time()
        both, spread = averaged(name, n, stages, True)
        mid = time.process_time()
        rest, other = averaged(name, n, weights, False)
        K, guess, K_error, guess_error = *both.reshape(2, N, N), *spread.reshape(2, N, N)
        values.append({"K1": K, "Theta1": guess + rest.reshape(N, N)})
        errors.append({"K1": K_error, "Theta1": np.hypot(guess_error, other.reshape(N, N))})
        print(name, n, f"{mid - start:.0f} + {time.process_time() - mid:.0f} s")
        print(
            *(f"{np.asarray(one).ravel()[0]:.4f}" for one in (K, K_error, guess, guess_error, rest, other)), flush=True
        )
    return fitted(name, values, errors)


def main(names):
    """Draw these networks, or all that are kept."""
    for name in names or json.loads(FILE.read_text()):
        start = time.process_time()
        entry = {
            "widths, draws of stages and of weights": planned(name),
            "seed": SEED,
            "command": f"tools/draw_means.py {name!r}",
            "tensors": drawn(name),
        }
        kept, (make, N, *_) = json.loads(FILE.read_text()), NETWORKS[name]
        # Where nothing else was drawn, means are all there is.
        kept.setdefault(name, {"network": Network(3, make(8)).to_dict(), "x": X[:N].tolist(), "tensors": {}})
        kept[name]["means"] = entry
        print(name, f"{time.process_time() - start:.0f} s", entry["tensors"], flush=True)
        FILE.write_text(json.dumps(kept) + "\n")


if __name__ == "__main__":
    main(sys.argv[1:])
