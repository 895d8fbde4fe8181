"""The width expansion (docs/theory/width): statistics of an ensemble of networks in powers of 1/width."""

from . import results as results
from ._advice import advise as advise
from ._asymptotics import asymptotics as asymptotics
from ._comparison import check as check
from ._critical import critical as critical
from ._critical import susceptibilities as susceptibilities
from ._depth_flow import depth_flow as depth_flow
from ._edgeworth import density as density
from ._initializers import initializer_code as initializer_code
from ._interpretation import interpret as interpret
from ._kernel import kernel as kernel
from ._kernel_pairs import pair_kernel as pair_kernel
from ._kernel_repeated import repeated_kernel as repeated_kernel
from ._one_input import Rates as Rates
from ._one_input import flow as flow
from ._output import output_tensors as output_tensors
from ._phase import phase as phase
from ._shares import equal_shares as equal_shares
from ._statistics import AbsentTensor as AbsentTensor
from ._statistics import statistics as statistics
