"""What to train an advised network with: the rate of every group of parameters, by rules that were checked by training.

One rate for all layers, biases included. Rates of equal shares (`equal_shares`) were tried against it and lost: biases
then get as many times the rate of the weights as a layer has inputs, and what they add to the tangent kernel is the
same for all inputs, which limits the step and teaches nothing; the first layer, whose kernel tells inputs apart best,
gets less than its share of what is learned.

Both rules keep what they do when an activation is multiplied by a number and the weights after it are divided by it.
Their constants and powers are measured ones (docs/advice).
"""

import math
from typing import Any, Literal

import numpy as np
from jaxtyping import Float

from .. import _check
from .._result import Result, result

Optimizer = Literal["sgd", "momentum", "adam", "adamw"]
OPTIMIZERS = ("sgd", "momentum", "adam", "adamw")

MOMENTUM, BETAS, EPSILON, DECAY = 0.9, (0.9, 0.999), 1e-8, 0.01


@result
class Settings(Result):
    """What an optimizer is given, layer by layer; the loss is a mean over the batch.

    Attributes:
        optimizer: "sgd", "momentum" (0.9, the velocity being the sum of gradients), "adam" or "adamw".
        rate_W, rate_b: learning rates of weights and biases.
        rate_norm: that of the gains and biases of norms; 0 where there are none.
        decay_W: weight decay of weights, multiplied by the rate as PyTorch and optax do; biases have none.
        epsilon: of Adam, and 0 where there is none.
        momentum: 0 where there is none.
        betas: of Adam.
        warm_up: steps over which the rate should rise from 0.
        why: the rule.
    """

    optimizer: Optimizer
    rate_W: Float[np.ndarray, " layers"]
    rate_b: Float[np.ndarray, " layers"]
    rate_norm: float
    decay_W: Float[np.ndarray, " layers"]
    epsilon: float
    momentum: float
    betas: tuple[float, float] | None
    warm_up: int
    why: str

    @classmethod
    def _from_older(cls, fields: dict[str, Any]) -> dict[str, Any]:
        return {"rate_norm": 0.0} | fields


def settings(optimizer: str, q: float, square: float, signal: float, widths: tuple[int, ...]) -> Settings:
    """The numbers of the rules.

    Args:
        optimizer: its name.
        q: |x|²/n_0.
        square: ⟨σ²⟩ in the first hidden layer.
        signal: the same for inputs with a mean square of 1 where q is less: the size that training brings signals to.
        widths: (n_0, …, n_L).
    """
    name = _check.one_of("optimizer", optimizer, OPTIMIZERS)
    adaptive = name in ("adam", "adamw")
    depth = len(widths) - 1
    rate = _adam(q, square, widths) if adaptive else _descent(signal, depth)
    return _one_rate(name, rate, depth, False, "adam" if adaptive else name)


def _one_rate(name: str, rate: float, depth: int, norms: bool, why: str) -> Settings:
    adaptive = name in ("adam", "adamw")
    if name == "momentum":
        rate *= 1 - MOMENTUM
    ones = np.ones(depth)
    return Settings(
        optimizer=name,  # type: ignore[arg-type]
        rate_W=rate * ones,
        rate_b=rate * ones,
        rate_norm=rate if norms else 0.0,
        decay_W=(DECAY if name == "adamw" else 0.0) * ones,
        epsilon=EPSILON if adaptive else 0.0,
        momentum=MOMENTUM if name == "momentum" else 0.0,
        betas=BETAS if adaptive else None,
        warm_up=0,
        why=_WHY[why],
    )


def block_settings(optimizer: str, fan_in: np.ndarray, count: np.ndarray, share: np.ndarray, norms: bool) -> Settings:
    """The numbers of the rules for networks with a repeated block, from what theory says of kinds of dense blocks.

    Args:
        optimizer: its name.
        fan_in: of the dense blocks of each kind: the first, those of a repeated block, the last.
        count: how many of a kind there are.
        share: of the output's NTK at infinite width, of all weights of a kind together, at λ_W = 1.
        norms: whether there are gains and biases of norms.
    """
    name = _check.one_of("optimizer", optimizer, OPTIMIZERS)
    adaptive = name in ("adam", "adamw")
    if adaptive:
        rate = _BLOCKS_ADAM / float((fan_in * np.sqrt(count * share)).sum())
    else:
        rate = _BLOCKS_DESCENT / float((fan_in * share).sum())
    why = "blocks adam" if adaptive else f"blocks {name}"
    return _one_rate(name, rate, int(count.sum()), norms, why)


_DESCENT, _OFFSET, _ADAM = 2.5, 3, 1.2
_BLOCKS_DESCENT, _BLOCKS_ADAM = 150.0, 0.9
_WHY = {
    "sgd": f"{_DESCENT:g}/(⟨σ²⟩ (L + {_OFFSET})^(3/2)) for all parameters",
    "momentum": f"{_DESCENT:g} (1 - momentum)/(⟨σ²⟩ (L + {_OFFSET})^(3/2)) for all parameters",
    "adam": f"{_ADAM:g}/Σ(fan-in √⟨s²⟩) for all parameters, so that a step changes preactivations by about {_ADAM:g}",
    "blocks sgd": f"{_BLOCKS_DESCENT:g}/Θ for all parameters, Θ the NTK of an output with all weights at a rate of 1",
    "blocks momentum": f"{_BLOCKS_DESCENT:g} (1 - momentum)/Θ for all parameters, Θ the NTK of an output with all "
    "weights at a rate of 1",
    "blocks adam": f"{_BLOCKS_ADAM:g}/Σ(fan-in √Θ_l) for all parameters, Θ_l the part in the NTK of an output of a "
    "layer's weights at a rate of 1/fan-in",
}


def _descent(signal: float, depth: int) -> float:
    """The rate of gradient descent; its power of the depth is that of Jelassi et al. 2023 for many layers."""
    return _DESCENT / (signal * (depth + _OFFSET) ** 1.5)


def _adam(q: float, square: float, widths: tuple[int, ...]) -> float:
    """The rate of Adam: every entry moves by it, so a layer by fan-in √⟨s²⟩ times it where signs agree."""
    sizes = [math.sqrt(q), *[math.sqrt(square)] * (len(widths) - 2)]
    return _ADAM / sum(n * size for n, size in zip(widths, sizes))
