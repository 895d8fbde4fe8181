"""Every public function with bad and extreme arguments: what comes back is a result or one sentence.

Each call takes arguments that work and replaces one of them. What happens is one of

    fine        a result without NaN
    sentence    a ValueError of one sentence that neft itself wrote (or Python's TypeError about a keyword)
    error       any other exception, or a sentence that a library wrote
    nan         a result that holds NaN where none is documented
    slow        more than 20 seconds
    died        the process ended

and the last four are faults: with any of them the exit code is 1.

    .venv/bin/python tools/try_inputs.py                 all arguments, 6 bad values of each (about ten minutes)
    .venv/bin/python tools/try_inputs.py --values 40     all values of all arguments
    .venv/bin/python tools/try_inputs.py --sample 50     that many calls out of all, the same ones for a seed
    .venv/bin/python tools/try_inputs.py --only width.   functions whose name begins so
"""

import argparse
import collections
import dataclasses
import functools
import json
import math
import os
import random
import subprocess
import sys
import tempfile
import threading
import time
import traceback
import warnings
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

FAULTS = ("error", "nan", "slow", "died")
SECONDS = 20.0
_TOO_LONG = 99


class RefusesNumPy:
    """What a torch tensor that requires grad does."""

    shape, ndim, dtype = (3,), 1, "torch.float32"

    def __array__(self, *_: Any, **__: Any) -> Any:
        """Refuse."""
        raise RuntimeError("Can't call numpy() on Tensor that requires grad. Use tensor.detach().numpy() instead.")

    def __len__(self) -> int:
        return 3


def bad_values() -> dict[str, Any]:
    """What is tried in place of each argument, by name."""
    import jax.numpy as jnp
    import numpy as np

    return {
        "None": None,
        "nan": math.nan,
        "inf": math.inf,
        "-inf": -math.inf,
        "1e308": 1e308,
        "1e-320": 1e-320,
        "0": 0,
        "-1": -1,
        "2.5": 2.5,
        "10**30": 10**30,
        "-10**18": -(10**18),
        "True": True,
        "text": "abc",
        "no text": "",
        "bytes": b"abc",
        "object": object(),
        "class": dict,
        "complex": 1 + 2j,
        "no list": [],
        "no tuple": (),
        "no dict": {},
        "dict": {"a": 1},
        "set": {1, 2},
        "list of text": ["a", "b"],
        "list of None": [None, None],
        "ragged": [[1.0, 2.0], [3.0]],
        "list of nothing": [[]],
        "nested": [[[[1.0]]]],
        "no array": np.zeros(0),
        "no rows": np.zeros((0, 3)),
        "nan array": np.full((2, 3), np.nan),
        "inf array": np.full((2, 2), np.inf),
        "huge array": np.full((2, 2), 1e300),
        "negative array": np.full((2, 2), -1.0),
        "wrong shape": np.ones((7, 5)),
        "whole numbers": np.arange(6).reshape(2, 3),
        "text array": np.array(["a", "b"]),
        "objects": np.array([None, object()], dtype=object),
        "complex array": np.ones((2, 3)) * 1j,
        "0-d": np.array(1.0),
        "bools": np.array([[True, False], [False, True]]),
        "dates": np.array(["2020-01-01"], dtype="datetime64[D]"),
        "jax array": jnp.ones((2, 3)),
        "function": lambda z: z,
        "function of nothing": lambda: 1.0,
        "function that fails": lambda *_: 1 // 0,
        "torch": RefusesNumPy(),
        "path": Path("/nowhere/at/all.json"),
        "iterator": iter(()),
    }


@functools.cache
def _things() -> dict[str, Any]:
    # Good arguments that several functions share.
    import jax
    import numpy as np

    import neft

    rng = np.random.default_rng(0)
    net = neft.MLP((3, 4, 2), "tanh", C_b=0.1, C_W=1.2)
    x = rng.normal(size=(3, 3))
    two = {"x": rng.normal(size=(12, 4)), "y": np.arange(12) % 2}
    data = neft.data.load((two["x"], two["y"]))
    stats = neft.width.statistics(net, x[0])
    K = np.eye(4) + 0.1
    made = neft.Made.by("example")
    return {
        "net": net,
        "params": net.init(jax.random.key(0)),
        "key": jax.random.key(0),
        "x": x,
        "y": rng.normal(size=(3, 2)),
        "data": data,
        "uw": {
            "U": rng.normal(size=(2, 3)) * 0.1,
            "W": rng.normal(size=(3, 4)) * 0.1,
            "b": np.zeros(3),
            "c": np.zeros(2),
        },
        "stats": stats,
        "K": K,
        "made": made,
    }


def _sgd() -> Any:
    import optax

    return optax.sgd(0.1)


@functools.cache
def _model() -> Any:
    import equinox as eqx
    import jax

    return eqx.nn.MLP(3, 2, 4, 2, key=jax.random.key(0))


@functools.cache
def _table() -> dict[str, Callable[[], dict[str, Any]]]:
    """For each public function, arguments that work and are cheap."""
    import jax
    import numpy as np

    import neft

    t = _things
    relu = {"activation": "relu"}
    square = lambda p: (p["a"] ** 2).sum() + 1.0  # noqa: E731
    tree = {"a": np.ones(3)}
    trained = {"net": t()["net"], "x_train": t()["x"], "y_train": t()["y"]}
    action = {"params": t()["uw"], "data": t()["data"]}
    flow = {
        "activation": neft.activation("tanh"),
        "q": 1.0,
        "ratios": jax.numpy.ones(2),
        "rates": neft.width.Rates(*(jax.numpy.ones(3) for _ in range(4))),
    }
    neuron = {"w": np.ones(4), "x": t()["x"]}
    block = neft.Residual(neft.Dense(2), "relu", neft.Dense(2))
    layer = {"W": np.ones((2, 4)), "x": t()["x"]}
    return {
        "activation": lambda: {"activation": "tanh", "name": None, "kinks": ()},
        "Activation": lambda: {
            "name": "own",
            "function": jax.numpy.tanh,
            "kinks": (),
            "singularity": math.inf,
            "parity": None,
            "length": 1.0,
            "maclaurin": None,
        },
        "Kink": lambda: {"position": 0.0, "order": 1, "jump": 1.0},
        "MLP": lambda: {
            "widths": (3, 4, 1),
            "activation": "tanh",
            "C_b": 0.0,
            "C_W": 1.0,
            "lambda_b": 1.0,
            "lambda_W": 1.0,
        },
        "BatchNorm": lambda: {
            "lambda_gain": 1.0,
            "lambda_bias": 1.0,
            "epsilon": 1e-5,
            "moments": (np.ones(2), np.ones(2)),
        },
        "MLP.init": lambda: {"self": t()["net"], "key": t()["key"], "dtype": None},
        "MLP.apply": lambda: {"self": t()["net"], "params": t()["params"], "x": t()["x"]},
        "MLP.preactivations": lambda: {"self": t()["net"], "params": t()["params"], "x": t()["x"]},
        "MLP.from_dict": lambda: {"record": t()["net"].to_dict()},
        "load": lambda: {"path": "made.json"},
        "scaling.coordinate_check": lambda: {
            "init": lambda key, width: {"W": jax.random.normal(key, (3, width)), "V": jax.numpy.ones((width, 2))},
            "apply": lambda params, x: jax.numpy.tanh(x @ params["W"]) @ params["V"],
            "optimizer": _sgd(),
            "widths": (4, 8, 16),
            "x": t()["x"],
            "y": t()["y"],
            "loss": lambda outputs, y: ((outputs - y) ** 2).mean(),
            "steps": 1,
            "draws": 2,
            "key": t()["key"],
            "network": lambda width: neft.MLP((3, width, 2), "tanh"),
        },
        "scaling.parameterize": lambda: {
            "advice": neft.width.advise("relu", 3, 8),
            "kind": "mup",
            "optimizer": "adamw",
            "width": 16,
            "depth": None,
            "s": None,
        },
        "scaling.transfer": lambda: {
            "kind": "completep",
            "optimizer": "adamw",
            "width": (64, 512),
            "depth": (4, 8),
            "s": None,
        },
        "scaling.criticality": lambda: {
            "apply": neft.MLP((3, 4, 4, 2), "tanh").apply,
            "params": neft.MLP((3, 4, 4, 2), "tanh").init(t()["key"]),
            "x": t()["x"],
            "probes": 2,
            "key": t()["key"],
        },
        "read": lambda: {"model": _model(), "params": None, "x": None},
        "models.read": lambda: {"model": _model(), "params": None, "x": np.ones(3)},
        "Result.save": lambda: {"self": t()["made"], "path": "again.json"},
        "Result.from_dict": lambda: {"record": t()["made"].to_dict()},
        "Made.by": lambda: {"function": "f", "specification": {"a": 1}, "key": None, "tolerances": {"rtol": 0.1}},
        "Series": lambda: {"scaled": jax.numpy.ones(3), "scale": 1.0},
        "Series.line": lambda: {"start": 1.0, "direction": 1.0, "order": 3, "scale": 1.0},
        "Series.of_powers": lambda: {"coefficients": [1.0, 2.0], "direction": 1.0, "scale": 1.0},
        "action.domination": lambda: action | {"order": 2, "activation": "silu", "draws": 2, "key": t()["key"]},
        "action.elements": lambda: action | {"activation": "silu", "order": 2},
        "action.analyse": lambda: (
            action | {"activation": "silu", "order": 2, "draws": 2, "key": t()["key"], "stops": None}
        ),
        "action.convergence": lambda: action | {"activation": "silu", "order": 8, "points": 5, "bound": None},
        "action.expand": lambda: action | {"order": 2, "activation": "silu", "terms": True, "dtype": None},
        "action.fit": lambda: {
            "data": t()["data"],
            "evaluation": t()["data"],
            "hidden": 2,
            "activation": "silu",
            "epochs": 1,
            "patience": 1,
            "batch": 4,
            "learning_rate": 0.001,
            "optimizer": None,
            "key": t()["key"],
            "checkpoint": None,
        },
        "action.loss_of": lambda: {"data": t()["data"], "activation": "silu", "dtype": None},
        "action.contracted": lambda: action | {"order": 2},
        "action.moments": lambda: {"data": t()["data"], "order": 2},
        "action.ray": lambda: {
            "loss": square,
            "params": tree,
            "order": 2,
            "start": None,
            "unit": None,
            "dtype": np.float64,
        },
        "action.taylor": lambda: {"loss": square, "order": 2},
        "action.pade": lambda: {"coefficients": [1.0, 1.0, 0.5, 0.1], "t": 1.0},
        "action.recover": lambda: {"loss": square, "params": tree, "order": 4, "fraction": 0.5},
        "action.radius": lambda: action | {"activation": "silu", "candidates": 2},
        "action.series_radius": lambda: {"coefficients": [1.0, 1.0, 0.5, 0.1, 0.3, 0.2, 0.1, 0.05]},
        "action.power_law": lambda: {"size": [10, 20, 40, 80], "loss": [1.0, 0.6, 0.45, 0.4]},
        "action.sizes": lambda: {
            "data": {12: (t()["data"], t()["data"])},
            "hidden": [2, 3, 4],
            "activation": "silu",
            "epochs": 1,
            "learning_rate": 0.001,
            "key": t()["key"],
        },
        "action.StoppingMonitor": lambda: {"training": square, "evaluation": square},
        "action.stops_by_size": lambda: {
            "data": t()["data"],
            "evaluation": t()["data"],
            "sizes": [6, 12],
            "hidden": 2,
            "activation": "silu",
            "learning_rate": 0.1,
            "steps": 2,
            "key": t()["key"],
        },
        "action.boundedness": lambda: {
            "data": t()["data"],
            "order": 2,
            "activation": "silu",
            "hidden": 2,
            "tries": 1,
            "key": t()["key"],
        },
        "action.quadratic_form": lambda: {"classes": 3},
        "action.truncated_flow": lambda: action | {"order": 2, "activation": "silu", "time": 1.0, "limit": 100.0},
        "claims.check": lambda: {"ids": ["sun-nielsen-density-of-a-linear-layer"], "level": "quick"},
        "claims.claim": lambda: {"id": "lecture-x", "source": "lecture", "equation": "1", "statement": "A."},
        "claims.full_outcomes": lambda: {"folder": "nothing"},
        "claims.save_full": lambda: {"outcome": neft.claims.full_outcomes()[0], "folder": "outcomes"},
        "claims.contradictions": lambda: {"ledger": _ledger(), "folder": "nothing"},
        "claims.Measurement": lambda: {
            "verdict": "holds",
            "summary": "A.",
            "values": {"z": 1.0},
            "correction": None,
            "data": None,
        },
        "data.load": lambda: {
            "source": (np.ones((4, 3)), [0, 1, 0, 1]),
            "split": "train",
            "preprocess": None,
            "full": None,
            "dtype": np.float32,
        },
        "data.load_splits": lambda: {
            "source": (np.ones((4, 3)), [0, 1, 0, 1]),
            "preprocess": None,
            "full": None,
            "dtype": np.float32,
        },
        "data.Dataset": lambda: {
            "x": np.ones((2, 3)),
            "y": np.array([0, 1]),
            "name": "own",
            "split": "train",
            "shape": None,
            "preprocessing": "raw",
        },
        "describe.activation": lambda: {"activation": "tanh", "order": 4, "points": 11},
        "describe.averages": lambda: {"activations": ("relu",), "points": 3, "nodes": 5},
        "describe.data": lambda: {"dataset": t()["data"], "examples": True},
        "describe.network": lambda: {"net": t()["net"], "draws": 2, "key": t()["key"]},
        "ensemble.estimate": lambda: {
            "net": t()["net"],
            "x": t()["x"][0],
            "draws": 4,
            "key": t()["key"],
            "only": None,
            "dtype": None,
        },
        "ensemble.estimate_model": lambda: {
            "init": t()["net"].init,
            "apply": t()["net"].apply,
            "x": t()["x"],
            "draws": 5,
            "key": t()["key"],
            "rates": None,
            "ntk": True,
        },
        "fisher.capture": lambda: {
            "model": t()["net"],
            "x": t()["x"],
            "params": t()["params"],
            "loss": None,
            "penalty": None,
        },
        "fisher.geometry": lambda: {"metric": neft.fisher.softmax_layer(**layer)},
        "fisher.joint": lambda: {"layers": [np.ones((2, 4))], "x": t()["x"], "activation": "tanh", "softmax": False},
        "fisher.linear_layer": lambda: layer | {"variance": 1.0, "weights": None},
        "fisher.softmax_layer": lambda: layer | {"weights": None},
        "fisher.neuron": lambda: (
            neuron
            | {
                "activation": "tanh",
                "output": None,
                "variance": 1.0,
                "omega": 1.0,
                "iota": 0.0,
                "alpha": 1.0,
                "weights": None,
            }
        ),
        "fisher.nonlinear_layer": lambda: layer | {"activation": "tanh", "output": None, "variance": 1.0, "omega": 1.0},
        "fisher.two_layers": lambda: {
            "hidden": "tanh",
            "output": "tanh",
            "C": np.ones((1, 3)),
            **layer,
            "weights": None,
        },
        "fisher.response": lambda: {
            "activation": "tanh",
            "output": None,
            "variance": 1.0,
            "omega": 1.0,
            "iota": 0.0,
            "alpha": 1.0,
        },
        "fisher.Settings": lambda: {
            "metric": "shared",
            "inputs": "white",
            "metric_step": 0.1,
            "update_every": 10,
            "refresh_every": 100,
            "damping": 0.0,
            "relative_damping": 0.001,
            "inverse": "products",
        },
        "fisher.refresh": lambda: {"state": ()},
        "fisher.rngd": lambda: {
            "learning_rate": 0.1,
            "preset": "default",
            "metric": None,
            "inputs": None,
            "metric_step": None,
            "update_every": None,
            "refresh_every": None,
            "damping": None,
            "relative_damping": None,
            "inverse": None,
            "neuron": None,
            "omega": None,
        },
        "fisher.scale_by_rngd": lambda: {"settings": None},
        "fisher.average_weights": lambda: {"decay": 0.9},
        "fisher.averaged": lambda: {"state": _schedule_free(), "params": np.ones(3, np.float32)},
        "fisher.clip_by_preactivations": lambda: {"largest": 0.1, "examples": 8, "floor": 0.1},
        "fisher.scale_by_preactivations": lambda: {"examples": 8, "every": 2, "floor": 0.1},
        "fisher.scale_by_soap": lambda: {"eps": 1e-8, "refresh_every": 10, "largest": 64},
        "fisher.soap": lambda: {"learning_rate": 0.1, "eps": 1e-8, "weight_decay": 0.0, "refresh_every": 10},
        "fisher.survey": lambda: {
            "data": t()["data"],
            "subsystem": "neuron",
            "activation": "tanh",
            "neurons": 2,
            "count": 4,
            "C_W": 1.0,
            "C_b": 0.0,
            "seed": 0,
        },
        "fisher.train": lambda: {
            "data": t()["data"],
            "test": t()["data"],
            "net": None,
            "hidden": (2,),
            "activation": "relu",
            "batch_norm": False,
            "optimizer": "sgd",
            "learning_rate": 0.1,
            "schedule": "constant",
            "inputs": None,
            "epochs": 1,
            "points": 1,
            "batch": 4,
            "l2": 0.001,
            "seed": 0,
            "until": None,
            "checkpoint": None,
        },
        "fisher.whiten": lambda: {"x": t()["x"], "damping": 0.1, "relative_damping": 0.003, "rank": None},
        "gaussian.expect": lambda: {"f": np.tanh, "K": [1.0], "kinks": (), "length": 1.0, "rtol": 1e-8},
        "gaussian.moment": lambda: relu | {"powers": neft.gaussian.Powers(s=2), "K": [1.0], "rtol": 1e-8},
        "gaussian.pair": lambda: relu | {"K1": 1.0, "K2": 2.0, "rho": 0.5, "order": 0, "rtol": 1e-8},
        "gaussian.products": lambda: relu | {"patterns": [(0, 0)], "K": np.eye(2), "rtol": 1e-6},
        "plot.draw": lambda: {"result": t()["stats"]},
        "plot.line": lambda: {"found": _convergence()},
        "plot.losses": lambda: {"training": np.ones(3), "evaluation": np.ones(3), "best": 1},
        "plot.pair_averages": lambda: {"card": neft.describe.averages(("relu",), points=3, nodes=5)},
        "plot.pictures": lambda: {"found": None},
        "plot.placed": lambda: {"diagram": _phase(), "C_b": 0.1, "C_W": 1.0},
        "plot.classifiers": lambda: {"kept": _classified()},
        "plot.rivals": lambda: {"found": {}, "clock": "epochs"},
        "plot.save": lambda: {"figure": _figure(), "path": "a.svg"},
        "plot.svg": lambda: {"figure": _figure(), "salt": "a", "ink": "#333333"},
        "plot.ntk_distribution": lambda: {
            "values": np.ones((4, 1)) + np.eye(4, 1),
            "mean": 1.0,
            "spread": 0.1,
            "infinite": 1.0,
        },
        "plot.output_distribution": lambda: {
            "density": neft.width.density(t()["stats"]),
            "outputs": np.ones((4, 1)) + np.eye(4, 1),
        },
        "plot.tensor": lambda: {"stats": t()["stats"], "found": _estimates(), "name": "V", "size": (2.0, 2.0)},
        "plot.through_blocks": lambda: {
            "theory": np.ones((1, 3)),
            "mean": np.ones((1, 2)),
            "stderr": np.ones((1, 2)),
            "at": np.array([1, 3]),
            "label": "K",
            "names": ("",),
            "size": (2.0, 2.0),
        },
        "report.examples": lambda: {"source": "fashion-mnist", "preprocess": None, "full": False, "inputs": 49},
        "report.default": lambda: {"inputs": 49, "outputs": 10},
        "report.write_claims": lambda: {"path": "claims.html", "ledger": _ledger()},
        "report.tables": lambda: {"result": t()["stats"]},
        "report.write": lambda: {
            "path": "page.html",
            "net": None,
            "train": None,
            "test": None,
            "quick": True,
            "seed": 0,
            "command": "neft",
            "sections": [("Nothing", lambda context: "<p>nothing</p>")],
            "quiet": True,
            "workers": 1,
            "loss": "square",
            "batch": None,
            "momentum": 0.0,
        },
        "sweep.Specification": lambda: {"kind": "check", "fixed": {"draws": 4}, "grid": {"depth": [2]}, "cases": ()},
        "sweep.Specification.read": lambda: {"path": "quick"},
        "sweep.kind": lambda: {"name": "own", "headline": "loss", "check": None},
        "sweep.run": lambda: {
            "specification": "nothing.json",
            "folder": "folder",
            "workers": 1,
            "scheduler": None,
            "tls": None,
            "timeout": 1.0,
            "retry": False,
            "callback": None,
        },
        "sweep.status": lambda: {"folder": "folder"},
        "sweep.summary": lambda: {"folder": "folder"},
        "tangent.ntk": lambda: {
            "f": t()["net"],
            "params": t()["params"],
            "x1": t()["x"],
            "x2": None,
            "rates": None,
            "trace": False,
        },
        "tangent.mlp_ntk": lambda: {
            "net": t()["net"],
            "params": t()["params"],
            "x1": t()["x"],
            "x2": None,
            "trace": False,
        },
        "tangent.dntk": lambda: {"f": t()["net"], "params": t()["params"], "x": t()["x"], "rates": None},
        "tangent.ddntk": lambda: {"f": t()["net"], "params": t()["params"], "x": t()["x"][:1], "rates": None},
        "tangent.products": lambda: {
            "f": t()["net"],
            "params": t()["params"],
            "x": t()["x"],
            "vectors": [np.ones((3, 2))],
            "at": None,
            "rates": None,
        },
        "training.ensemble": lambda: (
            trained
            | {
                "x_test": None,
                "draws": 2,
                "key": t()["key"],
                "time": None,
                "steps": 2,
                "learning_rate": 0.01,
                "momentum": 0.0,
                "nesterov": False,
                "batch": None,
                "shuffled": False,
                "loss": "square",
                "dtype": None,
                "folder": None,
            }
        ),
        "training.evolve": lambda: {
            "f": t()["net"],
            "params": t()["params"],
            "x_train": t()["x"],
            "y_train": t()["y"],
            "x_test": None,
            "truncation": 1,
            "time": 1.0,
            "rates": None,
            "steps": None,
            "learning_rate": None,
            "momentum": 0.0,
            "nesterov": False,
            "batches": None,
            "loss": "square",
        },
        "training.assess": lambda: {"outputs": np.ones((2, 3, 2)), "y_test": [0, 1, 0], "bins": 5},
        "training.forecast": lambda: (
            trained
            | {
                "x_test": t()["x"],
                "y_test": None,
                "widths": None,
                "time": 1.0,
                "steps": None,
                "learning_rate": None,
                "momentum": 0.0,
                "nesterov": False,
                "batch": None,
                "loss": "square",
                "samples": 2,
                "order": 0,
                "draws": 0,
                "key": None,
                "dtype": np.float32,
            }
        ),
        "training.nngp": lambda: trained | {"x_test": None, "noise": 0.1, "cutoff": 1e-10},
        "training.nngp_from_kernel": lambda: {"K": t()["K"], "y_train": [1.0, 2.0], "noise": 0.1, "cutoff": 1e-10},
        "training.orders": lambda: (
            trained
            | {
                "widths": [4, 8],
                "draws": 2,
                "key": t()["key"],
                "time": None,
                "steps": 1,
                "learning_rate": 0.01,
                "momentum": 0.0,
                "nesterov": False,
                "batch": None,
                "loss": "square",
            }
        ),
        "training.predict": lambda: (
            trained
            | {
                "x_test": None,
                "time": 1.0,
                "steps": None,
                "learning_rate": None,
                "momentum": 0.0,
                "nesterov": False,
                "batch": None,
                "order": 0,
                "cutoff": 1e-10,
                "ridge": None,
                "covariance": True,
                "rtol": None,
            }
        ),
        "training.predict_from_kernels": lambda: {
            "K": t()["K"],
            "Theta": t()["K"],
            "y_train": [1.0, 2.0],
            "time": 1.0,
            "steps": None,
            "learning_rate": None,
            "momentum": 0.0,
            "nesterov": False,
            "batch": None,
            "cutoff": 1e-10,
        },
        "training.predict_from_tensors": lambda: {
            "tensors": {"K": np.eye(2)},
            "y_train": [1.0],
            "width": 8,
            "time": None,
            "steps": None,
            "learning_rate": None,
        },
        "training.regress": lambda: {
            "net": t()["net"],
            "x": trained["x_train"],
            "y": trained["y_train"],
            "ridge": 0.1,
            "kernel": "ntk",
            "memory": "8GB",
            "folder": None,
            "residual": 1e-6,
            "probes": None,
            "scheduler": None,
            "tls": None,
            "timeout": 10.0,
        },
        "training.max_learning_rate": lambda: {
            "net": t()["net"],
            "x_train": t()["x"],
            "momentum": 0.0,
            "nesterov": False,
        },
        "training.representation": lambda: (
            trained | {"widths": [4, 8], "depths": [2, 3], "draws": 2, "key": t()["key"]}
        ),
        "training.sample": lambda: (
            trained
            | {
                "y_train": [0, 1, 0],
                "x_test": None,
                "time": 0.1,
                "steps": None,
                "learning_rate": None,
                "momentum": 0.0,
                "nesterov": False,
                "batch": None,
                "shuffled": False,
                "loss": "cross_entropy",
                "order": 0,
                "draws": 2,
                "key": t()["key"],
                "start": None,
                "rtol": None,
            }
        ),
        "training.sample_from_kernels": lambda: {
            "K": t()["K"],
            "Theta": t()["K"],
            "y_train": [0, 1],
            "time": 0.1,
            "outputs": 2,
            "steps": None,
            "learning_rate": None,
            "momentum": 0.0,
            "nesterov": False,
            "batch": None,
            "shuffled": False,
            "loss": "cross_entropy",
            "draws": 2,
            "key": t()["key"],
            "start": None,
        },
        "width.advise": lambda: {
            **relu,
            "depth": 3,
            "width": 8,
            "inputs": None,
            "outputs": 1,
            "q": 1.0,
            "C_b": None,
            "C_W": None,
            "point": 0,
            "dense": None,
        },
        "width.asymptotics": lambda: {"activation": "tanh", "dense": None},
        "width.depth_flow": lambda: {
            "block": block,
            "depth": 4,
            "scaled": False,
            "q": 1.0,
        },
        "plot.depth": lambda: {"flows": {"one": neft.width.depth_flow(block, 4)}, "drawn": None},
        "width.check": lambda: {
            "net": t()["net"],
            "x": t()["x"][0],
            "draws": 4,
            "key": t()["key"],
            "factors": None,
            "own_width": False,
            "dtype": None,
        },
        "width.critical": lambda: {"activation": _block(), "dense": 0},
        "width.density": lambda: {"stats": t()["stats"], "z": None, "layer": None, "limit": 0.5},
        "width.equal_shares": lambda: {"net": t()["net"], "x": t()["x"][0]},
        "width.flow": lambda: flow,
        "width.initializer_code": lambda: {"net": t()["net"], "framework": "flax"},
        "width.interpret": lambda: {"stats": t()["stats"], "limit": 1.0, "activation": None},
        "width.kernel": lambda: {"net": t()["net"], "x1": t()["x"], "x2": None, "dtype": None, "out": None},
        "width.pair_kernel": lambda: {"net": t()["net"], "x1": t()["x"], "x2": t()["x"], "terms": 8},
        "width.repeated_kernel": lambda: {"net": t()["net"], "x": t()["x"]},
        "width.phase": lambda: {
            "activation": "relu",
            "C_b": [0.1],
            "C_W": [1.0],
            "dense": None,
            "tolerance": 0.001,
            "coarse": False,
        },
        "width.output_tensors": lambda: {
            "net": t()["net"],
            "x": t()["x"],
            "names": ["V"],
            "rtol": 1e-6,
            "first": 1,
            "others": 2,
        },
        "width.statistics": lambda: {"net": t()["net"], "x": t()["x"][0], "only": None, "rtol": 1e-6},
        "width.susceptibilities": lambda: {"activation": _block(), "K": 1.0, "C_W": 1.0, "C_b": 0.0, "dense": None},
    }


@functools.cache
def _block() -> Any:
    import neft

    return neft.Residual("relu", neft.Dense(4), skip=0.5)


@functools.cache
def _phase() -> Any:
    import neft

    return neft.width.phase("relu", [0.0, 0.1], [1.0, 2.0])


@functools.cache
def _convergence() -> Any:
    import numpy as np

    import neft

    theta = {"U": np.eye(2), "c": np.zeros(2), "W": np.eye(2), "b": np.zeros(2)}
    return neft.action.convergence(theta, (np.eye(2), [0, 1]), order=12, points=3)


@functools.cache
def _estimates() -> Any:
    import neft

    return neft.ensemble.estimate(_things()["net"], _things()["x"][0], draws=4, key=_things()["key"])


@functools.cache
def _ledger() -> Any:
    import neft

    return neft.claims.check(["sun-nielsen-density-of-a-linear-layer"])


def _figure() -> Any:
    from matplotlib.figure import Figure

    return Figure()


TEXTS = {
    "text": "abc",
    "no text": "",
    "comma": ",",
    "holes": "1,,2",
    "minus one": "-1",
    "zero": "0",
    "fraction": "2.5",
    "not a number": "nan",
    "infinite": "inf",
    "beyond floats": "1e309",
    "beyond all": "9" * 40,
    "tiny": "1e-320",
    "two": "3,4",
    "letters": "σ→é",
    "control": "a\tb",
    "nowhere": "/nowhere/at/all.json",
    "a folder": ".",
    "another suffix": "file.exe",
    "brackets": "relu(",
    "option": "--json",
}
"""What is tried in place of each option of a command."""

COMMANDS = {
    "activation": ("relu", ["", "--order", "--out", "--plot"]),
    "network": (
        "--widths 3,4,1",
        [
            "--widths",
            "--activation",
            "--C-b",
            "--C-W",
            "--lambda-b",
            "--lambda-W",
            "--seed",
            "--draws",
            "--out",
            "--plot",
        ],
    ),
    "stats": ("--widths 3,4,1", ["--widths", "--activation", "--C-b", "--C-W", "--input", "--lambda-W", "--out"]),
    "check": ("--widths 3,4,1 --draws 4", ["--widths", "--draws", "--factors", "--input", "--seed", "--out"]),
    "critical": ("relu --residual --skip 0.5", ["", "--skip", "--norm", "--network", "--dense", "--out"]),
    "phase": ("relu --points 2", ["", "--C-b", "--C-W", "--points"]),
    "advise": (
        "relu --depth 3 --width 8",
        [
            "",
            *[
                "--depth",
                "--width",
                "--inputs",
                "--outputs",
                "--q",
                "--C-b",
                "--C-W",
                "--point",
                "--code",
                "--optimizer",
                "--parameterization",
                "--to-width",
                "--to-depth",
                "--s",
            ],
        ],
    ),
    "predict": (
        "--widths 784,4,1 --train 4 --test 2",
        ["--train", "--test", "--preprocess", "--time", "--steps", "--learning-rate", "--order", "--draws"],
    ),
    "regress": (
        "--widths 784,4,10 --train 4 --test 2 --subset --ridge 0.1",
        ["--train", "--test", "--preprocess", "--ridge", "--kernel", "--memory", "--tolerance", "--timeout"],
    ),
    "action": (
        "--hidden 0",
        ["--preprocess", "--activation", "--order", "--params", "--split", "--stops", "--stop-steps", "--seed"],
    ),
    "fisher": (
        "--count 4 --neurons 1",
        ["--subsystem", "--activation", "--neurons", "--count", "--C-W", "--split", "--seed"],
    ),
    "train": (
        "--epochs 0",
        [
            "--optimizer",
            "--learning-rate",
            "--schedule",
            "--network",
            "--hidden",
            "--inputs",
            "--points",
            "--batch",
            "--l2",
        ],
    ),
    "sweep": ("--out out", ["", "--workers", "--scheduler", "--format", "--timeout"]),
    "data": ("fashion-mnist --subset", ["", "--split", "--preprocess"]),
    "claims": ("nothing", ["", "--level"]),
    "report": ("--data nothing", ["--data", "--out", "--preprocess"]),
    "explore": ("--static nowhere/page.html", ["--static", "--port"]),
    "show": ("nothing.json", ["", "--out", "--plot"]),
}
"""For each command, a line that is cheap or refused, and the options to try; an empty one is its first word."""

PURE = {
    "Series.line",
    "Series.of_powers",
    "MLP.apply",
    "MLP.preactivations",
    "width.flow",
    "width.pair_kernel",
    "tangent.mlp_ntk",
    "action.taylor",
    "action.loss_of",
    "Series",
}
"""Functions for compiled code, whose arguments may be traced: numbers in, numbers out, NaN for NaN."""

NAN_IS_DOCUMENTED = {"activation", "Activation", "describe.activation", "width.phase", "action.stops_by_size"}
NAN_IS_DOCUMENTED |= {"Kink", "fisher.Settings", "fisher.refresh", "sweep.Specification"}
"""Functions whose results say in words what NaN in them means, or that only hold what is checked where it is used."""


LONG = {("claims.check", "ids"), ("report.write", "sections")}
"""Arguments without which all claims are measured and all sections are written, which takes its time."""

_SERVING = ("along", "in_words", "only_activation", "passed", "perceptron", "plain", "repeated", "stream_width")
SERVING = {f"network.{name}" for name in _SERVING}
"""Functions for blocks and for those who average over them: they are given stages and networks, not input."""

WITHOUT_ARGUMENTS = {"activation_names", "data.available", "describe.available", "claims.ledger"}


@dataclasses.dataclass(frozen=True)
class Case:
    """A call: of which function, with which argument replaced by which bad value."""

    function: str
    argument: str
    value: str


def _schedule_free() -> Any:
    import jax.numpy as jnp
    import optax.contrib

    return optax.contrib.schedule_free_sgd(0.1).init(jnp.ones(3))


def _classified() -> Any:
    row = [[0.8, 0.1, 0.5], [0.01, 0.01, 0.01]]
    found = {"infinite": row, "theory": {"times n": row}, "simulation": {"changes": {"64": row}}}
    return {"observed": ["accuracy", "overconfidence", "nll"]} | found


def untried() -> list[str]:
    """Public functions that the table does not have, which should be none."""
    import neft

    found = [name for name in neft._WHERE if not isinstance(getattr(neft, name), type)]
    for folder in neft._FOLDERS:
        names = {name: thing for name, thing in vars(getattr(neft, folder)).items() if not name.startswith("_")}
        found += [f"{folder}.{n}" for n, thing in names.items() if callable(thing) and not isinstance(thing, type)]
    return sorted(set(found) - SERVING - WITHOUT_ARGUMENTS - _table().keys())


def cases(count: int | None, seed: int, only: str) -> list[Case]:
    """`count` bad values for each argument of each function, the same ones for a seed; all of them without a count."""
    names, chosen = list(bad_values()), []
    for function, arguments in _table().items():
        if not function.startswith(only):
            continue
        for argument in arguments():
            if argument == "self" or (function, argument) in LONG:
                continue
            # Its own numbers for each argument, so that a table that grows leaves the others alone.
            own = random.Random(zlib.crc32(f"{function} {argument} {seed}".encode()))
            chosen += [Case(function, argument, v) for v in (own.sample(names, min(count or 999, len(names))))]
        chosen.append(Case(function, "no_such_argument", "None"))
    for command, (_, options) in COMMANDS.items():
        if f"neft {command}".startswith(only):
            texts = [text for text in TEXTS if (command, text) != ("claims", "option")]  # which measures all of them
            chosen += [Case(f"neft {command}", option, text) for option in options for text in texts]
            chosen.append(Case(f"neft {command}", "--no-such-option", "text"))
    return chosen


def command(case: Case) -> tuple[str, str]:
    """What a command line does: its exit code says whether it ran, and stderr holds one line where it did not."""
    from typer.testing import CliRunner

    from neft.cli import app

    name = case.function.removeprefix("neft ")
    words = COMMANDS[name][0].split()
    if case.argument:
        words += [case.argument, TEXTS[case.value]]
    else:
        words[0] = TEXTS[case.value]
    start = time.perf_counter()
    found = CliRunner().invoke(app, [name, *words, "--quiet"] if name not in ("claims",) else [name, *words])
    seconds = time.perf_counter() - start
    if seconds > SECONDS:
        return "slow", f"{seconds:.0f} s"
    if found.exit_code in (0, 1) and isinstance(found.exception, SystemExit | None):
        return "fine", ""
    lines = found.stderr.splitlines()
    if found.exit_code == 2 and lines and lines[-1].startswith("neft: ") and "cannot be worked with" not in lines[-1]:
        return "sentence", lines[-1]
    return "error", f"{found.exception!r} {found.stderr}"


def call(case: Case) -> tuple[str, str]:
    """What happens, and the message or where it is NaN."""
    import neft

    if case.function.startswith("neft "):
        return command(case)

    arguments = dict(_table()[case.function]())
    if case.argument not in arguments and case.argument != "no_such_argument":
        raise KeyError(case.argument)
    arguments[case.argument] = bad_values()[case.value]
    owner = arguments.pop("self", None)
    target: Any = neft
    for name in case.function.split("."):
        target = getattr(target, name)
    if owner is not None:
        target = functools.partial(target, owner)
    positional = [arguments.pop(name) for name in _positional(case.function, arguments)]
    start = time.perf_counter()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found = target(*positional, **arguments)
    except Exception as error:
        outcome = _judged(error), f"{type(error).__name__}: {error}"
    else:
        where = None if case.function in NAN_IS_DOCUMENTED | PURE else _nan(found)
        outcome = ("fine", "") if where is None else ("nan", where)
    seconds = time.perf_counter() - start
    return ("slow", f"{seconds:.0f} s, {outcome[0]}") if seconds > SECONDS else outcome


def _positional(function: str, arguments: dict[str, Any]) -> list[str]:
    # What is chosen by the type of its argument takes it by position.
    return [name for name in arguments if function in ("plot.draw", "report.tables") and name == "result"]


def _source() -> str:
    import neft

    return str(Path(neft.__file__).resolve().parent)


def _judged(error: Exception) -> str:
    message = str(error)
    if isinstance(error, TypeError) and "unexpected keyword argument" in message:
        return "sentence"
    frames = traceback.extract_tb(error.__traceback__)
    if any(frame.filename == __file__ and frame.name != "call" for frame in frames):
        return "fine"  # a user's own function failed, which is its own affair
    ours = frames[-1].filename.startswith(_source())
    one = "\n" not in message and message.endswith(".") and len(message) < 500
    return "sentence" if isinstance(error, ValueError) and ours and one else "error"


def _nan(value: Any, name: str = "") -> str | None:
    # Where a result holds NaN.
    import numpy as np

    if isinstance(value, float):
        return name or "itself" if math.isnan(value) else None
    if hasattr(value, "dtype") and hasattr(value, "shape"):
        try:
            array = np.asarray(value)
        except Exception:
            return None
        return name or "itself" if array.dtype.kind in "fc" and bool(np.isnan(array).any()) else None
    if dataclasses.is_dataclass(value):
        parts: Any = [(f.name, getattr(value, f.name, None)) for f in dataclasses.fields(value) if f.name != "made"]
    elif isinstance(value, dict):
        parts = value.items()
    elif isinstance(value, (list, tuple)):
        parts = enumerate(value)
    else:
        return None
    return next((found for key, part in parts if (found := _nan(part, f"{name}.{key}")) is not None), None)


def work(chosen: list[Case]) -> None:
    """Make the calls and print a line of JSON for each."""
    print(json.dumps("ready"), flush=True)
    for case in chosen:
        # Compiled code hears of no signal, so the process ends itself.
        patience = threading.Timer(2 * SECONDS, os._exit, (_TOO_LONG,))
        patience.start()
        print(json.dumps(call(case)), flush=True)
        patience.cancel()


def outcomes(chosen: list[Case]) -> Iterator[tuple[Case, str, str]]:
    """What each call did, in processes of their own: one that ends takes nothing with it."""
    left = list(chosen)
    cache = str(Path(tempfile.gettempdir()) / "neft-try-inputs")
    environment = {"JAX_COMPILATION_CACHE_DIR": cache, "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0", **os.environ}
    # The same neft, in another folder.
    environment["PYTHONPATH"] = str(Path(_source()).parent)
    while left:
        with tempfile.TemporaryDirectory() as folder:
            handed = Path(folder) / "cases"
            handed.write_text(json.dumps([dataclasses.astuple(case) for case in left]))
            command = [sys.executable, __file__, "--work", str(handed)]
            with subprocess.Popen(
                command, cwd=folder, env=environment, stdout=subprocess.PIPE, text=True, errors="replace"
            ) as process:
                assert process.stdout is not None
                ready = False
                for line in process.stdout:
                    try:
                        found = json.loads(line)
                    except ValueError:
                        continue  # something that was printed
                    if found == "ready":
                        ready = True
                        continue
                    if not isinstance(found, list):
                        continue
                    case = left.pop(0)
                    yield case, *found
            if not ready:
                raise RuntimeError("the table of functions does not load.")
            if left:
                slow = process.returncode == _TOO_LONG
                yield left.pop(0), "slow" if slow else "died", f"exit code {process.returncode}"


def main() -> int:
    """Count what happens, print the faults, and say by the exit code whether there were any."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--values", type=int, default=6, help="bad values for each argument")
    parser.add_argument("--sample", type=int, help="this many calls out of all")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", default="", help="functions whose name begins so")
    parser.add_argument("--without", default="-", help="and without functions whose name begins so")
    parser.add_argument("--here", action="store_true", help="in this process, which ends with a call that ends it")
    parser.add_argument("--all", action="store_true", help="print every outcome")
    parser.add_argument("--work", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.work:
        work([Case(*case) for case in json.loads(Path(options.work).read_text())])
        return 0
    if missing := untried():
        print(f"not in the table: {', '.join(missing)}")
        return 1
    chosen = cases(options.values, options.seed, options.only)
    chosen = [case for case in chosen if not case.function.startswith(options.without)]
    if options.sample:
        chosen = random.Random(options.seed).sample(chosen, options.sample)
    counts: collections.Counter[str] = collections.Counter()
    calls = ((case, *call(case)) for case in chosen) if options.here else outcomes(chosen)
    for case, kind, message in calls:
        counts[kind] += 1
        if kind in FAULTS or options.all:
            print(f"{kind:8} {case.function}({case.argument} = {case.value}): {message.strip()[:300]!r}", flush=True)
    print(f"{sum(counts.values())} calls: " + ", ".join(f"{n} {kind}" for kind, n in counts.most_common()))
    return int(any(counts[kind] for kind in FAULTS))


if __name__ == "__main__":
    sys.exit(main())
