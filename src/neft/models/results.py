"""The types of what the functions of `neft.models` return."""

from ._reading import Reading as Reading
from ._reading import ReadLayer as ReadLayer
