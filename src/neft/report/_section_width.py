"""Width: the tensors through the layers against simulation, the phase diagram, the distributions over draws."""

import jax
import numpy as np

from .. import ensemble, plot, width
from ..network import MLP
from ._blocks_width import phases_of_blocks, through_blocks
from ._drawn import affordable, drawn, with_error
from ._figure import figure
from ._html import heading, note, paragraph, side_by_side
from ._math import math
from ._meanings import MEANINGS
from ._page import Context
from ._reasons import no_phases
from ._subject import Subject

_WIDEST, _DEEPEST = 128, 8
_DIFFERENTIALS = ("P", "Q", "R", "S", "T", "U")


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
    pictures = [
        figure(
            plot.tensor(theory, found, name),
            name=f"tensor-{name}",
            alt=f"{name}, the {MEANINGS[name]}, in each of {net.depth} layers: theory"
            + (" and simulation with error bars" if name in wanted else " only"),
            caption=MEANINGS[name],
        )
        for name in exist
    ]
    return (
        heading("Through the layers")
        + paragraph("At infinite width everything follows from a kernel,")
        + math("K^{l+1} = C_b + C_W ⟨σ^2⟩_{K^l}", block=True)
        + paragraph(
            "and what finite width adds is, to first order in 1/n, these tensors: a correlation of layer l is its "
            f"tensor over n. Lines are theory at leading order, points are {draws} networks drawn at random, of widths "
            f"{' - '.join(map(str, net.widths))}, with two standard errors, for a typical training example."
        )
        + side_by_side(*pictures, narrow=True)
        + _remarks(of, theory, exist, wanted, changed)
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
    said = ["Points and lines differ by what is of next order in 1/n, and by chance."]
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
        return heading("Phases") + note(reason)
    if of.jumps:
        return note(f"{of.jumping} jumps, so there is no phase diagram: χ_⊥ does not exist.")
    if of.chain is None:
        return heading("Phases") + phases_of_blocks(context)
    C_b, C_W = of.plain.C_b[-1], of.plain.C_W[-1]
    points = width.critical(of.plain.activation).points
    high_b = max(0.5, 1.25 * max([C_b, *(point.C_b for point in points)]))
    high_W = max(2.0, 1.4 * max([C_W, *(point.C_W for point in points)]))
    low_W = min(0.25 * high_W, 0.8 * C_W)
    count = 31 if context.quick else 61
    diagram = width.phase(
        of.plain.activation, C_b=np.linspace(0.0, high_b, count), C_W=np.linspace(low_W, high_W, count)
    )
    chi = math("χ_⊥ = C_W ⟨σ′^2⟩_{K^*} = 1")
    return (
        heading("Phases")
        + f"<p>The white line is {chi}: on it a deep network neither forgets nor amplifies the difference of two "
        "inputs; stars are critical points, where its variance is marginal too. The diamond is this network"
        + (" (its last layer)" if len(set(of.plain.C_W)) + len(set(of.plain.C_b)) > 2 else "")
        + ".</p>"
        + figure(
            plot.placed(diagram, C_b=C_b, C_W=C_W),
            name="phases",
            alt=f"Phase diagram of {of.plain.activation.name} in C_W and C_b: depth scale, critical points, and this "
            f"network at C_W = {C_W:.4g}, C_b = {C_b:.4g}",
            caption="How many layers it takes for the difference of two inputs to change e-fold.",
        )
    )


def distributions(context: Context) -> str:
    """Outputs and NTK of drawn networks beside what theory says of them."""
    of, draws, start = context.of, 500 if context.quick else 1500, heading("Over random draws")
    if of.chain is None:
        draws = affordable(of.net, draws, context.quick)
        if of.unknown:
            return start + note(of.unknown)
    stats, n = of.stats, of.width
    found = drawn(of.net, of.x, draws, jax.random.fold_in(of.key, 1))
    # Where blocks have no tensors of order 1/width, theory is that of infinite width.
    finite = stats.tensors.get("V") is not None and stats.tensors.get("K1") is not None
    density = width.density(stats) if finite else float(stats.K[-1])
    predicted = density.variance if isinstance(density, width.results.Density) else density
    pieces = [
        figure(
            plot.output_distribution(density, found.outputs),
            name="outputs",
            alt=f"Density of the outputs of {draws} drawn networks with error bars, the Gaussian of infinite width"
            + (" and the density of order 1/width" if finite else ""),
            caption="An output at the typical example, over random draws of all weights; bars are two standard errors.",
        )
    ]
    mean, spread = 0.0, None
    if not of.jumps:
        mean = Theta = float(stats.Theta[-1])
        if stats.tensors.get("A") is not None:
            spread = float(np.sqrt((stats.A[-1] + 2 * stats.B[-1]) / n))
        if stats.tensors.get("Theta1") is not None:
            mean += float(stats.Theta1[-1]) / n
        pieces.append(
            figure(
                plot.ntk_distribution(found.ntk, mean=mean, spread=spread, infinite=Theta),
                name="ntk",
                alt=f"Density of the NTK's diagonal elements of {draws} drawn networks with error bars, and "
                + ("the NTK of infinite width" if spread is None else "a Gaussian of the predicted mean and spread"),
                caption="How fast this output would learn from this example: it differs from draw to draw.",
            )
        )
    variance, error = with_error((found.outputs**2).mean(1))
    said = f"An output's variance is predicted as {predicted:.4g} and is {variance:.4g} ± {error:.1g}"
    beyond = "" if finite else " Predictions are those of infinite width, from which networks differ by order 1/width."
    return (
        start
        + paragraph(f"{said} in {draws} draws{'' if of.jumps else _of_ntk(found.ntk, mean, spread)}.{beyond}")
        + side_by_side(*pieces)
    )


def _of_ntk(ntk: np.ndarray, mean: float, spread: float | None) -> str:
    found, error = with_error(ntk.mean(1))
    variance, of_variance = with_error(((ntk - ntk.mean()) ** 2).mean(1))
    width = np.sqrt(variance)
    predicted = "" if spread is None else f"{spread:.3g} and "
    return (
        f"; the NTK's mean is predicted as {mean:.4g} and is {found:.4g} ± {error:.1g}, its standard deviation "
        f"{'is ' if spread is None else ''}{predicted}{width:.3g} ± {of_variance / (2 * width) if width else 0:.1g}"
    )
