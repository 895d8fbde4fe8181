"""The classifier f = Uσ(Wz+b) + c (docs/theory/action, eq. 1), and the samples it is scored on."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np

from .. import _check
from .._activation import Activation, activation

LETTERS = ("U", "W", "b", "c")


class Parameters(NamedTuple):
    """U (M × H), W (H × E), b (H) and c (M), arrays of NumPy or JAX of one floating type."""

    U: Any
    W: Any
    b: Any
    c: Any

    @property
    def classes(self) -> int:
        """M."""
        return self.U.shape[0]

    @property
    def hidden(self) -> int:
        """H."""
        return self.U.shape[1]

    @property
    def features(self) -> int:
        """E."""
        return self.W.shape[1]

    def scaled(self, **factors: float) -> "Parameters":
        """The same with each named letter multiplied by a factor."""
        return Parameters(*(getattr(self, name) * factors.get(name, 1.0) for name in self._fields))


class Samples(NamedTuple):
    """Inputs z (n × E) and labels m (n), and the number of classes M."""

    z: np.ndarray
    m: np.ndarray
    classes: int

    @property
    def prior(self) -> np.ndarray:
        """p(α), shape (M,)."""
        return np.bincount(self.m, minlength=self.classes) / len(self.m)


def parameters(params: Any) -> Parameters:
    """The four arrays of `params`: a mapping of U, c, W and b, or the two layers of an `MLP`'s parameters."""
    if isinstance(params, Parameters):
        given = params._asdict()
    elif isinstance(params, Mapping):
        missing = [name for name in LETTERS if name not in params]
        if missing:
            raise ValueError(f"params lacks {', '.join(missing)}, but must hold U, c, W and b.")
        given = {name: params[name] for name in LETTERS}
    else:
        given = _of_layers(params)
    dtype = _floating(*given.values())
    U = _check.array("U", given["U"], ndim=2, dtype=dtype)
    W = _check.array("W", given["W"], shape=(U.shape[1], None), dtype=dtype)
    b = _check.array("b", given["b"], shape=(U.shape[1],), dtype=dtype)
    c = _check.array("c", given["c"], shape=(U.shape[0],), dtype=dtype)
    if len(U) < 2:
        raise ValueError(f"U has shape {U.shape}, but must have at least two rows, one per class.")
    return Parameters(U, W, b, c)


def samples(data: Any, *, classes: int | None = None, features: int | None = None) -> Samples:
    """Inputs and labels of a `Dataset` or a pair (z, m), checked; every class must occur."""
    if hasattr(data, "x") and hasattr(data, "y"):
        z, m = data.x, data.y
    elif isinstance(data, Sequence) and len(data) == 2:
        z, m = data
    else:
        raise ValueError(f"data is a {type(data).__name__}, but must be a Dataset or a pair (z, m).")
    z = _check.array("z", z, ndim=2, dtype=_floating(z))
    m = _check.array("m", m, shape=(len(z),), dtype=np.int64)
    if not z.size:
        raise ValueError(f"z has shape {z.shape}, but must hold at least one sample.")
    if features is not None and z.shape[1] != features:
        raise ValueError(f"z has {z.shape[1]} features, but W takes {features}.")
    count = int(m.max()) + 1 if classes is None else classes
    if m.min() < 0 or m.max() >= count:
        wrong = int(m.min()) if m.min() < 0 else int(m.max())
        raise ValueError(f"m holds the label {wrong}, but labels must be from 0 to {count - 1}.")
    present = np.unique(m)
    if len(present) < count:
        # Without a count for each: a label may be huge by mistake.
        empty = int(np.argmax(np.append(present, -1) != np.arange(len(present) + 1)))
        raise ValueError(f"class {empty} has no sample, but each of the {count} classes must occur.")
    if count < 2:
        raise ValueError("m holds one class only, but a classifier needs at least two.")
    return Samples(z, m, count)


def logits(params: Any, z: Any, act: Activation) -> Any:
    """f_α(z), shape (n, M), as traceable code; `params` is any mapping or tuple with the four letters."""
    U, W, b, c = params
    return act(z @ W.T + b[None, :]) @ U.T + c[None, :]


def cross_entropy(f: Any, m: Any, *, axis: int = 1) -> Any:
    """-mean ln softmax_m f, the action S, as traceable code; classes lie along `axis`, samples along the other."""
    n, top = jnp.arange(len(m)), f.max(axis=axis, keepdims=True)
    own = f[n, m] if axis == 1 else f[m, n]
    # Not of f - top: XLA would make the product in f, the activation in it and this difference one slow loop.
    return (jnp.log(jnp.exp(f - top).sum(axis=axis)) + (top.squeeze(axis) - own)).mean()


def smooth_at_zero(source: Any) -> Activation:
    """The activation, if it has a Maclaurin series; otherwise a refusal."""
    act = activation(source)
    if act.one_sided and not act.scale_invariant:
        raise ValueError(
            f"activation {act.name!r} has a kink at 0 and is not homogeneous, so the loss has no expansion in it."
        )
    return act


def homogeneous(act: Activation) -> bool:
    """Whether only σ(tx) = tσ(x) for t > 0 gives an expansion: ReLU and its relatives."""
    return act.scale_invariant and act.one_sided


def _of_layers(params: Any) -> dict[str, Any]:
    try:
        (W, b), (U, c) = params
    except (TypeError, ValueError):
        raise ValueError(
            "params must be a mapping of U, c, W and b, or the two layers (W, b), (U, c) of a network with one hidden "
            "layer."
        ) from None
    return {"U": U, "W": W, "b": b, "c": c}


def _floating(*values: Any) -> Any:
    # float32 stays what it is, so that products over the data cost what the data's type says.
    single = all(getattr(value, "dtype", None) == np.float32 for value in values)
    return np.float32 if single else np.float64
