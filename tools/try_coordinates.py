"""How often the coordinate check errs, on perceptrons whose rates are right and on ones with a wrong one.

    .venv/bin/python tools/try_coordinates.py [--widths 16 64 256] [--hidden 3 5 8] [--seed 0]

Perceptrons of relu, gelu and tanh, 3, 5 and 8 hidden layers, SGD and Adam, with the rates of μP that
`neft.scaling.transfer` states, and the same with the rate of one layer off by √width, up or down. Which layer and which
way is drawn, as models and data are. 32 normal inputs of 10 entries, 3 outputs of size 1 at the smallest width, squared
error, 16 draws. Printed are powers and verdicts, and at the end how many right models are called wrong and how many
wrong ones are not told as they are; about 5 CPU minutes.
"""

import argparse
import itertools
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax

from neft.scaling import coordinate_check, transfer

ACTIVATIONS = {"relu": jax.nn.relu, "gelu": jax.nn.gelu, "tanh": jnp.tanh}
VARIANCE = {"relu": 2.0, "gelu": 2.0, "tanh": 1.0}
"""Of weights times the width: He's for relu and gelu, Xavier's for tanh."""
RATE = {"sgd": 0.05, "adam": 0.005}
"""At the smallest width."""
INPUTS, OUTPUTS, SAMPLES = 10, 3, 32


class Case(NamedTuple):
    """A model; `wrong` is the layer whose rate is off, and `way` by which power of the width."""

    activation: str
    hidden: int
    optimizer: str
    wrong: int | None = None
    way: float = 0.0


def cases(hidden: tuple[int, ...] = (3, 5, 8), seed: int = 0) -> list[Case]:
    """The right ones, each followed by its wrong one."""
    found = []
    for i, (name, layers, optimizer) in enumerate(itertools.product(ACTIVATIONS, (3, 5, 8), RATE)):
        rng = np.random.default_rng([i, 2026 + seed])
        wrong = Case(name, layers, optimizer, int(rng.integers(layers + 1)), float(rng.choice([-0.5, 0.5])))
        found += [Case(name, layers, optimizer), wrong] if layers in hidden else []
    return found


def model(case: Case, low: int) -> tuple[Callable[..., Any], Callable[..., Any], Callable[..., Any]]:
    """`init`, `apply` and `optimizer` for the check; all rates are those of RATE at the width `low`."""
    act, variance = ACTIVATIONS[case.activation], VARIANCE[case.activation]

    def of(width: int, what: str) -> list[float]:
        found = transfer("mup", optimizer=case.optimizer, width=(low, width))
        first, hidden, last = (
            float(getattr(found, what)[found.groups.index(f"{group} weights")])
            for group in ("input", "hidden", "output")
        )
        return [first, *[hidden] * (case.hidden - 1), last]

    def init(key: Any, width: int) -> Any:
        sizes = [(INPUTS, width), *[(width, width)] * (case.hidden - 1), (width, OUTPUTS)]
        start = [1 / INPUTS, *[variance / low] * (case.hidden - 1), variance / low]
        drawn = zip(jax.random.split(key, len(sizes)), sizes, start, of(width, "variance"))
        return [(v * factor) ** 0.5 * jax.random.normal(k, size) for k, size, v, factor in drawn]

    def apply(params: Any, x: Any) -> Any:
        z = x @ params[0]
        for W, m in zip(params[1:], of(params[0].shape[1], "multiplier")[1:]):
            z = act(z) @ (m * W)
        return z

    def optimizer(width: int) -> Any:
        make = optax.sgd if case.optimizer == "sgd" else optax.adam
        rates = [RATE[case.optimizer] * factor for factor in of(width, "rate")]
        if case.wrong is not None:
            rates[case.wrong] *= (width / low) ** case.way
        labels = [str(i) for i in range(len(rates))]
        return optax.multi_transform({name: make(rate) for name, rate in zip(labels, rates)}, labels)

    return init, apply, optimizer


def data(seed: int = 0) -> dict[str, Any]:
    """Inputs, targets and loss."""
    rng = np.random.default_rng(7 + seed)
    x = rng.normal(size=(SAMPLES, INPUTS)).astype(np.float32)
    y = np.tanh(x @ rng.normal(size=(INPUTS, OUTPUTS))).astype(np.float32)
    return {"x": x, "y": y, "loss": lambda z, y: jnp.mean((z - y) ** 2)}


def main() -> None:
    """All cases one after the other."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--widths", type=int, nargs="+", default=[16, 64, 256])
    parser.add_argument("--hidden", type=int, nargs="+", default=[3, 5, 8])
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    tried = cases(tuple(args.hidden), args.seed)
    wrong = {True: 0, False: 0}
    for case in tried:
        parts, key = model(case, min(args.widths)), jax.random.key(1 + args.seed)
        found = coordinate_check(*parts, args.widths, **data(args.seed), steps=1, key=key)
        wanted = ["right"] * len(found.names)
        if case.wrong is not None:
            wanted[case.wrong] = "updates grow" if case.way > 0 else "updates shrink"
        good = list(found.verdicts) == wanted
        wrong[case.wrong is None] += not good
        powers = " ".join(f"{power:.2f}" for power in found.power_own)
        said = [f"{i} {verdict}" for i, verdict in enumerate(found.verdicts) if verdict != "right"]
        print(*case, "|", powers, "|", ", ".join(said) or "right", "|", "as it is" if good else "NOT", flush=True)
    half = len(tried) // 2
    print(
        f"{wrong[True]} of {half} right models called wrong, {wrong[False]} of {half} wrong ones not told as they are"
    )


if __name__ == "__main__":
    main()
