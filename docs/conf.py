"""How Sphinx builds these pages: `make docs`. Nothing in them is fetched from elsewhere, when built or when read."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent / "_ext"))

import neft

project = "neft"
author = "The neft authors"
copyright = "the neft authors, Apache-2.0"
release = version = neft.__version__

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.napoleon",
    "docstrings",
    "mathml",
    "notebooks",
    "reference",
]
exclude_patterns = ["_build", "notebooks"]

myst_enable_extensions = ["dollarmath", "deflist"]
myst_heading_anchors = 3
html_math_renderer = "mathml"

autodoc_member_order = "bysource"
autodoc_typehints = "none"
autodoc_preserve_defaults = True
autosummary_generate = False
napoleon_google_docstring = True
napoleon_numpy_docstring = False
napoleon_use_ivar = True
napoleon_attr_annotations = False
maximum_signature_line_length = 100

html_theme = "furo"
html_title = f"neft {release}"
# The font of formulas is that of the report.
html_static_path = ["_static", "../src/neft/report/font"]
html_css_files = ["formulas.css"]
html_show_sourcelink = False
html_copy_source = False
