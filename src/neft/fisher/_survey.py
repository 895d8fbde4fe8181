"""The metric of a neuron or a layer with random weights on a data set."""

from collections.abc import Callable

import jax
import numpy as np

from .. import _check
from .._precision import float64
from .._public import public
from ..data import Dataset
from ..network import MLP
from ._geometry import Geometry, geometry
from ._metric import Metric
from ._metrics import linear_layer, neuron, nonlinear_layer, softmax_layer, two_layers

SUBSYSTEMS = ("neuron", "linear", "layer", "softmax", "two")


@public
@float64
def survey(
    data: Dataset,
    subsystem: str = "neuron",
    *,
    activation: str = "tanh",
    neurons: int = 10,
    count: int | None = None,
    C_W: float = 1.0,
    C_b: float = 0.0,
    seed: int = 0,
) -> Geometry:
    """The geometry of a subsystem of Sun, Nielsen 2017 on a data set, with Gaussian weights of variance C_W/fan-in.

    Args:
        data: where the inputs come from.
        subsystem: "neuron", "linear", "layer" (non-linear), "softmax", or "two" (a hidden layer under a softmax).
        activation: of the neuron or the hidden layer.
        neurons: how many the layer has (of a softmax: the classes).
        count: how many inputs to average over, taken at random (default: 200, or all if there are fewer).
        C_W: variance of a weight times the fan-in.
        C_b: variance of a bias.
        seed: of the weights and the choice of inputs.

    >>> import neft
    >>> survey(neft.data.load("fashion-mnist", preprocess="pool(16)+unit", full=False), count=12).rank
    12
    """
    _check.one_of("subsystem", subsystem, SUBSYSTEMS)
    count = min(200, data.count) if count is None else count
    count = _check.integer("count", count, at_least=1, at_most=data.count)
    seed = _check.integer("seed", seed, at_least=0)
    width = 1 if subsystem == "neuron" else _check.integer("neurons", neurons, at_least=1)
    chosen = np.random.default_rng(seed).choice(data.count, count, replace=False)
    x = data.x[chosen].astype(np.float64)
    net = MLP(widths=(data.features, width, data.classes), activation="linear", C_W=C_W, C_b=C_b)
    W, C = (np.hstack([layer.W, layer.b[:, None]]) for layer in net.init(jax.random.key(seed)))
    make: dict[str, Callable[[], Metric]] = {
        "neuron": lambda: neuron(activation, W[0], x),
        "linear": lambda: linear_layer(W, x),
        "layer": lambda: nonlinear_layer(activation, W, x),
        "softmax": lambda: softmax_layer(W, x),
        "two": lambda: two_layers(activation, W, "softmax", C, x),
    }
    found = geometry(make[subsystem]())
    # Inputs by their places in the data, not in the choice.
    return Geometry(**{**vars(found), "order": chosen[found.order]})
