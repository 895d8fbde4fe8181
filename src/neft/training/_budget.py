"""How much memory there is, how much a way of solving takes, and how long: the cost model of docs/scale.md."""

import os
import re
import sys
from typing import Any, NamedTuple

import numpy as np

from .. import _check
from ._panels import panel_bytes
from ._tiles import TILE, threads

_UNITS = {"": 1, "kb": 1e3, "mb": 1e6, "gb": 1e9, "tb": 1e12, "kib": 2**10, "mib": 2**20, "gib": 2**30, "tib": 2**40}

_PROGRAMS = 150e6
"""Bytes that JAX and its compiled programs come to while tiles are made, beyond what the process has at the start."""

_ENTRY = 60
"""Bytes of an entry of a tile while it is made, in float64: products, K, Θ and what is between them."""

_VECTORS = 10
"""Vectors of the length of the targets that conjugate gradients hold in float64."""


class Plan(NamedTuple):
    """A way of solving: its name, whether tiles are kept in float64, and the bytes of its peak beyond the start's."""

    way: str
    keeps: bool
    bytes: float


def parsed(memory: Any) -> float:
    """Bytes that a text such as "8GB", "2GiB" or a number says."""
    if isinstance(memory, str):
        found = re.fullmatch(r"\s*([0-9]*\.?[0-9]+)\s*([kmgt]?i?b)?\s*", memory.lower())
        if found is None:
            raise ValueError(f"memory is {_check.brief(memory)}, but must be a size such as '8GB', '500MB' or '2GiB'.")
        return float(found[1]) * _UNITS[found[2] or ""]
    return _check.real("memory", memory, above=0.0)


def resident() -> float:
    """Bytes of memory that this process holds now."""
    try:
        with open("/proc/self/statm", encoding="ascii") as file:  # noqa: PTH123
            return float(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:
        return peak()


def peak() -> float:
    """The most bytes of memory that this process has held."""
    try:
        import resource
    except ImportError:  # not a POSIX system
        return 0.0
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1.0 if sys.platform == "darwin" else 1024.0)


def around(count: int, outputs: int) -> float:
    """Bytes that every way takes: programs, the tiles that are being made, vectors."""
    tile = min(count, TILE) ** 2
    return _PROGRAMS + threads() * _ENTRY * tile + 2 * threads() * 8 * tile + 8 * _VECTORS * count * outputs


def direct(count: int, outputs: int, *, keeps: bool) -> Plan:
    """The factor in float32, half the matrix; with the kernel in float64 beside it, if that is kept."""
    factor = panel_bytes(count)
    return Plan("direct", keeps, around(count, outputs) + factor + (2 * factor if keeps else 0))


def chosen(count: int, outputs: int, memory: Any) -> Plan:
    """The fastest way that fits the memory."""
    budget, now = parsed(memory), resident()
    plans = [direct(count, outputs, keeps=keeps) for keeps in (True, False)]
    for plan in plans:
        if now + plan.bytes <= budget:
            return plan
    raise ValueError(
        f"memory is {_check.brief(memory)}, but {count} points take {in_words(now + plans[-1].bytes)}, of which this "
        f"process holds {in_words(now)} already: give memory='{np.ceil((now + plans[-1].bytes) / 1e8) / 10:g}GB'."
    )


def in_words(size: float) -> str:
    """Bytes as people say them.

    >>> in_words(7.3e9), in_words(2.5e8)
    ('7.3 GB', '250 MB')
    """
    return f"{size / 1e9:.3g} GB" if size >= 1e9 else f"{np.ceil(size / 1e6):.0f} MB"
