"""The tensors of a network's layers for the page, by programs that no slider compiles again.

A network is padded to one of two depths with layers that change nothing or are not looked at, so that depth is a number
like the others: a residual block of a branch without weights and a skip of 1 is the identity, and of other networks the
layers behind the output are left out.
"""

import dataclasses
import functools
import gc
import re
import warnings
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import numpy as np

from .. import MLP, Dense, Made, Network, Residual, width
from ..width.results import Statistics
from ._numbers import short
from ._settings import Settings

PADDED = (32, 128)
"""Depths of programs."""

_WIDTH = 64
_BLOCK = re.compile(r"Residual\(.*\)")  # in a sentence, with the width of the program instead of the page's
_MAPS, _MOST_MAPS = Path("/proc/self/maps"), 30_000


def statistics(settings: Settings) -> Statistics:
    """What `neft.width.statistics` gives for one input of ones.

    >>> statistics(Settings(activation="relu", C_W=2.0, depth=3)).K.round(6)
    array([2., 2., 2.])
    """
    net, found = settings.network(), tensors(settings)
    x = np.ones(settings.width)
    made = Made.by("neft.width.statistics", specification={"net": net, "x": x}, tolerances=found.made.tolerances)
    return dataclasses.replace(found, widths=net.widths, made=made)


def tensors(settings: Settings) -> Statistics:
    """The same numbers at once, but for the record of the network that they are of.

    Where all widths are equal the tensors do not depend on them, so that networks of one width serve all.
    """
    if settings.own:
        # Averages of a user's own function refine themselves, without programs.
        own = dataclasses.replace(settings, width=_WIDTH)
        return width.statistics(own.network(), np.ones(_WIDTH))
    deeper = next(depth for depth in PADDED if depth >= settings.depth)
    found = width.statistics(_padded(settings, deeper), np.ones(_WIDTH))
    last = -1 if settings.residual != "none" else settings.depth - 1
    kept = [*range(settings.depth - 1), last]
    cut = {name: None if value is None else np.asarray(value)[kept] for name, value in found.tensors.items()}
    return dataclasses.replace(found, tensors=cut)


def _padded(settings: Settings, deeper: int) -> Any:
    more = deeper - settings.depth
    # Behind the output, which they do not change, K = 1 neither dies nor overflows.
    behind = dict.fromkeys(settings.dense, 0.0) | {"C_b": 1.0}
    if settings.plain:
        longer = {name: (value,) * settings.depth + (behind[name],) * more for name, value in settings.dense.items()}
        return MLP((_WIDTH,) * deeper + (1,), settings.activation, **longer)
    first, last = Dense(_WIDTH, **settings.dense), Dense(1, **settings.dense)
    whole = _template(settings.activation, settings.residual, settings.norm, deeper)
    if settings.residual == "none":
        before, blocks = whole.blocks[1:3], [first]
        for dense in [first] * (settings.depth - 1) + [Dense(_WIDTH, **behind)] * more:
            blocks += [*before, dense]
        blocks[-1] = Dense(1, **behind) if more else last
    else:
        block: Any = whole.blocks[1]
        *inner, _ = block.branch
        if settings.residual == "two":
            inner[-2] = first
        branch = Residual(*inner, first, skip=settings.skip)
        nothing = Residual(*inner, Dense(_WIDTH, **dict.fromkeys(settings.dense, 0.0)), skip=1.0)
        end = whole.blocks[deeper - 1 : -1]
        blocks = [first, *[branch] * (settings.depth - 2), *[nothing] * more, *end, last]
    # To check a network whose blocks are known takes longer than its tensors.
    return eqx.tree_at(lambda net: net.blocks, whole, tuple(blocks))


@functools.lru_cache(maxsize=16)
def _template(name: str, residual: str, norm: str, deeper: int) -> Network:
    return Settings(activation=name, residual=residual, norm=norm, depth=deeper, width=_WIDTH).network()


def flow(settings: Settings) -> dict[str, Any]:
    """The tensors layer by layer, and a sentence for each one that does not exist."""
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        stats = tensors(settings)
    present, absent = {}, {}
    for name in stats.tensors:
        try:
            present[name] = short(np.asarray(getattr(stats, name)), 10)
        except width.AbsentTensor as error:
            absent[name] = _BLOCK.sub("the repeated block", str(error))
    free_programs()
    return {
        "tensors": present,
        "absent": absent,
        "widths": [settings.width] * settings.depth + [1],
        "notes": sorted({f"{str(one.message).rstrip('.')}." for one in said}),
    }


def words(settings: Settings) -> dict[str, Any]:
    """What the numbers mean, and what to do: the sentences of `interpret` and of `advise`."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            meaning = width.interpret(statistics(settings))
            said = {"summary": meaning.summary, "cutoff": short(meaning.cutoff), "source": meaning.cutoff_from}
        except ValueError as error:
            said = {"summary": str(error), "cutoff": None, "source": None}
        advice = _advice(*(getattr(settings, name) for name in _ADVISED))
    free_programs()
    return {"interpretation": said, "advice": advice}


_ADVISED = ("activation", "residual", "skip", "norm", "depth", "width")


@functools.lru_cache(maxsize=256)
def _advice(*values: Any) -> dict[str, Any]:
    settings = Settings(**dict(zip(_ADVISED, values)))
    try:
        advice = width.advise(settings.repeated(), settings.depth, settings.width)
    except ValueError as error:
        return {"summary": str(error), "verdict": None, "C_b": None, "C_W": None, "kind": None}
    numbers = {"C_b": short(advice.C_b), "C_W": short(advice.C_W)}
    return {"summary": advice.summary, "verdict": advice.verdict, "kind": advice.kind, **numbers}


def free_programs() -> None:
    """Forget compiled programs where they are many: each holds memory maps, of which Linux allows 65,530."""
    if not _MAPS.exists():
        return
    with _MAPS.open("rb") as lines:
        held = sum(1 for _ in lines)
    if held > _MOST_MAPS:
        jax.clear_caches()
        gc.collect()
