"""The files of the page, which come with the package: no name of a file ever comes from a request."""

import functools
import html
import json
from importlib import resources
from typing import Any

from .._version import __version__
from . import _limits
from ._phases import HIGHEST_C_W, HIGHEST_C_b
from ._settings import NORMS, RESIDUALS, Settings

STYLES = ("explore.css",)
LIBRARIES = ("vendor/d3.min.js", "vendor/plot.min.js")
OWN = ("derive.js", "figures.js", "page.js", "regression.js", "tables.js", "start.js")
SCRIPTS = (*LIBRARIES, *OWN)
"""In the order in which they are loaded."""

LICENCES = ("vendor/d3.LICENSE", "vendor/plot.LICENSE")
FILES = {"css": "text/css", "js": "text/javascript", "LICENSE": "text/plain"}

ACTIVATIONS = ("tanh", "relu", "gelu", "silu", "erf", "sin", "softplus", "sigmoid", "leaky_relu(0.1)", "elu", "mish")


@functools.cache
def text(name: str) -> str:
    """A file of the page, by one of the names above or "body.html"."""
    return resources.files("neft.explore").joinpath("page", *name.split("/")).read_text(encoding="utf-8")


def kind(name: str) -> str:
    """The media type of a file."""
    return FILES[name.rpartition(".")[2]]


def facts(**more: Any) -> dict[str, Any]:
    """What the page knows from the start."""
    return {
        "version": __version__,
        "defaults": Settings().record(),
        "activations": list(ACTIVATIONS),
        "residuals": list(RESIDUALS),
        "norms": list(NORMS),
        "limits": {
            "depth": [2, _limits.DEEPEST],
            "width": [2, _limits.WIDEST],
            "C_b": [0, HIGHEST_C_b],
            "C_W": [0, HIGHEST_C_W],
            "points": _limits.MOST_POINTS,
            "finite": _limits.DEEPEST_FINITE,
        },
        **more,
    }


def document(head: str, end: str, title: str = "neft explore") -> str:
    """The whole page: its markup between what is loaded first and last."""
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="color-scheme" content="light dark">\n'
        f"<title>{html.escape(title)}</title>\n{ICON}\n{head}\n</head>\n"
        f'<body>\n<div id="neft">\n{text("body.html")}\n</div>\n{end}\n</body>\n</html>\n'
    )


ICON = (
    '<link rel="icon" href="data:image/svg+xml,%3Csvg xmlns=%27http://www.w3.org/2000/svg%27 viewBox=%270 0 16 16%27%3E'
    "%3Cpath d=%27M1 14C5 14 6 2 8 2s3 12 7 12%27 fill=%27none%27 stroke=%27%230072B2%27 stroke-width=%272%27/%3E"
    '%3C/svg%3E">'
)


def embedded(record: Any) -> str:
    r"""JSON that may stand inside of an element of HTML: no tag begins or ends in it.

    >>> embedded("</script>")
    '"\\u003c/script\\u003e"'
    """
    text = json.dumps(record, allow_nan=False)
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")
