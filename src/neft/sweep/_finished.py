"""One configuration, done: the only thing that workers return and that files hold."""

import os
import socket
import time
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from .._progress import quietly
from .._result import Made, Result, result
from ._data import checksum
from ._registry import known


@result
class Finished(Result):
    """What became of a configuration: its numbers and arrays, or the reason why there are none.

    Attributes:
        kind: of the work.
        configuration: its keywords.
        values: arrays by name (numbers are arrays without axes); empty where it failed.
        reason: why it failed, None where it did not.
    """

    kind: str
    configuration: dict[str, Any]
    values: dict[str, np.ndarray]
    reason: str | None
    made: Made


class Timing(NamedTuple):
    """What depends on the machine: seconds of the clock, CPU seconds (of the work's own choice), and where it ran."""

    seconds: float
    cpu_seconds: Any
    host: str
    pid: int


class WrongDataError(ValueError):
    """The data is not what the sweep began with."""


def compute(kind: str, configuration: Mapping[str, Any], data: str | None = None) -> tuple[Finished, Timing]:
    """Do the work of one configuration. What it raises becomes the reason of its failure.

    `data` is the checksum of the data that the sweep began with; other data would mix two experiments, and is refused.
    """
    if data is not None and checksum(configuration) != data:
        raise WrongDataError(
            f"data {configuration['data']!r} on {socket.gethostname()} is not what this sweep began with: "
            "the same files must be found on every machine."
        )
    work = known(kind).work
    started, cpu = time.monotonic(), time.process_time()
    values, reason, seconds = {}, None, None
    try:
        with quietly():  # the sweep says how far it is; bars of single configurations would only flicker
            values = work(**configuration)
        if not isinstance(values, Mapping):
            raise ValueError(f"kind {kind!r} returned {type(values).__name__}, but must return numbers by name.")
        values = dict(values)
        seconds = values.pop("cpu_seconds", None)
        values = {str(name): _numbers(kind, name, value) for name, value in values.items()}
    except Exception as error:  # one configuration must not end the sweep
        values, reason = {}, _sentence(error)
    spent = time.process_time() - cpu if seconds is None else np.asarray(seconds).tolist()
    finished = Finished(
        kind=kind,
        configuration=dict(configuration),
        values=values,
        reason=reason,
        made=Made.by("neft.sweep.run", specification={"kind": kind, **configuration}),
    )
    return finished, Timing(time.monotonic() - started, spent, socket.gethostname(), os.getpid())


def _numbers(kind: str, name: Any, value: Any) -> np.ndarray:
    # What is not a number would stop the writing of files or be counted as done.
    try:
        array = np.asarray(value)
    except ValueError:
        array = np.empty((), object)
    if array.dtype.kind not in "biufU":
        raise ValueError(
            f"kind {kind!r} returned {type(value).__name__} for {name}, but must return numbers, texts or arrays."
        )
    if array.dtype.kind == "f" and not np.isfinite(array).all():
        wrong = array[~np.isfinite(array)].flat[0]
        raise ValueError(f"kind {kind!r} returned {wrong} for {name}, which must be finite.")
    return array


def _sentence(error: Exception) -> str:
    text = " ".join(str(error).split()) or "no reason given"
    return text if isinstance(error, ValueError) else f"{type(error).__name__}: {text}"
