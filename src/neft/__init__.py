"""Perturbation theory for neural networks.

The front door. Names are loaded when they are first used, so that `import neft` (and with it `neft --help`)
does not wait for JAX.
"""

from importlib import import_module
from typing import TYPE_CHECKING

from ._version import __version__ as __version__

if TYPE_CHECKING:
    from . import action as action
    from . import claims as claims
    from . import data as data
    from . import describe as describe
    from . import ensemble as ensemble
    from . import explore as explore
    from . import fisher as fisher
    from . import gaussian as gaussian
    from . import models as models
    from . import network as network
    from . import plot as plot
    from . import report as report
    from . import scaling as scaling
    from . import sweep as sweep
    from . import tangent as tangent
    from . import training as training
    from . import width as width
    from ._activation import Activation as Activation
    from ._activation import Kink as Kink
    from ._activation import activation as activation
    from ._named import activation_names as activation_names
    from ._result import Made as Made
    from ._result import Result as Result
    from ._result import load as load
    from ._series import Series as Series
    from .models import read as read
    from .network import MLP as MLP
    from .network import Attention as Attention
    from .network import AvgPool as AvgPool
    from .network import BatchNorm as BatchNorm
    from .network import Conv as Conv
    from .network import Dense as Dense
    from .network import Flatten as Flatten
    from .network import GlobalAvgPool as GlobalAvgPool
    from .network import Layer as Layer
    from .network import LayerNorm as LayerNorm
    from .network import Network as Network
    from .network import Residual as Residual
    from .network import RMSNorm as RMSNorm

_WHERE = {
    "Activation": "._activation",
    "Kink": "._activation",
    "activation": "._activation",
    "activation_names": "._named",
    "Network": ".network",
    "MLP": ".network",
    "Dense": ".network",
    "Conv": ".network",
    "Attention": ".network",
    "AvgPool": ".network",
    "GlobalAvgPool": ".network",
    "Flatten": ".network",
    "Residual": ".network",
    "RMSNorm": ".network",
    "LayerNorm": ".network",
    "BatchNorm": ".network",
    "Layer": ".network",
    "read": ".models",
    "Made": "._result",
    "Result": "._result",
    "load": "._result",
    "Series": "._series",
}
_FOLDERS = (
    "action",
    "claims",
    "data",
    "describe",
    "ensemble",
    "explore",
    "fisher",
    "gaussian",
    "models",
    "network",
    "plot",
    "report",
    "scaling",
    "sweep",
    "tangent",
    "training",
    "width",
)

__all__ = ["__version__", *_WHERE, *_FOLDERS]


def __getattr__(name: str):
    if name in _WHERE:
        value = getattr(import_module(_WHERE[name], __name__), name)
    elif name in _FOLDERS:
        value = import_module(f".{name}", __name__)
    else:
        raise AttributeError(f"module 'neft' has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
