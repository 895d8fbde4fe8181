"""Tangent kernels of any JAX model: NTK, dNTK and ddNTK of one network (seed 004, 1. Neural Networks 101)."""

from ._higher import ddntk as ddntk
from ._higher import dntk as dntk
from ._layers import mlp_ntk as mlp_ntk
from ._ntk import ntk as ntk
from ._products import products as products
