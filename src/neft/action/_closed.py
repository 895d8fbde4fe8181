"""The action to order four in closed form: L[f] + E[κ₂/2 + κ₃/6 + κ₄/24] (docs/theory/action, eqs. 3-13)."""

import itertools
import math
from collections import Counter
from typing import Any

import jax.numpy as jnp

from ._pieces import Degrees, Pieces

HIGHEST = 4


def joint_cumulant(*parts: Any) -> Any:
    """The joint cumulant of up to four logits under the uniform law on classes: docs/theory/action, eqs. 6-7.

    Shape (n, M) each gives (n,). For one part it is the mean.
    """
    mean = lambda f: f.mean(axis=-1)  # noqa: E731
    if len(parts) == 1:
        return mean(parts[0])
    a, b, *more = (f - mean(f)[..., None] for f in parts)
    if not more:
        return mean(a * b)
    if len(more) == 1:
        return mean(a * b * more[0])
    c, d = more
    return mean(a * b * c * d) - mean(a * b) * mean(c * d) - mean(a * c) * mean(b * d) - mean(a * d) * mean(b * c)


def term_sums(pieces: Pieces, m: Any) -> dict[Degrees, Any]:
    """For every monomial up to order four, its sum over a block of samples with labels m."""
    sums: dict[Degrees, Any] = {}
    label = lambda f: jnp.broadcast_to(f, (len(m), f.shape[1]))[jnp.arange(len(m)), m]  # noqa: E731
    for r in range(1, HIGHEST + 1):
        for chosen in itertools.combinations_with_replacement(sorted(pieces), r):
            degrees = tuple(map(sum, zip(*chosen)))
            if sum(degrees) > HIGHEST:
                continue
            parts = [pieces[d] for d in chosen]
            value = joint_cumulant(*parts)
            if r == 1:
                value = value - label(parts[0])
            # 1/r! times the ways to order the parts.
            weight = 1 / math.prod(map(math.factorial, Counter(chosen).values()))
            total = weight * (value.sum() if value.shape[0] == len(m) else value.sum() * len(m))
            sums[degrees] = sums.get(degrees, 0.0) + total  # type: ignore[index]
    return sums  # type: ignore[return-value]
