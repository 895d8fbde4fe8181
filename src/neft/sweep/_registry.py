"""The kinds of work that a sweep can do, by name."""

import dataclasses
import inspect
from collections.abc import Callable, Mapping
from typing import Any

from .. import _check
from .._public import public

Work = Callable[..., dict[str, Any]]


@dataclasses.dataclass(frozen=True)
class Kind:
    """A kind of work: a function of keywords that returns numbers and arrays by name.

    `headline` names the number that pictures of the sweep show. `check` looks at one configuration before any is run,
    and raises a ValueError of one sentence. The keywords of `work` with their defaults are what a specification may
    set. What it returns must depend on its keywords alone, except for `cpu_seconds`, which goes to the log.
    """

    name: str
    work: Work
    headline: str
    check: Callable[[Mapping[str, Any]], None] | None = None

    @property
    def keywords(self) -> dict[str, Any]:
        """What a configuration may set, with the defaults; `inspect.Parameter.empty` where there is none."""
        return {name: parameter.default for name, parameter in inspect.signature(self.work).parameters.items()}


KINDS: dict[str, Kind] = {}


@public
def kind(
    name: str, *, headline: str, check: Callable[[Mapping[str, Any]], None] | None = None
) -> Callable[[Work], Work]:
    """Decorator that registers a function as a kind of work; the function itself comes back unchanged.

    >>> @kind("square", headline="y")
    ... def square(*, x: float):
    ...     return {"y": x**2}
    >>> KINDS.pop("square").keywords
    {'x': <class 'inspect._empty'>}
    """

    def register(work: Work) -> Work:
        KINDS[name] = Kind(name, work, headline, check)
        return work

    return register


def known(name: Any) -> Kind:
    """The kind of a name."""
    return KINDS[_check.one_of("kind", name, tuple(KINDS))]
