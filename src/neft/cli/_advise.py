"""`neft advise`: how to initialize and train a network of a given depth and width."""

import dataclasses
import sys
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ._emit import emit, show
from ._options import Full, Output, key_of
from ._repeated import NAME, Repeated

if TYPE_CHECKING:
    from ..models.results import Reading


def _network(name: str, help: str, **more: Any) -> Any:
    return typer.Option(name, help=help, rich_help_panel="Network", show_default=False, **more)


def _output(name: str, help: str) -> Any:
    return typer.Option(name, help=help, rich_help_panel="Output", show_default=False)


def _trial(name: str, help: str) -> Any:
    return typer.Option(name, help=help, rich_help_panel="Trial", show_default=False)


def advise(
    repeated: Repeated,
    output: Output,
    name: Annotated[str | None, NAME] = None,
    depth: Annotated[
        int | None, _network("--depth", "L, the number of layers of weights or blocks (default 3).")
    ] = None,
    width: Annotated[int | None, _network("--width", "Width of every hidden layer (default 128).")] = None,
    inputs: Annotated[
        int | None, _network("--inputs", "Number of inputs (default: the width, or as in --network).")
    ] = None,
    outputs: Annotated[int | None, _network("--outputs", "Number of outputs (default 1, or as in --network).")] = None,
    q: Annotated[
        float | None, _network("--q", "Mean square of an input's components (default 1, or that of --data).")
    ] = None,
    C_b: Annotated[float | None, _network("--C-b", "Variance of a bias (default: critical).")] = None,
    C_W: Annotated[
        float | None, _network("--C-W", "Variance of a weight times its fan-in (default: critical).")
    ] = None,
    model: Annotated[
        str | None,
        _network(
            "--model",
            "A model of PyTorch, Flax or Equinox instead: an object, or a function without arguments that makes it "
            "(for linen a pair with its variables), in a program of your own, which is run.",
            metavar="FILE.py:NAME",
        ),
    ] = None,
    data: Annotated[
        str | None,
        _network("--data", "With --model or --try: the name of a data set or an .npz file.", metavar="DATA"),
    ] = None,
    full: Full = None,
    point: Annotated[int, _network("--point", "Which of several critical points, 0 being the best (default 0).")] = 0,
    code: Annotated[
        str | None,
        typer.Option(
            "--code",
            help="Print a program for equinox, flax or torch instead of the table.",
            rich_help_panel="Output",
            show_default=False,
        ),
    ] = None,
    optimizer: Annotated[
        str | None,
        typer.Option(
            "--optimizer",
            help="Of the program, of --parameterization and of --try, or show what it is given: sgd, momentum, adam or "
            "adamw.",
            rich_help_panel="Output",
            show_default=False,
        ),
    ] = None,
    parameterization: Annotated[
        str | None,
        typer.Option(
            "--parameterization",
            help="Show multipliers, variances and rates of every group, and how they go with the size, in this one: "
            "standard, ntk, mup, depth-mup, completep or yaida; for --optimizer (default sgd).",
            rich_help_panel="Output",
            show_default=False,
        ),
    ] = None,
    to_width: Annotated[
        int | None, _output("--to-width", "With --parameterization: the numbers for a network of this width.")
    ] = None,
    to_depth: Annotated[
        int | None, _output("--to-depth", "With depth-mup and completep: the numbers for this depth.")
    ] = None,
    s: Annotated[
        float | None, _output("--s", "Of yaida, how much features are learned: from 0 (as ntk) to 1 (as mup).")
    ] = None,
    verify: Annotated[
        bool, _trial("--try", "Train on --data for some steps, as advised and as it is now, and compare.")
    ] = False,
    steps: Annotated[int | None, _trial("--steps", "Of --try, of 128 inputs each (default 300).")] = None,
    rate: Annotated[
        float | None,
        _trial("--rate", "Of --try, the present rate of all layers (default 0.01, with Adam 0.001)."),
    ] = None,
    seed: Annotated[int | None, _trial("--seed", "Of --try (default 0).")] = None,
) -> None:
    """Advise on initialization and learning rates, say what to expect, and whether the network is too deep.

    Example: neft advise gelu --depth 8 --width 256 --plot advice.svg

    Example: neft advise gelu --depth 8 --width 256 --code torch --optimizer adamw

    Example: neft advise relu --residual --norm rms --depth 12 --width 256

    Example: neft advise relu --depth 8 --width 64 --parameterization mup --optimizer adamw --to-width 512

    Example: neft advise --model train.py:model --data fashion-mnist

    Example: neft advise gelu --depth 8 --width 64 --data fashion-mnist --try --optimizer adamw --plot try.svg
    """
    from .. import Network, scaling
    from .. import width as theory
    from .._check import one_of

    if code is not None:
        one_of("--code", code, theory.results.Advice.frameworks)
        if output.json or parameterization is not None:
            raise ValueError("--code prints a program, so --json and --parameterization cannot be given with it.")
    if optimizer is not None:
        one_of("--optimizer", optimizer, theory.results.Settings.optimizers)
    if parameterization is None:
        _refuse({"--to-width": to_width, "--to-depth": to_depth, "--s": s}, "--parameterization")
    else:
        one_of("--parameterization", parameterization, scaling.results.Parameterization.kinds)
    if parameterization == "yaida" and s is None:
        raise ValueError("--parameterization yaida has an exponent: --s must be given, from 0 (as ntk) to 1 (as mup).")
    _check_trial(verify, {"--steps": steps, "--rate": rate, "--seed": seed}, data, code, parameterization)
    present = None
    if model is not None:
        given = {"an activation": name, "--depth": depth, "--width": width, "--inputs": inputs, "--outputs": outputs}
        reading, square = _of_model(model, data, full, repeated, given, output)
        block, present = reading.network, (reading.network, reading.params)
        inputs, outputs = block.inputs, block.outputs
        q = square if q is None else q
    elif data is not None and not verify:
        raise ValueError(f"--data is {data!r}, but goes with --model or --try.")
    else:
        block = repeated.build(name, width=width)
        if isinstance(block, Network):
            inputs = block.inputs if inputs is None else inputs
            outputs = block.outputs if outputs is None else outputs
    examples = None
    if verify:
        from ._model import examples_of

        assert data is not None
        examples = examples_of(data, full)
        inputs, outputs, q = _sizes_of(examples, inputs, outputs, q)
    depth, width = repeated.sizes(block, depth, width)
    more: dict[str, Any] = {"inputs": inputs, "outputs": 1 if outputs is None else outputs}
    more |= {"q": 1.0 if q is None else q, "C_b": C_b, "C_W": C_W, "point": point}
    found = theory.advise(block, depth, width, **more, dense=repeated.dense)
    if examples is not None:
        chosen: dict[str, Any] = {"optimizer": optimizer or "sgd", "steps": 300 if steps is None else steps}
        emit(found.trial(*examples, **chosen, present=present, rate=rate, key=key_of(seed or 0)), output)
        return
    if parameterization is not None:
        sizes: dict[str, Any] = {"width": to_width, "depth": to_depth, "s": s}
        emit(scaling.parameterize(found, parameterization, optimizer=optimizer or "sgd", **sizes), output)
    elif code is None and optimizer is not None:
        given = found.settings(optimizer)
        if not (output.quiet or output.json):
            # Rates are for weights that are drawn like this.
            print(found.summary + "\n")
        emit(given, output)
    elif code is None:
        emit(found, output)
    else:
        emit(found, dataclasses.replace(output, quiet=True))
        if not output.quiet:
            print(found.code(code, optimizer=optimizer or "sgd"), end="")


def _check_trial(
    verify: bool, given: dict[str, Any], data: str | None, code: str | None, parameterization: str | None
) -> None:
    if not verify:
        _refuse(given, "--try")
        return
    if data is None:
        raise ValueError("--try trains on data, so --data must be given: the name of a data set or an .npz file.")
    if code is not None or parameterization is not None:
        raise ValueError("--try shows what training does, so --code and --parameterization cannot be given with it.")


def _refuse(given: dict[str, Any], beside: str) -> None:
    """Options that mean nothing without another one."""
    if others := [option for option, value in given.items() if value is not None]:
        raise ValueError(f"{others[0]} is {given[others[0]]}, but goes with {beside}.")


def _sizes_of(examples: tuple[Any, Any], inputs: int | None, outputs: int | None, q: float | None) -> Any:
    """Inputs, outputs and their mean square, those of the data where they are not given."""
    x, y = examples
    own = int(y.max()) + 1 if y.ndim == 1 and y.dtype.kind in "iu" else 1 if y.ndim == 1 else y.shape[1]
    square = float((x.astype(float) ** 2).mean())
    return x.shape[1] if inputs is None else inputs, own if outputs is None else outputs, square if q is None else q


def _of_model(
    model: str, data: str | None, full: bool | None, repeated: Repeated, given: dict[str, Any], output: Output
) -> "tuple[Reading, float | None]":
    """What was read of a model, and the mean square of its inputs; the first is printed."""
    from ..network.engine import plain
    from ._model import read_model

    given = given | {"--network": repeated.file, "--norm": repeated.norm, "--skip": repeated.skip}
    given = given | {"--residual": repeated.residual or None}
    if others := [option for option, value in given.items() if value is not None]:
        raise ValueError(f"--model gives the whole network, so {others[0]} cannot be given with it.")
    found, square = read_model(model, data, full)
    if not (output.quiet or output.json):
        show(found)
        print()
    hidden = list(dict.fromkeys(found.network.widths[1:-1])) if plain(found.network) is not None else []
    if len(hidden) > 1 and not output.quiet:
        widths = ", ".join(map(str, hidden))
        print(f"Hidden layers differ in width ({widths}): advice is for {hidden[0]} in all of them.", file=sys.stderr)
    return found, square
