"""What a page is about: one network and one data set."""

import functools
from collections.abc import Iterator
from dataclasses import dataclass, fields
from typing import Any

import jax
import numpy as np
from jaxtyping import Array, Float

from ..data import Dataset
from ..network import MLP, Block, Network
from ..network.engine import branched, plain, repeated
from ..width import advise, critical, interpret, statistics
from ..width.results import BlockAdvice, Criticality, Interpretation, Statistics


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """How the network is trained: on which loss, by batches of how many examples (None: all), with which momentum."""

    loss: str = "square"
    batch: int | None = None
    momentum: float = 0.0


@dataclass(frozen=True, kw_only=True, eq=False)
class Subject:
    """A network and the examples it is for; `test` is None where the data has no split of its own."""

    net: Network
    train: Dataset
    test: Dataset | None
    seed: int
    recipe: Recipe = Recipe()

    def __post_init__(self):
        given = (self.net.inputs, self.net.outputs)
        needed = (self.train.features, self.train.classes)
        for i, what in enumerate(("inputs", "outputs")):
            if given[i] != needed[i]:
                raise ValueError(
                    f"the network has {given[i]} {what}, but the data {self.train.name!r} needs {needed[i]}."
                )

    def __getstate__(self) -> dict[str, Any]:
        # One thread hands the subject to another process while this one finds out more about it: what is found stays
        # here, and a dictionary that grows cannot be pickled.
        return {field.name: getattr(self, field.name) for field in fields(self)}

    @functools.cached_property
    def chain(self) -> MLP | None:
        """The network as a multilayer perceptron, where it is one."""
        return plain(self.net)

    @property
    def plain(self) -> MLP:
        """The same for those sections that are about perceptrons alone."""
        assert self.chain is not None
        return self.chain

    @functools.cached_property
    def step(self) -> tuple[Block, ...] | None:
        """The residual block that it repeats, with what belongs to it; None where there is none."""
        try:
            found = None if self.chain is not None else repeated(self.net)
        except ValueError:
            return None
        return found if found is not None and branched(found) else None

    @functools.cached_property
    def criticality(self) -> Criticality:
        """The critical points of that block."""
        assert self.step is not None
        return critical(self.step)

    @functools.cached_property
    def advice(self) -> BlockAdvice | str:
        """Advice on a network of that block as deep and wide as this one, or why there is none."""
        assert self.step is not None
        sizes = {"inputs": self.net.inputs, "outputs": self.net.outputs}
        try:
            found = advise(self.step, max(3, self.net.depth), self.width, q=self.q, **sizes)
        except ValueError as error:
            return str(error)
        assert isinstance(found, BlockAdvice)
        return found

    @property
    def key(self) -> Array:
        """The key of all that is drawn for the page."""
        return jax.random.key(self.seed)

    @property
    def title(self) -> str:
        """The network and data in a few words."""
        widths = self.net.widths
        short = "-".join(map(str, widths)) if len(widths) <= 6 else f"{widths[0]}-{widths[1]}-…-{widths[-1]}"
        return f"{self.kind} {short} on {self.train.name}"

    @property
    def lead(self) -> str:
        """What the page tells, in a line."""
        return (
            f"{self.net.depth} layers, {self.net.parameter_count():,} parameters, {self.train.count:,} examples: "
            "what finite "
            "width does to this network, by theory and by simulation."
        )

    @property
    def kind(self) -> str:
        """The activations, and for a network of blocks what else it is made of, in a few words."""
        if self.chain is not None:
            return self.chain.activation.name
        return " ".join([*self.others, ", ".join(act.name for act in self.net.activations) or "linear"])

    @functools.cached_property
    def others(self) -> tuple[str, ...]:
        """The kinds of blocks in it that are neither dense nor activations, in the order in which they occur."""
        found = dict.fromkeys(_names(self.net.to_dict()["blocks"]))
        return tuple(name for name in found if name not in ("Dense", "Nonlinearity"))

    @functools.cached_property
    def words(self) -> tuple[str, ...]:
        """Each block that holds weights, with what stands before it, in words."""
        return self.net.in_words()

    @property
    def width(self) -> int:
        """The width of the last hidden layer; that of the inputs where there is none."""
        return self.net.widths[-2]

    @functools.cached_property
    def place(self) -> int:
        """Which training example's mean square is the median of all."""
        squares = np.square(self.train.x, dtype=np.float64).mean(axis=1)
        return int(np.argsort(squares, kind="stable")[len(squares) // 2])

    @functools.cached_property
    def x(self) -> Float[np.ndarray, " n_0"]:
        """That training example."""
        return self.train.x[self.place].astype(np.float64)

    @property
    def q(self) -> float:
        """|x|²/n_0 of that example."""
        return float(np.square(self.x).mean())

    @functools.cached_property
    def stats(self) -> Statistics:
        """The statistics of the network for that example."""
        return statistics(self.net, self.x)

    @functools.cached_property
    def unknown(self) -> str | None:
        """Why there is no theory of infinite width for this network, in one sentence; None where there is."""
        try:
            self.stats  # noqa: B018
        except ValueError as error:
            return str(error)
        return None

    @functools.cached_property
    def meaning(self) -> Interpretation:
        """What they say."""
        return interpret(self.stats, activation=None if self.chain is None else self.chain.activation)

    @property
    def jumps(self) -> bool:
        """Whether an activation itself jumps, so that gradients and susceptibilities do not exist."""
        return self.jumping is not None

    @property
    def jumping(self) -> str | None:
        """The first activation that jumps."""
        acts = self.net.activations if self.chain is None else (self.chain.activation,)
        return next((act.name for act in acts if any(kink.order == 0 for kink in act.kinks)), None)


def _names(records: Any) -> Iterator[str]:
    for record in records:
        if isinstance(record, dict):
            yield record["type"]
            yield from _names(record.get("branch", ()))
