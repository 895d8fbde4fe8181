"""The tables of the width expansion's results. Imported when one of them is printed, because they bring JAX along."""

from ..width import PHASES, Asymptotics, Comparison, Criticality, PhaseDiagram, Statistics
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
_SHOWN = 12


@tables.register(Statistics)
def _statistics(stats: Statistics) -> tuple[Table, ...]:
    layers = _spread(len(stats.widths) - 1, _SHOWN)
    rows = []
    for name, meaning in _MEANINGS.items():
        values = stats.tensors[name]
        cells = ["–"] * len(layers) if values is None else [f"{values[l]:.6g}" for l in layers]
        rows.append((name, *cells, meaning))
    notes = ["A tensor at layer l is n_(l-1) times its correlator; K and Theta are those of infinite width."]
    if stats.reason:
        notes.append(f"– does not exist: {stats.reason}.")
    return (
        Table(
            title=f"Statistics of {' - '.join(map(str, stats.widths))}, {stats.activation}",
            columns=("tensor", *(f"layer {l + 1}" for l in layers), "what it is"),
            rows=tuple(rows),
            notes=tuple(notes),
        ),
    )


@tables.register(Comparison)
def _comparison(found: Comparison) -> tuple[Table, ...]:
    depth = len(found.widths) - 1
    rows = [
        (
            name,
            str(l + 1),
            f"{found.theory[name][l]:.5g}",
            f"{found.simulation[name][l]:.5g} ± {found.stderr[name][l]:.2g}",
            f"{found.z[name][l]:+.2f}",
        )
        for name in found.theory
        for l in range(1, depth)
    ]
    widths = " - ".join(map(str, found.widths))
    verdict = "agrees" if found.agrees else "DOES NOT AGREE"
    return (
        Table(
            title=f"Theory against {found.draws} draws at each width, {widths}, {found.activation}",
            columns=("tensor", "layer", "theory", "simulation", "z"),
            rows=tuple(rows),
            notes=(
                f"Hidden widths times {', '.join(map(str, found.factors))}; from layer 3 on extrapolated in 1/width.",
                f"Largest |z| is {found.worst:.2f}: simulation {verdict} (below 5). Layer 1 is exact.",
            ),
        ),
    )


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
    return (Table(title=title, columns=columns, rows=rows, notes=(found.why,)),)


@tables.register(Asymptotics)
def _asymptotics(found: Asymptotics) -> tuple[Table, ...]:
    numbers = ("C_W", "A_2", "A_4", "a_half", "a_1", "b_1", "p", "V_slope")
    values = [(name, getattr(found, name)) for name in numbers]
    rows = tuple((name, "–" if value is None else f"{value:.9g}") for name, value in values)
    title = f"Asymptotics of {found.activation} ({found.universality})"
    return (Table(title=title, columns=("coefficient", "value"), rows=rows, notes=(found.law,)),)


@tables.register(PhaseDiagram)
def _phases(diagram: PhaseDiagram) -> tuple[Table, ...]:
    shares = ((name, diagram.share(name)) for name in PHASES)
    areas = Table(
        title=f"Phases of {diagram.activation}",
        columns=("phase", "share of the grid"),
        rows=tuple((name, f"{100 * share:.3g} %") for name, share in shares if share),
        notes=tuple(
            f"Critical at C_b = {point.C_b:.6g}, C_W = {point.C_W:.6g}: {point.universality}."
            for point in diagram.points
        ),
    )
    rows = []
    for i in _spread(len(diagram.C_b), 3):
        for j in _spread(len(diagram.C_W), 8):
            numbers = ("K_star", "perpendicular", "parallel", "xi_perpendicular", "xi_parallel")
            cells = [f"{getattr(diagram, name)[i, j]:.6g}" for name in numbers]
            rows.append((f"{diagram.C_b[i]:.6g}", f"{diagram.C_W[j]:.6g}", PHASES[diagram.phase[i, j]], *cells))
    samples = Table(
        title="At some points of the grid",
        columns=("C_b", "C_W", "phase", "K*", "χ_⊥", "χ_∥", "ξ_⊥", "ξ_∥"),
        rows=tuple(rows),
    )
    return areas, samples


def _spread(count: int, shown: int) -> list[int]:
    # Evenly over an axis, the first and the last included.
    return sorted({round(k * (count - 1) / max(1, shown - 1)) for k in range(shown)})
