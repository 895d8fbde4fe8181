"""The options that turn an activation into a repeated block, or read one from a network in a file."""

import dataclasses
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer


def _block(name: str, help: str, **more: Any) -> Any:
    return typer.Option(name, help=help, rich_help_panel="Block", show_default=False, **more)


_DEPTH, _WIDTH = 3, 128

NAME = typer.Argument(help="Name, with parameters in parentheses where it has some.", show_default=False)
"""The activation, which a file gives too."""


@dataclass(frozen=True, kw_only=True)
class Repeated:
    """The options; `build` makes what is asked about."""

    residual: Annotated[bool, _block("--residual", "A residual block of it: a skip around every layer.")] = False
    skip: Annotated[float | None, _block("--skip", "Strength of the skip (default 1).")] = None
    norm: Annotated[str | None, _block("--norm", "Before every activation: rms or layer.", metavar="KIND")] = None
    file: Annotated[
        Path | None,
        _block("--network", "The block that this network, a .toml or .json file, repeats, instead.", metavar="FILE"),
    ] = None
    dense: Annotated[
        int | None, _block("--dense", "Which dense block of the block to solve for, from 0 on (default: all).")
    ] = None

    def sizes(self, block: Any, depth: int | None, width: int | None) -> tuple[int, int]:
        """Depth and width where they are given, else those of the network in the file, else 3 and 128."""
        from .. import Network

        own = (_DEPTH, _WIDTH)
        if isinstance(block, Network):
            from ..network.engine import repeated

            step = repeated(block, self.dense)
            own = (2 + (block.depth - 2) // sum(part.weighs for part in step), block.widths[1])
        return own[0] if depth is None else depth, own[1] if width is None else width

    def build(self, name: str | None, *, width: int | None = None) -> Any:
        """The activation, or the block."""
        if self.file is not None:
            from ._specification import read

            short = [field for field in dataclasses.fields(self) if field.name in ("residual", "skip", "norm")]
            given = [f"--{field.name}" for field in short if getattr(self, field.name) != field.default]
            if name is not None or given:
                what = given[0] if name is None else f"the activation {name!r}"
                raise ValueError(f"--network gives the whole network, so {what} cannot be given with it.")
            return read(self.file)
        if name is None:
            raise ValueError("an activation is missing: give its name, or --network with a file.")
        if self.skip is not None and not self.residual:
            raise ValueError(f"--skip is {self.skip:g}, but goes with --residual.")
        if not (self.residual or self.norm):
            return name
        from .. import Dense, LayerNorm, Residual, RMSNorm
        from .._check import integer, one_of

        kinds = {"rms": RMSNorm, "layer": LayerNorm}
        norm = [] if self.norm is None else [kinds[one_of("--norm", self.norm, tuple(kinds))]()]
        branch = (*norm, name, Dense(_WIDTH if width is None else integer("width", width, at_least=1)))
        return Residual(*branch, skip=1.0 if self.skip is None else self.skip) if self.residual else branch
