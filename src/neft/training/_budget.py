"""How much memory there is, how much a way of solving takes, and how long: the cost model of docs/scale.md."""

import os
import re
import sys
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from .. import _check
from ._panels import panel_bytes
from ._pivots import BLOCK
from ._tiles import TILE, cores, threads

_UNITS = {"": 1, "kb": 1e3, "mb": 1e6, "gb": 1e9, "tb": 1e12, "kib": 2**10, "mib": 2**20, "gib": 2**30, "tib": 2**40}

_PROGRAMS = 150e6
"""Bytes that JAX and its compiled programs come to while tiles are made, beyond what the process has at the start."""

_ENTRY = 60
"""Bytes of an entry of a tile while it is made, in float64: products, K, Θ and what is between them."""

_VECTORS = 10
"""Vectors of the length of the targets that conjugate gradients hold in float64."""

_DIGITS = 3
"""Digits that each product with the matrix wins in refinement, where float32 serves well."""

_MARGIN = 0.03
"""Part of the memory that is left for what the model does not know of, such as gaps between what is held."""

_START = 1.5
"""Seconds until programs are compiled and speeds measured."""

_THIN = 2.5
"""Seconds more to compile what a preconditioner is made of: the diagonal and columns have shapes of their own."""

_STRIP = 20
"""Bytes of memory for an entry of a preconditioner when it is applied: read, written in float64, and read again."""

_RANKS = (256, 512, 1024, 2048, 4096, 8192)
"""Ranks of the preconditioner that are considered."""

_GROUPS = (1, 2, 3, 4, 6, 8, 12, 16)
"""Panels of a factor in a file that are made together, of those that are considered."""


class Plan(NamedTuple):
    """A way of solving, "direct" or "conjugate gradients", and what it is expected to take.

    `rank` is the preconditioner's, 0 for the factor itself; `keeps` says that the tiles stay in memory in float64.
    `bytes` are those of the peak beyond what the process holds at the start, `seconds` those of all cores at work.
    A factor in a file is made by `group` panels; 0 stands for one in memory.
    """

    way: str
    rank: int
    keeps: bool
    products: int
    bytes: float
    seconds: float
    group: int = 0

    def on_disk(self, count: int, outputs: int) -> float:
        """Bytes that a folder comes to."""
        # What changes is there twice for a moment: the old until the new is whole.
        twice = 5 * 8 * count * outputs
        if self.rank:
            return 2 * twice + 4 * count * self.rank + 8 * count * (self.rank // BLOCK + 1)
        return 2 * (twice + _panel(count) * max(1, self.group)) + panel_bytes(count)

    def __str__(self) -> str:
        words = [self.way]
        words += [f"preconditioner of rank {self.rank}"] if self.rank else []
        words += ["tiles kept"] if self.keeps else []
        return ", ".join(words + (["factor in a file"] if self.group else []))


class Rates(NamedTuple):
    """Seconds of all cores together for an operation in float32, an entry of a kernel, a byte of memory in a product.

    `read` and `written` are those of a byte of a file.
    """

    flop: float = 6e-12
    entry32: float = 4e-8
    entry64: float = 6e-8
    byte: float = 1e-10
    read: float = 1e-9
    written: float = 5e-9


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


def direct(count: int, outputs: int, *, keeps: bool, rates: Rates = Rates(), residual: float = 1e-6) -> Plan:  # noqa: B008
    """The factor in float32, half the matrix; with the kernel in float64 beside it, if that is kept."""
    half, entries = panel_bytes(count), count * (count + 1) / 2
    products = max(1, int(np.ceil(-np.log10(min(residual, 0.1)) / _DIGITS - 1e-9)))
    seconds = _START + count**3 / 3 * rates.flop + entries * (rates.entry64 if keeps else rates.entry32)
    seconds += products * entries * (8 * rates.byte if keeps else rates.entry64)
    needed = around(count, outputs) + half + (2 * half if keeps else 0)
    return Plan("direct", 0, keeps, products, needed, seconds)


def in_file(count: int, outputs: int, group: int, *, rates: Rates = Rates(), residual: float = 1e-6) -> Plan:  # noqa: B008
    """The factor in a file, of which so many panels, and one more to read another into, are in memory."""
    found, half = direct(count, outputs, keeps=False, rates=rates, residual=residual), panel_bytes(count)
    # Each group of panels reads all that come before it, and the factor as an inverse all of them down and up.
    read = 4 * count**3 / (6 * group * min(TILE, count)) + found.products * 2 * half
    return found._replace(
        bytes=around(count, outputs) + (group + 1) * _panel(count),
        seconds=found.seconds + read * rates.read + half * rates.written,
        group=group,
    )


def _together(count: int, group: int, rates: Rates) -> float:
    # Seconds of panels in the middle, which have the most to do.
    return group * min(TILE, count) * count * (count / 2 * rates.flop + rates.entry32)


def _panel(count: int) -> float:
    return 4.0 * count * min(TILE, count)


def conjugate(
    count: int,
    outputs: int,
    rank: int,
    iterations: float,
    *,
    keeps: bool,
    rates: Rates = Rates(),  # noqa: B008
) -> Plan:
    """Conjugate gradients with a preconditioner of this rank, in so many iterations."""
    entries = count * (count + 1) / 2
    each = entries * (8 * rates.byte if keeps else rates.entry64)
    each += 2 * count * rank * (2 * outputs * rates.flop + _STRIP * rates.byte)
    seconds = _START + _THIN + _columns(count, rank, rates) + iterations * each
    seconds += entries * rates.entry64 if keeps else 0
    needed = around(count, outputs) + 4 * count * rank + 16 * rank**2 + 16 * count * BLOCK
    needed += 2 * panel_bytes(count) if keeps else 0
    return Plan("conjugate gradients", rank, keeps, int(np.ceil(iterations)), needed, seconds)


def plans(
    count: int,
    outputs: int,
    iterations: Callable[[int], float],
    rates: Rates,
    residual: float = 1e-6,
    *,
    disk: float = np.inf,
    longest: float = np.inf,
) -> list[Plan]:
    """All ways, the fastest first; `iterations` says how many a preconditioner of some rank leaves.

    `disk` are the bytes that a file may take, `longest` the seconds that panels made together may take.
    """
    ranks = [rank for rank in _RANKS if rank <= count // 4]
    found = [direct(count, outputs, keeps=keeps, rates=rates, residual=residual) for keeps in (True, False)]
    if panel_bytes(count) < disk:
        found += [
            in_file(count, outputs, group, rates=rates, residual=residual)
            for group in _GROUPS
            if group == 1 or (group * TILE <= count and _together(count, group, rates) <= longest)
        ]
    found += [
        conjugate(count, outputs, rank, iterations(rank), keeps=keeps, rates=rates)
        for rank in ranks
        for keeps in (True, False)
    ]
    return sorted(found, key=lambda plan: plan.seconds)


def on_cluster(
    count: int, outputs: int, iterations: Callable[[int], float], rates: Rates, threads: int, *, keeps: bool
) -> list[Plan]:
    """Conjugate gradients whose products, and whose preconditioner, are made by so many threads elsewhere."""
    here, found = cores(), []
    for rank in _RANKS:
        if rank > count // 4:
            continue
        many, entries = iterations(rank), count * (count + 1) / 2
        there = entries * ((1 if keeps else many) * rates.entry64 + (many * 8 * rates.byte if keeps else 0))
        there += _columns(count, rank, rates)
        own = conjugate(count, outputs, rank, many, keeps=False, rates=rates._replace(entry64=0.0))
        seconds = own.seconds - _columns(count, rank, rates._replace(entry64=0.0)) + there * here / threads
        found.append(own._replace(keeps=keeps, seconds=seconds))
    return sorted(found, key=lambda plan: plan.seconds)


def _columns(count: int, rank: int, rates: Rates) -> float:
    # Columns and their Gram matrix, N k² operations each, in float64, which takes twice as long. Pivots are among the
    # points, and the kernel does lines with a pair of equal inputs again.
    return 4 * count * rank**2 * rates.flop + 2 * count * rank * rates.entry64


def fitting(found: list[Plan], count: int, memory: Any) -> Plan:
    """The fastest of these ways that fits the memory; a sentence where none does."""
    budget, now = parsed(memory), resident()
    for plan in found:
        if now + plan.bytes <= (1 - _MARGIN) * budget:
            return plan
    least = (now + min(plan.bytes for plan in found)) / (1 - _MARGIN)
    raise ValueError(
        f"memory is {_check.brief(memory)}, but {count} points take at least {in_words(least)}, of which this process "
        f"holds {in_words(now)} already: give memory='{np.ceil(least / 1e8) / 10:g}GB'."
    )


def in_words(size: float) -> str:
    """Bytes as people say them.

    >>> in_words(7.3e9), in_words(2.5e8)
    ('7.3 GB', '250 MB')
    """
    return f"{size / 1e9:.3g} GB" if size >= 1e9 else f"{np.ceil(size / 1e6):.0f} MB"
