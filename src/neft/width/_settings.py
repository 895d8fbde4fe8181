"""What to train an advised network with: the rate of every group of parameters, by rules that were checked by training.

One rate for all layers, biases included. Rates at which all layers have equal shares of the tangent kernel were tried
against it and lost: biases then get as many times the rate of the weights as a layer has inputs, and what they add to
the tangent kernel is the same for all inputs, which limits the step and teaches nothing; the first layer, whose kernel
tells inputs apart best, gets less than its share of what is learned.

A group of parameters, the weights of a layer, its biases or all norms, has a rate, a weight decay and an ε of Adam. At
one size one ε serves all groups; `neft.scaling` says how they come apart when the size changes.

Both rules keep what they do when an activation is multiplied by a number and the weights after it are divided by it.
Their constants and powers are measured ones (docs/advice).
"""

import dataclasses
import math
from collections.abc import Sequence
from typing import Any, ClassVar, Literal, NamedTuple

import numpy as np
from jaxtyping import Float

from .. import _check
from .._result import Result, result

Optimizer = Literal["sgd", "momentum", "adam", "adamw"]
OPTIMIZERS = ("sgd", "momentum", "adam", "adamw")

MOMENTUM, BETAS, EPSILON, DECAY = 0.9, (0.9, 0.999), 1e-8, 0.01


class Group(NamedTuple):
    """What an optimizer is given for a group of parameters."""

    rate: float
    decay: float
    epsilon: float


@result
class Settings(Result):
    """What an optimizer is given, layer by layer; the loss is a mean over the batch.

    Attributes:
        optimizer: "sgd", "momentum" (0.9, the velocity being the sum of gradients), "adam" or "adamw".
        rate_W, rate_b: learning rates of weights and biases. Those with a rate of 0 stay as they are drawn; it is 0 for
            biases of layers that have none.
        rate_norm: that of the gains and biases of norms; 0 where there are none, or where they stay at 1 and 0.
        decay_W, decay_b, decay_norm: weight decay, multiplied by the rate as PyTorch and optax do; of weights only,
            and of "adamw" only.
        epsilon_W, epsilon_b, epsilon_norm: ε of Adam, and 0 where there is none. At one size all groups have the same;
            what becomes of them at another says `neft.scaling.transfer`.
        momentum: 0 where there is none.
        betas: of Adam.
        warm_up: steps over which the rate should rise from 0.
        why: the rule.
        optimizers: the names that there are.
    """

    optimizer: Optimizer
    rate_W: Float[np.ndarray, " layers"]
    rate_b: Float[np.ndarray, " layers"]
    rate_norm: float
    decay_W: Float[np.ndarray, " layers"]
    decay_b: Float[np.ndarray, " layers"]
    decay_norm: float
    epsilon_W: Float[np.ndarray, " layers"]
    epsilon_b: Float[np.ndarray, " layers"]
    epsilon_norm: float
    momentum: float
    betas: tuple[float, float] | None
    warm_up: int
    why: str
    optimizers: ClassVar[tuple[str, ...]] = OPTIMIZERS

    @property
    def weights(self) -> tuple[Group, ...]:
        """The groups of the weights, layer by layer."""
        return _groups(self.rate_W, self.decay_W, self.epsilon_W)

    @property
    def biases(self) -> tuple[Group | None, ...]:
        """Those of the biases; None where a layer has none that are trained."""
        return tuple(group if group.rate else None for group in bias_groups(self))

    @property
    def norms(self) -> Group | None:
        """That of the norms; None where nothing of a norm is trained."""
        return norm_group(self) if self.rate_norm or vars(self).get(_FROZEN) else None

    @classmethod
    def _from_older(cls, fields: dict[str, Any]) -> dict[str, Any]:
        fields = {"rate_norm": 0.0} | fields
        if "epsilon" not in fields:
            return fields
        epsilon, ones = fields.pop("epsilon"), np.ones(len(fields["rate_W"]))
        each = {"epsilon_W": epsilon * ones, "epsilon_b": epsilon * ones, "epsilon_norm": epsilon}
        return fields | each | {"decay_b": 0.0 * ones, "decay_norm": 0.0}


_FROZEN = "_frozen_norms"


def with_frozen_norms(chosen: Settings) -> Settings:
    """The same settings, for a network whose norms have gains or biases: at a rate of 0 they are a group too.

    Settings do not say whether there are norms, so that it is noted on a copy, and not in its fields.
    """
    found = dataclasses.replace(chosen)
    vars(found)[_FROZEN] = True
    return found


def bias_groups(chosen: Settings) -> tuple[Group, ...]:
    """The groups of the biases, layer by layer, also at a rate of 0: layers themselves say whether they have any."""
    return _groups(chosen.rate_b, chosen.decay_b, chosen.epsilon_b)


def norm_group(chosen: Settings) -> Group:
    """The group of the norms, also at a rate of 0."""
    return Group(chosen.rate_norm, chosen.decay_norm, chosen.epsilon_norm)


def refuse_decay(chosen: Settings) -> None:
    """Weight decay of an optimizer without it: one program would leave it out and another add it to the gradient."""
    if chosen.optimizer == "adamw":
        return
    for name in ("decay_W", "decay_b", "decay_norm"):
        values = np.ravel(getattr(chosen, name))
        if values.any():
            value = values[np.flatnonzero(values)[0]]
            raise ValueError(
                f"{name} of optimizer holds {value:g}, but must be 0 with {chosen.optimizer!r}: "
                "only 'adamw' has weight decay."
            )


def held(chosen: Settings, layers: int) -> Settings:
    """Settings that a user may have changed, as arrays, if every program and optimizer can take them."""
    refuse_decay(chosen)
    more: dict[str, Any] = {}
    for kind in ("rate", "decay", "epsilon"):
        for name in (f"{kind}_W", f"{kind}_b"):
            more[name] = _check.array(f"{name} of optimizer", getattr(chosen, name), ndim=1, at_least=0.0)
            if len(more[name]) != layers:
                raise ValueError(
                    f"optimizer holds settings of {len(more[name])} layers, but the advice is for {layers}."
                )
        more[f"{kind}_norm"] = _check.real(f"{kind}_norm of optimizer", getattr(chosen, f"{kind}_norm"), at_least=0.0)
    adaptive = chosen.optimizer in ("adam", "adamw")
    if chosen.momentum and chosen.optimizer != "momentum":
        raise ValueError(f"momentum of optimizer is {chosen.momentum}, but must be 0 with {chosen.optimizer!r}.")
    if adaptive != (chosen.betas is not None and np.shape(chosen.betas) == (2,)):
        raise ValueError(
            f"betas of optimizer are {_check.brief(chosen.betas)}, but must be {'two numbers' if adaptive else None} "
            f"with {chosen.optimizer!r}."
        )
    for name, value in (("momentum", chosen.momentum), *(("betas", beta) for beta in chosen.betas or ())):
        if not 0 <= _check.real(f"{name} of optimizer", value) < 1:
            raise ValueError(f"{name} of optimizer holds {value:g}, but must be at least 0 and less than 1.")
    for name in ("epsilon_W", "epsilon_b", "epsilon_norm"):
        if adaptive and not np.all(more[name]):
            raise ValueError(f"{name} of optimizer holds 0, but must be greater than 0 with {chosen.optimizer!r}.")
    return dataclasses.replace(chosen, **more)


def _groups(*columns: np.ndarray) -> tuple[Group, ...]:
    return tuple(Group(*row) for row in zip(*(column.tolist() for column in columns)))


def settings(
    optimizer: str, q: float, square: float, signal: float, widths: tuple[int, ...], *, biases: bool = True
) -> Settings:
    """The numbers of the rules.

    Args:
        optimizer: its name.
        q: |x|²/n_0.
        square: ⟨σ²⟩ in the first hidden layer.
        signal: the same for inputs with a mean square of 1 where q is less: the size that training brings signals to.
        widths: (n_0, …, n_L).
        biases: whether the layers have them.
    """
    name = _check.one_of("optimizer", optimizer, OPTIMIZERS)
    adaptive = name in ("adam", "adamw")
    depth = len(widths) - 1
    rate = _adam(q, square, widths) if adaptive else _descent(signal, depth)
    return _one_rate(name, rate, [biases] * depth, False, "adam" if adaptive else name)


def _one_rate(name: str, rate: float, biases: Sequence[bool], norms: bool, why: str) -> Settings:
    """The same rate for all parameters; `biases` says which layers have them."""
    adaptive = name in ("adam", "adamw")
    if name == "momentum":
        rate *= 1 - MOMENTUM
    ones, epsilon = np.ones(len(biases)), EPSILON if adaptive else 0.0
    return Settings(
        optimizer=name,  # type: ignore[arg-type]
        rate_W=rate * ones,
        rate_b=rate * np.array(biases, float),
        rate_norm=rate if norms else 0.0,
        decay_W=(DECAY if name == "adamw" else 0.0) * ones,
        decay_b=0.0 * ones,
        decay_norm=0.0,
        epsilon_W=epsilon * ones,
        epsilon_b=epsilon * ones,
        epsilon_norm=epsilon,
        momentum=MOMENTUM if name == "momentum" else 0.0,
        betas=BETAS if adaptive else None,
        warm_up=0,
        why=_WHY[why],
    )


def block_settings(
    optimizer: str,
    fan_in: np.ndarray,
    count: np.ndarray,
    share: np.ndarray,
    *,
    entering: float,
    biases: Sequence[bool] | None = None,
    norms: bool = False,
) -> Settings:
    """The numbers of the rules for networks with a repeated block, from what theory says of kinds of dense blocks.

    Args:
        optimizer: its name.
        fan_in: of the dense blocks of each kind: the first, those of a repeated block, the last.
        count: how many of a kind there are.
        share: of the output's NTK at infinite width, of all weights of a kind together, at λ_W = 1.
        entering: the sum of squares of an input.
        biases: which dense blocks have them, in the order of their parameters; by default all.
        norms: whether there are gains and biases of norms.
    """
    name = _check.one_of("optimizer", optimizer, OPTIMIZERS)
    adaptive = name in ("adam", "adamw")
    if adaptive:
        rate = _BLOCKS_ADAM / float((fan_in * np.sqrt(count * share)).sum())
    else:
        # Inputs of less than an image do not let the other layers move faster (docs/advice).
        first = np.where(np.arange(len(share)) == 0, max(1.0, _IMAGE / entering), 1.0)
        rate = _BLOCKS_DESCENT / float((first * fan_in * share).sum())
    why = "blocks adam" if adaptive else f"blocks {name}"
    return _one_rate(name, rate, [True] * int(count.sum()) if biases is None else biases, norms, why)


_DESCENT, _OFFSET, _ADAM = 2.5, 3, 1.2
_BLOCKS_DESCENT, _BLOCKS_ADAM, _IMAGE = 150.0, 0.9, 784
_WHY = {
    "sgd": f"{_DESCENT:g}/(⟨σ²⟩ (L + {_OFFSET})^(3/2)) for all parameters, ⟨σ²⟩ that of the first hidden layer",
    "momentum": f"{_DESCENT:g} (1 - momentum)/(⟨σ²⟩ (L + {_OFFSET})^(3/2)) for all parameters, ⟨σ²⟩ that of the first "
    "hidden layer",
    "adam": f"{_ADAM:g}/Σ(fan-in √⟨s²⟩) for all parameters, s what goes into a layer, so that a step changes "
    f"preactivations by about {_ADAM:g}",
    "blocks sgd": f"{_BLOCKS_DESCENT:g}/Θ for all parameters, Θ the NTK of an output with all weights at a rate of 1 "
    f"where inputs have a sum of squares of {_IMAGE} or more; a quarter of it with the squared error",
    "blocks momentum": f"{_BLOCKS_DESCENT:g} (1 - momentum)/Θ for all parameters, Θ the NTK of an output with all "
    f"weights at a rate of 1 where inputs have a sum of squares of {_IMAGE} or more; a quarter of it with the squared "
    "error",
    "blocks adam": f"{_BLOCKS_ADAM:g}/Σ(fan-in √Θ_l) for all parameters, Θ_l the part in the NTK of an output of a "
    "layer's weights at a rate of 1/fan-in",
}


def of_network(rates: Sequence[tuple[float, float]]) -> Settings:
    """Gradient descent at the rates of a network's weights and biases, layer by layer."""
    W, b = (np.array(column, float) for column in zip(*rates))
    one = _one_rate("sgd", 1.0, [True] * len(W), False, "sgd")
    return dataclasses.replace(one, rate_W=W, rate_b=b, why="the rates of the network")


def _descent(signal: float, depth: int) -> float:
    """The rate of gradient descent; its power of the depth is that of Jelassi et al. 2023 for many layers."""
    return _DESCENT / (signal * (depth + _OFFSET) ** 1.5)


def _adam(q: float, square: float, widths: tuple[int, ...]) -> float:
    """The rate of Adam: every entry moves by it, so a layer by fan-in √⟨s²⟩ times it where signs agree."""
    sizes = [math.sqrt(q), *[math.sqrt(square)] * (len(widths) - 2)]
    return _ADAM / sum(n * size for n, size in zip(widths, sizes))
