"""A page to play with: a network's finite width, phases and training, from a local server, a file or a notebook.

Nothing here is imported before it is used, so that `neft --help` answers at once.
"""

from importlib import import_module as _import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ._serve import serve as serve
    from ._static import write as write
    from ._widget import Widget as Widget

_WHERE = {"serve": "._serve", "write": "._static", "Widget": "._widget"}


def __getattr__(name: str) -> Any:
    if name in _WHERE:
        return getattr(_import_module(_WHERE[name], __name__), name)
    raise AttributeError(f"module 'neft.explore' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(_WHERE)
