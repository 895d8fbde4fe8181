"""Pictures inside the page. They stand apart from the other pieces because matplotlib takes a while to import."""

import re
from html import escape

from matplotlib.figure import Figure

from .. import plot
from ._html import folded, table
from ._html import text as words
from ._numbers import numbers
from ._tables import Table

_NAMES = re.compile(r'(\bid="|url\(#|href="#)')
_SIZES = re.compile(r' (?:width|height)="[^"]*"')
_WIDTH = re.compile(r' width="([0-9.]+)pt"')
_SCALE = 1.45
"""Pixels of the page for a point of the picture, so that letters of all pictures are as large as small print."""


def figure(
    drawing: Figure,
    *,
    name: str,
    alt: str,
    caption: str = "",
    wide: bool = False,
    text: tuple[Table, ...] | None = None,
) -> str:
    """A vector picture as wide as it needs, with its description `alt`; `name` must be its own on the page.

    `caption` says what to see. Below it the numbers of the picture are folded away, those in `text` or else what is
    read from its curves and points. A `wide` picture keeps its size on a narrow page, where it scrolls sideways.
    """
    opening, rest = plot.svg(drawing, salt=name, ink="currentColor").split(">", 1)
    width = round(_SCALE * float(found[1])) if (found := _WIDTH.search(opening)) else 640
    # Names inside pictures must differ all over the page; ink takes the colour of text, and size is the style sheet's.
    rest = _NAMES.sub(rf"\g<1>{name}-", rest)
    opening = _SIZES.sub("", opening).replace("<svg", f'<svg role="img" aria-label="{escape(alt)}"', 1)
    opening = opening.replace("<svg", f'<svg style="max-width: {width}px"', 1)
    below = f"<figcaption>{words(caption)}</figcaption>" if caption else ""
    tables = numbers(drawing) if text is None else text
    below += folded("Numbers", "".join(map(table, tables))) if tables else ""
    if wide:
        label = escape(alt)
        scrolled = f'<div class="scroll" role="region" tabindex="0" aria-label="{label}">{opening}>{rest}</div>'
        return f'<figure class="wide">{scrolled}{below}</figure>'
    return f"<figure>{opening}>{rest}{below}</figure>"
