"""The tables of the width expansion's results. Imported when one of them is printed, because they bring JAX along."""

from ..width import Comparison, Statistics
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


def _layers(depth: int) -> list[int]:
    # All layers of a shallow network; of a deep one some that are evenly spread, the first and the last included.
    if depth <= _SHOWN:
        return list(range(depth))
    return sorted({round(i * (depth - 1) / (_SHOWN - 1)) for i in range(_SHOWN)})


@tables.register(Statistics)
def _statistics(stats: Statistics) -> tuple[Table, ...]:
    layers = _layers(len(stats.widths) - 1)
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
