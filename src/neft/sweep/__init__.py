"""Sweeps: many configurations of one kind of work, resumable, on one machine or on a cluster."""

from . import _others as _others
from . import _train as _train
from . import results as results
from ._folder import Folder as Folder
from ._registry import kind as kind
from ._run import run as run
from ._specification import Specification as Specification
from ._status import status as status
from ._summary import summary as summary
