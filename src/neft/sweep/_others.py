"""The kinds `check`, `fit` and `action`: simulations of width, trained classifiers, and how their loss scales."""

from typing import Any

from ._data import sets
from ._registry import kind


@kind("check", headline="worst")
def check(
    *,
    activation: str = "tanh",
    depth: int = 3,
    width: int = 16,
    inputs: int = 3,
    outputs: int = 2,
    C_b: float = 0.0,
    C_W: float = 1.0,
    lambda_b: float = 1.0,
    lambda_W: float = 1.0,
    draws: int = 4096,
    seed: int = 0,
) -> dict[str, Any]:
    """`neft.width.check` of one network on an input of mean square one.

    Returns `theory.X`, `simulation.X`, `stderr.X` and `z.X` of shape (L,) for each tensor X, and `worst`, the largest
    |z|.
    """
    import jax
    import numpy as np

    from .. import MLP
    from .. import width as expansion

    net = MLP(
        (inputs, *[width] * (depth - 1), outputs), activation, C_b=C_b, C_W=C_W, lambda_b=lambda_b, lambda_W=lambda_W
    )
    found = expansion.check(net, np.ones(inputs), draws=draws, key=jax.random.key(seed), dtype=np.float32)
    tables = {name: getattr(found, name) for name in ("theory", "simulation", "stderr", "z")}
    return {f"{name}.{tensor}": v for name, table in tables.items() for tensor, v in table.items()} | {
        "worst": found.worst
    }


def _fitted(data: str, full: bool | None, preprocess: str, seed: int, **options: Any) -> Any:
    import jax

    from .. import action

    train, test = sets({"data": data, "full": full, "preprocess": preprocess})
    return action.fit(train, test, key=jax.random.key(seed), **options)


@kind("fit", headline="evaluation_loss")
def fit(
    *,
    data: str = "fashion-mnist",
    full: bool | None = None,
    preprocess: str = "per-image",
    hidden: int = 512,
    activation: str = "silu",
    epochs: int = 20,
    patience: int = 3,
    batch: int = 128,
    learning_rate: float = 1e-3,
    seed: int = 0,
) -> dict[str, Any]:
    """`neft.action.fit`: the parameters U, c, W, b of the best epoch, its losses and accuracy, and their histories."""
    options = {"hidden": hidden, "activation": activation, "epochs": epochs, "patience": patience, "batch": batch}
    found = _fitted(data, full, preprocess, seed, learning_rate=learning_rate, **options)
    histories = ("training_loss", "evaluation_loss", "accuracy")
    return {
        **found.params,
        **{f"{name}_history": getattr(found, name) for name in histories},
        **{name: getattr(found, name)[found.best] for name in histories},
        "best": found.best,
    }


@kind("action", headline="evaluation_loss")
def action(
    *,
    data: str = "fashion-mnist",
    full: bool | None = None,
    inputs: int = 784,
    standardise: str = "global",
    hidden: int = 512,
    activation: str = "silu",
    epochs: int = 20,
    patience: int = 3,
    batch: int = 128,
    learning_rate: float = 1e-3,
    order: int = 4,
    seed: int = 0,
) -> dict[str, Any]:
    """The loss against H = `hidden` and E = `inputs` (pixels after averaging), with the orders S_n at the best θ.

    Returns the losses and the accuracy of the best epoch, and `S` of shape (order + 1,) on the test split (action notes
    A and B).
    """
    from .. import action as theory

    preprocess = standardise if inputs == 784 else f"pool({inputs})+{standardise}"
    options = {"hidden": hidden, "activation": activation, "epochs": epochs, "patience": patience, "batch": batch}
    found = _fitted(data, full, preprocess, seed, learning_rate=learning_rate, **options)
    train, test = sets({"data": data, "full": full, "preprocess": preprocess})
    expansion = theory.expand(found.params, train if test is None else test, order=order, activation=activation)
    numbers = {name: getattr(found, name)[found.best] for name in ("training_loss", "evaluation_loss", "accuracy")}
    return {**numbers, "best": found.best, "S": expansion.S}
