"""Tangent kernels of any JAX model: NTK, dNTK and ddNTK of one network (docs/theory/width, eqs. 5-8)."""

from ._higher import ddntk as ddntk
from ._higher import dntk as dntk
from ._layers import mlp_ntk as mlp_ntk
from ._ntk import ntk as ntk
from ._products import products as products
