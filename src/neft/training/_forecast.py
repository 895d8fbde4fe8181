"""A prediction beside networks that were trained."""

from typing import Any

import jax
import numpy as np
from jaxtyping import Array, Float, Int

from .. import _check
from .._public import public
from .._result import Made, Result, result
from .._show import brief
from ..network import MLP, Network
from ._assess import Assessment, assess
from ._ensemble import TrainedEnsemble, ensemble
from ._finite import sharing
from ._kernels import inputs
from ._loss import chosen, prepared, square
from ._predict import predict
from ._sample import Trajectories, sample


@result
class Forecast(Result):
    """What theory says that trained networks give, and what trained networks gave.

    `prediction` is what `predict` returned, or `sample` where the loss is not the square loss or the steps of order 1
    have momentum or batches; `trained` is an ensemble, or None where none was asked for. Where labels of the test
    inputs were given and the outputs are logits, `assessment` says how well the predicted classifiers answer,
    `infinite` how well they do at infinite width (for order 1), and `trained_assessment` how well those do that were
    trained.
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
    assessment: Assessment | None = None
    infinite: Assessment | None = None
    trained_assessment: Assessment | None = None

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
        if self.assessment is not None:
            yield "accuracy", brief(self.assessment.accuracy)


@result
class Forecasts(Result):
    """Forecasts of one task for several widths and moments: `each[i][j]` is that of width i at moment j.

    `hidden` are the widths of the hidden layers, and `time` or `steps` the moments.
    """

    each: tuple[tuple[Forecast, ...], ...]
    hidden: tuple[int, ...]
    time: Float[np.ndarray, " moments"] | None
    steps: Int[np.ndarray, " moments"] | None
    made: Made

    def _shown(self):
        yield "widths", repr(self.hidden)
        yield ("steps", brief(self.steps)) if self.time is None else ("time", brief(self.time))
        yield "order", repr(self.each[0][0].order)


@public
def forecast(
    net: Network,
    x_train: Any,
    y_train: Any,
    x_test: Any,
    *,
    y_test: Any = None,
    widths: Any = None,
    time: Any = None,
    steps: Any = None,
    learning_rate: float | None = None,
    momentum: Any = 0.0,
    nesterov: bool = False,
    batch: int | None = None,
    loss: Any = "square",
    order: int = 0,
    samples: int = 256,
    draws: int = 0,
    key: Array | None = None,
    dtype: Any = np.float32,
) -> Forecast | Forecasts:
    """What `predict` says, beside `draws` networks that are trained the same way (at least 2, or none).

    For another loss than the square loss, and for momentum or batches at order 1, it is what `samples` draws of
    `sample` say. Arguments as there. With `y_test`, the classes of the test inputs, it says how well classifiers
    trained on the cross-entropy answer (`assess`). Several `widths` of all hidden layers, or several moments (a list of
    times or steps), give `Forecasts`, which one picture shows. Inputs that fit into one block have their tensors made
    once for all widths.

    >>> from neft import MLP

    >>> net = MLP(widths=(1, 16, 1), activation="erf", C_b=0.3)
    >>> forecast(net, [[-1.0], [1.0]], [0.0, 1.0], [[0.0]]).mean.shape
    (1, 1)
    """
    options: dict[str, Any] = {
        **{"y_test": y_test, "learning_rate": learning_rate, "momentum": momentum, "nesterov": nesterov},
        **{"batch": batch, "loss": loss, "order": order, "samples": samples, "draws": draws, "key": key},
        "dtype": dtype,
    }
    moments = {
        name: np.atleast_1d(_check.as_array(name, value))
        for name, value in (("time", time), ("steps", steps))
        if value is not None and np.ndim(value)
    }
    if widths is None and not moments:
        return _one(net, x_train, y_train, x_test, time=time, steps=steps, **options)
    if len(moments) == 2 or (moments and time is not None and steps is not None):
        raise ValueError("time and steps are both given, but only one of them can be.")
    plans = [{"time": time, "steps": steps}]
    for name, values in moments.items():
        if not values.size:
            raise ValueError(f"{name} is empty, but must hold at least one moment.")
        plans = [{name: value} for value in values.tolist()]
    nets = [net] if widths is None else [_of_width(net, n) for n in _widths(widths)]
    with sharing():
        each = tuple(tuple(_one(one, x_train, y_train, x_test, **plan, **options) for plan in plans) for one in nets)
    kept = {name: None if plans[0].get(name) is None else [plan[name] for plan in plans] for name in ("time", "steps")}
    return Forecasts(
        each=each,
        hidden=tuple(one.widths[-2] if len(one.widths) > 2 else 0 for one in nets),
        time=None if kept["time"] is None else np.array(kept["time"], float),
        steps=None if kept["steps"] is None else np.array(kept["steps"], np.int64),
        made=Made.by("neft.training.forecast", specification={"net": net.to_dict(), "order": order, **kept}, key=key),
    )


def _widths(widths: Any) -> list[int]:
    given = _check.array("widths", widths, ndim=1, at_least=1, dtype=np.int64)
    if not given.size:
        raise ValueError("widths is empty, but must hold at least one width.")
    return given.tolist()


def _of_width(net: Network, n: int) -> Network:
    if not isinstance(net, MLP):
        raise ValueError("widths is given, but only those of a perceptron (MLP) can be changed.")
    return net.replace(widths=(net.widths[0], *(n,) * (len(net.widths) - 2), net.widths[-1]))


def _one(
    net: Network,
    x_train: Any,
    y_train: Any,
    x_test: Any,
    *,
    y_test: Any,
    loss: Any,
    order: int,
    samples: int,
    draws: int,
    key: Array | None,
    dtype: Any,
    time: Any = None,
    steps: Any = None,
    learning_rate: Any = None,
    **options: Any,
) -> Forecast:
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
    if y_test is not None and function is square:
        raise ValueError("y_test is given, but goes with classifiers: loss is square.")
    if function is square and not (order and (options["momentum"] or options["batch"])):
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
    assessed: dict[str, Any] = {}
    if y_test is not None and isinstance(prediction, Trajectories):
        assessed["assessment"] = assess(prediction, y_test)
        if prediction.infinite_outputs is not None:
            assessed["infinite"] = assess(prediction.infinite_outputs, y_test)
        if trained is not None:
            assessed["trained_assessment"] = assess(trained, y_test)
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
        **assessed,
    )
