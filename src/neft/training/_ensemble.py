"""Ensembles of networks trained by simulation, in blocks, with files to resume from."""

import json
import os
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from .. import _check
from .._blocks import block_size, blocks
from .._files import writing
from .._public import public
from .._result import Made, Result, result
from .._show import brief
from ..network import Network
from ._descend import by_flow, by_steps, completed, drawn, outputs
from ._function_space import draw_batches
from ._kernels import digest, inputs
from ._loss import Loss, chosen, prepared, square
from ._schedule import Schedule, schedule

_MOST = 256
"""The most networks that are trained in one compiled call."""

# Of gradient flow: the error of a step, and the residual below which linear algebra takes over.
_TOLERANCES = {"float32": (1e-5, 1e-3), "float64": (1e-7, 2e-4)}


@result
class TrainedEnsemble(Result):
    """Outputs of trained networks, one per draw.

    `test` (draws, N_test, n_L) are their outputs at the test inputs and `start` those before training, `train`
    (draws, N, n_L) the outputs at the training inputs. `good` is False for a draw whose training did not get to its end
    or left the range of numbers; the averages leave it out.
    """

    test: Float[np.ndarray, "draws tests outputs"]
    train: Float[np.ndarray, "draws trains outputs"]
    start: Float[np.ndarray, "draws tests outputs"]
    good: Bool[np.ndarray, " draws"]
    widths: tuple[int, ...]
    made: Made

    @property
    def mean(self) -> Float[np.ndarray, "tests outputs"]:
        """The mean of the test outputs over draws."""
        return self.test[self.good].mean(axis=0)

    @property
    def std(self) -> Float[np.ndarray, "tests outputs"]:
        """Their standard deviation over draws."""
        return self.test[self.good].std(axis=0, ddof=1)

    @property
    def stderr(self) -> Float[np.ndarray, "tests outputs"]:
        """The standard error of the mean."""
        return self.std / np.sqrt(self.good.sum())

    def _shown(self):
        yield "widths", repr(self.widths)
        yield "draws", f"{len(self.good)}, of which {int((~self.good).sum())} did not get to the end"
        yield "start", brief(self.start)
        yield "test", brief(self.test)
        if self.good.sum() > 1:
            yield "mean", brief(self.mean)
            yield "std", brief(self.std)


@public
def ensemble(
    net: Network,
    x_train: Any,
    y_train: Any,
    x_test: Any = None,
    *,
    draws: int,
    key: Array,
    time: Any = None,
    steps: Any = None,
    learning_rate: float | None = None,
    momentum: Any = 0.0,
    nesterov: bool = False,
    batch: int | None = None,
    shuffled: bool = False,
    loss: Any = "square",
    dtype: Any = None,
    folder: str | os.PathLike[str] | None = None,
) -> TrainedEnsemble:
    """Many networks drawn and trained, vectorized: what every prediction about training is tested against.

    Learning rates are those of the network, λ_b and λ_W/n_{l-1} (docs/theory/width, eq. 4), times η for gradient
    descent. Gradient flow goes by adaptive steps (Dormand-Prince). On the square loss it goes to its end where no time
    is given: until the residual is small, and from there by the linear model, whose kernel no longer moves. Draw i is
    net.init(jax.random.fold_in(key, i)), whatever the other draws.

    Args:
        net: the specification.
        x_train: training inputs, shape (N, n_0).
        y_train: targets, shape (N, n_L); labels for the cross-entropy; whatever an own loss takes.
        x_test: where outputs are wanted, shape (N_test, n_0); at the training inputs by default.
        draws: number of networks.
        key: a JAX key.
        time: how long gradient flow lasts.
        steps: number of steps of gradient descent instead, with their size `learning_rate`.
        learning_rate: η.
        momentum: β, as in `predict`.
        nesterov: as in `predict`.
        batch: how many training inputs a step takes, as in `predict`; every draw has batches of its own.
        shuffled: whether the batches are those of shuffled epochs, as in `sample`.
        loss: "square" (½Σ(z-y)²), "cross_entropy", or a function loss(z, y) that sums over the training inputs.
        dtype: float32 or float64, that of x_train by default.
        folder: where finished blocks of networks are kept, each file whole or not at all; a run with the same arguments
            resumes from them.

    >>> from neft import MLP

    >>> net = MLP(widths=(2, 1))
    >>> found = ensemble(net, np.eye(2), [0.5, -0.5], draws=4, key=jax.random.key(0), steps=500, learning_rate=0.5)
    >>> found.test.round(3)[0].tolist()
    [[0.5], [-0.5]]
    """
    net.check_kernel()
    kind = _dtype(x_train, dtype)
    x = inputs(net, "x_train", x_train)
    function = chosen(loss)
    y = prepared(function, y_train, len(x), net.widths[-1])
    at = x if x_test is None else inputs(net, "x_test", x_test)
    draws = _check.integer("draws", draws, at_least=1)
    plan = _plan(schedule(time, steps, learning_rate, momentum, nesterov, batch, len(x), shuffled), function)
    specification = {
        "net": net.to_dict(),
        "data": digest(x, y, at),
        "loss": getattr(function, "__qualname__", type(function).__name__),
        "draws": draws,
        "dtype": str(kind),
        **plan.to_dict(),
    }
    made = Made.by("neft.training.ensemble", specification=specification, key=key)
    store = None if folder is None else _Folder(Path(folder), made)
    parts = []
    for part in blocks(draws, block_size(_bytes_per_draw(net, len(x), len(at), plan), _MOST), label="networks"):
        done = None if store is None else store.read(part)
        if done is None:
            done = _trained(net, function, plan, x, y, at, key, part, kind)
            if store is not None:
                store.write(part, done)
        parts.append(done)
    whole = {name: np.concatenate([done[name] for done in parts]) for name in parts[0]}
    return TrainedEnsemble(**whole, widths=net.widths, made=made)


def _dtype(x: Any, dtype: Any) -> np.dtype:
    if dtype is None:
        return np.dtype(np.float32 if getattr(x, "dtype", None) == np.float32 else np.float64)
    if str(np.dtype(dtype)) not in _TOLERANCES:
        raise ValueError(f"dtype is {_check.brief(dtype)}, but must be float32 or float64.")
    return np.dtype(dtype)


def _plan(plan: Schedule, loss: Loss) -> Schedule:
    if plan.shape:
        raise ValueError(f"time or steps has shape {plan.shape}, but an ensemble is trained to one moment.")
    if plan.converged and loss is not square:
        raise ValueError("time is missing, but only the square loss has an end of training that is known.")
    return plan


def _bytes_per_draw(net: Network, N: int, M: int, plan: Schedule) -> float:
    # Parameters with the stages of a step, preactivations, and the kernels of the last step.
    signals = sum(net.widths) * (N + M) * (4 + 2 * net.widths[-1] * plan.converged)
    kernels = 3 * (N + M) * N * net.widths[-1] ** 2 * plan.converged
    taken = 0 if plan.batch is None or plan.steps is None else int(plan.steps) * (plan.batch + 2 * N)
    return 8 * (12 * net.parameter_count() + signals + kernels + taken)


def _trained(
    net: Network,
    loss: Loss,
    plan: Schedule,
    x: np.ndarray,
    y: np.ndarray,
    at: np.ndarray,
    key: Array,
    part: slice,
    kind: np.dtype,
) -> dict[str, np.ndarray]:
    with jax.enable_x64(True):
        given = jnp.asarray(y) if y.dtype.kind in "iu" else jnp.asarray(y, kind)
        problem = (jnp.asarray(x, kind), given)
        tests = jnp.asarray(at, kind)
        before = drawn(net, key, jnp.arange(part.start, part.stop), dtype=kind)
        if plan.steps is not None:
            parts, batches = None, None
            if plan.momentum.beta:
                parts = tuple(jnp.asarray(value, kind) for value in plan.momentum.parts)
            if plan.batch is not None:
                options = {"steps": int(plan.steps), "count": len(x), "batch": plan.batch, "shuffled": plan.shuffled}
                batches = draw_batches(key, jnp.arange(part.start, part.stop), **options)
            eta = jnp.asarray(plan.learning_rate, kind)
            after, good = by_steps(net, loss, before, *problem, plan.steps, eta, parts, batches)
        else:
            tolerance, near = _TOLERANCES[str(kind)]
            options = (plan.time, tolerance, near if plan.converged else -1.0)
            after, good = by_flow(net, loss, before, *problem, *(jnp.asarray(v, kind) for v in options))
        start = np.asarray(outputs(net, before, problem[0], tests, kernel=False).test, float)
        found = outputs(net, after, problem[0], tests, kernel=plan.converged)
        found = jax.tree.map(lambda values: np.array(values, float), found)
    good = np.asarray(good) & np.isfinite(found.test).all((1, 2)) & np.isfinite(found.train).all((1, 2))
    if plan.converged and good.any():
        # Where numbers ran out there is nothing to complete, and a decomposition would refuse them.
        ended = completed(jax.tree.map(lambda values: values[good], found), y, float(np.finfo(kind).eps) * 100)
        found.train[good], found.test[good] = ended.train, ended.test
    if not good.any():
        raise ValueError(f"none of the networks {part.start} to {part.stop - 1} could be trained: {_advice(plan)}.")
    return {"start": start, "train": found.train, "test": found.test, "good": good}


def _advice(plan: Schedule) -> str:
    if plan.learning_rate is not None:
        return f"their outputs leave the range of numbers, so lower learning_rate, which is {plan.learning_rate:g}"
    return "gradient flow takes too many steps, so lower the learning rates, or choose inputs that differ more"


class _Folder:
    """Finished blocks of an ensemble as files, and what they belong to."""

    def __init__(self, path: Path, made: Made):
        self.path = path
        record = made.to_dict()
        about = {"specification": record["specification"], "key": record["key"]}
        try:
            path.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise ValueError(f"folder is {str(path)!r}, which cannot be made: {error.strerror or error}.") from None
        note = path / "ensemble.json"
        if note.exists():
            try:
                known = json.loads(note.read_text(encoding="utf-8"))
            except (OSError, ValueError):
                known = None
            if known != about:
                raise ValueError(f"folder is {str(path)!r}, but holds an ensemble that was asked for otherwise.")
        else:
            with writing(note) as file:
                json.dump(about, file, indent=1)

    def _file(self, part: slice) -> Path:
        return self.path / f"draws-{part.start:07d}-{part.stop:07d}.npz"

    def read(self, part: slice) -> dict[str, np.ndarray] | None:
        """The block, if it is there."""
        file = self._file(part)
        if not file.exists():
            return None
        try:
            with np.load(file, allow_pickle=False) as archive:
                return {name: archive[name] for name in ("start", "train", "test", "good")}
        except Exception as error:  # zipfile, zlib and NumPy raise many kinds for a damaged file
            reason = type(error).__name__
            raise ValueError(
                f"{str(file)!r} is damaged ({reason}): remove it, and its networks are trained again."
            ) from None

    def write(self, part: slice, done: dict[str, np.ndarray]) -> None:
        """Keep a block."""
        with writing(self._file(part), binary=True) as file:
            np.savez(file, **done)  # type: ignore[arg-type]
