"""Notebooks with their outputs, made by running percent scripts.

`.venv/bin/python tools/run_notebooks.py docs/gallery/*.py` does it. A script is plain Python with lines `# %%` before
cells of code and `# %% [markdown]` before cells of text. Each is run in a namespace of its own, cell by cell; what a
cell prints, and the figure or value of its last line, become its outputs. The notebook, in Jupyter's format 4, is
written beside the script. With --check in front nothing is written, and the exit code is 1 where a notebook differs.
"""

import ast
import contextlib
import io
import json
import re
import sys
from pathlib import Path
from typing import Any, NamedTuple

_CELL = re.compile(r"^# %%(?P<text> \[markdown\])?\n", flags=re.MULTILINE)


class Cell(NamedTuple):
    """A piece of a script: text without its comment signs, or code."""

    is_text: bool
    source: str


def cells(script: str) -> list[Cell]:
    r"""The cells of a percent script.

    >>> cells("# %% [markdown]\n# # Title\n\n# %%\nx = 1\n")
    [Cell(is_text=True, source='# Title'), Cell(is_text=False, source='x = 1')]
    """
    found, starts = [], list(_CELL.finditer(script))
    ends = [start.start() for start in starts[1:]] + [len(script)]
    for start, end in zip(starts, ends):
        source = script[start.end() : end].strip("\n")
        if start["text"]:
            source = "\n".join(line.removeprefix("#").removeprefix(" ") for line in source.splitlines())
        found.append(Cell(start["text"] is not None, source))
    return found


def run(script: str, name: str = "notebook") -> dict[str, Any]:
    """The notebook of a script, as the object that its JSON file holds."""
    namespace: dict[str, Any] = {"__name__": name}
    done, count = [], 0
    for i, cell in enumerate(cells(script)):
        common = {"id": f"{name}-{i}".replace("_", "-")[:64], "metadata": {}, "source": _lines(cell.source)}
        if cell.is_text:
            done.append({"cell_type": "markdown", **common})
            continue
        count += 1
        outputs = _outputs(cell.source, namespace, count)
        done.append({"cell_type": "code", "execution_count": count, "outputs": outputs, **common})
    language = {"kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"}}
    return {"cells": done, "metadata": language, "nbformat": 4, "nbformat_minor": 5}


def _outputs(source: str, namespace: dict[str, Any], count: int) -> list[dict[str, Any]]:
    tree, last = ast.parse(source), None
    if tree.body and isinstance(tree.body[-1], ast.Expr) and not source.rstrip().endswith(";"):
        last = ast.Expression(tree.body.pop().value)  # type: ignore[union-attr]
    printed, value = io.StringIO(), None
    with contextlib.redirect_stdout(printed):
        exec(compile(tree, "cell", "exec"), namespace)
        if last is not None:
            value = eval(compile(last, "cell", "eval"), namespace)
    found: list[dict[str, Any]] = []
    if printed.getvalue():
        found.append({"output_type": "stream", "name": "stdout", "text": _lines(printed.getvalue())})
    if value is not None:
        found.append({"output_type": "execute_result", "execution_count": count, "metadata": {}, "data": _data(value)})
    return found


def _data(value: Any) -> dict[str, Any]:
    from matplotlib.figure import Figure

    if not isinstance(value, Figure):
        return {"text/plain": _lines(repr(value))}
    from neft import plot

    return {"image/svg+xml": _lines(plot.svg(value, salt="notebook")), "text/plain": ["A figure"]}


def _lines(text: str) -> list[str]:
    return text.splitlines(keepends=True)


def printed(notebook: dict[str, Any]) -> str:
    """All that the cells of a notebook print."""
    outputs = [output for cell in notebook["cells"] for output in cell.get("outputs", ())]
    return "".join("".join(output["text"]) for output in outputs if output["output_type"] == "stream")


def pictures(notebook: dict[str, Any]) -> int:
    """How many pictures a notebook holds."""
    outputs = [output for cell in notebook["cells"] for output in cell.get("outputs", ())]
    return sum("image/svg+xml" in output.get("data", {}) for output in outputs)


def write(path: Path) -> None:
    """Run a script and write its notebook beside it."""
    notebook = run(path.read_text(encoding="utf-8"), path.stem)
    path.with_suffix(".ipynb").write_text(json.dumps(notebook, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def differences(path: Path) -> str | None:
    """What running a script now gives that its notebook does not hold; None where they agree."""
    import run_pages

    kept = json.loads(path.with_suffix(".ipynb").read_text(encoding="utf-8"))
    again = run(path.read_text(encoding="utf-8"), path.stem)
    if [cell["source"] for cell in kept["cells"]] != [cell["source"] for cell in again["cells"]]:
        return f"{path.name}: its notebook was made from another script."
    if pictures(kept) != pictures(again):
        return f"{path.name}: {pictures(again)} pictures, but its notebook has {pictures(kept)}."
    if not run_pages.same(printed(kept), printed(again)):
        return f"{path.name} prints\n{printed(again)}but its notebook has\n{printed(kept)}"
    return None


if __name__ == "__main__":
    if sys.argv[1:2] == ["--check"]:
        found = [said for name in sys.argv[2:] if (said := differences(Path(name))) is not None]
        sys.exit("\n".join(found) or 0)
    for argument in sys.argv[1:]:
        write(Path(argument))
