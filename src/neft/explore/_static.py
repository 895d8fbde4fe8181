"""The page as one file that needs no server, with tables that were computed in advance."""

import base64
import dataclasses
import hashlib
import os
import warnings
from typing import Any

import numpy as np

from .._files import writing
from .._progress import track
from .._public import public
from . import _code, _flow, _page, _phases, _regression
from ._limits import WIDEST
from ._numbers import short
from ._settings import Settings

ACTIVATIONS = ("tanh", "relu", "gelu", "silu", "erf", "sin")
NAMES = ("K", "Theta", "V", "A", "B", "K1", "Theta1")
DEPTH = 32
C_W = np.linspace(0.1, 4.0, 40)
C_b = np.linspace(0.0, 1.0, 11)
LIVE = (
    "Live in this file: activation, depth up to 32, any width, C_W in steps of 0.1, C_b in steps of 0.1, and the time "
    "of the regression. Rates are 1. Drawn networks, own expressions, skips and norms need `neft explore`."
)
_MARKS = {"depth": 70_001, "before": 70_000, "width": 90_001, "C_W": 1.234567, "C_b": 2.345678, "until": 3.456789}
"""Numbers in the programs of a file that the page replaces by those of its fields."""

_USUAL = ("residual", "norm", "lambda_W", "lambda_b", "points")
"""What a file has at its defaults alone."""

_REGRESSION = "Networks of depth 3 and infinite width on six points; C_b is 0.1 and C_W that of the critical point."
_TRAINED = {"depth": 3, "width": 64, "C_b": 0.1}


@public
def write(path: str | os.PathLike[str]) -> int:
    """Write the page to an .html file, whole or not at all, and return its size in bytes.

    It takes some minutes: the tensors of thousands of networks are computed in advance.
    """
    text = page(ACTIVATIONS, C_b, C_W)
    with writing(path) as file:
        file.write(text)
    return len(text.encode())


def page(activations: tuple[str, ...], biases: np.ndarray, weights: np.ndarray) -> str:
    """The page with tables of these activations and variances."""
    first = Settings(activation=activations[0], width=16)
    facts = _page.facts(
        mode="static",
        activations=list(activations),
        tables=_tables(activations, biases, weights),
        defaults=first.record(),
        live=LIVE,
        about="The numbers of this file were computed in advance.",
        regression=_REGRESSION,
        grain=[_step(weights), _step(biases)],
        fields={
            "depth": {"max": DEPTH},
            "C_W": {"min": short(float(weights[0])), "max": short(float(weights[-1])), "step": _step(weights)},
            "C_b": {"min": short(float(biases[0])), "max": short(float(biases[-1])), "step": _step(biases)},
        },
    )
    styles = [_page.text(name) for name in _page.STYLES]
    scripts = [_page.text(name) for name in _page.SCRIPTS]
    policy = (
        f"default-src 'none'; script-src {' '.join(map(_hash, scripts))}; style-src {' '.join(map(_hash, styles))}; "
        "img-src data:; base-uri 'none'; form-action 'none'"
    )
    head = f'<meta http-equiv="Content-Security-Policy" content="{policy}">'
    head += "".join(f"<style>{one}</style>" for one in styles)
    end = f'<template id="neft-facts">{_page.embedded(facts)}</template>'
    return _page.document(head, end + "".join(f"<script>{one}</script>" for one in scripts))


def _hash(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def _step(axis: np.ndarray) -> float:
    return short(float(axis[1] - axis[0]), 3)


def _tables(activations: tuple[str, ...], biases: np.ndarray, weights: np.ndarray) -> dict[str, Any]:
    places = [(name, b, w) for name in activations for b in biases for w in weights]
    cells = [_cell(*place) for place in track(places, "networks")]
    numbers = np.stack(cells).astype("<f4")
    diagrams = [_phases.phases(Settings(activation=name), fine=True) for name in track(activations, "phases")]
    return {
        "activations": list(activations),
        "C_b": short(biases),
        "C_W": short(weights),
        "names": list(NAMES),
        "depth": DEPTH,
        "numbers": base64.b64encode(numbers.tobytes()).decode(),
        "phases": diagrams,
        "advice": [_advice(name, found) for name, found in zip(activations, diagrams)],
        "regression": [_trained(name, found) for name, found in zip(activations, diagrams)],
        "widest": WIDEST,
        "usual": {name: value for name, value in Settings().record().items() if name in _USUAL},
        "code": [_codes(name, found) for name, found in zip(activations, diagrams)],
        "marks": {name: f"{value!r}" for name, value in _MARKS.items()},
    }


def _cell(name: str, b: float, w: float) -> np.ndarray:
    # Of a signal that dies or overflows, the layers before that.
    found = np.full((len(NAMES), DEPTH), np.nan)
    depth = DEPTH
    while depth > 1:
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                stats = _flow.tensors(Settings(activation=name, depth=depth, C_b=float(b), C_W=float(w)))
        except ValueError:
            depth = depth * 2 // 3
            continue
        for k, tensor in enumerate(NAMES):
            values = stats.tensors[tensor]
            if values is not None:
                found[k, :depth] = values
        # What float32 does not hold is not shown.
        found[:, (np.abs(found) > 1e37).any(0)] = np.nan
        break
    return found


def _advice(name: str, found: dict[str, Any]) -> dict[str, Any]:
    if not found["points"]:
        return {"summary": f"{name} has no critical point.", "C_b": None, "C_W": None}
    best = found["points"][0]
    said = f"The best critical point of {name} is C_b = {best['C_b']:g} and C_W = {best['C_W']:g}."
    nearest = {key: axis[np.abs(axis - best[key]).argmin()] for key, axis in (("C_b", C_b), ("C_W", C_W))}
    return {"summary": said, **{key: short(float(value), 4) for key, value in nearest.items()}}


def _learning(name: str, found: dict[str, Any]) -> Settings:
    weight = found["points"][0]["C_W"] if found["points"] else 1.0
    return Settings(activation=name, C_W=weight, **_TRAINED)


def _trained(name: str, found: dict[str, Any]) -> dict[str, Any]:
    return _regression.infinite(_learning(name, found))


def _codes(name: str, found: dict[str, Any]) -> dict[str, dict[str, str]]:
    """The programs of every view; those of the regression are of the network that is trained in the file."""
    learning = _learning(name, found)
    timed = dataclasses.replace(learning, until=_MARKS["until"])
    regression = {"regression": _code.code(learning)["regression"], "timed": _code.code(timed)["regression"]}
    return _code.code(_marked(name)) | regression


def _marked(name: str) -> Settings:
    values = {key: value for key, value in _MARKS.items() if key not in ("before", "until")}
    return Settings(activation=name, **values)  # type: ignore[arg-type]
