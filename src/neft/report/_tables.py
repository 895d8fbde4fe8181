"""Tables: what of a result is worth reading, as rows of text. The command line and the page both print these."""

import functools
import math
import re
from dataclasses import dataclass
from importlib import import_module

from .._result import Result
from ..claims import full_outcomes
from ..claims.results import Ledger, Outcome
from ..describe.results import ActivationCard, Available, AveragesCard, BlocksCard, DataCard, NetworkCard, OutputDraws

_NUMBER = re.compile(r"[-+−]?(\d[\d,.]*(e[-+]?\d+)?|inf|∞)( ± \S+)?|[-–—]?", re.IGNORECASE)

# Modules that register the tables of a theory's results when the first of them is printed: a theory brings JAX along.
_LATER = {
    "action": "._action",
    "fisher": "._fisher",
    "models": "._models",
    "scaling": "._scaling",
    "sweep": "._sweep",
    "training": "._training",
    "width": "._width",
}

DERIVATIVES = ("σ", "σ'", "σ''", "σ'''")


@dataclass(frozen=True, kw_only=True)
class Table:
    """A title, the names of the columns, rows of text, and notes that stand below.

    >>> print(Table(title="Sizes", columns=("layer", "width"), rows=(("1", "64"), ("2", "8"))).text())
    Sizes
    layer  width
        1     64
        2      8
    """

    title: str
    columns: tuple[str, ...] = ()
    rows: tuple[tuple[str, ...], ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def numeric(self) -> tuple[bool, ...]:
        """For each column, whether it holds numbers only (and is set flush right)."""
        return tuple(
            bool(self.rows) and all(_NUMBER.fullmatch(row[i]) for row in self.rows) for i in range(len(self.columns))
        )

    def text(self) -> str:
        """The table as aligned plain text, one line per row, however wide."""
        lines = [self.columns, *self.rows] if self.rows else []
        widths = [max(len(line[i]) for line in lines) for i in range(len(self.columns))] if lines else []
        aligned = [
            "  ".join(
                cell.rjust(width) if numeric else cell.ljust(width)
                for cell, width, numeric in zip(line, widths, self.numeric, strict=True)
            ).rstrip()
            for line in lines
        ]
        return "\n".join([self.title, *aligned, *self.notes])


@functools.singledispatch
def tables(result: Result) -> tuple[Table, ...]:
    """The tables of a result; none for a type that has no table of its own."""
    folder = type(result).__module__.split(".")[1:2]
    if folder and (module := _LATER.pop(folder[0], None)):
        import_module(module, __package__)
        return tables(result)
    return ()


@tables.register(ActivationCard)
def _activation(card: ActivationCard) -> tuple[Table, ...]:
    facts = Table(
        title=f"Activation {card.name}",
        columns=("property", "value"),
        rows=(
            ("parity", card.parity or "none"),
            ("scale invariant", "yes" if card.scale_invariant else "no"),
            ("kinks", kinks(card)),
            ("nearest singularity", _singularity(card.singularity)),
        ),
    )
    if card.taylor is None:
        return facts, Table(title="Taylor series", notes=("not known to six digits",))
    side = ("Of the right-hand side: there is a kink at 0.",) if card.one_sided else ()
    series = Table(
        title="Taylor series at 0",
        columns=("order", "coefficient"),
        rows=tuple((str(k), f"{c:.15g}") for k, c in enumerate(card.taylor)),
        notes=side,
    )
    every = range(0, len(card.z), max(1, (len(card.z) - 1) // 10))
    points = Table(
        title="Values",
        columns=("z", *DERIVATIVES),
        rows=tuple((f"{card.z[i]:g}", *(f"{v:.6g}" for v in card.values[:, i])) for i in every),
    )
    return facts, points, series


def _singularity(radius: float) -> str:
    if math.isnan(radius):
        return "not known"
    return f"|z| = {radius:.6g}" if math.isfinite(radius) else "none"


def kinks(card: ActivationCard) -> str:
    """The kinks of an activation in words."""
    return "; ".join(f"{DERIVATIVES[n]} jumps by {jump:g} at {z:g}" for z, n, jump in card.kinks) or "none"


@tables.register(NetworkCard)
def _network(card: NetworkCard) -> tuple[Table, ...]:
    whole = zip(card.widths, card.widths[1:], card.parameters, strict=False)
    real = zip(card.var_b, card.var_W, card.rate_b, card.rate_W, card.K, strict=True)
    layers = Table(
        title=f"Network {' - '.join(map(str, card.widths))}, {card.activation}",
        columns=("layer", "fan-in", "width", "parameters", "Var b", "Var W", "rate b", "rate W", "K"),
        rows=tuple(
            (str(l), *map(str, sizes), *(f"{value:.6g}" for value in values))
            for l, (sizes, values) in enumerate(zip(whole, real, strict=True), 1)
        ),
        notes=(
            f"{len(card.K)} layers, {int(card.parameters.sum()):,} parameters.",
            "K: variance of a preactivation at infinite width, for an input of mean square one.",
        ),
    )
    return (layers,) if card.draws is None else (layers, _sampled(card.draws))


def _sampled(draws: OutputDraws) -> Table:
    return Table(
        title=f"Outputs of {len(draws.outputs)} draws",
        columns=("variance", "± stderr", "K", "z-score"),
        rows=((f"{draws.variance:.6g}", f"{draws.stderr:.2g}", f"{draws.K:.6g}", f"{draws.z_score:+.2f}"),),
    )


@tables.register(BlocksCard)
def _blocks(card: BlocksCard) -> tuple[Table, ...]:
    shown = {
        "block": [str(l) for l in range(1, len(card.blocks) + 1)],
        "width": [str(width) for width in card.widths[1:]],
        "parameters": [str(count) for count in card.parameters],
    }
    note = f"No K and Theta: {card.absent}"
    if card.K is not None and card.Theta is not None:
        shown |= {name: [f"{value:.6g}" for value in values] for name, values in (("K", card.K), ("Theta", card.Theta))}
        note = "K, Theta: variance and NTK after the block at infinite width; the input is 1 and -1 in turn."
    shown["what it is"] = list(card.blocks)
    found = Table(
        title=f"Network of {len(card.blocks)} blocks with weights",
        columns=tuple(shown),
        rows=tuple(zip(*shown.values(), strict=True)),
        notes=(f"{card.widths[0]} inputs, {int(card.parameters.sum()):,} parameters.", note),
    )
    return (found,) if card.draws is None else (found, _sampled(card.draws))


@tables.register(AveragesCard)
def _averages(card: AveragesCard) -> tuple[Table, ...]:
    shown = [abs(card.K - K).argmin() for K in (1e-3, 1e-1, 1.0, 1e1, 1e2)]
    rows = []
    for a, name in enumerate(card.activations):
        for i in shown:
            exact, naive = card.square[a, i], card.hermite[a, i]
            rows.append((name, f"{card.K[i]:.3g}", f"{exact:.12g}", f"{naive:.12g}", f"{abs(naive / exact - 1):.1e}"))
    return (
        Table(
            title="⟨σ²⟩ and Gauss-Hermite quadrature",
            columns=("σ", "K", "⟨σ²⟩", f"{card.nodes} nodes", "relative error of the nodes"),
            rows=tuple(rows),
        ),
    )


@tables.register(DataCard)
def _data(card: DataCard) -> tuple[Table, ...]:
    image = f" ({card.shape[0]} × {card.shape[1]})" if card.shape else ""
    taken = "".join(f", {name} {value:.6g}" for name, value in card.statistics.items())
    facts = Table(
        title=f"Data {card.name}",
        columns=("property", "value"),
        rows=(
            ("split", card.split),
            ("examples", f"{card.count:,}"),
            ("features", f"{card.features}{image}"),
            ("preprocessing", f"{card.preprocessing}{taken}"),
            ("checksum", card.checksum),
        ),
    )
    classes = Table(
        title="Classes",
        columns=("class", "examples", "prior"),
        rows=tuple((str(k), str(n), f"{n / card.count:.4f}") for k, n in enumerate(card.per_class)),
    )
    return facts, classes


@tables.register(Available)
def _available(known: Available) -> tuple[Table, ...]:
    rows = tuple((name, ", then ".join(places) or "not found") for name, places in known.places.items())
    note = "A folder or an .npz file of your own can be named by its path."
    return (Table(title="Data sets", columns=("name", "where"), rows=rows, notes=(note,)),)


@tables.register(Ledger)
def _ledger(ledger: Ledger) -> tuple[Table, ...]:
    if not ledger.outcomes:
        return (Table(title="Claims", notes=("The ledger is empty: no claim is registered yet.",)),)
    full = {outcome.id: outcome.verdict for outcome in full_outcomes()}
    rows = tuple(
        (o.id, o.source, o.equation, o.verdict, full.get(o.id, "-"), f"{o.seconds:.1f}", o.correction or o.summary)
        for o in ledger.outcomes
    )
    columns = ("claim", "source", "equation", ledger.level, "kept full", "seconds", "measured")
    return (Table(title="Claims", columns=columns, rows=rows),)


@tables.register(Outcome)
def _outcome(outcome: Outcome) -> tuple[Table, ...]:
    facts = {
        "statement": outcome.statement,
        "source": f"{outcome.source}, {outcome.equation}",
        "verdict": outcome.verdict,
        "measured": outcome.summary,
        **({"correction": outcome.correction} if outcome.correction else {}),
        **{name: f"{value:.6g}" for name, value in outcome.values.items()},
        "data": outcome.data or "none",
        "command": outcome.command,
    }
    return (Table(title=f"Claim {outcome.id}", columns=("", ""), rows=tuple(facts.items())),)
