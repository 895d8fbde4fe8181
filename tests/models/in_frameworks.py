"""Reads the models of `torch_models.py` and `flax_models.py` and says how well, as JSON: `PYTHON in_frameworks.py`.

It runs in an environment that has PyTorch and Flax; `test_frameworks.py` is at the other end.
"""

import json

import flax_models
import jax
import numpy as np
import torch
import torch_models

import neft
from neft.report import tables
from neft.width._initializers import activation_line


def compared(found, x, outputs):
    """The largest difference of outputs, their size, and what was read."""
    again = np.asarray(found.apply(x))
    return {
        "shapes": [again.shape, outputs.shape],
        "error": float(np.abs(again - outputs).max()),
        "size": float(np.abs(outputs).max()),
        "blocks": [type(block).__name__ for block in found.network.blocks],
        "layers": [layer.name for layer in found.layers],
        "drawn": [layer.drawn for layer in found.layers],
        "variances": [(layer.C_W, layer.error_W, layer.C_b, layer.error_b) for layer in found.layers],
        "notes": found.notes,
        "functions": [activation.name for activation in found.network.activations if activation.expressed],
        "table": tables(found)[0].text(),
    }


def sentence(*args, **kwargs):
    """What is said of a model that cannot be read."""
    try:
        neft.read(*args, **kwargs)
    except ValueError as error:
        return str(error)
    return "it was read"


def programs(names):
    """The largest difference of each activation to what programs write for it, in PyTorch and in Flax."""
    z, found = np.linspace(-6, 6, 201).astype(np.float32), {}
    for name in names:
        spaces = {"torch": {"torch": torch, "nn": torch.nn}, "flax": {"jax": jax, "jnp": jax.numpy}}
        for framework, space in spaces.items():
            exec(f"def activation(z):\n    {activation_line(name, framework)}", space)
        there = [spaces["torch"]["activation"](torch.tensor(z)).numpy(), spaces["flax"]["activation"](z)]
        found[name] = [float(np.abs(one - neft.activation(name)(z)).max()) for one in there]
    return found


def moved_by_training():
    """How far what was read moves when the model's parameters and moments are set to 0 in place."""
    model = torch_models.nn.Sequential(torch_models.nn.Linear(64, 64), torch_models.nn.BatchNorm1d(64))
    with torch.no_grad():
        model[1].running_mean.fill_(0.5)
    found, x = neft.read(model), np.ones((2, 64), np.float32)
    before = np.array(found.apply(x))
    with torch.no_grad():
        for part in (*model.parameters(), model[1].running_mean):
            part.zero_()
    return [float(np.abs(before).max()), float(np.abs(np.asarray(found.apply(x)) - before).max())]


def main():
    found = {}
    for name in torch_models.MODELS:
        model, x, outputs = torch_models.made(name)
        found[f"torch, {name}"] = compared(neft.read(model, x=x if x.ndim > 2 else None), x, outputs)
        assert model.training
    for name in flax_models.LINEN:
        model, variables, x, outputs = flax_models.linen(name)
        read = neft.read(model, variables, x=x if x.ndim > 2 else None)
        found[f"linen, {name}"] = compared(read, np.asarray(x), np.asarray(outputs))
    for name in flax_models.NNX:
        model, x, outputs = flax_models.of_nnx(name)
        found[f"nnx, {name}"] = compared(neft.read(model), np.asarray(x), np.asarray(outputs))
    fresh = {
        "torch": neft.read(torch_models.nn.Linear(64, 64)),
        "nnx": neft.read(flax_models.nnx.Linear(64, 64, rngs=flax_models.nnx.Rngs(0))),
    }
    bad = {
        words: sentence(make(), x=np.ones((2, 1, 8, 8)) if "Max" in words or "divisor" in words else None)
        for words, make in torch_models.BAD.items()
    }
    bad["needs the variables"] = sentence(flax_models.Plain())
    bad["dictionary with 'params'"] = sentence(flax_models.Plain(), [1.0])
    drawn = {name: one.layers[0].to_dict() for name, one in fresh.items()}
    written = programs([*found["torch, functions"]["functions"], "max(0.1,z)-min(z,2)*erf(z)", "softplus(z)-silu(2)*z"])
    more = {"hooks": neft.read(torch_models.hooked()).notes, "moved": moved_by_training()}
    print(json.dumps({"models": found, "bad": bad, "fresh": drawn, "programs": written, **more}))


if __name__ == "__main__":
    main()
