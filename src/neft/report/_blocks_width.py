"""Width, for networks of blocks: K, Θ and correlations through the blocks, and the tensors where blocks have them."""

import math as numbers
from collections.abc import Iterator
from typing import Any

import numpy as np

from .. import ensemble, plot, width
from ..network import Network
from ._drawn import affordable
from ._figure import figure
from ._html import folded, heading, note, paragraph, side_by_side
from ._math import math
from ._meanings import MEANINGS
from ._page import Context
from ._passed import Curve, correlation, curve, passed_on
from ._reasons import no_finite_width
from ._subject import Subject
from ._tables import Table

_WIDEST, _DRAWS = 24, 256
"""Of the networks that stand for wide ones where tensors are simulated: their Jacobians are whole."""

_GRID = 31
"""Points of a phase diagram along each axis."""

_SIMULATED = ("V", "A", "B", "D", "F")


def through_blocks(context: Context) -> str:
    """K, Θ and the correlation of two inputs after each block: theory as lines, drawn networks with their errors."""
    of = context.of
    start = heading("Through the blocks")
    if of.unknown:
        return start + note(of.unknown) + _finite_width(context)
    x, names = _three(of)
    draws = affordable(of.net, 64 if context.quick else 256, context.quick)
    theory = width.statistics(of.net, x, only=("K",) if of.jumps else ("K", "Theta"))
    found = passed_on(of.net, x, draws, of.key)
    blocks, every = f"in each of {of.net.depth} blocks", np.arange(of.net.depth) + 1
    pictures = [
        figure(
            plot.through_blocks(theory.K[None, :, 0, 0], *_rows(curve(found.K[:, :, 0, 0])), every, label="K"),
            name="blocks-K",
            alt=f"K, the {MEANINGS['K']}, {blocks}: theory and drawn networks with error bars",
            caption=f"{_capital(MEANINGS['K'])}: points should lie on the line but for order 1/width.",
        )
    ]
    if not of.jumps:
        places = np.array(found.places) + 1
        pictures.append(
            figure(
                plot.through_blocks(theory.Theta[None, :, 0, 0], *_rows(curve(found.Theta)), places, label="Θ"),
                name="blocks-Theta",
                alt=f"Θ, the {MEANINGS['Theta']}, {blocks}: theory and drawn networks with error bars",
                caption=f"{_capital(MEANINGS['Theta'])}: likewise.",
            )
        )
    seen = [correlation(found.K, 0, b) for b in range(1, len(x))]
    rho = np.stack([correlation(theory.K[None].repeat(2, axis=0), 0, b).mean for b in range(1, len(x))])
    mean, stderr = (np.stack([getattr(one, part) for one in seen]) for part in ("mean", "stderr"))
    pictures.append(
        figure(
            plot.through_blocks(rho, mean, stderr, every, label="correlation", names=names),
            name="blocks-correlation",
            alt=f"Correlation of two inputs {blocks}: theory and drawn networks with error bars",
            caption="Correlation of the typical example with two others: where it goes to 1, inputs are forgotten.",
        )
    )
    return (
        start
        + paragraph(
            "At infinite width the preactivations after each block are Gaussian, with the covariance K over inputs. A "
            "dense block makes of what enters it, of mean square ⟨s²⟩,"
        )
        + math("K′ = C_b + C_W ⟨s^2⟩", block=True)
        + math("Θ′ = λ_b + λ_W ⟨s^2⟩ + C_W Θ", block=True)
        + _of_others(of)
        + paragraph(
            f"Lines are theory at infinite width, points are {draws} networks of the real width drawn at random, with "
            "two standard errors, for a typical training example."
        )
        + side_by_side(*pictures, narrow=True)
        + note("Points and lines differ by what is of order 1/width, and by chance.")
        + _finite_width(context)
    )


def phases_of_blocks(context: Context) -> str:
    """The phase diagram of the block that is repeated, over the variances of its last dense block."""
    of = context.of
    if context.quick:
        return note("--quick leaves out the phase diagram of a block, which takes long: neft phase has it.")
    assert of.step is not None
    records = list(_dense(of.step))
    C_b, C_W = (float(records[-1][name]) for name in ("C_b", "C_W"))
    grid_b = np.linspace(0.0, max(0.5, 1.25 * C_b), _GRID)
    grid_W = np.linspace(min(0.1, 0.5 * C_W), max(2.0, 1.4 * C_W), _GRID)
    diagram = width.phase(of.step, C_b=grid_b, C_W=grid_W, dense=len(records) - 1)
    return paragraph(
        f"Of the block {of.criticality.activation}, over the variances of its last dense block, the others being what "
        "they are: how many blocks it takes for the difference of two inputs to change e-fold. The diamond is this "
        "network."
    ) + figure(
        plot.placed(diagram, C_b=C_b, C_W=C_W),
        name="phases",
        alt=f"Phase diagram of {of.criticality.activation} in C_W and C_b, and this network",
        caption="How many blocks it takes for the difference of two inputs to change e-fold.",
        text=(
            Table(
                title="This network",
                columns=("C_b", "C_W"),
                rows=((f"{C_b:.4g}", f"{C_W:.4g}"),),
            ),
        ),
    )


def _dense(blocks: Any) -> Iterator[dict[str, Any]]:
    # The records of all dense blocks, in the order in which they stand.
    for record in (block.to_dict() for block in blocks):
        for one in record.get("branch", [record]):
            if isinstance(one, dict) and one["type"] == "Dense":
                yield one


def _rows(found: Curve) -> tuple[np.ndarray, np.ndarray]:
    return found.mean[None], found.stderr[None]


def _of_others(of: Subject) -> str:
    said = ""
    if "Residual" in of.others:
        said += paragraph("A residual block adds its branch to the stream, which has passed the skip γ:")
        said += math("K′ = γ^2 K + K_{'branch'}", block=True) + math("Θ′ = γ^2 Θ + Θ_{'branch'}", block=True)
    if {"RMSNorm", "LayerNorm"} & set(of.others):
        centred = "; LayerNorm subtracts the mean over entries first" if "LayerNorm" in of.others else ""
        said += paragraph(f"A norm divides by the size of the whole stage{centred}. Of two inputs it leaves the angle:")
        said += math("K_{12} → \\frac{K_{12}}{\\sqrt{(K_{11} + ε)(K_{22} + ε)}}", block=True)
    return said


def _three(of: Subject) -> tuple[np.ndarray, tuple[str, ...]]:
    # The typical example, the first other one of its class, the first one of another class.
    same, others = of.train.y == of.train.y[of.place], np.arange(of.train.count) != of.place
    found = {"same class": np.flatnonzero(same & others)[:1], "another class": np.flatnonzero(~same)[:1]}
    chosen = {name: int(place[0]) for name, place in found.items() if len(place)}
    return of.train.x[[of.place, *chosen.values()]].astype(np.float64), tuple(chosen)


def _finite_width(context: Context) -> str:
    of = context.of
    start = heading("At order 1/width")
    if reason := no_finite_width(of):
        return start + note(reason)
    said, theory, found = [], of.stats, None
    try:
        net = _narrow(of.net)
        theory = width.statistics(net, of.x)
        wanted = [name for name in _SIMULATED if theory.tensors.get(name) is not None]
        if context.quick:
            said.append("--quick leaves out their simulation, which takes long.")
        else:
            found = ensemble.estimate(net, of.x, draws=_DRAWS, key=of.key, only=wanted, dtype=np.float32)
            widths = " - ".join(map(str, net.widths))
            said.append(f"Points are {_DRAWS} networks of widths {widths}, whose ratios are this network's.")
            said.append("Only V, A, B, D and F are simulated for blocks, and not at the first one, which is Gaussian.")
    except ValueError as error:
        said.append(str(error))
    exist = [name for name, value in theory.tensors.items() if value is not None and name not in ("K", "Theta")]
    if len(exist) + 2 < len(theory.tensors):
        lacking = {"does not exist": "do not exist"}.get(theory.lacking, "are not known")
        said.append(f"The other tensors {lacking} for {theory.activation}: {theory.reason}.")
    pictures = {
        name: figure(
            plot.through_blocks(*_of_tensor(theory, found, name), label=name),
            name=f"tensor-{name}",
            alt=f"{name}, the {MEANINGS[name]}, in each of {of.net.depth} blocks: theory"
            + (" and simulation with error bars" if found is not None and name in found.tensors else " only"),
            caption=f"{_capital(MEANINGS[name])}.",
        )
        for name in exist
    }
    return (
        start
        + paragraph(
            "What finite width adds is, to first order in 1/n, these tensors: a correlation after a block is its "
            "tensor over the width n before the block. Lines are theory at leading order."
        )
        + side_by_side(*(pictures[name] for name in exist if name == "V"), narrow=True)
        + folded(
            f"{len(exist) - 1} more tensors",
            side_by_side(*(pictures[name] for name in exist if name != "V"), narrow=True),
        )
        + "".join(map(note, said))
    )


def _capital(words: str) -> str:
    return words[0].upper() + words[1:]


def _of_tensor(
    theory: width.results.Statistics, found: ensemble.results.Estimates | None, name: str
) -> tuple[np.ndarray, ...]:
    # At the first block the fluctuations are exactly none, and a simulation would show its noise times n_0.
    line = getattr(theory, name)[None]
    seen = None if found is None else found.tensors.get(name)
    if seen is None:
        return line, np.zeros((1, 0)), np.zeros((1, 0)), np.zeros(0, int)
    return line, seen.mean[None, 1:], seen.stderr[None, 1:], np.arange(2, line.shape[1] + 1)


def _narrow(net: Network) -> Network:
    """The network of the same ratios of widths whose widest stage is at most _WIDEST wide."""
    hidden = net.hidden_widths()
    common = numbers.gcd(*hidden)
    factor = max(1, _WIDEST * common // max(hidden))
    if factor * max(hidden) // common > 2 * _WIDEST:
        raise ValueError(
            f"The hidden widths {', '.join(map(str, hidden))} have no common factor that makes them narrow, so nothing "
            "is simulated here."
        )
    return net if factor >= common else net.resized(lambda n: n * factor // common)
