"""The grammar that commands share: how a network is written, and where its result goes."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from .._progress import be_quiet

if TYPE_CHECKING:
    import jax

    from .. import MLP

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

    activation: Annotated[str, _network("--activation", "Name, such as silu or 'leaky_relu(0.1)' (default tanh).")] = (
        "tanh"
    )
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
    seed: Annotated[int, _network("--seed", "Seed of what is random (default 0).")] = 0

    def build(self) -> "MLP":
        """The network that the options describe."""
        from .. import MLP

        hyperparameters = {
            name: _numbers(f"--{name.replace('_', '-')}", getattr(self, name)) for name in _HYPERPARAMETERS
        }
        return MLP(widths=self._widths(), activation=self.activation, **hyperparameters)

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

    def __post_init__(self):
        writable("--plot", self.plot, PICTURES)
        writable("--out", self.out, FILES)
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
