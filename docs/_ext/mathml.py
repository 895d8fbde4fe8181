r"""Formulas as MathML, made when the pages are built: browsers set them without scripts or fonts from elsewhere.

A display that ends in \tag{12} is equation 12 of its page: the number stands at its right, and links to #eq-12 lead to
it, as [eq. 12](#eq-12) on the page itself or [eq. 12](theory/width.md#eq-12) on another.
"""

import re
import xml.etree.ElementTree as ET
from html import unescape
from typing import Any

from docutils import nodes
from latex2mathml.converter import convert_to_element
from sphinx.application import Sphinx
from sphinx.transforms import SphinxTransform

_TAG = re.compile(r"\s*\\tag\{(\w+)\}\s*$")


_ENDS = {")": "(", "]": "[", "⟩": "⟨", "}": "{"}


def mathml(formula: str, *, display: str) -> str:
    """A formula as MathML. A pair of brackets with an index or exponent is one row below it.

    The converter hangs what follows a bracket on the bracket alone, which browsers then do not stretch with the other.
    """
    root = convert_to_element(formula, display=display)
    for parent in list(root.iter()):
        _group(parent)
    # Its texts hold entities already.
    return ET.tostring(root, encoding="unicode").replace("&amp;#", "&#")


def _group(parent: ET.Element) -> None:
    place = 0
    while place < len(parent):
        child = parent[place]
        end = _text(child[0]) if child.tag in ("msub", "msup", "msubsup") and len(child) else ""
        start = _opening(parent, place, end) if end in _ENDS else None
        if start is not None:
            row = ET.Element("mrow")
            row.extend([*parent[start:place], child[0]])
            child[0] = row
            del parent[start:place]
            place = start
        place += 1


def _opening(parent: ET.Element, place: int, end: str) -> int | None:
    open_ones = 1
    for i in range(place - 1, -1, -1):
        text, base = _text(parent[i]), _text(parent[i][0]) if len(parent[i]) else ""
        open_ones += (end in (text, base)) - (text == _ENDS[end])
        if not open_ones:
            return i
    return None


def _text(element: ET.Element) -> str:
    return unescape(element.text or "").strip()


class Numbers(SphinxTransform):
    """Takes the numbers out of formulas and makes them targets of links."""

    # Before MyST resolves links to what stands on the same page.
    default_priority = 870

    def apply(self, **kwargs: Any) -> None:
        """Number the displays of one page."""
        slugs = getattr(self.document, "myst_slugs", {})
        for node in self.document.findall(nodes.math_block):
            found = _TAG.search(node.astext())
            if found is None:
                continue
            number, target = found[1], f"eq-{found[1]}"
            if target in self.document.ids:
                raise ValueError(f"{self.env.docname} has two equations {number}.")
            node.children = [nodes.Text(node.astext()[: found.start()])]
            node["tag"] = number
            node["ids"].append(target)
            self.document.ids[target] = node
            slugs[target] = (node.line or 0, target, f"({number})")
        if slugs:
            self.document.myst_slugs = slugs
            self.env.metadata[self.env.docname]["myst_slugs"] = slugs


def _inline(writer: Any, node: nodes.math) -> None:
    writer.body.append(mathml(node.astext(), display="inline"))
    raise nodes.SkipNode


def _block(writer: Any, node: nodes.math_block) -> None:
    number = node.get("tag")
    if set(node["ids"]) <= set(node.parent.get("ids", ())):
        # The theme wraps formulas and gives the wrapper their ids.
        node["ids"] = []
    writer.body.append(writer.starttag(node, "div", CLASS="math" if number is None else "math numbered"))
    formula = mathml(node.astext(), display="block")
    if number is None:
        writer.body.append(formula)
    else:
        writer.body.append(f'<div class="formula">{formula}</div><a class="number" href="#eq-{number}">({number})</a>')
    writer.body.append("</div>\n")
    raise nodes.SkipNode


def setup(app: Sphinx) -> dict[str, Any]:
    """Register the renderer."""
    app.add_html_math_renderer("mathml", (_inline, None), (_block, None))
    app.add_transform(Numbers)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
