"""A prediction beside networks that were trained."""

from typing import Any

import jax
import numpy as np
from jaxtyping import Array, Float

from .. import _check
from .._public import public
from .._result import Made, Result, result
from .._show import brief
from ..network import Network
from ._ensemble import TrainedEnsemble, ensemble
from ._kernels import inputs
from ._loss import chosen, prepared, square
from ._predict import predict
from ._sample import Trajectories, sample


@result
class Forecast(Result):
    """What theory says that trained networks give, and what trained networks gave.

    `prediction` is what `predict` returned, or `sample` where the loss is not the square loss or the steps of order 1
    have momentum or batches; `trained` is an ensemble, or None where none was asked for.
    """

    prediction: Result
    trained: TrainedEnsemble | None
    x_train: Float[np.ndarray, "trains features"]
    y_train: Float[np.ndarray, "trains outputs"]
    x_test: Float[np.ndarray, "tests features"]
    widths: tuple[int, ...]
    activation: str
    order: int
    made: Made

    @property
    def mean(self) -> Float[np.ndarray, "tests outputs"]:
        """The predicted mean of each output."""
        return self.prediction.mean  # type: ignore[attr-defined]

    @property
    def std(self) -> Float[np.ndarray, "tests outputs"]:
        """The predicted standard deviation of each output."""
        return self.prediction.std  # type: ignore[attr-defined]

    @property
    def apart(self) -> Float[np.ndarray, "tests outputs"] | None:
        """The trained mean minus the predicted one, in standard errors of the former."""
        return None if self.trained is None else (self.trained.mean - self.mean) / self.trained.stderr

    def _shown(self):
        yield "network", f"{'-'.join(map(str, self.widths))}, {self.activation}"
        yield "training inputs", repr(len(self.x_train))
        yield "test inputs", repr(len(self.x_test))
        yield "order", repr(self.order)
        yield "trained networks", repr(0 if self.trained is None else len(self.trained.good))
        yield "mean", brief(self.mean)
        yield "std", brief(self.std)
        if self.trained is not None and self.trained.good.sum() > 1:
            yield "trained mean", brief(self.trained.mean)
            yield "trained std", brief(self.trained.std)


@public
def forecast(
    net: Network,
    x_train: Any,
    y_train: Any,
    x_test: Any,
    *,
    time: Any = None,
    steps: Any = None,
    learning_rate: float | None = None,
    momentum: float = 0.0,
    nesterov: bool = False,
    batch: int | None = None,
    loss: Any = "square",
    order: int = 0,
    samples: int = 256,
    draws: int = 0,
    key: Array | None = None,
    dtype: Any = np.float32,
) -> Forecast:
    """What `predict` says, beside `draws` networks that are trained the same way (at least 2, or none).

    For another loss than the square loss, and for momentum or batches at order 1, it is what `samples` draws of
    `sample` say. Arguments as there.

    >>> from neft import MLP

    >>> net = MLP(widths=(1, 16, 1), activation="erf", C_b=0.3)
    >>> forecast(net, [[-1.0], [1.0]], [0.0, 1.0], [[0.0]]).mean.shape
    (1, 1)
    """
    x_train, x_test = inputs(net, "x_train", x_train), inputs(net, "x_test", x_test)
    function = chosen(loss)
    y_train = prepared(function, y_train, len(x_train), net.widths[-1])
    if y_train.ndim != 2:
        raise ValueError(f"y_train has shape {y_train.shape}, but a forecast has an axis for outputs: (N, n_L).")
    draws = _check.integer("draws", draws, at_least=0)
    if draws == 1 or (draws and key is None):
        given = "draws is 1" if draws == 1 else "key is missing"
        raise ValueError(f"{given}, but trained networks need a key and at least two draws.")
    plan: dict[str, Any] = {"time": time, "steps": steps, "learning_rate": learning_rate}
    options: dict[str, Any] = {"momentum": momentum, "nesterov": nesterov, "batch": batch}
    for name in ("time", "steps"):
        if plan[name] is not None and _check.as_array(name, plan[name]).ndim:
            raise ValueError(f"{name} is {_check.brief(plan[name])}, but a forecast is for one moment.")
    if function is square and not (order and (momentum or batch)):
        prediction: Any = predict(net, x_train, y_train, x_test, order=order, **plan, **options)
    else:
        # The networks of the ensemble are other draws.
        own = None if key is None else jax.random.fold_in(key, 0)
        drawn: dict[str, Any] = {"loss": loss, "order": order, "draws": samples, "key": own}
        prediction = sample(net, x_train, y_train, x_test, **plan, **options, **drawn)
    trained = None
    if draws and key is not None:
        trained = ensemble(
            net, x_train, y_train, x_test, draws=draws, key=key, dtype=dtype, loss=loss, **plan, **options
        )
    given = {name: value for name, value in options.items() if value}
    given |= {} if function is square else {"loss": getattr(function, "__name__", "own"), "samples": samples}
    specification = {"net": net.to_dict(), "order": order, "draws": draws, **plan, **given}
    return Forecast(
        prediction=prediction,
        trained=trained,
        x_train=x_train,
        y_train=y_train,
        x_test=x_test,
        widths=net.widths,
        activation=", ".join(act.name for act in net.activations),
        order=order,
        made=Made.by(
            "neft.training.forecast",
            specification=specification,
            key=key if draws or isinstance(prediction, Trajectories) else None,
        ),
    )
