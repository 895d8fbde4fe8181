"""neft's docstrings as reStructuredText: plain text with formulas, `names` in backticks and Google's sections.

A * or | in a formula would otherwise start markup, and a formula on indented lines would be a quotation.
"""

import re
from typing import Any

from sphinx.application import Sphinx

_SECTION = re.compile(r"(Args|Attributes|Returns|Raises|Yields):$")
_NAME = re.compile(r"`([^`]+)`")
_MARKUP = re.compile(r"[\\*|]|(?<![A-Za-z0-9])_|_(?![A-Za-z0-9])")


def restructured(lines: list[str]) -> list[str]:
    """The lines of a docstring with everything but sections, lists of arguments and examples taken literally."""
    found: list[str] = []
    in_section = in_example = in_formula = False
    for line in lines:
        indented, text = line.startswith("    "), line.strip()
        if not text:
            in_example = False
        elif text.startswith(">>>"):
            in_example = True
        elif not indented:
            in_section, in_formula = bool(_SECTION.match(text)), False
        if text and indented and not (in_section or in_example or in_formula) and found and not found[-1].strip():
            in_formula = True
            found += ["::", ""]
        keep = in_example or in_formula or (not indented and in_section)
        found.append(line if keep else _escaped(line))
    return found


def _escaped(line: str) -> str:
    # Pieces at odd places were in backticks.
    pieces = _NAME.split(line)
    return "".join(f"``{p}``" if i % 2 else _MARKUP.sub(lambda m: "\\" + m[0], p) for i, p in enumerate(pieces))


def _process(app: Sphinx, what: str, name: str, obj: Any, options: Any, lines: list[str]) -> None:
    lines[:] = restructured(lines)


def setup(app: Sphinx) -> dict[str, Any]:
    """Come before napoleon, which has priority 500."""
    app.connect("autodoc-process-docstring", _process, priority=400)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
