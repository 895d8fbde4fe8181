"""What two inputs have in common at a stage of a network, and how that adds, scales and multiplies.

A stage is a vector of many exchangeable entries: preactivations, which are Gaussian, or activations. With the
covariance c go √(K1 K2) - c and √(K1 K2) + c, because a kink sees the angle arccos ρ, and no digit of that may be lost
at either end.
"""

import dataclasses
from typing import Any, Literal, NamedTuple

import jax
from jax import lax

from .._activation import Activation
from .._closed import Pair
from .._guard import at_least_zero, positive, root
from .._promote import cast, library_of

Kind = Literal["input", "gaussian", "activation"]


class Layout(NamedTuple):
    """How stages that have positions lay them out: along the first axes of their arrays.

    Equal positions of the two inputs are paired, arrays (H, W, …); or, `crossed`, all pairs are: (H, W, H, W, …), where
    K1 is (H, W, 1, 1, …) and K2 is (1, 1, H, W, …).
    """

    axes: int
    crossed: bool


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Stage:
    """Second moments of two inputs over the entries of a stage, elementwise in any shape (docs/theory/blocks, eq. 1).

    Attributes:
        K1, K2: the mean squares of each input by itself; they broadcast with c.
        c: the mean product of the two.
        gap, total: √(K1 K2) - c and √(K1 K2) + c.
        Theta: the part of the NTK that all entries share.
        gain: the coefficient of z1 z2 beside Theta, from a trained gain; None for 0.
        mean1, mean2: for inputs, the means over entries; else None.
        before: of activations σ(z), the stage of z; else None.
        kind: "input", "gaussian" (preactivations) or "activation".
        activation: of activations σ(z), σ; else None.
        fresh: whether this is a sum with weights that nothing before depends on.
        mixed: whether the NTK of an entry depends on it in a way that is not carried on, only its mean.
        layout: where entries stand at positions, as pixels do, how these are laid out; else None.
    """

    K1: Any
    K2: Any
    c: Any
    gap: Any
    total: Any
    Theta: Any
    gain: Any = None
    mean1: Any = None
    mean2: Any = None
    before: "Stage | None" = None
    kind: Kind = dataclasses.field(default="gaussian", metadata={"static": True})
    activation: Activation | None = dataclasses.field(default=None, metadata={"static": True})
    fresh: bool = dataclasses.field(default=False, metadata={"static": True})
    mixed: bool = dataclasses.field(default=False, metadata={"static": True})
    layout: Layout | None = dataclasses.field(default=None, metadata={"static": True})

    @property
    def pair(self) -> Pair:
        """The two Gaussian variables in the form that averages take."""
        return Pair(root(self.K1), root(self.K2), self.c, self.gap, self.total)

    @classmethod
    def between(cls, K1: Any, K2: Any, c: Any, Theta: Any, **fields: Any) -> "Stage":
        """The stage of these moments; what rounding takes below zero is zero.

        >>> import numpy as np
        >>> float(Stage.between(*map(np.asarray, (4.0, 1.0, 1.0, 0.0))).gap)
        1.0
        """
        scale = root(K1) * root(K2)
        return cls(K1, K2, c, at_least_zero(scale - c), at_least_zero(scale + c), Theta, **fields)

    @classmethod
    def itself(cls, K: Any, Theta: Any, **fields: Any) -> "Stage":
        """The stage of an input paired with itself."""
        return cls(K, K, K, 0 * K, 2 * K, Theta, **fields)

    @classmethod
    def of_matrix(cls, K: Any, Theta: Any, **fields: Any) -> "Stage":
        """The stage of all pairs of several inputs, whose mean products are this matrix."""
        own = K.diagonal()
        return cls.between(own[:, None], own[None, :], K, Theta, **fields)

    @classmethod
    def of_inputs(cls, x1: Any, x2: Any) -> "Stage":
        """The stage of two inputs, or of two arrays of them whose leading axes broadcast; entries are the last one.

        The angle comes from the difference of unit vectors, so no digit of it is lost where they are close or opposite.
        """
        library, n = library_of(x1, x2), x1.shape[-1]
        unit1, unit2 = _unit(x1), _unit(x2)
        K1, K2, c = ((a * b).sum(-1) / n for a, b in ((x1, x1), (x2, x2), (x1, x2)))
        scale = root(K1) * root(K2)
        gap, total = (scale * ((unit1 - sign * unit2) ** 2).sum(-1) / 2 for sign in (1, -1))
        zero = library.zeros_like(c)
        return cls(K1, K2, c, gap, total, zero, mean1=x1.mean(-1), mean2=x2.mean(-1), kind="input")

    @property
    def mean_theta(self) -> Any:
        """The NTK averaged over entries, which is what weights see: Θ and the coefficient of z1 z2 times their mean."""
        return self.Theta if self.gain is None else self.Theta + self.gain * self.c

    def replace(self, **changes: Any) -> "Stage":
        """The stage with other values of some fields."""
        return dataclasses.replace(self, **changes)

    def times(self, other: "Stage") -> "Stage":
        """The product, entry by entry, with a stage that is independent of this one (docs/theory/blocks, eq. 12).

        >>> import numpy as np
        >>> half = Stage.between(*map(np.asarray, (1.0, 1.0, 0.5, 2.0)))
        >>> float(half.times(half).Theta)
        2.0
        """
        if self.gain is not None or other.gain is not None:
            raise ValueError("a product of stages stands after a trained gain, but must stand after a dense block.")
        # (s1 ∓ c1)(s2 ± c2) and their like: products of the roots and of the covariances drop out.
        gap = (self.gap * other.total + self.total * other.gap) / 2
        total = (self.gap * other.gap + self.total * other.total) / 2
        Theta = self.Theta * other.c + self.c * other.Theta
        K1, K2, c = self.K1 * other.K1, self.K2 * other.K2, self.c * other.c
        return Stage(K1, K2, c, gap, total, Theta, kind="activation", layout=self.layout)


def scaled(stage: Stage, factor: Any, Theta: Any) -> Stage:
    """The moments times a factor, with a new Θ: what weights of that variance make of them, a Gaussian stage."""
    K1, K2, c, gap, total = (factor * value for value in (stage.K1, stage.K2, stage.c, stage.gap, stage.total))
    return Stage(K1, K2, c, gap, total, Theta, fresh=True, layout=stage.layout)


def added(one: Stage, two: Stage) -> Stage:
    """The sum of two independent Gaussian stages (docs/theory/blocks, eq. 4).

    Nothing is lost where both correlations are near ±1: √((a1²+b1²)(a2²+b2²)) - a1a2 - b1b2 is a square over a sum.
    """
    K1, K2 = one.K1 + two.K1, one.K2 + two.K2
    a1, a2, b1, b2 = root(one.K1), root(one.K2), root(two.K1), root(two.K2)
    below = root(K1) * root(K2) + a1 * a2 + b1 * b2
    more = (a1 * b2 - a2 * b1) ** 2 / positive(below)
    return Stage(
        K1,
        K2,
        one.c + two.c,
        more + one.gap + two.gap,
        more + one.total + two.total,
        one.Theta + two.Theta,
        fresh=one.fresh and two.fresh,
        mixed=one.mixed or two.mixed,
        layout=one.layout,
    )


def shifted(stage: Stage, variance: Any, Theta: Any) -> Stage:
    """A Gaussian stage and biases of this variance, which are one more independent term that both inputs share."""
    variance = cast(variance, stage.c)
    return added(stage.replace(Theta=Theta), Stage.itself(variance, 0 * variance, fresh=True))


def divided(stage: Stage, size1: Any, size2: Any) -> Stage:
    """Each input divided by a number of its own."""
    both = size1 * size2
    means = [None if mean is None else mean / size for mean, size in ((stage.mean1, size1), (stage.mean2, size2))]
    return stage.replace(
        K1=stage.K1 / size1**2,
        K2=stage.K2 / size2**2,
        c=stage.c / both,
        gap=stage.gap / both,
        total=stage.total / both,
        Theta=stage.Theta / both,
        # z1 z2 of the new entries are those of the old divided by the same, twice over, so the coefficient is kept.
        gain=stage.gain,
        mean1=means[0],
        mean2=means[1],
        before=None,
        activation=None,
        fresh=False,
    )


def centred(stage: Stage) -> Stage:
    """Each input without its mean over entries."""
    if stage.mean1 is None:
        return stage
    m1, m2 = stage.mean1, stage.mean2
    K1, K2 = at_least_zero(stage.K1 - m1 * m1), at_least_zero(stage.K2 - m2 * m2)
    u1, u2, scale = root(K1), root(K2), root(stage.K1) * root(stage.K2)

    def less(sign: int) -> Any:
        # √(K1K2) - u1u2 ∓ m1m2 as a square over a sum.
        below = scale + u1 * u2 + sign * m1 * m2
        return (u1 * m2 - sign * u2 * m1) ** 2 / positive(below)

    return stage.replace(
        K1=K1,
        K2=K2,
        c=stage.c - m1 * m2,
        gap=at_least_zero(stage.gap - less(1)),
        total=at_least_zero(stage.total - less(-1)),
        mean1=None,
        mean2=None,
    )


def _unit(x: Any) -> Any:
    # Scaled first, so that no square overflows or vanishes; 0 where there is no direction.
    size = positive(abs(x).max(-1, keepdims=True))
    x = x / (lax.stop_gradient(size) if isinstance(size, jax.Array) else size)
    square = (x * x).sum(-1, keepdims=True)
    library = library_of(square)
    return library.where(square > 0, x / library.sqrt(positive(square)), cast(0, x))
