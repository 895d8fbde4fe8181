"""Runs the programs of a folder and `Advice.apply`, two steps each, and keeps parameters: `PYTHON … FOLDER`.

It runs in an environment that has PyTorch and Flax; `test_advice.py` is at the other end. Weights are kept as
(outputs, inputs), in the order of the layers, each before its biases.
"""

import itertools
import json
import runpy
import sys
from pathlib import Path

import flax.linen as linen
import jax
import jax.numpy as jnp
import numpy as np
import optax
import torch
from flax import nnx

import neft

X = np.linspace(-1, 1, 10).astype(np.float32)
WIDTHS = (10, 64, 64, 64, 3)


class Linen(linen.Module):
    @linen.compact
    def __call__(self, x):
        for l, width in enumerate(WIDTHS[1:]):
            x = linen.Dense(width)(jax.nn.gelu(x, approximate=False) if l else x)
        return x


class Nnx(nnx.Module):
    def __init__(self):
        rngs = nnx.Rngs(0)
        self.layers = nnx.List([nnx.Linear(*sizes, rngs=rngs) for sizes in itertools.pairwise(WIDTHS)])

    def __call__(self, x):
        for l, layer in enumerate(self.layers):
            x = layer(jax.nn.gelu(x, approximate=False) if l else x)
        return x


def with_nnx(model, optim):
    """As its users do, by an `nnx.Optimizer`; gradients are as `nnx.grad` gives them."""
    outputs = np.asarray(model(X))
    parts = [part for layer in model.layers for part in (layer.kernel, layer.bias)]
    flip = lambda value: np.swapaxes(value, -1, -2) if value.ndim > 1 else value  # noqa: E731
    flipped = lambda: [flip(np.array(part[...])) for part in parts]  # noqa: E731
    before, gradients = flipped(), [[] for _ in parts]
    optimizer = nnx.Optimizer(model, optim, wrt=nnx.Param)
    for step in range(2):
        slopes = nnx.grad(lambda of, x: (of(x) ** 2).sum())(model, X + step)
        for l in range(len(model.layers)):
            for kept, name in zip(gradients[2 * l : 2 * l + 2], ("kernel", "bias")):
                kept.append(flip(np.asarray(slopes["layers"][l][name][...])))
        optimizer.update(model, slopes)
    return before, [np.stack(both) for both in gradients], flipped(), outputs


def with_torch(model, optim):
    layers = [layer for layer in model.modules() if isinstance(layer, torch.nn.Linear)]
    parts = [part for layer in layers for part in (layer.weight, layer.bias)]
    outputs = model(torch.tensor(X)).detach().numpy()
    before = [part.detach().numpy().copy() for part in parts]
    rng = np.random.default_rng(1)
    gradients = [rng.normal(size=(2, *part.shape)).astype(np.float32) for part in parts]
    for step in range(2):
        for part, both in zip(parts, gradients):
            part.grad = torch.tensor(both[step])
        optim.step()
    return before, gradients, [part.detach().numpy() for part in parts], outputs


def with_flax(model, params, optim):
    outputs = np.asarray(model.apply(params, X))
    leaves, structure = jax.tree.flatten(params)
    rng = np.random.default_rng(1)
    gradients = [rng.normal(size=(2, *leaf.shape)).astype(np.float32) for leaf in leaves]
    state, after = optim.init(params), params
    for step in range(2):
        g = jax.tree.unflatten(structure, [jnp.asarray(both[step]) for both in gradients])
        updates, state = optim.update(g, state, after)
        after = optax.apply_updates(after, updates)

    def ordered(values):
        # Of dictionaries JAX takes biases before kernels, which are (inputs, outputs).
        values = [np.asarray(value) for value in values]
        return [part for b, W in zip(values[::2], values[1::2]) for part in (np.swapaxes(W, -1, -2), b)]

    return ordered(leaves), ordered(gradients), ordered(jax.tree.leaves(after)), outputs


def keep(path, before, gradients, after, outputs):
    named = {"before": before, "gradients": gradients, "after": after}
    arrays = {f"{what}{i}": value for what, values in named.items() for i, value in enumerate(values)}
    np.savez(path, outputs=outputs, x=X, **arrays)


def refused(advice):
    """What is said of models without numbers, and of layers that share some, which one step would move twice."""
    found = []
    for shared in (False, True):
        device = "cpu" if shared else "meta"
        layers = [torch.nn.Linear(*sizes, device=device) for sizes in itertools.pairwise(WIDTHS)]
        if shared:
            layers[2].weight = layers[1].weight
        try:
            advice.apply(torch.nn.Sequential(*layers))
        except ValueError as error:
            found.append(str(error))
    return found


def main(folder):
    advice = neft.load(folder / "advice.json")
    (folder / "refused.json").write_text(json.dumps(refused(advice)))
    for optimizer in ("sgd", "momentum", "adam", "adamw"):
        names = runpy.run_path(str(folder / f"torch_{optimizer}.py"))
        keep(folder / f"torch_{optimizer}.npz", *with_torch(names["model"], names["optim"]))
        names = runpy.run_path(str(folder / f"flax_{optimizer}.py"))
        keep(folder / f"flax_{optimizer}.npz", *with_flax(names["model"], names["params"], names["optim"]))
        layers = [torch.nn.Linear(*sizes) for sizes in itertools.pairwise(WIDTHS)]
        given = torch.nn.Sequential(*(part for layer in layers for part in (layer, torch.nn.GELU())))[:-1]
        model, optim = advice.apply(given, optimizer=optimizer)
        assert model is given
        keep(folder / f"module_{optimizer}.npz", *with_torch(model, optim))
        module = Linen()
        params, optim = advice.apply(module, params=module.init(jax.random.key(0), X), optimizer=optimizer)
        keep(folder / f"linen_{optimizer}.npz", *with_flax(module, params, optim))
        given = Nnx()
        model, optim = advice.apply(given, optimizer=optimizer)
        assert not np.array_equal(given.layers[1].kernel[...], model.layers[1].kernel[...])
        keep(folder / f"nnx_{optimizer}.npz", *with_nnx(model, optim))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
