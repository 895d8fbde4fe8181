"""Flax models as their users write them, run in an environment that has Flax (`test_frameworks.py`)."""

import flax.linen as nn
import jax
import jax.numpy as jnp
from flax import nnx


class Plain(nn.Module):
    features: tuple = (40, 40, 3)

    @nn.compact
    def __call__(self, x):
        for n in self.features[:-1]:
            x = nn.gelu(nn.Dense(n, kernel_init=nn.initializers.he_normal())(x), approximate=False)
        return nn.Dense(self.features[-1], use_bias=False)(x)


class PreNormBlock(nn.Module):
    width: int
    dropout: float = 0.1

    @nn.compact
    def __call__(self, x, train: bool):
        y = nn.LayerNorm()(x)
        y = nn.Dense(2 * self.width)(y)
        y = nn.swish(y)
        y = nn.Dense(x.shape[-1])(y)
        y = nn.Dropout(self.dropout, deterministic=not train)(y)
        return x + y


class PreNorm(nn.Module):
    depth: int

    def setup(self):
        self.first = nn.Dense(24)
        self.blocks = [PreNormBlock(24) for _ in range(self.depth)]
        self.norm = nn.RMSNorm()
        self.last = nn.Dense(2)

    def __call__(self, x, train: bool = False):
        x = self.first(x)
        for block in self.blocks:
            x = block(x, train)
        return self.last(self.norm(x))


class Normalized(nn.Module):
    @nn.compact
    def __call__(self, x, train: bool):
        x = nn.Conv(8, (3, 3))(x)
        x = nn.BatchNorm(use_running_average=not train)(x)
        x = nn.relu(x)
        x = nn.avg_pool(x, (2, 2), strides=(2, 2))
        x = nn.relu(nn.Conv(6, (3, 3), padding="VALID")(x))
        return nn.Dense(3)(x.reshape((x.shape[0], -1)))


class PostNormBlock(nnx.Module):
    def __init__(self, width, rngs):
        self.up = nnx.Linear(width, 32, rngs=rngs)
        self.down = nnx.Linear(32, width, rngs=rngs)
        self.norm = nnx.LayerNorm(width, rngs=rngs)
        self.dropout = nnx.Dropout(0.2, rngs=rngs)

    def __call__(self, x):
        return self.norm(x + self.dropout(self.down(jnp.tanh(self.up(x)))))


class PostNorm(nnx.Module):
    def __init__(self, rngs):
        self.first = nnx.Linear(5, 24, rngs=rngs)
        self.blocks = nnx.List([PostNormBlock(24, rngs) for _ in range(2)])
        self.last = nnx.Linear(24, 2, rngs=rngs)

    def __call__(self, x):
        x = self.first(x)
        for block in self.blocks:
            x = block(x)
        return self.last(x)


def deep(rngs):
    layers = [nnx.Linear(6, 16, rngs=rngs)]
    for _ in range(18):
        layers += [jax.nn.relu, nnx.Linear(16, 16, use_bias=False, rngs=rngs)]
    return nnx.Sequential(*layers, jax.nn.relu, nnx.Linear(16, 4, rngs=rngs))


def batched(rngs):
    return nnx.Sequential(
        nnx.Linear(6, 16, rngs=rngs), nnx.BatchNorm(16, rngs=rngs), nnx.relu, nnx.Linear(16, 2, rngs=rngs)
    )


class Functions(nn.Module):
    """Flax's own gelu, which is that by a tanh, and others that are expressions of z here."""

    @nn.compact
    def __call__(self, x):
        for function in (nn.gelu, nn.relu6, nn.hard_swish, jnp.cos, lambda z: nn.relu(z) ** 2):
            x = function(nn.Dense(6)(x))
        return nn.Dense(2)(x)


LINEN = {
    "functions": (Functions(), (6,)),
    "plain": (Plain(), (5,)),
    "pre-norm": (PreNorm(3), (5,)),
    "convolutional": (Normalized(), (8, 8, 2)),
}
NNX = {"post-norm": (PostNorm, (5,)), "20 layers": (deep, (6,)), "batch norm": (batched, (6,))}


def changed(tree, key):
    """Parameters that have learned something: gains and biases too."""
    leaves, structure = jax.tree.flatten(tree)
    keys = jax.random.split(key, len(leaves))
    return jax.tree.unflatten(
        structure, [leaf + 0.1 * jnp.abs(jax.random.normal(k, leaf.shape)) for leaf, k in zip(leaves, keys)]
    )


def linen(name):
    """The model, its variables, an input, and what it gives."""
    model, shape = LINEN[name]
    x = jax.random.normal(jax.random.key(1), (4, *shape))
    flags = {} if name in ("plain", "functions") else {"train": False}
    variables = changed(model.init(jax.random.key(0), x, **flags), jax.random.key(2))
    return model, variables, x, model.apply(variables, x, **flags)


def of_nnx(name):
    """The model, an input, and what it gives."""
    make, shape = NNX[name]
    model = make(nnx.Rngs(0))
    nnx.update(model, changed(nnx.state(model, nnx.Any(nnx.Param, nnx.BatchStat)), jax.random.key(2)))
    x = jax.random.normal(jax.random.key(1), (4, *shape))
    model.eval()
    outputs = model(x)
    model.train()
    return model, x, outputs
