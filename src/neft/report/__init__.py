"""The page, one self-contained HTML file that shows the library at work, and tables that the command line prints too.

A section is a function of a `Context` that returns HTML; adding one means writing it and naming it in `_sections.py`.
"""

from ._page import Context as Context
from ._page import Section as Section
from ._page import Written as Written
from ._tables import Table as Table
from ._tables import tables as tables
from ._write import write as write
