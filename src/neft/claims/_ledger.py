"""The package's ledger: the claims of every source, loaded when somebody asks for them."""

import functools
import importlib
from collections.abc import Iterable

from .._public import public
from ._claim import Claim
from ._outcome import Ledger
from ._registry import Registry

_registry = Registry()
# One per source or group of sources; each registers its claims when it is imported
_MODULES = (
    "_action",
    "_action_data",
    "_action_derivatives",
    "_action_landscape",
    "_fisher",
    "_lecture",
    "_residual",
    "_sweep",
    "_training",
)

claim = _registry.claim


def ledger() -> tuple[Claim, ...]:
    """All claims, sorted by id.

    >>> "lecture-six-point" in {claim.id for claim in ledger()}
    True
    """
    return _filled().ledger()


@public
def check(ids: Iterable[str] | None = None, *, level: str = "quick") -> Ledger:
    """The outcomes of the claims named in `ids` (None: of all), tested at the given level.

    A test that raises gives the outcome "failed" with the reason, and the others still run.
    """
    return _filled().check(ids, level=level)


@functools.cache
def _filled() -> Registry:
    # The theories take seconds to import; whoever only registers a claim does not need them.
    for module in _MODULES:
        importlib.import_module(f".{module}", __package__)
    return _registry
