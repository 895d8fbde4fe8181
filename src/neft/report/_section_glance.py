"""In short: what finite width does to the network, in a sentence, three numbers and a picture, and what to change."""

from .. import width
from .._percent import two_digits
from ..width.results import Advice
from ._blocks_glance import glance_at_blocks
from ._critical_words import NEAR, criticality
from ._first import advised, first_screen, outputs, sizes, verdict
from ._html import folded, note, paragraph, table
from ._page import Context
from ._subject import Subject
from ._tables import Table


def glance(context: Context) -> str:
    """The first screen, and below it, folded, what is now and what is advised."""
    of = context.of
    if of.chain is None:
        return glance_at_blocks(context)
    if of.jumps:
        return paragraph(
            f"{of.jumping} jumps, so its derivative holds a delta: gradients, susceptibilities and the "
            "NTK do not exist, and there is nothing to advise. Take an activation without jumps."
        )
    advice = _advice(of)
    return (
        first_screen(
            verdict(of),
            criticality(of).short,
            sizes(of) if of.plain.depth > 1 else (),
            outputs(of, context.quick),
            advised(_changes(of, advice), _command(of, advice)),
        )
        + (note(_how_large(of)) if of.plain.depth > 1 else "")
        + folded("The network, now and as advised", paragraph(_network(of)) + table(_now_and_advised(of, advice)))
    )


def _advice(of: Subject) -> Advice:
    net = of.plain
    return width.advise(
        net.activation, net.depth, of.width, inputs=net.widths[0], outputs=net.widths[-1], q=of.q or 1.0
    )


def _command(of: Subject, advice: Advice) -> str:
    net = of.plain
    wide = of.width if advice.verdict == "fine" else max(of.width, advice.width_needed)
    name = f"'{net.activation.name}'" if "(" in net.activation.name else net.activation.name
    sizes = f"--depth {net.depth} --width {wide} --inputs {net.widths[0]} --outputs {net.widths[-1]}"
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


def _how_large(of: Subject) -> str:
    meaning, n, depth = of.meaning, of.width, of.plain.depth
    end = (
        "more layers were not seen to break the expansion in 1/n"
        if meaning.cutoff is None
        else "with these variances and rates it would be 1, where the expansion ends, from depth "
        f"{meaning.cutoff:.0f} on"
    )
    return (
        f"All three are 0 at infinite width and grow with depth over width, here L/n = {depth}/{n} = "
        f"{depth / n:.2g}. The "
        f"largest relative correction is {two_digits(float(meaning.strength[-1]))}; {end}."
    )


def _changes(of: Subject, advice: Advice) -> str:
    net, said = of.plain, []
    same = all(abs(C - advice.C_b) < NEAR for C in net.C_b) and all(
        abs(C - good) < NEAR * good for C, good in zip(net.C_W, _weights(advice))
    )
    if same:
        said.append("Not the variances: they are the advised ones already.")
    else:
        last = "" if advice.C_W_last == advice.C_W else f", {advice.C_W_last:.4g} in the last layer"
        said.append(f"Take C_b = {advice.C_b:.4g} and C_W = {advice.C_W:.4g}{last} ({advice.why}).")
    if advice.verdict == "fine":
        room = "any depth" if advice.comfortable is None else f"up to depth {advice.comfortable}"
        said.append(f"The aspect ratio may stay: at width {of.width}, {room} is comfortable.")
    elif advice.comfortable is not None and advice.comfortable > 1:
        said.append(
            f"The network is {advice.verdict}: take at most {advice.comfortable} layers, or a width of at least "
            f"{advice.width_needed}."
        )
    else:
        said.append(f"The network is {advice.verdict}: take a width of at least {advice.width_needed}.")
    descent, adam = (advice.settings(name).rate_W[0] for name in ("sgd", "adam"))
    said.append(f"Train at the rate {descent:.2g} with gradient descent or {adam:.2g} with Adam.")
    return " ".join(said)


def _weights(advice: Advice) -> tuple[float, ...]:
    """C_W of every layer."""
    return (*[advice.C_W] * (advice.depth - 1), advice.C_W_last)


def _now_and_advised(of: Subject, advice: Advice) -> Table:
    net, chosen = of.plain, advice.settings("sgd")
    weights = [rate * n for rate, n in zip(chosen.rate_W.tolist(), advice.widths)]
    rows = [
        ("C_b, variance of a bias", _brief(net.C_b), f"{advice.C_b:.4g}"),
        ("C_W, variance of a weight times its fan-in", _brief(net.C_W), _brief(_weights(advice))),
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
