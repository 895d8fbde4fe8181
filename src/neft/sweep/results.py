"""The types of what `neft.sweep` returns."""

from ._status import Status as Status
from ._summary import Best as Best
from ._summary import Experiments as Experiments
from ._summary import Headlines as Headlines
