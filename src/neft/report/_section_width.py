"""Width: the tensors through the layers against simulation, the phase diagram, the distributions over draws."""

import numpy as np

from .. import ensemble, plot, width
from ..network import MLP
from ._blocks_width import phases_of_blocks, through_blocks
from ._critical_words import criticality
from ._drawn import with_error
from ._figure import figure
from ._first import draws_of
from ._html import folded, heading, note, paragraph, side_by_side
from ._math import math
from ._meanings import MEANINGS
from ._page import Context
from ._reasons import no_phases
from ._subject import Subject
from ._tables import Table

_WIDEST, _DEEPEST = 128, 8
_DIFFERENTIALS = ("P", "Q", "R", "S", "T", "U")
_ROUNDING = 1e-5
"""Of simulations in single precision, relative."""

_NEAR = 1.6
"""Times the network's variances up to which critical points are drawn into its phase diagram; all are in the table."""

_HIDDEN = 0.02
"""Of the sides of the diagram: what is nearer to the diamond lies under it."""

_SHOWN = ("K", "Theta", "V")
"""What everything else follows from; the other tensors are folded away."""


def flow(context: Context) -> str:
    """Every tensor, layer by layer: theory as a line, drawn networks with their errors."""
    of, draws = context.of, 256 if context.quick else 1000
    if of.chain is None:
        return through_blocks(context)
    net, changed = _simulated(of.plain)
    theory = width.statistics(net, of.x) if changed else of.stats
    exist = [name for name, values in theory.tensors.items() if values is not None]
    wanted = [name for name in exist if not ((context.quick or net.depth > _DEEPEST) and name in _DIFFERENTIALS)]
    found = ensemble.estimate(net, of.x, draws=draws, key=of.key, only=wanted, dtype=np.float32)
    pictures = {
        name: figure(
            plot.tensor(theory, found, name),
            name=f"tensor-{name}",
            alt=f"{name}, the {MEANINGS[name]}, in each of {net.depth} layers: theory"
            + (" and simulation with error bars" if name in wanted else " only"),
            caption=f"{MEANINGS[name][0].upper()}{MEANINGS[name][1:]}. {_agreement(theory, found, name)}",
        )
        for name in exist
    }
    others = [name for name in exist if name not in _SHOWN]
    return (
        heading("Through the layers")
        + paragraph("At infinite width everything follows from the kernel K, the variance of a preactivation,")
        + math("K^{l+1} = C_b + C_W ⟨σ^2⟩_{K^l}", block=True)
        + paragraph(
            "and from the NTK Θ, the speed at which outputs learn. Finite width adds, to first order in 1/n, a few "
            "tensors; the first is V: over random draws the kernel of a layer fluctuates with variance V/n. Lines are "
            f"theory, points {draws} networks drawn at random, of widths {' - '.join(map(str, net.widths))}, with two "
            "standard errors."
        )
        + side_by_side(*(pictures[name] for name in exist if name in _SHOWN), narrow=True)
        + (
            folded(
                f"{len(others)} more tensors: {', '.join(_letters(others))}",
                side_by_side(*(pictures[name] for name in others), narrow=True),
            )
            if others
            else ""
        )
        + _remarks(of, theory, exist, wanted, changed)
    )


def _letters(names: list[str]) -> list[str]:
    return [name.replace("Theta", "Θ").replace("1", "₁") for name in names]


def _agreement(theory: width.results.Statistics, found: ensemble.results.Estimates, name: str) -> str:
    """How far the points are from the line at the output, in numbers: what the eye should see."""
    estimate = found.tensors.get(name)
    if estimate is None:
        return "Theory alone."
    line, mean, error = (float(values[-1]) for values in (getattr(theory, name), estimate.mean, estimate.stderr))
    apart = abs(mean - line)
    if apart <= max(2 * error, _ROUNDING * abs(line)):
        return "At the output theory and simulation agree within two standard errors."
    part = f"{100 * apart / abs(line):.2g} % of it" if line else f"{apart:.2g}"
    above = "above" if mean > line else "below"
    return (
        f"At the output simulation is {above} theory by {part}, {apart / error:.1f} standard errors: next order in 1/n."
    )


def _simulated(net: MLP) -> tuple[MLP, bool]:
    # Leading order knows the ratios of hidden widths only, so wide networks are simulated by narrower ones.
    widest = max(net.widths[1:-1], default=1)
    if widest <= _WIDEST:
        return net, False
    hidden = (max(2, round(n * _WIDEST / widest)) for n in net.widths[1:-1])
    widths = (net.widths[0], *hidden, net.widths[-1])
    return net.replace(widths=widths), True


def _remarks(of: Subject, theory: width.results.Statistics, exist: list[str], wanted: list[str], changed: bool) -> str:
    said = []
    if changed:
        said.append(f"Simulated hidden layers are at most {_WIDEST} wide; the ratios of widths are kept.")
    if len(exist) < len(theory.tensors):
        said.append(f"The other tensors do not exist for {of.plain.activation.name}: {theory.reason}.")
    if len(wanted) < len(exist):
        said.append(f"{', '.join(name for name in exist if name not in wanted)} take longest and were not simulated.")
    return "".join(map(note, said))


def phases(context: Context) -> str:
    """The phase diagram, with this network on it."""
    of = context.of
    if reason := no_phases(of):
        return heading("Is it critical?") + note(reason)
    if of.jumps:
        return note(f"{of.jumping} jumps, so there is no phase diagram: χ_⊥ does not exist.")
    if of.chain is None:
        return heading("Is it critical?") + phases_of_blocks(context)
    C_b, C_W = of.plain.C_b[-1], of.plain.C_W[-1]
    points = width.critical(of.plain.activation).points
    # Those far away would take the room of what is near.
    near = [point for point in points if point.C_W <= _NEAR * C_W and point.C_b <= max(_NEAR * C_b, 1.0)]
    high_b = max(0.5, 1.25 * max([C_b, *(point.C_b for point in near)]))
    high_W = max(2.0, 1.4 * max([C_W, *(point.C_W for point in near)]))
    low_W = min(0.25 * high_W, 0.8 * C_W)
    count = 31 if context.quick else 61
    diagram = width.phase(
        of.plain.activation, C_b=np.linspace(0.0, high_b, count), C_W=np.linspace(low_W, high_W, count)
    )
    said, stars = in_the_diagram(diagram, C_b, C_W)
    return (
        heading("Is it critical?") + paragraph(criticality(of).answer) + "<p>The diamond is this "
        f"network{' (its last layer)' if len(set(of.plain.C_W)) + len(set(of.plain.C_b)) > 2 else ''}. "
        f"{said}</p>"
        + figure(
            plot.placed(diagram, C_b=C_b, C_W=C_W),
            name="phases",
            alt=f"Phase diagram of {of.plain.activation.name} in C_W and C_b: depth scale, critical points, and this "
            f"network at C_W = {C_W:.4g}, C_b = {C_b:.4g}",
            caption="Colours: how many layers it takes for the difference of two inputs to change e-fold."
            + stars * " The nearer the diamond to a star, the deeper the network may be.",
            text=(_points(of, points, C_b, C_W),),
        )
    )


def in_the_diagram(diagram: width.results.PhaseDiagram, C_b: float, C_W: float) -> tuple[str, bool]:
    """What the line and the stars of the picture mean, as far as they are in it, and whether there are stars."""
    chi = math("χ_⊥ = C_W ⟨σ′^2⟩_{K^*} = 1")
    line = min(diagram.share("ordered"), diagram.share("chaotic")) > 0.01  # as `plot.phase` draws it
    said = f"On the white line the susceptibility {chi}:" if line else f"Where the susceptibility {chi},"
    said += " a deep network neither forgets nor amplifies the difference of two inputs."
    x, y = diagram.C_W, diagram.C_b
    seen = [point for point in diagram.points if x[0] <= point.C_W <= x[-1] and y[0] <= point.C_b <= y[-1]]
    if seen:
        away = [max(abs(p.C_W - C_W) / np.ptp(x), abs(p.C_b - C_b) / np.ptp(y)) for p in seen]
        said += " Stars are critical points, where its variance keeps its size too"
        said += "; one lies under the diamond." if min(away) < _HIDDEN else "."
    return said, bool(seen)


def _points(of: Subject, points: tuple[width.results.CriticalPoint, ...], C_b: float, C_W: float) -> Table:
    rows = [("this network", f"{C_b:.4g}", f"{C_W:.4g}")]
    rows += [(f"critical point, {point.universality}", f"{point.C_b:.4g}", f"{point.C_W:.4g}") for point in points]
    return Table(title=f"Phase diagram of {of.plain.activation.name}", columns=("", "C_b", "C_W"), rows=tuple(rows))


def distributions(context: Context) -> str:
    """The NTK of drawn networks beside what theory says of it, and the variance of their outputs."""
    of, start = context.of, heading("From draw to draw")
    if of.chain is None and of.unknown:
        return start + note(of.unknown)
    stats, n, found = of.stats, of.width, draws_of(of, context.quick)
    draws = len(found.outputs)
    finite = stats.tensors.get("V") is not None and stats.tensors.get("K1") is not None
    predicted = width.density(stats).variance if finite else float(stats.K[-1])
    variance, error = with_error((found.outputs**2).mean(1))
    said = f"In {draws} draws an output's variance is {variance:.4g} ± {error:.1g}, and {predicted:.4g} is predicted"
    beyond = "" if finite else " Predictions are those of infinite width, from which networks differ by order 1/width."
    if of.jumps:
        return start + paragraph(f"{said}.{beyond}")
    mean = Theta = float(stats.Theta[-1])
    spread = None
    if stats.tensors.get("A") is not None:
        spread = float(np.sqrt((stats.A[-1] + 2 * stats.B[-1]) / n))
    if stats.tensors.get("Theta1") is not None:
        mean += float(stats.Theta1[-1]) / n
    return (
        start
        + paragraph(f"{said}{_of_ntk(found.ntk, mean, spread)}.{beyond}")
        + figure(
            plot.ntk_distribution(found.ntk, mean=mean, spread=spread, infinite=Theta),
            name="ntk",
            alt=f"Density of the NTK's diagonal elements of {draws} drawn networks with error bars, and "
            + ("the NTK of infinite width" if spread is None else "a log-normal of the predicted mean and spread"),
            caption="How fast an output would learn from this example. At infinite width all draws stand on the dashed "
            "line; at this width they spread around it"
            + (". The curve is a log-normal of the mean and spread that theory says." if spread and mean > 0 else "."),
        )
    )


def _of_ntk(ntk: np.ndarray, mean: float, spread: float | None) -> str:
    found, error = with_error(ntk.mean(1))
    variance, of_variance = with_error(((ntk - ntk.mean()) ** 2).mean(1))
    width = np.sqrt(variance)
    predicted = "" if spread is None else f" ({spread:.3g} predicted)"
    return (
        f"; the NTK's mean is {found:.4g} ± {error:.1g} ({mean:.4g} predicted), its standard deviation {width:.3g} ± "
        f"{of_variance / (2 * width) if width else 0:.1g}{predicted}"
    )
