"""The ledger of claims: what the sources say, the function that tests each statement, and the verdict it gave.

A claim is registered with the decorator `claim` on its test function. Verdicts are never written by hand: `check`
runs the tests, and `save_full` keeps what the long runs found.
"""

from . import results as results
from ._claim import VERDICTS as VERDICTS
from ._claim import Claim as Claim
from ._claim import Measurement as Measurement
from ._full import contradictions as contradictions
from ._full import full_outcomes as full_outcomes
from ._full import save_full as save_full
from ._ledger import check as check
from ._ledger import claim as claim
from ._ledger import ledger as ledger
