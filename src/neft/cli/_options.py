"""The grammar that commands share: how a network is written, and where its result goes."""

import dataclasses
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

import typer

from .._progress import be_quiet

if TYPE_CHECKING:
    import jax

    from .. import MLP
    from .. import Network as Specification

PICTURES = (".svg", ".png", ".pdf")
FILES = (".json", ".npz")

_DEPTH, _WIDTH, _OUTPUTS = 3, 128, 1


def _network(name: str, help: str, **more: Any) -> Any:
    return typer.Option(name, help=help, rich_help_panel="Network", show_default=False, **more)


def _output(name: str, help: str, **more: Any) -> Any:
    return typer.Option(name, help=help, rich_help_panel="Output", show_default=False, **more)


@dataclass(frozen=True, kw_only=True)
class Network:
    """The options that describe a network; `build` makes it."""

    activation: Annotated[
        str,
        _network(
            "--activation",
            "Name, such as silu or 'leaky_relu(0.1)', or expression, such as 'z*tanh(z)' (default tanh).",
        ),
    ] = "tanh"
    depth: Annotated[int | None, _network("--depth", f"L, the number of layers of weights (default {_DEPTH}).")] = None
    width: Annotated[int | None, _network("--width", f"Width of every hidden layer (default {_WIDTH}).")] = None
    inputs: Annotated[int | None, _network("--inputs", "Number of inputs (default: the width).")] = None
    outputs: Annotated[int | None, _network("--outputs", f"Number of outputs (default {_OUTPUTS}).")] = None
    widths: Annotated[
        str | None,
        _network("--widths", "All widths, inputs first: 784,512,10. Replaces the four options above.", metavar="LIST"),
    ] = None
    C_b: Annotated[
        str, _network("--C-b", "Variance of a bias (default 0); one number, or one per layer: 0,0.1,0.1.")
    ] = "0"
    C_W: Annotated[str, _network("--C-W", "Variance of a weight times its fan-in (default 1).")] = "1"
    lambda_b: Annotated[str, _network("--lambda-b", "Learning rate of a bias (default 1).")] = "1"
    lambda_W: Annotated[str, _network("--lambda-W", "Learning rate of a weight times its fan-in (default 1).")] = "1"
    residual: Annotated[bool, _network("--residual", "Put a skip around every hidden layer but the first.")] = False
    skip: Annotated[float | None, _network("--skip", "Strength of those skips (default 1).")] = None
    norm: Annotated[str | None, _network("--norm", "Before every activation: rms or layer.", metavar="KIND")] = None
    file: Annotated[
        Path | None,
        _network(
            "--network", "A .toml or .json file, as `neft network --out net.toml` writes it, instead.", metavar="FILE"
        ),
    ] = None
    seed: Annotated[int, _network("--seed", "Seed of what is random (default 0).")] = 0

    def sized(self, x: Any, y: Any) -> "Network":
        """The options with the numbers of inputs and outputs of data (N, n_0) and (N, n_L), where they say nothing."""
        outputs = 1 if y.ndim == 1 else y.shape[1]
        if self.file is not None:
            net = self.build()
            if len(net.input_shape) == 1 and (net.inputs, net.widths[-1]) != (x.shape[1], outputs):
                raise ValueError(
                    f"--network is {self.file}, which has {net.inputs} inputs and {net.widths[-1]} outputs, but the "
                    f"data have {x.shape[1]} and {outputs}: `neft network --inputs {x.shape[1]} --outputs {outputs}` "
                    "writes one that fits."
                )
        if self.widths is not None or self.file is not None:
            return self
        return dataclasses.replace(self, inputs=self.inputs or x.shape[1], outputs=self.outputs or outputs)

    def build(self) -> "Specification":
        """The network that the options describe."""
        from .. import MLP

        if self.file is not None:
            from ._specification import read

            self._refuse_others()
            return read(self.file)
        hyperparameters = {
            name: _numbers(f"--{name.replace('_', '-')}", getattr(self, name)) for name in _HYPERPARAMETERS
        }
        net = MLP(widths=self._widths(), activation=self.activation, **hyperparameters)
        if self.skip is not None and not self.residual:
            raise ValueError(f"--skip is {self.skip:g}, but goes with --residual.")
        return self._in_blocks(net) if self.residual or self.norm else net

    def _in_blocks(self, net: "MLP") -> "Specification":
        from .. import LayerNorm, Residual, RMSNorm
        from .. import Network as Specification
        from .._check import one_of

        kinds = {"rms": RMSNorm, "layer": LayerNorm}
        norm = [] if self.norm is None else [kinds[one_of("--norm", self.norm, tuple(kinds))]()]
        first, *later = net.blocks[::2]
        hidden, last = later[:-1], later[-1:]
        blocks: list[Any] = [first]
        for dense in hidden:
            part = [*norm, net.activation, dense]
            blocks += [Residual(*part, skip=1.0 if self.skip is None else self.skip)] if self.residual else part
        return Specification(net.inputs, [*blocks, *([*norm, net.activation] if last else []), *last])

    def _refuse_others(self) -> None:
        for field in dataclasses.fields(self):
            if field.name not in ("file", "seed") and getattr(self, field.name) != field.default:
                option = f"--{field.name.replace('_', '-')}"
                raise ValueError(f"--network gives the whole network, so {option} cannot be given with it.")

    def _widths(self) -> tuple[int, ...]:
        from .._check import integer

        if self.widths is None:
            depth = integer("--depth", _or(self.depth, _DEPTH), at_least=1)
            width = integer("--width", _or(self.width, _WIDTH), at_least=1)
            inputs = integer("--inputs", _or(self.inputs, width), at_least=1)
            outputs = integer("--outputs", _or(self.outputs, _OUTPUTS), at_least=1)
            return (inputs, *[width] * (depth - 1), outputs)
        for name in ("depth", "width", "inputs", "outputs"):
            if getattr(self, name) is not None:
                raise ValueError(f"--widths gives all widths, so --{name} cannot be given with it.")
        try:
            return tuple(int(piece) for piece in self.widths.split(","))
        except ValueError:
            raise ValueError(f"--widths is {self.widths!r}, but must be whole numbers such as 784,512,10.") from None


_HYPERPARAMETERS = ("C_b", "C_W", "lambda_b", "lambda_W")


@dataclass(frozen=True, kw_only=True)
class Output:
    """The options that say where a result goes.

    They are checked before the work begins, so that no result is lost to a typo.
    """

    json: Annotated[bool, _output("--json", "Print the result as JSON.")] = False
    plot: Annotated[Path | None, _output("--plot", "Draw the result to a .svg, .png or .pdf file.", metavar="FILE")] = (
        None
    )
    out: Annotated[Path | None, _output("--out", "Save the result to a .json or .npz file.", metavar="FILE")] = None
    quiet: Annotated[bool, _output("--quiet", "No table and no progress bar.")] = False

    files: ClassVar[tuple[str, ...]] = FILES

    def __post_init__(self):
        writable("--plot", self.plot, PICTURES)
        writable("--out", self.out, self.files)
        be_quiet(self.quiet)


Full = Annotated[
    bool | None,
    typer.Option(
        "--full/--subset",
        help="The full set, or the bundled subset (default: the full set where it is found).",
        show_default=False,
    ),
]
"""Of named data, which part."""


def writable(option: str, path: Path | None, suffixes: tuple[str, ...]) -> None:
    """Refuse a path with another suffix or in a folder that does not exist."""
    if path is None:
        return
    if path.suffix not in suffixes:
        raise ValueError(f"{option} is {str(path)!r}, but must end in {' or '.join(suffixes)}.")
    if not path.parent.is_dir():
        raise ValueError(f"{option} is {str(path)!r}, but {str(path.parent)!r} is not a folder.")


def key_of(seed: int) -> "jax.Array":
    """The JAX key of a seed."""
    import jax

    from .._check import integer

    return jax.random.key(integer("--seed", seed, at_least=0, at_most=2**32 - 1))


def list_of(option: str, text: str | None) -> tuple[float, ...] | None:
    """The numbers that an option lists, separated by commas."""
    try:
        return None if text is None else tuple(float(piece) for piece in text.split(","))
    except ValueError:
        raise ValueError(f"{option} is {text!r}, but must be numbers separated by commas.") from None


def _or(value: int | None, default: int) -> int:
    return default if value is None else value


def _numbers(option: str, text: str) -> float | tuple[float, ...]:
    try:
        numbers = tuple(float(piece) for piece in text.split(","))
    except ValueError:
        raise ValueError(f"{option} is {text!r}, but must be a number, or one per layer such as 0,0.1,0.1.") from None
    return numbers[0] if len(numbers) == 1 else numbers
