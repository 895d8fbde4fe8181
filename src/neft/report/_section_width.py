"""Width: the tensors through the layers against simulation, the phase diagram, the distributions over draws."""

import jax
import numpy as np

from .. import ensemble, plot, width
from ..network import MLP
from ._drawn import drawn
from ._figure import figure
from ._html import heading, note, paragraph, side_by_side
from ._math import math
from ._page import Context
from ._subject import Subject

_WIDEST, _DEEPEST = 128, 8
_DIFFERENTIALS = ("P", "Q", "R", "S", "T", "U")
_MEANINGS = {
    "K": "variance of a preactivation",
    "Theta": "mean of the NTK",
    "V": "fluctuation of the kernel",
    "A": "fluctuation of the NTK's diagonal",
    "B": "fluctuation of the NTK between neurons",
    "D": "NTK and kernel together",
    "F": "NTK and outputs together",
    "P": "dNTK, first pairing",
    "Q": "dNTK, second pairing",
    "R": "ddNTK of the first kind",
    "S": "ddNTK of the second kind",
    "T": "ddNTK, second kind, crossed",
    "U": "ddNTK, second kind, crossed again",
    "K1": "next order of K",
    "Theta1": "next order of the NTK",
}


def flow(context: Context) -> str:
    """Every tensor, layer by layer: theory as a line, drawn networks with their errors."""
    of, draws = context.of, 256 if context.quick else 1000
    net, changed = _simulated(of.net)
    theory = width.statistics(net, of.x) if changed else of.stats
    exist = [name for name, values in theory.tensors.items() if values is not None]
    wanted = [name for name in exist if not ((context.quick or net.depth > _DEEPEST) and name in _DIFFERENTIALS)]
    found = ensemble.estimate(net, of.x, draws=draws, key=of.key, only=wanted, dtype=np.float32)
    pictures = [
        figure(
            plot.tensor(theory, found, name),
            name=f"tensor-{name}",
            alt=f"{name}, the {_MEANINGS[name]}, in each of {net.depth} layers: theory"
            + (" and simulation with error bars" if name in wanted else " only"),
            caption=_MEANINGS[name],
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
    return MLP(widths, net.activation, C_b=net.C_b, C_W=net.C_W, lambda_b=net.lambda_b, lambda_W=net.lambda_W), True


def _remarks(of: Subject, theory: width.Statistics, exist: list[str], wanted: list[str], changed: bool) -> str:
    said = ["Points and lines differ by what is of next order in 1/n, and by chance."]
    if changed:
        said.append(f"Simulated hidden layers are at most {_WIDEST} wide; the ratios of widths are kept.")
    if len(exist) < len(theory.tensors):
        said.append(f"The other tensors do not exist for {of.net.activation.name}: {theory.reason}.")
    if len(wanted) < len(exist):
        said.append(f"{', '.join(name for name in exist if name not in wanted)} take longest and were not simulated.")
    return "".join(map(note, said))


def phases(context: Context) -> str:
    """The phase diagram, with this network on it."""
    of = context.of
    if of.jumps:
        return note(f"{of.net.activation.name} jumps, so there is no phase diagram: χ_⊥ does not exist.")
    C_b, C_W = of.net.C_b[-1], of.net.C_W[-1]
    points = width.critical(of.net.activation).points
    high_b = max(0.5, 1.25 * max([C_b, *(point.C_b for point in points)]))
    high_W = max(2.0, 1.4 * max([C_W, *(point.C_W for point in points)]))
    low_W = min(0.25 * high_W, 0.8 * C_W)
    count = 31 if context.quick else 61
    diagram = width.phase(of.net.activation, C_b=np.linspace(0.0, high_b, count), C_W=np.linspace(low_W, high_W, count))
    chi = math("χ_⊥ = C_W ⟨σ′^2⟩_{K^*} = 1")
    return (
        heading("Phases")
        + f"<p>The white line is {chi}: on it a deep network neither forgets nor amplifies the difference of two "
        "inputs; stars are critical points, where its variance is marginal too. The diamond is this network"
        + (" (its last layer)" if len(set(of.net.C_W)) + len(set(of.net.C_b)) > 2 else "")
        + ".</p>"
        + figure(
            plot.placed(diagram, C_b=C_b, C_W=C_W),
            name="phases",
            alt=f"Phase diagram of {of.net.activation.name} in C_W and C_b: depth scale, critical points, and this "
            f"network at C_W = {C_W:.4g}, C_b = {C_b:.4g}",
            caption="How many layers it takes for the difference of two inputs to change e-fold.",
        )
    )


def distributions(context: Context) -> str:
    """Outputs and NTK of drawn networks beside what theory says of them."""
    of, draws = context.of, 500 if context.quick else 1500
    stats, n = of.stats, of.width
    found = drawn(of.net, of.x, draws, jax.random.fold_in(of.key, 1))
    density = width.density(stats)
    pieces = [
        figure(
            plot.output_distribution(density, found.outputs),
            name="outputs",
            alt=f"Density of the outputs of {draws} drawn networks with error bars, the Gaussian of infinite width and "
            "the density of order 1/width",
            caption="An output at the typical example, over random draws of all weights; bars are two standard errors.",
        )
    ]
    mean = spread = 0.0
    if not of.jumps:
        Theta, spread = float(stats.Theta[-1]), float(np.sqrt((stats.A[-1] + 2 * stats.B[-1]) / n))
        mean = Theta + float(stats.Theta1[-1]) / n if stats.tensors.get("Theta1") is not None else Theta
        pieces.append(
            figure(
                plot.ntk_distribution(found.ntk, mean=mean, spread=spread, infinite=Theta),
                name="ntk",
                alt=f"Density of the NTK's diagonal elements of {draws} drawn networks with error bars, and a Gaussian "
                "of the predicted mean and spread",
                caption="How fast this output would learn from this example: it differs from draw to draw.",
            )
        )
    variance, error = _with_error((found.outputs**2).mean(1))
    said = f"An output's variance is predicted as {density.variance:.4g} and is {variance:.4g} ± {error:.1g}"
    return (
        heading("Over random draws")
        + paragraph(f"{said} in {draws} draws{'' if of.jumps else _of_ntk(found.ntk, mean, spread)}.")
        + side_by_side(*pieces)
    )


def _with_error(per_draw: np.ndarray) -> tuple[float, float]:
    # Outputs of one draw share its hidden layers, so a draw counts once.
    return float(per_draw.mean()), float(per_draw.std(ddof=1) / np.sqrt(len(per_draw)))


def _of_ntk(ntk: np.ndarray, mean: float, spread: float) -> str:
    found, error = _with_error(ntk.mean(1))
    variance, of_variance = _with_error(((ntk - ntk.mean()) ** 2).mean(1))
    width = np.sqrt(variance)
    return (
        f"; the NTK's mean is predicted as {mean:.4g} and is {found:.4g} ± {error:.1g}, its standard deviation "
        f"{spread:.3g} and {width:.3g} ± {of_variance / (2 * width) if width else 0:.1g}"
    )
