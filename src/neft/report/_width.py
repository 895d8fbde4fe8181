"""The tables of the width expansion's results. Imported when one of them is printed, because they bring JAX along."""

import numpy as np

from ..width.results import (
    Asymptotics,
    Comparison,
    Criticality,
    Density,
    DepthFlow,
    Interpretation,
    PhaseDiagram,
    Statistics,
)
from . import _advice as _advice
from ._rows import SHOWN, spread, which
from ._tables import Table, tables

_MEANINGS = {
    "K": "kernel: variance of a preactivation",
    "Theta": "mean NTK",
    "V": "four-point vertex",
    "A": "NTK variance, same neuron",
    "B": "NTK variance, across neurons",
    "D": "NTK with preactivations, same neuron",
    "F": "NTK with preactivations, across neurons",
    "P": "dNTK, first kind",
    "Q": "dNTK, second kind",
    "R": "ddNTK I",
    "S": "ddNTK II, first kind",
    "T": "ddNTK II, second kind",
    "U": "ddNTK II, third kind",
    "K1": "next order of K",
    "Theta1": "next order of Theta",
}


@tables.register(Statistics)
def _statistics(stats: Statistics) -> tuple[Table, ...]:
    if any(value is not None and value.ndim > 1 for value in stats.tensors.values()):
        return _of_several_inputs(stats)
    layers = spread(len(stats.widths) - 1, SHOWN)
    rows = []
    for name, meaning in _MEANINGS.items():
        if name not in stats.tensors:
            continue
        values = stats.tensors[name]
        cells = ["–"] * len(layers) if values is None else [f"{values[l]:.6g}" for l in layers]
        rows.append((name, *cells, meaning))
    note = "A tensor at layer l is n_(l-1) times its correlator; K and Theta are those of infinite width."
    return (
        Table(
            title=f"Statistics of {' - '.join(map(str, stats.widths))}, {stats.activation}",
            columns=("tensor", *(f"layer {l + 1}" for l in layers), "what it is"),
            rows=tuple(rows),
            notes=(note, *_absent(stats)),
        ),
    )


def _absent(stats: Statistics | Interpretation) -> tuple[str, ...]:
    return (f"– {stats.lacking}: {stats.reason}.",) if stats.reason else ()


def _of_several_inputs(stats: Statistics) -> tuple[Table, ...]:
    known = {name: value for name, value in stats.tensors.items() if value is not None}
    pairs = {name: value for name, value in known.items() if value.ndim == 3}
    fours = {name: value for name, value in known.items() if value.ndim == 5}
    widths = " - ".join(map(str, stats.widths))
    notes = list(_absent(stats))
    shown = []
    if pairs:
        depth, N = next(iter(pairs.values())).shape[:2]
        rows = [
            (str(l + 1), f"{a + 1} {b + 1}", *(_rounded(value[l], (a, b)) for value in pairs.values()))
            for l in spread(depth, SHOWN)
            for a in spread(N, 4)
            for b in spread(N, 4)
            if a <= b
        ]
        columns = ("layer", "inputs", *pairs)
        shown.append(Table(title=f"Pairs of inputs, {widths}, {stats.activation}", columns=columns, rows=tuple(rows)))
    if fours:
        N = next(iter(fours.values())).shape[1]
        entries = list(np.ndindex(*(min(N, 2),) * 4))
        rows = [
            (" ".join(str(i + 1) for i in entry), *(_rounded(value[-1], entry) for value in fours.values()))
            for entry in entries
        ]
        shown.append(
            Table(
                title="Tensors of the output layer, subscripts in the order of docs/theory/width",
                columns=("inputs", *fours),
                rows=tuple(rows),
                notes=(*notes, *(["Of the first two inputs; --out or --json has all."] if N > 2 else [])),
            )
        )
    return tuple(shown)


def _rounded(tensor: np.ndarray, entry: tuple[int, ...]) -> str:
    # What symmetry makes zero is left as rounding.
    value = tensor[entry]
    return f"{value:.5g}" if abs(value) > 1e-9 * np.abs(tensor).max() else "0"


@tables.register(Comparison)
def _comparison(found: Comparison) -> tuple[Table, ...]:
    depth = len(found.widths) - 1
    rows, several, beyond = [], found.theory["K"].ndim > 1, found.next_order
    for name in found.theory:
        for l in range(depth):
            # The first layer of networks of blocks is drawn too, that of a perceptron is averaged over by hand.
            if l == 0 and not found.stderr[name][0].any():
                continue
            # Of several inputs, the entry that fits worst.
            entry = np.unravel_index(np.argmax(np.abs(found.z[name][l])), found.z[name][l].shape)
            where = (" ".join(str(i + 1) for i in entry),) if several else ()
            mean, error = found.simulation[name][l][entry], found.stderr[name][l][entry]
            values = (
                f"{found.theory[name][l][entry]:.5g}",
                f"{mean:.5g} ± {error:.2g}",
                f"{found.z[name][l][entry]:+.2f}" if beyond is None else f"{beyond[name][l][entry]:.2g}",
            )
            rows.append((name, str(l + 1), *where, *values))
    widths, *simulated = (" - ".join(map(str, widths)) for widths in (found.widths, *found.simulated))
    verdict = "agrees" if found.agrees else "DOES NOT AGREE"
    blocks = any(error[0].any() for error in found.stderr.values())
    first = 2 if blocks else 3  # the layer that is not exact at every width
    if beyond is not None:
        notes = (
            f"Drawn as it is, not extrapolated: from layer {first} on theory leaves out about what next order says.",
            "That is |K1|/n for K, |Theta1|/n for Theta, else the tensor times the largest relative correction; there "
            "is no verdict at one width.",
        )
    else:
        drawn = f"Drawn: {', '.join(simulated)}"
        notes = (
            f"{drawn}; from layer {first} on extrapolated in 1/width." if depth >= first else f"{drawn}.",
            f"Largest |z| is {found.worst:.2f}: simulation {verdict} (below 5). Layer 1 is exact"
            + (" in theory." if blocks else "."),
        )
    networks = f"{found.draws} networks" + (f" at each of {len(simulated)} widths" if len(simulated) > 1 else "")
    hidden = sorted({n for drawn in found.simulated for n in drawn[1:-1]})
    of = (
        " of these widths"
        if found.simulated == (found.widths,)
        else f" of hidden width{'s' * (len(hidden) > 1)} {_range(hidden)}"
    )
    columns = ("tensor", "layer", *(("worst entry",) if several else ()), "theory", "simulation")
    return (
        Table(
            title=f"Theory of {widths}, {found.activation}, against {networks}{of}",
            columns=(*columns, "z" if beyond is None else "next order"),
            rows=tuple(rows),
            notes=notes,
        ),
    )


def _range(numbers: list[int]) -> str:
    return str(numbers[0]) if len(numbers) == 1 else f"{numbers[0]} to {numbers[-1]}"


@tables.register(Criticality)
def _criticality(found: Criticality) -> tuple[Table, ...]:
    rows = tuple(
        (
            f"{point.C_b:.9g}",
            f"{point.C_W:.9g}",
            "every K" if point.K_star is None else f"{point.K_star:.9g}",
            point.universality,
            point.stability,
        )
        for point in found.points
    )
    columns = ("C_b", "C_W", "K*", "universality", "attracts from")
    title = f"Critical points of {found.activation}"
    if not rows:
        return (Table(title=title, notes=("There is none.", found.why)),)
    return (Table(title=title, columns=columns, rows=rows, notes=(found.why, *which(found.dense))),)


@tables.register(Asymptotics)
def _asymptotics(found: Asymptotics) -> tuple[Table, ...]:
    numbers = ("C_W", "A_2", "A_4", "a_half", "a_1", "b_1", "p", "V_slope", "growth")
    values = [(name, getattr(found, name)) for name in numbers if name != "growth" or found.growth is not None]
    values += [(f"limit of {name}", value) for name, value in (found.limits or {}).items()]
    rows = tuple((name, "–" if value is None else f"{value:.9g}") for name, value in values)
    title = f"Asymptotics of {found.activation} ({found.universality})"
    return (Table(title=title, columns=("coefficient", "value"), rows=rows, notes=(found.law,)),)


@tables.register(DepthFlow)
def _depth_flow(found: DepthFlow) -> tuple[Table, ...]:
    names = {"K": "K", "Theta": "Θ", "V": "V/K²", "A": "A/Θ²", "B": "B/Θ²", "K1": "K1/K", "Theta1": "Θ1/Θ"}
    shown = spread(len(found.depth), SHOWN)
    rows = [(str(found.depth[l]), *(f"{getattr(found, name)[l]:.6g}" for name in names)) for l in shown]
    if found.limits is not None:
        rows.append(("limit", "", "", *(f"{found.limits[name]:.6g}" for name in list(names)[2:])))
    branches = ", branches of 1/√L" if found.scaled else ""
    title = f"Depth of {found.block}{branches}"
    return (Table(title=title, columns=("blocks", *names.values()), rows=tuple(rows), notes=(found.summary,)),)


@tables.register(PhaseDiagram)
def _phases(diagram: PhaseDiagram) -> tuple[Table, ...]:
    shares = ((name, diagram.share(name)) for name in diagram.phases)
    areas = Table(
        title=f"Phases of {diagram.activation}",
        columns=("phase", "share of the grid"),
        rows=tuple((name, f"{100 * share:.3g} %") for name, share in shares if share),
        notes=tuple(
            f"Critical at C_b = {point.C_b:.6g}, C_W = {point.C_W:.6g}: {point.universality}."
            for point in diagram.points
        )
        + which(diagram.dense),
    )
    rows = []
    for i in spread(len(diagram.C_b), 3):
        for j in spread(len(diagram.C_W), 8):
            numbers = ("K_star", "perpendicular", "parallel", "xi_perpendicular", "xi_parallel")
            cells = [f"{getattr(diagram, name)[i, j]:.6g}" for name in numbers]
            rows.append((f"{diagram.C_b[i]:.6g}", f"{diagram.C_W[j]:.6g}", diagram.phases[diagram.phase[i, j]], *cells))
    samples = Table(
        title="At some points of the grid",
        columns=("C_b", "C_W", "phase", "K*", "χ_⊥", "χ_∥", "ξ_⊥", "ξ_∥"),
        rows=tuple(rows),
    )
    return areas, samples


@tables.register(Interpretation)
def _interpretation(found: Interpretation) -> tuple[Table, ...]:
    layers = spread(len(found.widths) - 1, SHOWN)
    rows = [(label, *_cells(found.sizes[name], layers), _MEANINGS[name]) for name, label in _UNITS.items()]
    rows += [
        ("√(V/n)/K", *_cells(found.spread_kernel, layers), "spread of the kernel over networks"),
        ("√((A+2B)/n)/Θ", *_cells(found.spread_ntk, layers), "spread of the NTK over networks"),
        ("largest", *_cells(found.strength, layers), "of variances and shifts of the means"),
    ]
    sizes = Table(
        title=f"Relative size of each correction, {' - '.join(map(str, found.widths))}, {found.activation}",
        columns=("correction", *(f"layer {l + 1}" for l in layers), "what it is"),
        rows=tuple(rows),
        notes=(*_absent(found), found.summary),
    )
    return sizes, *_density(found.density)


@tables.register(Density)
def _density(found: Density) -> tuple[Table, ...]:
    sign = "positive everywhere" if found.positive else "negative around √3 standard deviations"
    return (
        Table(
            title=f"Density of a neuron of layer {found.layer}",
            columns=("variance", "fourth cumulant", "trusted for |z| below", "in standard deviations"),
            rows=(
                tuple(
                    f"{v:.6g}" for v in (found.variance, found.fourth, found.reach, found.reach / found.variance**0.5)
                ),
            ),
            notes=(
                f"Gaussian times 1 + κ₄/(24κ₂²) He₄; {sign}; trusted where that factor is within {found.limit:g} of 1.",
            ),
        ),
    )


_UNITS = {"V": "V/nK²", "A": "A/nΘ²", "B": "B/nΘ²", "D": "D/nKΘ", "F": "F/nKΘ", "P": "P/nΘ²", "Q": "Q/nΘ²"}
_UNITS |= {name: f"{name}K/nΘ³" for name in "RSTU"} | {"K1": "K1/nK", "Theta1": "Θ1/nΘ"}


def _cells(values: np.ndarray | None, layers: list[int]) -> list[str]:
    return ["–"] * len(layers) if values is None else [f"{values[l]:.4g}" for l in layers]
