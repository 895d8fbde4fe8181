"""Relative Fisher information (docs/theory/fisher): metrics of neurons and layers, and the optimizer that uses them."""

from . import results as results
from ._average import average_weights as average_weights
from ._average import averaged as averaged
from ._capture import Captures as Captures
from ._capture import capture as capture
from ._geometry import geometry as geometry
from ._joint import joint as joint
from ._many_seeds import Experiment as Experiment
from ._metrics import linear_layer as linear_layer
from ._metrics import neuron as neuron
from ._metrics import nonlinear_layer as nonlinear_layer
from ._metrics import softmax_layer as softmax_layer
from ._metrics import two_layers as two_layers
from ._response import response as response
from ._rngd import Settings as Settings
from ._rngd import refresh as refresh
from ._rngd import rngd as rngd
from ._rngd import scale_by_rngd as scale_by_rngd
from ._soap import scale_by_soap as scale_by_soap
from ._soap import soap as soap
from ._survey import survey as survey
from ._train import Training as Training
from ._train import train as train
from ._units import clip_by_preactivations as clip_by_preactivations
from ._units import scale_by_preactivations as scale_by_preactivations
from ._whiten import whiten as whiten
