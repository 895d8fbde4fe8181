"""The settings of a view: what the page's fields hold, checked field by field, and the network that they describe."""

import dataclasses
import functools
import json
import math
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from .. import _check
from . import _limits

if TYPE_CHECKING:
    from .. import Network

RESIDUALS, NORMS = ("none", "one", "two"), ("none", "rms", "layer")
"""No skips, branches of an activation and a matrix, or of a matrix, an activation and a matrix."""

POINTS = ((-1.7, -0.55), (-1.1, -0.8), (-0.5, -0.52), (0.3, 0.33), (0.9, 0.76), (1.4, 0.74))
"""Training points of the regression, to begin with: of 0.8 sin(1.4 x), which networks of tens of neurons fit as theory
says. Points that an odd function is far from, as all of tanh without biases are, need thousands of them."""


class Refused(ValueError):
    """Values that cannot be worked with: one sentence for each field."""

    def __init__(self, fields: Mapping[str, str]) -> None:
        super().__init__(" ".join(fields.values()))
        self.fields = dict(fields)


@dataclass(frozen=True, kw_only=True)
class Settings:
    """A network of equal hidden widths with one number for each hyperparameter, and how it is drawn and trained.

    >>> Settings.of({"depth": 4, "C_W": 1.5}).depth
    4
    >>> Settings.of({"depth": 0})
    Traceback (most recent call last):
    neft.explore._settings.Refused: depth is 0, but must be at least 2.
    """

    activation: str = "tanh"
    depth: int = 8
    width: int = 16
    C_b: float = 0.0
    C_W: float = 1.0
    lambda_b: float = 1.0
    lambda_W: float = 1.0
    residual: str = "none"
    skip: float = 1.0
    norm: str = "none"
    draws: int = 2000
    seed: int = 0
    points: tuple[tuple[float, float], ...] = POINTS
    until: float | None = None
    """Time at which a program shows trained networks; the end of training by default."""

    @classmethod
    def of(cls, given: Any) -> "Settings":
        """The settings that a record gives, the rest at their defaults; a `Refused` names every field that is wrong."""
        if not isinstance(given, Mapping):
            raise Refused({"": "the settings must be a record of fields."})
        known = {field.name: field.default for field in dataclasses.fields(cls)}
        values, wrong = {}, {}
        for name, value in given.items():
            try:
                if name not in known:
                    raise ValueError(f"{_check.brief(name)} is no field{_check.closest(str(name), known)}.")
                values[name] = _CHECKS[name](name, value)
            except ValueError as error:
                wrong[str(name)[:40]] = str(error)
        if wrong:
            raise Refused(wrong)
        found = cls(**values)
        if found.residual != "none" and found.depth < 3:
            raise Refused({"depth": "depth is 2, but a network with skips has a layer before them and one after: 3."})
        return found

    def record(self) -> dict[str, Any]:
        """The settings as JSON holds them, without what is None."""
        return json.loads(json.dumps({name: v for name, v in dataclasses.asdict(self).items() if v is not None}))

    @property
    def dense(self) -> dict[str, float]:
        """The hyperparameters of a dense block."""
        return {"C_b": self.C_b, "C_W": self.C_W, "lambda_b": self.lambda_b, "lambda_W": self.lambda_W}

    @property
    def own(self) -> bool:
        """Whether its activation has no name, so that averages of it take time and memory."""
        from .. import activation

        return not activation(self.activation).named

    @property
    def plain(self) -> bool:
        """Whether it is a perceptron."""
        return self.residual == "none" and self.norm == "none"

    @property
    def widths(self) -> tuple[int, ...]:
        """(n_0, …, n_L) of a perceptron, with as many inputs as it is wide, as on the command line."""
        return (self.width,) * self.depth + (1,)

    def network(self, inputs: int | None = None) -> "Network":
        """The network, as the command line builds it."""
        from .. import MLP, Dense, Network

        if self.plain:
            widths = self.widths if inputs is None else (inputs, *self.widths[1:])
            return MLP(widths, self.activation, **self.dense)
        first, last = Dense(self.width, **self.dense), Dense(1, **self.dense)
        # The same objects again and again: what is known of a block is asked of it once.
        blocks = [first, *self.step() * (self.depth - 2), *self.end(), last]
        return Network(self.width if inputs is None else inputs, blocks)

    def step(self) -> list[Any]:
        """The blocks that are repeated between the first and the last layer."""
        from .. import Dense, Residual

        norm = self._norm()
        dense = Dense(self.width, **self.dense)
        inner = [dense, self.activation, dense] if self.residual == "two" else [self.activation, dense]
        return [*norm, *inner] if self.residual == "none" else [Residual(*norm, *inner, skip=self.skip)]

    def end(self) -> list[Any]:
        """What stands before the last dense block."""
        norm = self._norm()
        return norm if self.residual == "two" else [*norm, self.activation]

    def _norm(self) -> list[Any]:
        from .. import LayerNorm, RMSNorm

        return {"none": [], "rms": [RMSNorm()], "layer": [LayerNorm()]}[self.norm]

    def repeated(self) -> Any:
        """What phases and advice are asked for: the activation, or the blocks that are repeated."""
        return self.activation if self.plain else self.step()


def _number(least: float, most: float) -> Any:
    def check(name: str, value: Any) -> float:
        number = _check.real(name, value, at_least=least)
        if number > most:
            raise ValueError(f"{name} is {number:g}, but must be at most {most:g}.")
        return number

    return check


def _whole(least: int, most: int) -> Any:
    return lambda name, value: _check.integer(name, value, at_least=least, at_most=most)


def _activation(name: str, value: Any) -> str:
    from .. import activation
    from ._pace import refuse_fast_changes, refuse_large_numbers

    if not isinstance(value, str):
        raise ValueError(f"{name} is {_check.brief(value)}, but must be a name or an expression of z.")
    text = value.strip()
    refuse_large_numbers(name, text)
    with once("read", text):
        found = activation(text)
        # What has a name and no number is known to be smooth enough.
        if any(letter.isdigit() for letter in found.name) or not found.named:
            refuse_fast_changes(name, found.name)
        return found.name


@functools.lru_cache(maxsize=64)
def once(*of: str) -> threading.Lock:
    """A lock for who finds out the same thing: two who ask for it at the same time would compile it twice."""
    return threading.Lock()


def _points(name: str, value: Any) -> tuple[tuple[float, float], ...]:
    if not isinstance(value, list | tuple):
        raise ValueError(f"{name} is {_check.brief(value)}, but must be a list of pairs.")
    if not 1 <= len(value) <= _limits.MOST_POINTS:
        raise ValueError(f"{name} are {len(value)}, but must be 1 to {_limits.MOST_POINTS}.")
    pairs = _check.array(name, value, shape=(len(value), 2))
    for axis, limit in ((0, _limits.FARTHEST), (1, _limits.HIGHEST)):
        if abs(pairs[:, axis]).max() > limit:
            raise ValueError(f"{name} reach {abs(pairs[:, axis]).max():g}, but must lie within ±{limit:g}.")
    found = [(float(x), float(y)) for x, y in pairs]
    for i, (x, _) in enumerate(found):
        if any(math.isclose(x, other, abs_tol=1e-3) for other, _ in found[:i]):
            raise ValueError(f"{name} hold x = {x:g} twice, but two targets at one place cannot both be learned.")
    return tuple(found)


_VARIANCE, _RATE = _number(0.0, _limits.MOST_VARIANCE), _number(0.0, _limits.MOST_RATE)
_CHECKS: dict[str, Any] = {
    "activation": _activation,
    "depth": _whole(2, _limits.DEEPEST),
    "width": _whole(2, _limits.WIDEST),
    "C_b": _VARIANCE,
    "C_W": _VARIANCE,
    "lambda_b": _RATE,
    "lambda_W": _RATE,
    "residual": lambda name, value: _check.one_of(name, value, RESIDUALS),
    "skip": _number(-_limits.MOST_SKIP, _limits.MOST_SKIP),
    "norm": lambda name, value: _check.one_of(name, value, NORMS),
    "draws": _whole(16, _limits.MOST_DRAWS),
    "seed": _whole(0, 2**32 - 1),
    "points": _points,
    "until": lambda name, value: None if value is None else _check.real(name, value, at_least=0.0),
}
