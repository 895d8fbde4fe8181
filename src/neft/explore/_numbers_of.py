"""The numbers of a view as a file that `neft.load` and `neft show` read."""

from typing import Any

from .. import training, width
from .._result import FORMAT
from ._flow import statistics
from ._phases import diagram
from ._regression import FEW, arrays, line, network, times
from ._settings import Settings


def numbers_of(view: str, settings: Settings) -> dict[str, Any]:
    """The result of a view; a ValueError says where it does not exist."""
    return {"neft": FORMAT, **_MAKES[view](settings).to_dict()}


def _regression(settings: Settings) -> Any:
    x, y = arrays(settings)
    return training.predict(network(settings), x, y, line(FEW), time=times(settings))


_MAKES: dict[str, Any] = {
    "flow": statistics,
    "density": lambda settings: width.density(statistics(settings)),
    "ntk": lambda settings: width.interpret(statistics(settings)),
    "phase": lambda settings: diagram(settings, fine=False),
    "regression": _regression,
}
