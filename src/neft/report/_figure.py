"""Pictures inside the page. They stand apart from the other pieces because matplotlib takes a while to import."""

import re
from html import escape

from matplotlib.figure import Figure

from .. import plot

_NAMES = re.compile(r'(\bid="|url\(#|href="#)')
_SIZES = re.compile(r' (?:width|height)="[^"]*"')


def figure(drawing: Figure, *, name: str, alt: str, caption: str = "", wide: bool = False) -> str:
    """A vector picture with its description `alt`; `name` must be its own on the page.

    A `wide` one keeps its size on a narrow page, where it scrolls sideways.
    """
    opening, rest = plot.svg(drawing, salt=name, ink="currentColor").split(">", 1)
    # Names inside pictures must differ all over the page; ink takes the colour of text, and size is the style sheet's.
    rest = _NAMES.sub(rf"\g<1>{name}-", rest)
    opening = _SIZES.sub("", opening).replace("<svg", f'<svg role="img" aria-label="{escape(alt)}"', 1)
    below = f"<figcaption>{escape(caption)}</figcaption>" if caption else ""
    if wide:
        return f'<figure class="wide"><div class="scroll" tabindex="0">{opening}>{rest}</div>{below}</figure>'
    return f"<figure>{opening}>{rest}{below}</figure>"
