"""Runs the programs of a folder, one step each, and keeps parameters: `PYTHON … FOLDER`.

It runs in an environment that has PyTorch and Flax; `test_block_settings.py` is at the other end. Dense arrays are kept
in the order of the layers, each weights before biases and as (outputs, inputs), those of norms apart.
"""

import runpy
import sys
from pathlib import Path

import jax
import numpy as np
import optax
import torch

import neft

RNG = np.random.default_rng(3)
X = RNG.normal(size=(4, 5)).astype(np.float32)


def with_torch(names):
    model, optim = names["model"], names["optim"]
    read, outputs = neft.read(model).apply(X), model(torch.tensor(X)).detach().numpy()
    layers = [layer for layer in model.modules() if isinstance(layer, torch.nn.Linear)]
    dense = [part for layer in layers for part in (layer.weight, layer.bias) if part is not None]
    norms = [part for part in model.parameters() if not any(part is one for one in dense)]
    slopes = [0.05 * RNG.normal(size=part.shape).astype(np.float32) for part in (*dense, *norms)]
    before = [part.detach().numpy().copy() for part in (*dense, *norms)]
    for part, slope in zip((*dense, *norms), slopes):
        part.grad = torch.tensor(slope)
    optim.step()
    three = list(zip(before, slopes, [part.detach().numpy() for part in (*dense, *norms)]))
    return three[: len(dense)], three[len(dense) :], read, outputs


def place(path):
    """Where an array stands in the order of layers; norms come last."""
    *above, layer, what = [part.key for part in path]
    number, bias = int(layer.split("_")[1]), what == "bias"
    if layer.startswith("layer"):
        return number, 0, bias
    if not layer.startswith("Dense"):
        return 10**6, 0, bias
    block = [int(name.split("_")[1]) for name in above if name.startswith("Block")]
    return (1 + block[0], number, bias) if block else (10**5 * number, 0, bias)


def with_flax(names):
    model, params, optim = names["model"], names["params"], names["optim"]
    read, outputs = neft.read(model, params).apply(X), model.apply(params, X)
    slopes = jax.tree.map(lambda leaf: 0.05 * RNG.normal(size=leaf.shape).astype(np.float32), params)
    moves, _ = optim.update(slopes, optim.init(params), params)
    after = optax.apply_updates(params, moves)
    found = [jax.tree_util.tree_flatten_with_path(tree)[0] for tree in (params, slopes, after)]
    each = sorted(
        ((place(three[0][0]), [np.asarray(leaf).T for _, leaf in three]) for three in zip(*found)),
        key=lambda pair: pair[0],
    )
    dense = [three for where, three in each if where[0] < 10**6]
    return dense, [three for where, three in each if where[0] >= 10**6], read, outputs


def main(folder):
    for path in folder.glob("*.py"):
        with_one = with_torch if path.name.startswith("torch") else with_flax
        dense, norms, read, outputs = with_one(runpy.run_path(str(path)))
        kept = {f"dense{i}": np.stack(three) for i, three in enumerate(dense)}
        kept |= {f"norm{i}": np.stack(three) for i, three in enumerate(norms)}
        more = {"count_dense": len(dense), "count_norm": len(norms)}
        np.savez(folder / path.with_suffix(".npz").name, read=read, outputs=outputs, **kept, **more)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
