"""The API reference: one page for each public module, written to docs/api from the names that the module exports."""

import inspect
from pathlib import Path
from types import ModuleType
from typing import Any

from sphinx.application import Sphinx

import neft

_FRONT = "neft"
_INDEX = """API reference
=============

What these modules export is the public interface; a change of it is recorded in CHANGELOG.md. Results are frozen
dataclasses with ``save`` and ``to_dict``; :func:`neft.load` reads them back.

.. toctree::
   :maxdepth: 1
"""


def _names(module: ModuleType) -> dict[str, Any]:
    found = {name: getattr(module, name) for name in dir(module) if not name.startswith("_")}
    # What stands at the front too is described there.
    twice = {name for name, value in found.items() if module is not neft and getattr(neft, name, None) is value}
    return {name: value for name, value in found.items() if not inspect.ismodule(value) and name not in twice}


def page(name: str) -> str:
    """The page of a module as reStructuredText."""
    module = neft if name == _FRONT else getattr(neft, name)
    full = name if name == _FRONT else f"neft.{name}"
    names = _names(module)
    parts = [
        full,
        "=" * len(full),
        "",
        f".. automodule:: {full}",
        "   :no-index:",
        "",
        f".. currentmodule:: {full}",
        "",
    ]
    groups = {
        "Functions": [n for n, v in names.items() if inspect.isroutine(v)],
        "Classes": [n for n, v in names.items() if inspect.isclass(v)],
    }
    for title, members in groups.items():
        if members:
            parts += [f".. rubric:: {title}", "", ".. autosummary::", "", *(f"   {n}" for n in members), ""]
    for n in groups["Functions"]:
        parts += [f".. autofunction:: {n}{_signature(names[n])}", ""]
    for n in groups["Classes"]:
        parts += [f".. autoclass:: {n}", *_options(names[n]), ""]
    parts += _results(module, full)
    constants = sorted(set(names) - {n for members in groups.values() for n in members})
    if constants:
        parts += [".. rubric:: Constants", "", *(f"* ``{n}``: {_value(names[n])}" for n in constants), ""]
    return "\n".join(parts)


def _results(module: ModuleType, full: str) -> list[str]:
    # The types of what the functions return stand in a module of their own.
    results = getattr(module, "results", None)
    if results is None:
        return []
    names = _names(results)
    return [
        f".. currentmodule:: {full}.results",
        "",
        f".. rubric:: Results, in {full}.results",
        "",
        ".. autosummary::",
        "",
        *(f"   {n}" for n in names),
        "",
        *(line for n in names for line in (f".. autoclass:: {n}", *_options(names[n]), "")),
    ]


def _signature(value: Any) -> str:
    if not inspect.ismethod(value):
        return ""
    # Autodoc would take the first argument of a bound method away once more.
    signature = inspect.signature(value)
    bare = [p.replace(annotation=inspect.Parameter.empty) for p in signature.parameters.values()]
    return str(signature.replace(parameters=bare, return_annotation=inspect.Signature.empty))


def _options(cls: type) -> list[str]:
    # Errors and warnings have nothing of their own but a name, and fields of named tuples say only their number.
    fields = getattr(cls, "_fields", ())
    excluded = [f"   :exclude-members: {', '.join(fields)}"] if fields else []
    return [] if issubclass(cls, Exception) else ["   :members:", *excluded]


def _value(value: Any) -> str:
    items = [str(item) for item in value] if isinstance(value, (tuple, dict)) else [str(value)]
    return ", ".join(f"``{item}``" for item in items)


def _write(app: Sphinx) -> None:
    folder = Path(app.srcdir) / "api"
    folder.mkdir(exist_ok=True)
    modules = [name for name in neft.__all__ if inspect.ismodule(getattr(neft, name))]
    pages = {name: page(name) for name in (_FRONT, *modules)}
    pages["index"] = "\n".join([_INDEX, *(f"   {name}" for name in pages), ""])
    for name, text in pages.items():
        target = folder / f"{name}.rst"
        if not target.exists() or target.read_text() != text:
            target.write_text(text)


def setup(app: Sphinx) -> dict[str, Any]:
    """Write the pages before Sphinx looks for them."""
    app.connect("builder-inited", _write)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
