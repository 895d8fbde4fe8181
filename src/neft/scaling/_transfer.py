"""What changes from one width and depth to another: parameterizations by name, as powers of the width and the depth.

A layer is z = m W s with a multiplier m, weights of variance v and a rate η. Multiplying m by c, v by 1/c², the rate of
gradient descent by 1/c² (of Adam by 1/c), its ε by c and its weight decay by the inverse of what the rate has changes
no network and no step, so the same parameterization can be written in several ways. Here μP and what builds on it have
the multiplier 1/width in the last layer, as table 8 of Yang et al. 2022 and table 1 of Dey et al. 2025 write it.
"""

from typing import Literal, NamedTuple

import numpy as np
from jaxtyping import Float

from .. import _check
from .._public import public
from .._result import Made, Result, result

Kind = Literal["standard", "ntk", "mup", "depth-mup", "completep", "yaida"]
KINDS = ("standard", "ntk", "mup", "depth-mup", "completep", "yaida")
OPTIMIZERS = ("sgd", "momentum", "adam", "adamw")
GROUPS = (
    "input weights",
    "input biases",
    "hidden weights",
    "hidden biases",
    "hidden norms",
    "last norm",
    "output weights",
    "output biases",
)
QUANTITIES = ("multiplier", "variance", "rate", "decay", "epsilon")

_SOURCES = {
    "standard": "Yang et al. 2022, table 3, standard: variances 1/fan-in, and one rate that is left as it is",
    "ntk": "Jacot et al. 2018; for Adam the largest rates at which aligned updates of no layer grow",
    "mup": "Yang et al. 2022, table 8, as in the package mup (MuReadout, MuAdamW, MuSGD); ε as in Dey et al. 2025, "
    "table 1",
    "depth-mup": "Yang et al. 2023, for branches of one matrix; decay and ε as in Dey et al. 2025, table 1, α = 1/2",
    "completep": "Dey et al. 2025, table 1, α = 1, and the authors' program; for gradient descent by the same argument",
    "yaida": "Yaida 2022, as Dinan, Yaida, Zhang 2023 state its variances and rates (eqs. 1.25-1.34, 1.99-1.116 and "
    "footnote 26); ε by the same argument",
}


class _Powers(NamedTuple):
    """Powers of the width of one group."""

    multiplier: float = 0.0
    variance: float = 0.0
    rate: float = 0.0
    decay: float = 0.0
    epsilon: float = 0.0


_NONE = _Powers()


@result
class Transfer(Result):
    """By what each hyperparameter is multiplied when a network is made wider and deeper.

    The hidden groups are those of the residual branches where there are any, else of all layers between the first and
    the last. Norms are their gains and biases, `last norm` the one before the last layer.

    Attributes:
        kind: the parameterization.
        s: the exponent of Yaida's family; None for the others.
        width, depth: from and to.
        groups: of parameters, along the arrays.
        multiplier, variance, rate, decay, epsilon: factors for what multiplies the layer, the variance of its initial
            numbers, its learning rate, its weight decay (which is multiplied by the rate) and Adam's ε.
        branch: the factor for the output of every residual branch.
        source: where the powers come from.
    """

    kind: Kind
    optimizer: str
    s: float | None
    width: tuple[int, int]
    depth: tuple[int, int]
    groups: tuple[str, ...]
    multiplier: Float[np.ndarray, " groups"]
    variance: Float[np.ndarray, " groups"]
    rate: Float[np.ndarray, " groups"]
    decay: Float[np.ndarray, " groups"]
    epsilon: Float[np.ndarray, " groups"]
    branch: float
    source: str
    made: Made


@public
def transfer(
    kind: str,
    *,
    optimizer: str = "adamw",
    width: tuple[int, int] = (64, 512),
    depth: tuple[int, int] = (1, 1),
    s: float | None = None,
) -> Transfer:
    """What changes in a parameterization from width n to m and from depth L to M, group by group.

    Of "depth-mup" and "completep" with gradient descent no source says what weight decay does with depth. By our own
    argument that of the branches goes as depth^-α, as their gradients do: rate times decay then is as for AdamW.

    Args:
        kind: "standard" (what frameworks do), "ntk", "mup", "depth-mup" (residual branches of one matrix),
            "completep" (pre-norm branches of two) or "yaida".
        optimizer: "sgd" or "momentum", which are alike, "adamw", or "adam", which is the same without weight decay.
        width: from and to.
        depth: numbers of residual blocks, from and to. Only "depth-mup" and "completep" say what they change.
        s: of "yaida", from 0 (NTK) to 1 (μP); the part that learns features is then of order depth/width^(1-s).

    >>> transfer("mup", width=(64, 512)).rate[2]
    np.float64(0.125)
    """
    name = _check.one_of("kind", kind, KINDS)
    optimizer = _check.one_of("optimizer", optimizer, OPTIMIZERS)
    sizes, blocks = (_pair(*given) for given in (("width", width), ("depth", depth)))
    adam = optimizer in ("adam", "adamw")
    if name == "yaida":
        s = _check.real("s", s, at_least=0.0)
        if s > 1:
            raise ValueError(f"s is {s:g}, but must be at most 1.")
    elif s is not None:
        raise ValueError(f"s is {_check.brief(s)}, but goes with kind 'yaida'.")
    if blocks[0] != blocks[1] and name not in OF_DEPTH:
        raise ValueError(f"depth is {blocks}, but kind {name!r} says nothing of depth, so both must be the same.")
    powers = _width_powers(name, adam, s or 0.0)
    wider, deeper = sizes[1] / sizes[0], blocks[1] / blocks[0]
    table = {one: np.array([wider ** getattr(powers[group], one) for group in GROUPS]) for one in QUANTITIES}
    if optimizer == "adam":
        table["decay"] = np.ones(len(GROUPS))
    alpha = OF_DEPTH.get(name, 0.0)
    inside = np.array([group.startswith("hidden") for group in GROUPS])
    if name in OF_DEPTH:
        table["rate"][inside] *= deeper ** (alpha - 1 if adam else 2 * alpha - 1)
        # Rate times decay then goes as depth^(α-1) with both: the decay that shares its rate with gradients that are as
        # small as the branch must be as small as they are.
        table["epsilon" if adam else "decay"][inside] *= deeper**-alpha
    return Transfer(
        kind=name,  # type: ignore[arg-type]
        optimizer=optimizer,
        s=s,
        width=sizes,
        depth=blocks,
        groups=GROUPS,
        **table,
        branch=float(deeper**-alpha),
        source=_SOURCES[name] + (_OWN_DECAY if name in OF_DEPTH and not adam else ""),
        made=Made.by(
            "neft.scaling.transfer",
            specification={"kind": name, "optimizer": optimizer, "width": sizes, "depth": blocks, "s": s},
        ),
    )


OF_DEPTH = {"depth-mup": 0.5, "completep": 1.0}
"""α: branches are multiplied by depth^-α. All blocks together then move the stream as much at any depth if their rates
have depth^(α-1) for Adam, whose steps do not see how small gradients are, and depth^(2α-1) for gradient descent. Its
weight decay has depth^-α, so that a step takes as much off the weights as one of AdamW, whose decay stays."""

_OWN_DECAY = "; its weight decay with depth by an argument of our own"


def _width_powers(kind: str, adam: bool, s: float) -> dict[str, _Powers]:
    if kind == "standard":
        return _grouped(hidden=_Powers(variance=-1.0), output=_Powers(variance=-1.0))
    if kind == "ntk":
        return _ntk(adam)
    if kind == "yaida":
        return _yaida(adam, s)
    if adam:
        return _grouped(
            vectors=_Powers(epsilon=-1.0),
            hidden=_Powers(variance=-1.0, rate=-1.0, decay=1.0, epsilon=-1.0),
            output=_Powers(multiplier=-1.0, epsilon=-1.0),
        )
    # As MuSGD of the package mup has it, rate times weight decay stays.
    return _grouped(
        vectors=_Powers(rate=1.0, decay=-1.0),
        hidden=_Powers(variance=-1.0),
        output=_Powers(multiplier=-1.0, rate=1.0, decay=-1.0),
    )


def _ntk(adam: bool) -> dict[str, _Powers]:
    if not adam:
        return _grouped(hidden=_Powers(multiplier=-0.5), output=_Powers(multiplier=-0.5))
    # A step of Adam adds up over all entries of a layer, and again in the last one.
    half = {"decay": 0.5, "epsilon": -0.5}
    return _grouped(
        vectors=_Powers(rate=-0.5, **half),
        hidden=_Powers(multiplier=-0.5, rate=-1.0, decay=1.0, epsilon=-1.0),
        output=_Powers(multiplier=-0.5, rate=-0.5, **half),
    )


def _yaida(adam: bool, s: float) -> dict[str, _Powers]:
    # Rate times weight decay stays (Dinan, Yaida, Zhang 2023, footnote 22).
    if not adam:
        return _grouped(
            vectors=_Powers(rate=s, decay=-s),
            hidden=_Powers(variance=-1.0, rate=s - 1, decay=1 - s),
            output=_Powers(variance=-1 - s, rate=-1.0, decay=1.0),
        )
    # Steps of Adam do not see how small gradients are, and those are as small as the last weights: of their size is ε,
    # and against it the rates before them make up, so that outputs change alike at every s.
    small = (1 + s) / 2
    return _grouped(
        vectors=_Powers(rate=small - 1, decay=1 - small, epsilon=-small),
        hidden=_Powers(variance=-1.0, rate=small - 2, decay=2 - small, epsilon=-small),
        output=_Powers(variance=-1 - s, rate=-1.0, decay=1.0),
    )


def _grouped(vectors: _Powers = _NONE, hidden: _Powers = _NONE, output: _Powers = _NONE) -> dict[str, _Powers]:
    # What has one side that grows with the width: weights from the inputs, biases and norms of hidden layers.
    found = dict.fromkeys(GROUPS, vectors)
    return found | {"hidden weights": hidden, "output weights": output, "output biases": _NONE}


def _pair(name: str, given: tuple[int, int]) -> tuple[int, int]:
    if not isinstance(given, tuple | list) or len(given) != 2:
        raise ValueError(f"{name} is {_check.brief(given)}, but must be two numbers, from and to.")
    one, two = (_check.integer(f"each of {name}", n, at_least=1) for n in given)
    return one, two
