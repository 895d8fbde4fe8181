"""Training the classifier of the action: minibatches, early stopping, and a file to resume from."""

import functools
import json
import math
import os
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array, Float

from .. import _check, _optimizer
from .._activation import Activation
from .._activation import activation as _activation
from .._files import writing
from .._progress import track
from .._promote import common_dtype
from .._public import public
from .._result import Made, Result, result
from ._model import LETTERS, Parameters, Samples, cross_entropy, logits, samples

_HELD_OUT = 10
"""Without data to evaluate on, every tenth sample is held out."""


@result
class Fit(Result):
    """A trained classifier, the best of its epochs by the evaluation loss, and what happened on the way.

    `U`, `c`, `W`, `b` are the parameters of epoch `best`; histories have one entry per epoch, the first before any
    step. `scales` holds the root mean square of each letter's elements. `finished` is False where `epochs` ran out
    before the patience did.
    """

    U: Float[np.ndarray, "classes hidden"]
    c: Float[np.ndarray, " classes"]
    W: Float[np.ndarray, "hidden features"]
    b: Float[np.ndarray, " hidden"]
    activation: str
    best: int
    finished: bool
    training_loss: Float[np.ndarray, " epochs"]
    evaluation_loss: Float[np.ndarray, " epochs"]
    accuracy: Float[np.ndarray, " epochs"]
    scales: dict[str, Float[np.ndarray, " epochs"]]
    made: Made

    @property
    def params(self) -> dict[str, np.ndarray]:
        """The parameters as `expand` takes them."""
        return {name: getattr(self, name) for name in LETTERS}

    def _shown(self):
        yield "shape", f"{self.W.shape[1]} - {self.W.shape[0]} - {self.U.shape[0]}, {self.activation}"
        yield "best epoch", f"{self.best} of {len(self.accuracy) - 1}{'' if self.finished else ' (not finished)'}"
        yield "training loss", f"{self.training_loss[self.best]:.6g}"
        yield "evaluation loss", f"{self.evaluation_loss[self.best]:.6g}"
        yield "accuracy", f"{self.accuracy[self.best]:.4f}"
        yield "scales", ", ".join(f"{name} {values[self.best]:.3g}" for name, values in self.scales.items())


@public
def fit(
    data: Any,
    evaluation: Any = None,
    *,
    hidden: int = 512,
    activation: Any = "silu",
    epochs: int = 50,
    patience: int = 3,
    batch: int = 128,
    learning_rate: float = 1e-3,
    optimizer: optax.GradientTransformation | None = None,
    key: Array | None = None,
    checkpoint: str | os.PathLike[str] | None = None,
) -> Fit:
    """The classifier f = Uσ(Wz+b)+c trained on -ln softmax_m f, stopped when the evaluation loss no longer falls.

    Args:
        data: a `Dataset` or a pair (z, m), in whose type the training runs.
        evaluation: the same for the evaluation loss; by default every tenth sample is held out.
        hidden: H.
        activation: a name or a function.
        epochs: the largest number of passes over the data.
        patience: how many epochs without a new best evaluation loss end the training.
        batch: samples per step.
        learning_rate: of Adam; not used with an `optimizer`.
        optimizer: an optax transformation.
        key: of the initial parameters and the order of samples (default: key 0).
        checkpoint: an .npz file that is written after each epoch, whole or not at all, and read first if it is there.

    >>> import neft
    >>> data = neft.data.load("fashion-mnist", "test", preprocess="pool(49)+global", full=False)
    >>> found = fit(data, hidden=8, epochs=2, learning_rate=0.01)
    >>> bool(found.evaluation_loss[found.best] < np.log(10))
    True
    """
    act = _activation(activation)
    hidden = _check.integer("hidden", hidden, at_least=1)
    epochs, patience = _check.integer("epochs", epochs, at_least=0), _check.integer("patience", patience, at_least=1)
    batch = _check.integer("batch", batch, at_least=1)
    learning_rate = _check.real("learning_rate", learning_rate, above=0.0)
    train, test = _both(data, evaluation)
    key = jax.random.key(0) if key is None else key
    transform = _adam(learning_rate) if optimizer is None else optimizer
    specification = {
        "hidden": hidden,
        "activation": act.name,
        "batch": batch,
        "learning_rate": learning_rate if optimizer is None else "own optimizer",
        "count": len(train.m),
        "features": train.z.shape[1],
        "classes": train.classes,
    }
    key, first = jax.random.split(key)
    theta = start(first, train, hidden)
    state: Any = (theta, transform.init(theta), theta, key)
    history = _history(theta, train, test, act)
    path = None if checkpoint is None else Path(checkpoint)
    if path is not None and path.suffix != ".npz":
        raise ValueError(f"checkpoint is {str(path)!r}, but must end in .npz.")
    if path is not None and path.exists():
        state, history = _read(path, state, specification)
    step = _epoch(act, transform, min(batch, len(train.m)))
    device = (jnp.asarray(train.z), jnp.asarray(train.m))
    for _ in track(range(len(history["accuracy"]) - 1, epochs), "epochs"):
        if _waited(history) >= patience:
            break
        theta, inner, best, key_now = state
        key_next, order = jax.random.split(key_now)
        theta, inner = step(theta, inner, *device, order)
        for name, values in _history(theta, train, test, act).items():
            history[name] = [*history[name], *values]
        if not math.isfinite(history["training_loss"][-1]):
            loss = history["training_loss"][-1]
            raise ValueError(f"the training loss is {loss}: lower learning_rate, which is {learning_rate:g}.")
        best = theta if _waited(history) == 0 else best
        state = (theta, inner, best, key_next)
        if path is not None:
            _write(path, state, history, specification)
    best = Parameters(*(np.asarray(a) for a in state[2]))
    return Fit(
        **best._asdict(),
        activation=act.name,
        best=int(np.argmin(history["evaluation_loss"])),
        finished=_waited(history) >= patience,
        training_loss=np.array(history["training_loss"]),
        evaluation_loss=np.array(history["evaluation_loss"]),
        accuracy=np.array(history["accuracy"]),
        scales={name: np.array(history[name]) for name in LETTERS},
        made=Made.by("neft.action.fit", specification=specification | {"patience": patience}, key=key),
    )


@public
def loss_of(data: Any, *, activation: Any = "silu", dtype: Any = None) -> Any:
    """The action as a function of params (a mapping of U, c, W, b), with the data as arguments of compiled code.

    >>> loss = loss_of(([[1.0], [2.0]], [0, 1]), activation="tanh")
    >>> zero = {"U": np.zeros((2, 1)), "c": np.zeros(2), "W": np.ones((1, 1)), "b": np.zeros(1)}
    >>> round(float(loss(zero)), 4)
    0.6931
    """
    checked = samples(data)
    z = checked.z if dtype is None else checked.z.astype(dtype)
    return jax.tree_util.Partial(functools.partial(_named_loss, act=_activation(activation)), z, checked.m)


def _named_loss(z: Any, m: Any, params: Any, *, act: Activation) -> Any:
    # JAX (0.10) remembers what it made of a NumPy array while a trace holds it, and with 64 bits on that is 64 bits for
    # whoever uses the array later with 64 bits off. A new view is an array that nobody else uses.
    z, m = (a[...] if isinstance(a, np.ndarray) else a for a in (z, m))
    dtype = common_dtype(z, *(params[name] for name in LETTERS))
    theta = [jnp.asarray(params[name], dtype) for name in LETTERS]
    return cross_entropy(logits(theta, jnp.asarray(z, dtype), act), m)


def _both(data: Any, evaluation: Any) -> tuple[Samples, Samples]:
    train = samples(data)
    if evaluation is not None:
        return train, samples(evaluation, classes=train.classes, features=train.z.shape[1])
    held = np.arange(len(train.m)) % _HELD_OUT == _HELD_OUT - 1
    try:
        parts = [samples((train.z[mask], train.m[mask]), classes=train.classes) for mask in (~held, held)]
    except ValueError:
        raise ValueError(
            f"evaluation is missing, and with {len(train.m)} samples not every class is among the tenth held out."
        ) from None
    return parts[0], parts[1]


def start(key: Array, train: Samples, hidden: int) -> Parameters:
    """Random parameters in the type of the data: W and U of variance one over their fan-in, b = c = 0."""
    first, second = jax.random.split(key)
    features = train.z.shape[1]
    dtype = jnp.asarray(train.z[:1]).dtype
    W = jax.random.normal(first, (hidden, features), dtype) / math.sqrt(features)
    U = jax.random.normal(second, (train.classes, hidden), dtype) / math.sqrt(hidden)
    return Parameters(U, W, jnp.zeros(hidden, dtype), jnp.zeros(train.classes, dtype))


@functools.lru_cache(maxsize=8)
def _adam(rate: float) -> optax.GradientTransformation:
    # One object per rate, so that compiled code is found again.
    return optax.adam(rate)


@functools.lru_cache(maxsize=8)
def _epoch(act: Activation, transform: optax.GradientTransformation, batch: int):
    def loss(theta: Parameters, z: Any, m: Any) -> Any:
        return cross_entropy(logits(theta, z, act), m)

    @jax.jit
    def run(theta: Parameters, state: Any, z: Any, m: Any, key: Array) -> Any:
        steps = len(m) // batch
        order = jax.random.permutation(key, len(m))[: steps * batch].reshape(steps, batch)

        def step(carry: Any, rows: Any) -> Any:
            theta, state = carry
            gradient = jax.grad(loss)(theta, z[rows], m[rows])
            update, state = _optimizer.update(transform, gradient, state, theta)
            return (optax.apply_updates(theta, update), state), None

        return jax.lax.scan(step, (theta, state), order)[0]

    return run


@functools.lru_cache(maxsize=8)
def _score(act: Activation):
    @jax.jit
    def run(theta: Parameters, z: Any, m: Any) -> Any:
        f = logits(theta, z, act)
        return cross_entropy(f, m) * len(m), (f.argmax(axis=1) == m).sum()

    return run


def _history(theta: Parameters, train: Samples, test: Samples, act: Activation) -> dict[str, list[float]]:
    found = {}
    for name, data in (("training_loss", train), ("evaluation_loss", test)):
        parts = [slice(i, i + 4096) for i in range(0, len(data.m), 4096)]
        sums = [_score(act)(theta, data.z[part], data.m[part]) for part in parts]
        found[name] = [float(sum(float(loss) for loss, _ in sums) / len(data.m))]
        found["accuracy"] = [float(sum(int(right) for _, right in sums) / len(data.m))]
    for name, values in theta._asdict().items():
        found[name] = [float(jnp.sqrt(jnp.mean(values**2)))]
    return found


def _waited(history: dict[str, list[float]]) -> int:
    losses = history["evaluation_loss"]
    return len(losses) - 1 - int(np.argmin(losses))


def _write(path: Path, state: Any, history: dict, specification: dict) -> None:
    *trees, key = state
    leaves = jax.tree.leaves(trees)
    arrays = {f"leaf_{i}": np.asarray(leaf) for i, leaf in enumerate(leaves)}
    header = json.dumps({"specification": specification, "history": history})
    with writing(path, binary=True) as file:
        np.savez(file, header=np.array(header), key=np.asarray(jax.random.key_data(key)), **arrays)  # type: ignore[arg-type]


def _read(path: Path, state: Any, specification: dict) -> tuple[Any, dict]:
    *trees, _ = state
    leaves, structure = jax.tree.flatten(trees)
    try:
        with np.load(path, allow_pickle=False) as archive:
            header = json.loads(str(archive["header"]))
            found = [jnp.asarray(archive[f"leaf_{i}"]) for i in range(len(leaves))]
            key = jax.random.wrap_key_data(jnp.asarray(archive["key"]))
    except Exception:  # zipfile, NumPy and json raise many kinds for a damaged file
        raise ValueError(f"checkpoint is {str(path)!r}, which is not a file that fit has written.") from None
    # 0.1 called the learning rate "rate" at first.
    written = {"learning_rate" if name == "rate" else name: v for name, v in header["specification"].items()}
    if written != specification or [f.shape for f in found] != [jnp.shape(l) for l in leaves]:
        raise ValueError(f"checkpoint is {str(path)!r}, which was written by another training; choose another file.")
    return (*jax.tree.unflatten(structure, found), key), header["history"]
