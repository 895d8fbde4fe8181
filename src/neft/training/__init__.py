"""Trained networks: what an ensemble gives, at infinite and at finite width, and ensembles trained by simulation."""

from . import results as results
from ._assess import assess as assess
from ._condition import ConditionWarning as ConditionWarning
from ._ensemble import ensemble as ensemble
from ._evolve import ConvergenceWarning as ConvergenceWarning
from ._evolve import evolve as evolve
from ._finite import ExpansionWarning as ExpansionWarning
from ._finite import predict_from_tensors as predict_from_tensors
from ._forecast import forecast as forecast
from ._nngp import nngp as nngp
from ._nngp import nngp_from_kernel as nngp_from_kernel
from ._orders import orders as orders
from ._predict import predict as predict
from ._predict import predict_from_kernels as predict_from_kernels
from ._rate import max_learning_rate as max_learning_rate
from ._regress import regress as regress
from ._representation import representation as representation
from ._sample import sample as sample
from ._sample import sample_from_kernels as sample_from_kernels
