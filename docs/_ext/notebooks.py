"""Notebooks as pages: their text, code and outputs as they stand in the file. Nothing is run when the site is built."""

import base64
import json
import re
from html import escape
from typing import Any

from docutils import nodes
from myst_parser.parsers.sphinx_ import MystParser
from sphinx.application import Sphinx


class Notebooks(MystParser):
    """Reads Jupyter's format 4 as Markdown."""

    supported = ("ipynb",)

    def parse(self, inputstring: str, document: nodes.document) -> None:
        """Parse one notebook."""
        name = document.settings.env.docname.rpartition("/")[2]
        super().parse(_markdown(json.loads(inputstring), name), document)


def _markdown(notebook: dict[str, Any], name: str) -> str:
    parts = []
    for cell in notebook["cells"]:
        source = "".join(cell["source"])
        if cell["cell_type"] == "markdown":
            parts.append(source)
            continue
        parts.append(f"```python\n{source}\n```")
        parts += [_output(output, source) for output in cell["outputs"]]
    parts.append(f"{{download}}`This page as a notebook <{name}.ipynb>`, {{download}}`as a script <{name}.py>`.")
    return "\n\n".join(parts) + "\n"


def _output(output: dict[str, Any], source: str) -> str:
    if output["output_type"] == "stream":
        return f"```text\n{''.join(output['text'])}\n```"
    data = output["data"]
    if "image/svg+xml" not in data:
        return f"```text\n{''.join(data['text/plain'])}\n```"
    # What a picture shows stands in the comment before the line that shows it.
    said = re.findall(r"^# (.*)$", source, flags=re.MULTILINE)
    image = base64.b64encode("".join(data["image/svg+xml"]).encode()).decode()
    alt = escape(said[-1] if said else "A figure")
    return f'```{{raw}} html\n<p><img alt="{alt}" src="data:image/svg+xml;base64,{image}"></p>\n```'


def setup(app: Sphinx) -> dict[str, Any]:
    """Register the parser."""
    app.add_source_suffix(".ipynb", "ipynb")
    app.add_source_parser(Notebooks)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
