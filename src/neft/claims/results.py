"""The types of what `neft.claims` returns."""

from ._outcome import Ledger as Ledger
from ._outcome import Outcome as Outcome
