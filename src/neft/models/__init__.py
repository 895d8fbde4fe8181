"""Models of other frameworks as networks of blocks: `neft.read`."""

from . import results as results
from ._read import read as read
