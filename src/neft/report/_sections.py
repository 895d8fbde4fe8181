"""The sections of the page, in order. A new section is a function in a file of its own and a line here."""

from ._about import about
from ._activations import activations
from ._after_training import after_training
from ._averages import averages
from ._claims import claims
from ._data import data
from ._made import made
from ._network import network

SECTIONS = (
    ("What neft is", about),
    ("Activations", activations),
    ("Gaussian averages", averages),
    ("A network at initialization", network),
    ("After training", after_training),
    ("Data", data),
    ("Claims", claims),
    ("How this page was made", made),
)
