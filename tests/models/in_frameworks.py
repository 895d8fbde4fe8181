"""Reads the models of `torch_models.py` and `flax_models.py` and says how well, as JSON: `PYTHON in_frameworks.py`.

It runs in an environment that has PyTorch and Flax; `test_frameworks.py` is at the other end.
"""

import json

import flax_models
import numpy as np
import torch_models

import neft
from neft.report import tables


def compared(found, x, outputs):
    """The largest difference of outputs, their size, and what was read."""
    again = np.asarray(found.apply(x)).reshape(outputs.shape)
    return {
        "error": float(np.abs(again - outputs).max()),
        "size": float(np.abs(outputs).max()),
        "blocks": [type(block).__name__ for block in found.network.blocks],
        "layers": [layer.name for layer in found.layers],
        "drawn": [layer.drawn for layer in found.layers],
        "variances": [(layer.C_W, layer.error_W, layer.C_b, layer.error_b) for layer in found.layers],
        "notes": found.notes,
        "table": tables(found)[0].text(),
    }


def sentence(*args, **kwargs):
    """What is said of a model that cannot be read."""
    try:
        neft.read(*args, **kwargs)
    except ValueError as error:
        return str(error)
    return "it was read"


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
        words: sentence(make(), x=np.ones((2, 1, 8, 8)) if "Max" in words else None)
        for words, make in torch_models.BAD.items()
    }
    bad["needs the variables"] = sentence(flax_models.Plain())
    bad["dictionary with 'params'"] = sentence(flax_models.Plain(), [1.0])
    drawn = {name: one.layers[0].to_dict() for name, one in fresh.items()}
    print(json.dumps({"models": found, "bad": bad, "fresh": drawn}))


if __name__ == "__main__":
    main()
