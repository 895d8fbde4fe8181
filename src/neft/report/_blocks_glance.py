"""A network of blocks in short: what it is, what it does to a signal, and what is not known of it."""

import numpy as np

from .._percent import percent
from ..network import Block, Dense, LayerNorm, Nonlinearity, Residual, RMSNorm
from ._first import advised, first_screen, outputs, sizes, verdict
from ._html import answers, folded, table
from ._page import Context
from ._reasons import no_advice, no_finite_width, no_phases
from ._subject import Subject
from ._tables import Table

_ROWS = 12


def glance_at_blocks(context: Context) -> str:
    """The first screen, the answers in words, and the blocks in a table."""
    of = context.of
    absent = no_finite_width(of)
    known = absent is None and not of.jumps
    asked = [
        ("The network", _network(of)),
        ("What does it do to a signal?", of.unknown or _signal(of)),
        ("Is it critical?", no_phases(of) or _critical(of)),
        ("How large are its finite-width effects?", _finite(of)),
    ]
    return (
        first_screen(
            verdict(of) if known else "What finite width does to this network is known by simulation only.",
            "" if known else absent or "",
            sizes(of) if known else (),
            "" if of.unknown else outputs(of, context.quick),
            advised(no_advice(of) or _advice(of), "" if no_advice(of) else _command(of)),
        )
        + answers(*asked)
        + folded(f"The {of.net.depth} blocks that hold weights", table(_blocks(of)))
    )


def _network(of: Subject) -> str:
    net, train = of.net, of.train
    tests = "" if of.test is None else f" and {of.test.count:,} test"
    return (
        f"{net.depth} blocks with weights, {net.parameter_count():,} parameters ({'; '.join(_runs(of.words))}), on "
        f"{train.name}: {train.count:,} training{tests} examples of {train.features} inputs ({train.preprocessing}) in "
        f"{train.classes} classes."
    )


def _runs(words: tuple[str, ...]) -> list[str]:
    # Equal blocks in a row are said once.
    found: list[tuple[str, int, int]] = []
    for place, text in enumerate(words, 1):
        if found and found[-1][0] == text:
            found[-1] = (text, found[-1][1], place)
        else:
            found.append((text, place, place))
    return [f"block {a}: {text}" if a == b else f"blocks {a} to {b}: {text} each" for text, a, b in found]


def _signal(of: Subject) -> str:
    stats = of.stats
    said = [f"At infinite width the variance K of a preactivation {_course(stats.K)}"]
    if not of.jumps:
        said.append(f"the NTK Θ {_course(stats.Theta)}")
    return f"{'; '.join(said)}. This is for the training example of median size, |x|²/n₀ = {of.q:.3g}."


def _course(values: np.ndarray) -> str:
    if len(values) == 1:
        return f"is {values[0]:.3g}"
    course = f"is {values[0]:.3g} after the first block"
    if len(values) > 2:
        course = f"goes from {values[0]:.3g} after the first block to {values[-2]:.3g} before the last"
    return f"{course} and is {values[-1]:.3g} at the output"


def _finite(of: Subject) -> str:
    if reason := no_finite_width(of):
        return f"Theory does not say ({reason.rstrip('.')}); simulations below do."
    stats, n = of.stats, of.width
    ntk = ""
    if stats.tensors.get("A") is not None:
        part = np.sqrt((stats.A[-1] + 2 * stats.B[-1]) / n) / stats.Theta[-1]
        ntk = f", and its NTK by {percent(float(part))}"
    spread = np.sqrt(max(stats.V[-1], 0.0) / n) / stats.K[-1]
    return (
        f"From one random draw of the weights to the next the variance of an output differs by {percent(float(spread))}"
        f"{ntk} (standard deviations). {of.meaning.summary}"
    )


def _critical(of: Subject) -> str:
    found = of.criticality
    if not found.points:
        return found.why
    best = found.points[0]
    return (
        f"Its block {found.activation} is critical with C_b = {best.C_b:.4g} and C_W = {best.C_W:.4g} of {found.dense} "
        f"({best.universality})."
    )


def _advice(of: Subject) -> str:
    return of.advice if isinstance(of.advice, str) else of.advice.summary


def _command(of: Subject) -> str:
    # What the command line can say by itself; any other block comes from the file that the network was read from.
    if isinstance(of.advice, str):
        return ""
    found, net = of.advice, of.net
    wide = of.width if found.width_needed is None else max(of.width, found.width_needed)
    sizes = f"--depth {found.depth} --width {wide} --inputs {net.inputs} --outputs {net.outputs} --q {of.q:.4g}"
    words = in_words_of_the_command_line(of) or "--network net.json"
    command = f"neft advise {words} {sizes} --code torch"
    return command if "--network" not in words else f"# net.json: net.to_dict() by json.dump\n{command}"


def in_words_of_the_command_line(of: Subject) -> str | None:
    """The block as the options of `neft advise` say it, or None where they cannot."""
    assert of.step is not None
    block, *others = of.step
    if others or not isinstance(block, Residual) or isinstance(block.skip, Block):
        return None
    *norm, act, dense = block.branch if len(block.branch) > 1 else (None, None)
    norms = {repr(RMSNorm()): "rms", repr(LayerNorm()): "layer"}
    if not isinstance(act, Nonlinearity) or not isinstance(dense, Dense) or len(norm) > 1:
        return None
    if norm and repr(norm[0]) not in norms:
        return None
    named = act.activation.name
    words = [f"'{named}'" if "(" in named else named, "--residual"]
    words += [] if float(block.skip) == 1 else [f"--skip {float(block.skip):.6g}"]
    return " ".join([*words, *(f"--norm {norms[repr(one)]}" for one in norm)])


def _blocks(of: Subject) -> Table:
    # K and Θ are those of the typical example.
    depth = of.net.depth
    shown = sorted({round(k * (depth - 1) / (_ROWS - 1)) for k in range(_ROWS)}) if depth > _ROWS else range(depth)
    counts, widths = of.net.parameters_of_parts(), of.net.widths[1:]
    columns: dict[str, np.ndarray | None] = {"K": None, "Theta": None}
    if not of.unknown:
        columns = {name: of.stats.tensors[name] for name in columns}
    rows = tuple(
        (
            str(l + 1),
            str(widths[l]),
            f"{counts[l]:,}",
            *("-" if values is None else f"{values[l]:.4g}" for values in columns.values()),
            of.words[l],
        )
        for l in shown
    )
    notes = ["K and Θ are those after the block, at infinite width, for the training example of median size."]
    if depth > _ROWS:
        notes.append(f"Shown: {len(rows)} of {depth} blocks.")
    return Table(
        title="The blocks that hold weights, with what stands before them",
        columns=("block", "width", "parameters", "K", "Θ", "what it is"),
        rows=rows,
        notes=tuple(notes),
    )
