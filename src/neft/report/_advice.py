"""The tables of advice: what to draw, what to train with, what a short run showed. Imported by those of the width."""

import itertools
from collections.abc import Callable, Sequence
from math import isnan

import numpy as np

from .._percent import percent
from ..width.results import Advice, BlockAdvice, Group, Settings, Trial
from ._rows import SHOWN, spread, which
from ._tables import Table, tables

_WARM_UP = "No warm-up: these rates were set without one, from the first step on (docs/advice)."


@tables.register(Advice)
def _advice(found: Advice) -> tuple[Table, ...]:
    rows = [
        ("C_b, variance of a bias", f"{found.C_b:.9g}"),
        ("C_W, variance of a weight times its fan-in", f"{found.C_W:.9g}"),
        *_last_of(found),
        *_rates_of(found),
        ("spread of the output's variance over networks", _percent(found.spread_output)),
        ("spread of its NTK, all layers having equal shares", _percent(found.spread_ntk)),
        ("excess kurtosis of an output", f"{found.excess_kurtosis:.3g}"),
        ("largest relative correction", f"{found.strength:.3g}"),
        ("depth at which it is 1, at this width", _or_none(found.cutoff, "none was seen")),
        ("largest depth at which it is below 0.1", _or_none(found.comfortable, "any")),
        ("width at which it is below 0.1, at this depth", str(found.width_needed)),
        ("headway of gradient descent", "not known" if isnan(found.headway) else f"{found.headway:.3g}"),
        ("verdict on depth/width", found.verdict),
    ]
    if found.xi is not None:
        rows.insert(2, ("layers over which two inputs' difference changes e-fold", f"{found.xi:.3g}"))
    notes = [found.summary]
    if found.q_star is not None:
        notes.append(f"Inputs of mean square {found.q_star:.6g} start at K* = {found.K_star:.6g}.")
    notes += [
        f"Another critical point: C_b = {point.C_b:.6g}, C_W = {point.C_W:.6g} ({point.universality})."
        for point in found.others
    ]
    title = f"Advice for {found.activation}, depth {found.depth}, width {found.width}"
    numbers = Table(title=title, columns=("what", "value"), rows=tuple(rows), notes=tuple(notes))
    rates = [found.settings(name).rate_W for name in ("sgd", "adam")]
    C_W = np.append(np.full(found.depth - 1, found.C_W), found.C_W_last)
    layers = Table(
        title="Layer by layer",
        columns=("layer", "fan-in", "Var b", "Var W", "K", "rate of gradient descent", "rate of Adam"),
        rows=tuple(
            (
                str(l + 1),
                str(found.widths[l]),
                f"{found.C_b:.6g}" if found.biases else "–",
                *(f"{value:.6g}" for value in (C_W[l] / found.widths[l], found.K[l])),
                *(f"{values[l]:.3g}" for values in rates),
            )
            for l in spread(found.depth, SHOWN)
        ),
        notes=("Draw biases and weights with Var b and Var W. K is the variance of a preactivation that follows.",),
    )
    return numbers, layers


@tables.register(Settings)
def _settings(found: Settings) -> tuple[Table, ...]:
    columns = {"sgd": ("rate",), "momentum": ("rate",), "adam": ("rate", "ε")}
    shown = columns.get(found.optimizer, ("rate", "weight decay", "ε"))

    def row(name: str, group: Group) -> tuple[str, ...]:
        values = {"rate": group.rate, "weight decay": group.decay, "ε": group.epsilon}
        return (name, *(f"{values[column]:.4g}" for column in shown))

    kinds = {"weights": found.weights, "biases": found.biases, "gains and biases of norms": (found.norms,)}
    rows = []
    for kind, each in kinds.items():
        there = [(l, group) for l, group in enumerate(each, 1) if group is not None]
        for group, places in _runs(there):
            rows.append(row(kind + _where(places, len(each)), group))
    more = [f"momentum {found.momentum:g}"] * (found.momentum > 0)
    more += [] if found.betas is None else [f"betas {found.betas[0]:g} and {found.betas[1]:g}"]
    title = ", ".join([f"Settings of {found.optimizer}", *more])
    notes = (f"Rates: {found.why}. The loss is a mean over the batch.", _WARM_UP)
    return (Table(title=title, columns=("group", *shown), rows=tuple(rows), notes=notes),)


def _runs(each: Sequence[tuple[int, Group]]) -> list[tuple[Group, list[int]]]:
    """Groups one after the other with the layers that have them, equal neighbours joined."""
    joined = itertools.groupby(each, key=lambda pair: pair[1])
    return [(group, [layer for layer, _ in pairs]) for group, pairs in joined]


def _where(layers: list[int], count: int) -> str:
    if len(layers) == count:
        return ""
    one, two = layers[0], layers[-1]
    return f", layer {one}" if one == two else f", layers {one} to {two}"


@tables.register(Trial)
def _trial(found: Trial) -> tuple[Table, ...]:
    shown = spread(len(found.step), SHOWN)
    rows = [(str(found.step[i]), *(f"{one[i]:.4g}" for one in found.losses)) for i in shown]
    rows.append((f"end, {found.points} training points", *(f"{value:.4g}" for value in found.final)))
    columns = ("step", *(f"{name}, rate {rate:.3g}" for name, rate in zip(found.names, found.rates)))
    title = f"{found.loss.capitalize()} with {found.optimizer}, batches of {found.batch}"
    return (Table(title=title, columns=columns, rows=tuple(rows), notes=(found.summary,)),)


def _last_of(found: Advice) -> tuple[tuple[str, str], ...]:
    """The last layer's weights where they are not as the others."""
    return () if found.C_W_last == found.C_W else (("C_W of the last layer", f"{found.C_W_last:.9g}"),)


def _rates_of(found: Advice | BlockAdvice) -> tuple[tuple[str, str], ...]:
    """One rate for all layers."""
    if isinstance(found, BlockAdvice) and not len(found.share):
        return ()  # of an older file
    names = (("sgd", "gradient descent"), ("adam", "Adam"))
    return tuple((f"rate of {word}, all layers", f"{found.settings(name).rate_W[0]:.3g}") for name, word in names)


@tables.register(BlockAdvice)
def _block_advice(found: BlockAdvice) -> tuple[Table, ...]:
    unknown = "not known"
    rows = [
        ("C_b, variance of a bias", f"{found.C_b:.9g}"),
        ("C_W, variance of a weight times its fan-in", f"{found.C_W:.9g}"),
        *_rates_of(found),
        ("growth of two near inputs' difference through the blocks", f"{found.difference:.3g}"),
        ("NTK of the output at infinite width", f"{found.Theta:.6g}"),
        ("spread of the output's variance over networks", _or_none(found.spread_output, unknown, _percent)),
        ("spread of the output's NTK over networks", _or_none(found.spread_ntk, unknown, _percent)),
        ("largest relative correction", _or_none(found.strength, unknown, "{:.3g}".format)),
        ("width at which it is below 0.1, at this depth", _or_none(found.width_needed, unknown)),
        ("depth at which it is 1, at this width", _or_none(found.cutoff, "not seen", "{:.0f}".format)),
        ("factor for branches beside skips of 1 that makes it 0.1", _or_none(found.branch_scale, "–", "{:.3g}".format)),
        ("verdict on depth/width", found.verdict),
    ]
    others = (
        f"Another critical point: C_b = {point.C_b:.6g}, C_W = {point.C_W:.6g} ({point.universality})."
        for point in found.others
    )
    title = f"Advice for {found.activation}, depth {found.depth}, width {found.width}"
    notes = (found.summary, *which(found.dense), *others)
    blocks = Table(
        title="Block by block",
        columns=("block", "K before", "K after", "χ_∥", "χ_⊥"),
        rows=tuple(
            (str(l + 1), *(f"{v[l]:.6g}" for v in (found.K, found.K[1:], found.parallel, found.perpendicular)))
            for l in spread(len(found.parallel), SHOWN)
        ),
    )
    return Table(title=title, columns=("what", "value"), rows=tuple(rows), notes=notes), blocks


def _percent(part: float) -> str:
    return percent(part) if part < 1e-4 else f"{100 * part:.3g} %"


def _or_none(value: float | None, otherwise: str, words: Callable[[float], str] = "{:.0f}".format) -> str:
    return otherwise if value is None else words(value)
