"""Figures as files and as text, the same bytes each time."""

import io
import os
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure

from .._files import writing
from .._public import public
from ._style import INK, settings

_FORMATS = ("svg", "png", "pdf")


@public
def save(figure: Figure, path: str | os.PathLike[str]) -> None:
    """Write the figure to a .svg, .png or .pdf file, on white, whole or not at all."""
    target = Path(path)
    form = target.suffix.removeprefix(".")
    if form not in _FORMATS:
        raise ValueError(f"path is {str(target)!r}, but must end in .svg, .png or .pdf.")
    with writing(target, binary=True) as file:
        _write(figure, file, form, fonttype="path", facecolor="white", dpi=200)


@public
def svg(figure: Figure, *, salt: str, ink: str = INK) -> str:
    """The figure as the text of an `<svg>` element on a transparent ground, letters kept as letters.

    `salt` goes into the names inside the picture, so that two figures of one page do not share any; `ink` is the
    colour of letters and lines.
    """
    file = io.BytesIO()
    _write(figure, file, "svg", fonttype="none", salt=salt, facecolor="none")
    text = file.getvalue().decode()
    return text[text.index("<svg") :].replace(INK, ink)


def _write(figure: Figure, file: Any, form: str, *, fonttype: str, salt: str = "neft", **options: Any) -> None:
    # Without a date and with fixed names, equal results give equal files.
    undated = {"png": {"Software": None}, "svg": {"Date": None, "Creator": None}, "pdf": {"CreationDate": None}}
    with settings({"svg.fonttype": fonttype, "svg.hashsalt": salt}):
        figure.savefig(file, format=form, metadata=undated[form], **options)
