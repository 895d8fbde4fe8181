"""The tables of relative Fisher metrics and of training. Imported when one of them is printed."""

from ..fisher.results import Curves, Geometry
from ._tables import Table, tables

_SHOWN = 10


@tables.register(Geometry)
def _geometry(found: Geometry) -> tuple[Table, ...]:
    facts = Table(
        title=f"Metric of a {found.kind}",
        columns=("property", "value"),
        rows=(
            ("parameters", str(found.parameters)),
            ("inputs", str(found.samples)),
            ("rank", str(found.rank)),
            ("trace", f"{found.spectrum.sum():.6g}"),
            ("inputs that speak", f"{found.effective_samples:.4g}"),
        ),
    )
    eigenvalues = Table(
        title="Largest eigenvalues",
        columns=("number", "eigenvalue", "share of the trace"),
        rows=tuple(
            (str(i + 1), f"{value:.6g}", f"{value / max(found.spectrum.sum(), 1e-300):.4f}")
            for i, value in enumerate(found.spectrum[:_SHOWN])
        ),
    )
    ranked = sorted(found.information, reverse=True)[:_SHOWN]
    inputs = Table(
        title="Most informative inputs",
        columns=("input", "information"),
        rows=tuple((str(place), f"{value:.6g}") for place, value in zip(found.order, ranked)),
    )
    return facts, eigenvalues, inputs


@tables.register(Curves)
def _curves(found: Curves) -> tuple[Table, ...]:
    names = ("train_cost", "train_accuracy", "validation_cost", "validation_accuracy", "cpu_seconds")
    rows = tuple(
        (f"{epoch:g}", *(f"{getattr(found, name)[i]:.4f}" for name in names)) for i, epoch in enumerate(found.epochs)
    )
    network = " - ".join(map(str, found.widths)) + (", batch norm" if found.batch_norm else "")
    rate = f"rate {found.learning_rate:g} ({found.schedule})"
    return (
        Table(
            title=f"{found.optimizer}, {rate}, {network}, {found.inputs} inputs",
            columns=("epoch", *(name.replace("_", " ") for name in names)),
            rows=rows,
            notes=(f"Test accuracy {found.test_accuracy:.4f}; data {found.data['name']}.",),
        ),
    )
