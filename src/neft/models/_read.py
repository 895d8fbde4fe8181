"""`read`: a model of a framework as a network of blocks."""

import sys
from typing import Any

import jax
import numpy as np

from .. import _check
from .._public import public
from .._result import Made
from ..network import Network
from ._chain import POSITIONS, Chain
from ._graph import DoesNotFit, Node, traced
from ._model import Model
from ._pieces import Normed, Weighted, common, each
from ._reading import Reading, row
from ._refuse import refuse_attention

_TRAINED = (
    "Trained weights cannot be told from fresh ones: the variances are those of the weights as they are, and mean what "
    "theory says only if the model has not been trained."
)
_NOT_GAUSSIAN = (
    "Weights that are not Gaussian (uniform, truncated, orthogonal) have the same limit of infinite width, but other "
    "corrections of order 1/width than the theory gives."
)


@public
def read(model: Any, params: Any = None, x: Any = None) -> Reading:
    """The network that a PyTorch, Flax (linen and nnx) or Equinox model of known layers is, and its parameters.

    The model is traced: what counts is what its program does with an input, not how its layers are listed. Known are
    linear layers and convolutions, functions of one entry, LayerNorm, RMSNorm, BatchNorm with running moments, residual
    sums, means over positions, Flatten; dropout is left out. Numbers that multiply are put into the weights. The
    variances are measured from the weights, with the standard errors of independent ones.

    Args:
        model: a torch.nn.Module, a flax.linen.Module, a flax.nnx.Module or an equinox.Module.
        params: for linen the variables that `init` gave; None for the others, which hold their own.
        x: an example of its inputs where their size cannot be read off, as that of images cannot: an array, of which
            the shape counts. One input for Equinox, a batch for the others.

    Returns:
        A `Reading`. Its `network.apply(params, x)` gives what the model gives where inputs are vectors; `apply` does
        for images too, whose axes may be in another order.

    >>> import equinox as eqx
    >>> model = eqx.nn.MLP(3, 2, 64, 2, key=jax.random.key(0))
    >>> read(model).network.widths
    (3, 64, 64, 2)
    """
    given = _model(model, params)
    if bad := [name for name, value in given.params.items() if np.iscomplexobj(value)]:
        raise ValueError(f"the parameters {', '.join(bad)} are complex, but must be real.")
    shape, (start, end) = _traced(given, x)
    axes = given.axes.get(len(shape))
    if axes is None:
        raise ValueError(f"x has shape {shape}, but inputs of this model must have {_counts(given)} axes.")
    refuse_attention(start, end)
    chain = Chain(start, end, axes)
    if not chain.pieces:
        raise ValueError("the model has no layers that hold weights, but a network must have at least one.")
    sizes = {label: size for label, size in zip(axes, shape) if label != "N"}
    places = tuple(sizes[label] for label in POSITIONS if label in sizes)
    vector = chain.flattened or not places
    net = Network(int(np.prod(list(sizes.values()))) if vector else (*places, sizes["C"]), _blocks(chain))
    layers = tuple(row(piece, given.default) for piece in each(chain.pieces))
    notes = [*dict.fromkeys([*given.notes, *chain.notes, *_shared(chain)]), _TRAINED]
    if any(word in layer.drawn for layer in layers for word in ("uniform", "truncated", "orthogonal")):
        notes.append(_NOT_GAUSSIAN)
    found = Reading(
        framework=given.framework,
        layers=layers,
        specification=net.to_dict(),
        axes=tuple(label for label in axes if label != "N"),
        flattened=chain.flattened,
        single="C" not in chain.labels,
        values=tuple(np.asarray(leaf) for piece in chain.pieces for leaf in piece.leaves()),
        notes=tuple(notes),
        made=Made.by("neft.read", specification={"framework": given.framework, "shape": list(shape)}),
    )
    # Functions of the model's own are in the network, but in no record of it.
    vars(found)["network"] = net
    return found


def _blocks(chain: Chain) -> list[Any]:
    for piece in each(chain.pieces):
        moments = (piece.moments or ()) if isinstance(piece, Normed) else ()
        if not all(np.isfinite(numbers).all() for numbers in (*piece.leaves(), *moments)):
            raise ValueError(f"the parameters {', '.join(piece.names)} hold NaN or infinities, but must be finite.")
    return [piece.block() for piece in chain.pieces]


def _shared(chain: Chain) -> list[str]:
    """What is said of weights that several layers have in common, perhaps transposed."""
    seen: dict[int, str] = {}
    names: dict[str, None] = {}
    for piece in each(chain.pieces):
        if isinstance(piece, Weighted) and np.ptp(piece.W) > 0:
            name, found = common(piece.names), [hash((W.shape, W.tobytes())) for W in (piece.W, piece.W.T)]
            names |= dict.fromkeys(one for same in found if same in seen for one in (seen[same], name))
            seen[found[0]] = name
    if not names:
        return []
    return [
        f"Several layers have the same weights ({', '.join(names)}): they are read as weights of each layer's own, and "
        "theory takes them as independent."
    ]


def _model(model: Any, params: Any) -> Model:
    kinds = {f"{cls.__module__.partition('.')[0]}.{cls.__name__}" for cls in type(model).__mro__}
    nnx = any(cls.__module__.startswith("flax.nnx") for cls in type(model).__mro__)
    if isinstance(model, type):
        raise ValueError(f"model is the class {model.__name__}, but must be one of its objects.")
    if "flax.Module" in kinds and not nnx:
        from ._linen import linen_model

        return linen_model(model, params)
    if params is not None:
        raise ValueError("params are for flax.linen modules, but this model holds its own, so they must be left out.")
    if "torch.Module" in kinds and "torch" in sys.modules:
        from ._torch import torch_model

        return torch_model(model)
    if "flax.Module" in kinds:
        from ._nnx import nnx_model

        return nnx_model(model)
    if "equinox.Module" in kinds:
        from ._equinox import equinox_model

        return equinox_model(model)
    raise ValueError(
        f"model is {_check.brief(model)}, but must be a torch.nn.Module, a flax.linen.Module, a flax.nnx.Module or an "
        "equinox.Module."
    )


def _traced(given: Model, x: Any) -> tuple[tuple[int, ...], tuple[Node, Node]]:
    """The shape of the inputs, two of them where there is an axis for that, and the graph."""
    batched = "N" in given.axes.get(2, ())
    if x is not None:
        if not hasattr(x, "shape"):
            x = _check.as_array("x", x)
        shape = tuple(x.shape)
        if not shape or 0 in shape:
            raise ValueError(f"x has shape {shape}, but must be an example of the model's inputs.")
        axes = given.axes.get(len(shape), ())
        shape = (2, *shape[1:]) if axes[:1] == ("N",) else shape
        try:
            return shape, _trace(given, shape)
        except DoesNotFit as error:
            raise ValueError(f"the model cannot be run on inputs of shape {shape}: {error}.") from None
    fitting, reasons = [], []
    for size in given.sizes():
        try:
            shape = (2, size) if batched else (size,)
            fitting.append((shape, _trace(given, shape)))
        except DoesNotFit as error:
            reasons.append(f"of {size} inputs it says: {error}")
    if len(fitting) != 1:
        what = "several sizes fit" if fitting else reasons[0] if reasons else "it has no matrices"
        raise ValueError(f"the size of the model's inputs cannot be read off: give x, an example of them ({what}).")
    return fitting[0]


def _trace(given: Model, shape: tuple[int, ...]) -> tuple[Node, Node]:
    return traced(given.function, given.params, jax.ShapeDtypeStruct(shape, given.dtype))


def _counts(given: Model) -> str:
    return " or ".join(map(str, given.axes))
