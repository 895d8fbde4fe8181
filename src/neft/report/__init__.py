"""The page about one network and one data set, a single HTML file, and tables that the command line prints too.

A section is a title and functions of a `Context` that return HTML; a new one is written and named in `_sections.py`.
"""

from . import results as results
from ._claims_page import write_claims as write_claims
from ._default import default as default
from ._examples import examples as examples
from ._page import Context as Context
from ._tables import Table as Table
from ._tables import tables as tables
from ._write import write as write
