r"""Formulas as MathML, made when the pages are built: browsers set them without scripts or fonts from elsewhere.

A display that ends in \tag{12} is equation 12 of its page: the number stands at its right, and links to #eq-12 lead to
it, as [eq. 12](#eq-12) on the page itself or [eq. 12](theory/width.md#eq-12) on another.
"""

import re
from typing import Any

from docutils import nodes
from latex2mathml.converter import convert
from sphinx.application import Sphinx
from sphinx.transforms import SphinxTransform

_TAG = re.compile(r"\s*\\tag\{(\w+)\}\s*$")


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
    writer.body.append(convert(node.astext(), display="inline"))
    raise nodes.SkipNode


def _block(writer: Any, node: nodes.math_block) -> None:
    number = node.get("tag")
    if set(node["ids"]) <= set(node.parent.get("ids", ())):
        # The theme wraps formulas and gives the wrapper their ids.
        node["ids"] = []
    writer.body.append(writer.starttag(node, "div", CLASS="math" if number is None else "math numbered"))
    formula = convert(node.astext(), display="block")
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
