"""The phase diagram for the page: a coarse one at once, then a finer one."""

import dataclasses
import functools
import warnings
from typing import Any

import numpy as np

from .. import width
from ..width.results import PhaseDiagram
from ._numbers import short
from ._settings import Settings

SHAPES = {"coarse": (11, 40), "fine": (41, 79)}
"""Values of C_b and of C_W."""

HIGHEST_C_b, HIGHEST_C_W = 1.0, 4.0


def diagram(settings: Settings, *, fine: bool) -> PhaseDiagram:
    """What `neft.width.phase` gives for the activation, or for the blocks that are repeated."""
    biases, weights = SHAPES["fine" if fine else "coarse"]
    C_b, C_W = np.linspace(0.0, HIGHEST_C_b, biases), np.linspace(0.1, HIGHEST_C_W, weights)
    own = settings.plain and settings.own
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        # Of a user's own function a diagram to full accuracy takes ten seconds, and looks the same.
        found = width.phase(settings.repeated(), C_b, C_W, coarse=own or not fine)
        return dataclasses.replace(found, points=width.critical(settings.activation).points) if own and fine else found


def phases(settings: Settings, *, fine: bool = False) -> dict[str, Any]:
    """The diagram as numbers, from what it depends on alone."""
    known = None if fine else _AHEAD.get(of_phases(settings))
    return known or _phases(*of_phases(settings), fine)


_AHEAD: dict[tuple[str, str, float, str], dict[str, Any]] = {}


def remember(settings: Settings, found: dict[str, Any]) -> None:
    """Keep a coarse diagram that another process has computed."""
    _AHEAD[of_phases(settings)] = found


def of_phases(settings: Settings) -> tuple[str, str, float, str]:
    """What a phase diagram depends on: not on the point, nor on rates, depth and width."""
    skip = settings.skip if settings.residual != "none" else 1.0
    return settings.activation, settings.residual, skip, settings.norm


@functools.lru_cache(maxsize=32)
def _phases(name: str, residual: str, skip: float, norm: str, fine: bool) -> dict[str, Any]:
    found = diagram(Settings(activation=name, residual=residual, skip=skip, norm=norm), fine=fine)
    return {
        "C_b": short(found.C_b),
        "C_W": short(found.C_W),
        "phase": found.phase.ravel().tolist(),
        "xi": short(found.xi_perpendicular.ravel(), 4),
        "chi": short(found.perpendicular.ravel(), 5),
        "names": list(found.phases),
        "points": [
            {"C_b": short(point.C_b), "C_W": short(point.C_W), "K": short(point.K_star)} for point in found.points
        ],
        "fine": fine,
    }
