"""What all pages share: the head with its policy, the style sheet, and the font of formulas, all inside the file."""

import base64
import hashlib
from collections.abc import Sequence
from html import escape
from pathlib import Path

_HERE = Path(__file__).parent


def document(heading: str, body: str, *, styles: Sequence[str] = (), script: str | None = None) -> str:
    """The whole document. Its policy forbids the browser to ask anything of anyone, and to run another script.

    Args:
        heading: the title of the window.
        body: what stands in the page.
        styles: more style sheets, after the common one.
        script: a program that the page runs; everything must be readable without it.

    >>> "script" in document("a", "<p>b</p>")
    False
    """
    allowed = ["default-src 'none'", "style-src 'unsafe-inline'", "img-src data:", "font-src data:"]
    program = ""
    if script is not None:
        digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
        allowed.append(f"script-src 'sha256-{digest}'")
        program = f"<script>{script}</script>\n"
    css = "\n".join([text_of("page.css"), *styles])
    if "<math" in body:
        css = f"{_font()}\n{css}"
    return f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<meta http-equiv="Content-Security-Policy" content="{"; ".join(allowed)}">
<title>{escape(heading)}</title>
<style>
{css}</style>
</head>
<body>
{body}{program}</body>
</html>
"""


def text_of(name: str) -> str:
    """A file that stands beside the sources of the page."""
    return (_HERE / name).read_text(encoding="utf-8")


def _font() -> str:
    # STIX Two Math, cut down by tools/subset_font.py: browsers set formulas well only with a font that has measures.
    data = base64.b64encode((_HERE / "font" / "math.woff").read_bytes()).decode()
    return f'@font-face {{ font-family: "neft math"; src: url(data:font/woff;base64,{data}) format("woff"); }}'
