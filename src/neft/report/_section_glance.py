"""At a glance: is the network critical, how large are its finite-width effects, and what would neft change."""

from .. import width
from ..width.results import Advice
from ._blocks_glance import glance_at_blocks
from ._html import answers, code, paragraph, table
from ._math import math
from ._page import Context
from ._subject import Subject
from ._tables import Table

_NEAR = 1e-3
"""How far from 1 a susceptibility may be for a network that is called critical."""


def glance(context: Context) -> str:
    """The answers in words, and what to change, now and advised side by side."""
    of = context.of
    if of.chain is None:
        return glance_at_blocks(of)
    if of.jumps:
        return paragraph(
            f"{of.jumping} jumps, so its derivative holds a delta: gradients, susceptibilities and the "
            "NTK do not exist, and there is nothing to advise. Take an activation without jumps."
        )
    advice = _advice(of)
    r = math("r = L/n")
    return (
        answers(
            ("The network", _network(of)),
            ("Is it critical?", _critical(of)),
            ("How large are its finite-width effects?", _finite(of)),
            ("What would neft change?", _changes(of, advice)),
        )
        + table(_now_and_advised(of, advice))
        + f"<p>Finite-width effects grow with the aspect ratio {r} of depth and width. The advice and a program "
        "for PyTorch, JAX or Flax that follows it come from</p>" + code(_command(of))
    )


def _advice(of: Subject) -> Advice:
    net = of.plain
    return width.advise(
        net.activation, net.depth, of.width, inputs=net.widths[0], outputs=net.widths[-1], q=of.q or 1.0
    )


def _command(of: Subject) -> str:
    net = of.plain
    name = f"'{net.activation.name}'" if "(" in net.activation.name else net.activation.name
    sizes = f"--depth {net.depth} --width {of.width} --inputs {net.widths[0]} --outputs {net.widths[-1]}"
    return f"neft advise {name} {sizes} --q {of.q:.4g} --code torch"


def _network(of: Subject) -> str:
    net, train = of.plain, of.train
    widths = " - ".join(map(str, net.widths))
    tests = "" if of.test is None else f" and {of.test.count:,} test"
    return (
        f"{net.activation.name}, {net.depth} layers of widths {widths} with {net.parameter_count():,} parameters, on "
        f"{train.name}: {train.count:,} training{tests} examples of {train.features} inputs ({train.preprocessing}) in "
        f"{train.classes} classes."
    )


def _critical(of: Subject) -> str:
    net = of.plain
    C_b, C_W = net.C_b[-1], net.C_W[-1]
    uneven = len(set(net.C_b[1:])) > 1 or len(set(net.C_W[1:])) > 1
    last = " (those of its last layer; layers differ)" if uneven else ""
    found = width.phase(net.activation, C_b=[C_b], C_W=[C_W], tolerance=_NEAR)
    phase, K_star = found.phases[int(found.phase[0, 0])], float(found.K_star[0, 0])
    xi = float(found.xi_perpendicular[0, 0])
    at = f"C_b = {C_b:.4g} and C_W = {C_W:.4g}{last}"
    if phase == "critical":
        return (
            f"Yes. At {at} a small difference between two inputs is passed on as it is from layer to layer, and so are "
            "gradients on their way back."
        )
    if phase == "diverging":
        return f"No. At {at} the signal grows from layer to layer without bound."
    if phase == "unsettled":
        return f"No: at {at} the signal does not settle with more layers."
    verb = "forgets: differences between two inputs shrink" if phase == "ordered" else "amplifies: differences grow"
    depth = net.depth
    felt = (
        f"With {depth} layers this is hardly felt."
        if xi > 5 * depth
        else f"With {depth} layers this is felt."
        if depth < 5 * xi
        else f"{depth} layers are too many for it."
    )
    return (
        f"No. At {at} it is {phase} and {verb} e-fold every {xi:.3g} layers, at the variance K* = {K_star:.3g} "
        f"that the signal settles to. {felt}"
    )


def _finite(of: Subject) -> str:
    meaning, n, depth = of.meaning, of.width, of.plain.depth
    if depth == 1:
        return "There are none: one layer is exactly Gaussian at any width."
    strength = float(meaning.strength[-1])
    size = "small" if strength < 0.1 else "large" if strength < 1 else "as large as what they correct"
    ntk = "" if meaning.spread_ntk is None else f", and its NTK by {100 * float(meaning.spread_ntk[-1]):.2g} %"
    end = (
        "More layers were not seen to break the expansion in 1/n."
        if meaning.cutoff is None
        else f"With these variances and rates they would be as large as the mean from depth {meaning.cutoff:.0f} on."
    )
    return (
        f"r = L/n = {depth}/{n} = {depth / n:.2g}. They are {size}: the largest relative correction is {strength:.2g}. "
        f"From one random draw of the weights to the next the variance of an output differs by "
        f"{100 * float(meaning.spread_kernel[-1]):.2g} %{ntk} (standard deviations). {end}"
    )


def _changes(of: Subject, advice: Advice) -> str:
    net, said = of.plain, []
    same = all(abs(C - advice.C_b) < _NEAR for C in net.C_b) and all(
        abs(C - advice.C_W) < _NEAR * advice.C_W for C in net.C_W
    )
    if same:
        said.append("Not the variances: they are the advised ones already.")
    else:
        said.append(f"Take C_b = {advice.C_b:.4g} and C_W = {advice.C_W:.4g} ({advice.why}).")
    descent, adam = (advice.settings(name).rate_W[0] for name in ("sgd", "adam"))
    said.append(f"Train all parameters at one rate, {descent:.2g} with gradient descent or {adam:.2g} with Adam.")
    if advice.verdict == "fine":
        room = "any depth" if advice.comfortable is None else f"up to depth {advice.comfortable}"
        said.append(f"The aspect ratio may stay: at width {of.width}, {room} is comfortable.")
    elif advice.comfortable is not None and advice.comfortable >= 1:
        said.append(
            f"The network is {advice.verdict}: take at most {advice.comfortable} layers, or a width of at least "
            f"{advice.width_needed}."
        )
    else:
        said.append(f"The network is {advice.verdict}: take a width of at least {advice.width_needed}.")
    return " ".join(said)


def _now_and_advised(of: Subject, advice: Advice) -> Table:
    net, chosen = of.plain, advice.settings("sgd")
    weights = [rate * n for rate, n in zip(chosen.rate_W.tolist(), advice.widths)]
    rows = [
        ("C_b, variance of a bias", _brief(net.C_b), f"{advice.C_b:.4g}"),
        ("C_W, variance of a weight times its fan-in", _brief(net.C_W), f"{advice.C_W:.4g}"),
        ("λ_b, learning rates of biases, by layer", _brief(net.lambda_b), _brief(chosen.rate_b.tolist())),
        ("λ_W, of weights times fan-in, by layer", _brief(net.lambda_W), _brief(weights)),
        (
            "depth L at this width",
            str(net.depth),
            "any" if advice.comfortable is None else f"at most {max(advice.comfortable, 1)}",
        ),
        ("width n at this depth", str(of.width), f"at least {advice.width_needed}"),
    ]
    return Table(title="Now and advised", columns=("", "now", "advised"), rows=tuple(rows))


def _brief(values: "tuple[float, ...] | list[float]") -> str:
    if len(set(values)) == 1:
        return f"{values[0]:.4g}"
    shown = [f"{value:.3g}" for value in values]
    return ", ".join(shown if len(shown) <= 6 else [*shown[:3], "…", *shown[-2:]])
