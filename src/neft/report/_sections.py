"""The sections of the page, in order. A section is a title and the functions that write its parts.

A new one is a function of a `Context` in a file of its own and a line here.
"""

from ._section_action import convergence, stopping, terms
from ._section_fisher import fisher
from ._section_glance import glance
from ._section_glossary import glossary
from ._section_made import made
from ._section_training import after, as_trained, forecast, orders
from ._section_width import distributions, flow, phases

SECTIONS = (
    ("In short", glance),
    ("Width", flow, phases, distributions),
    ("Training", forecast, as_trained, after, orders),
    ("Loss as a series", terms, convergence, stopping),
    ("Optimizers", fisher),
    ("Glossary", glossary),
    ("How it was made", made),
)
