"""Kernel regression of an infinitely wide network on as many points as memory holds half a matrix of, or more."""

import os
import time
from typing import Any, ClassVar

import numpy as np
from jaxtyping import Float

from .. import _check
from .._blocks import BUDGET, block_size
from .._progress import say
from .._public import public
from .._result import Made, Result, result
from ..network import MLP, Network
from . import _budget
from ._budget import in_words
from ._kept import Folder, fingerprint
from ._kernels import digest, targets
from ._solver import Solver, solver
from ._spectrum import rates, spectrum
from ._tiles import TILE, Matrix, Tiles, cuts, in_threads

_VECTORS = 12
"""Vectors that a new input's variance takes while it is computed."""


@result
class Regression(Result):
    """A kernel regression: coefficients a (N, n_L) of (Θ + ridge) a = y, so that the mean at x is Θ_xA a.

    At ridge 0 an input that is given more than once is held once.

    `residual` is the largest relative one of the float64 system, |y - (Θ + ridge) a|/|y|. `way` says how it was solved,
    and `cost` what that took: CPU and wall seconds, products with the matrix, bytes expected and at the peak.
    """

    coefficients: Float[np.ndarray, "trains outputs"]
    x: Float[np.ndarray, "trains inputs"]
    kernel: str
    ridge: float
    residual: float
    way: str
    memory: float
    cost: dict[str, float]
    network: dict[str, Any]
    made: Made

    _live: ClassVar[Any] = None
    """The network and the solver while the process lives that made them; a file holds neither."""

    def _shown(self):
        count, outputs = self.coefficients.shape
        yield "points", f"{count}, {outputs} outputs"
        yield "kernel", f"{self.kernel}, ridge {self.ridge:g}"
        yield "residual", f"{self.residual:.2g}"
        yield "way", self.way
        yield "cost", ", ".join(f"{name} {value:.3g}" for name, value in self.cost.items())

    @public
    def predict(self, x_new: Any, *, variance: bool = False) -> Any:
        """The mean at new inputs (M, n_L); with `variance` also that of each input, (M,), the same for all outputs.

        For "ntk" it is the variance over the ensemble of trained networks, for "nngp" the posterior's. Each needs
        the system solved for every new input, and "ntk" a product with K beside it.

        Args:
            x_new: inputs of shape (M, n_0).
            variance: whether the variance is wanted too.
        """
        net = self._net()
        x_new = points(net, "x_new", x_new)
        tiles = Tiles(net, self.x, "ntk" if self.kernel == "ntk" else "nngp", self.ridge)
        mean = _mean(tiles, x_new, self.coefficients)
        if not variance:
            return mean
        return mean, np.concatenate(
            [_variance(self._solver(tiles), x_new[cut]) for cut in _few(tiles.points, len(x_new), self.memory)]
        )

    @public
    def test(self, x_test: Any, labels: Any = None) -> "Tested":
        """What it gives at test inputs, and for labels 0, 1, 2, … which part of them the largest output finds.

        Args:
            x_test: inputs of shape (M, n_0).
            labels: whole numbers, shape (M,).
        """
        mean = self.predict(x_test)
        found = None
        if labels is not None:
            labels = _check.array("labels", labels, shape=(len(mean),), dtype=np.int64, at_least=0)
            found = float((mean.argmax(axis=1) == labels).mean())
        names = ("kernel", "ridge", "residual", "way", "cost", "made")
        return Tested(mean=mean, accuracy=found, points=len(self.x), **{name: getattr(self, name) for name in names})

    def _net(self) -> Network:
        if self._live is not None:
            return self._live.matrix.tiles.net
        return (MLP if self.network.get("type") == "MLP" else Network).from_dict(self.network)

    def _solver(self, tiles: Tiles) -> "Solver":
        if self._live is None:
            residual = self.made.tolerances["residual"]
            plan = _budget.fitting(_ways(tiles, residual), tiles.points, self.memory)
            object.__setattr__(self, "_live", solver(tiles, residual, plan))
        assert self._live is not None
        return self._live


@result
class Tested(Result):
    """A regression on `points` inputs at test inputs: the mean (M, n_L), and the accuracy where there were labels."""

    mean: Float[np.ndarray, "tests outputs"]
    accuracy: float | None
    points: int
    kernel: str
    ridge: float
    residual: float
    way: str
    cost: dict[str, float]
    made: Made


@public
def regress(
    net: Network,
    x: Any,
    y: Any,
    *,
    ridge: float = 0.0,
    kernel: str = "ntk",
    memory: Any = "8GB",
    folder: str | os.PathLike[str] | None = None,
    residual: float = 1e-6,
) -> Regression:
    """Kernel regression on many points: (Θ + ridge) a = y, solved to a residual, within a memory.

    The mean of infinitely wide networks trained to the end on L = ½Σ(z-y)² is Θ_xA a at ridge 0 (docs/theory/training,
    eq. 1); with kernel="nngp" it is the posterior's for noise of variance `ridge` (eq. 5). The kernel is factorized in
    float32 in half the memory of the matrix, panel by panel, and the solution refined in float64 on tiles that are
    computed again. What float32 cannot bear is refused with the ridge from which it can.

    Args:
        net: the specification.
        x: training inputs, shape (N, n_0); in float32 they take half the memory.
        y: targets, shape (N, n_L), or (N,) for one output.
        ridge: what is added to the kernel's diagonal.
        kernel: "ntk" or "nngp".
        memory: the most that this process may hold, such as "8GB" or "2GiB", JAX and data included.
        folder: a new folder, in which the factor and the solution are kept as they are made; after any stop the same
            call goes on from there. Without one nothing is kept.
        residual: the relative residual of the float64 system that is wanted.

    >>> from neft import MLP
    >>> fit = regress(MLP((1, 64, 1), "relu", C_b=0.1), [[-1.0], [0.5], [1.0]], [1.0, 0.0, 1.0])
    >>> bool(abs(fit.predict([[0.5]])).max() < 1e-6)
    True
    """
    started, worked = time.monotonic(), time.process_time()
    ridge = _check.real("ridge", ridge, at_least=0.0)
    _check.one_of("kernel", kernel, ("ntk", "nngp"))
    residual = _check.real("residual", residual, above=0.0)
    x = points(net, "x", x)
    y = targets(y, len(x), net.outputs, name="y")
    specification = {"net": net.to_dict(), "data": digest(x, y), "ridge": ridge, "kernel": kernel}
    if not ridge:
        x, y = _distinct(x, y)
    tiles = Tiles(net, x, "ntk" if kernel == "ntk" else "nngp", ridge)
    place = None if folder is None else Folder(folder, fingerprint(specification | {"residual": residual}))
    plan = _budget.fitting(_ways(tiles, residual, place), len(x), memory)
    say(f"{len(x)} points: {plan}, {in_words(plan.bytes)} of memory, about {plan.seconds:.0f} seconds.")
    if place is not None:
        on_disk = plan.on_disk(len(x), net.outputs)
        say(f"{place.path} will hold {in_words(on_disk)}.")
        place.begin(plan._asdict(), on_disk)
    live = solver(tiles, residual, plan, place)
    prepared = time.process_time()
    solved = live(y, place)
    if place is not None:
        place.end()
    fit = Regression(
        coefficients=solved.x,
        x=x,
        kernel=kernel,
        ridge=ridge,
        residual=solved.residual,
        way=str(plan),
        memory=_budget.parsed(memory),
        cost={
            "CPU seconds": time.process_time() - worked,
            "CPU seconds of refinement": time.process_time() - prepared,
            "seconds": time.monotonic() - started,
            "products": float(solved.products),
            "seconds expected": plan.seconds,
            "bytes expected": plan.bytes,
            "bytes at the peak": _budget.peak(),
        },
        network=net.to_dict(),
        made=Made.by("neft.training.regress", specification=specification, tolerances={"residual": residual}),
    )
    object.__setattr__(fit, "_live", live)
    return fit


def points(net: Network, name: str, x: Any) -> np.ndarray:
    """At least one input of the network, in float32 where it is given so, else in float64."""
    kept = np.float32 if getattr(x, "dtype", None) == np.float32 else np.float64
    x = _check.array(name, x, shape=(None, net.inputs), dtype=kept)
    if not len(x):
        raise ValueError(f"{name} has shape {x.shape}, but must hold at least one input.")
    return x


def _ways(tiles: Tiles, residual: float, folder: Folder | None = None) -> list[_budget.Plan]:
    if folder is not None and folder.plan is not None:
        return [_budget.Plan(**folder.plan)]  # as it was begun
    expected = spectrum(tiles).iterations(tiles.ridge, residual)
    return _budget.plans(tiles.points, tiles.net.outputs, expected, rates(tiles))


def _distinct(x: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    # Without a ridge an input that is there twice makes the matrix singular: once is enough, if the targets agree.
    first: dict[bytes, int] = {}
    for i, row in enumerate(x):
        found = first.setdefault((row + 0.0).tobytes(), i)  # -0 is 0
        if found != i and (y[found] != y[i]).any():
            raise ValueError(
                f"x holds the same input at {found} and {i} with different targets, which ridge=0 cannot fit: give a "
                "ridge or leave one out."
            )
    if len(first) == len(x):
        return x, y
    rows = np.fromiter(first.values(), int)
    return x[rows], y[rows]


def _mean(tiles: Tiles, x_new: np.ndarray, coefficients: np.ndarray) -> np.ndarray:
    # Blocks of the training inputs are summed in their order, so that the threads do not change the rounding.
    mean = np.zeros((len(x_new), coefficients.shape[1]))
    places = [(new, old) for new in cuts(len(x_new)) for old in cuts(tiles.points)]

    def part(place: tuple[slice, slice]) -> np.ndarray:
        new, old = place
        return tiles.between(x_new[new], tiles.x[old], np.float64) @ coefficients[old]

    for (new, _), found in zip(places, in_threads(part, places, "prediction")):
        mean[new] += found
    return mean


def _variance(solve: Solver, x_new: np.ndarray) -> np.ndarray:
    # Columns of A are the weights of the training inputs at one new input (docs/theory/training, eqs. 3 and 5).
    tiles = solve.matrix.tiles
    Theta_Ax = _columns(tiles, x_new)
    A = solve(Theta_Ax).x
    prior = Tiles(tiles.net, x_new, "nngp").diagonal()
    if tiles.which == "nngp":
        return prior - np.einsum("ij,ij->j", A, Theta_Ax)
    K = Tiles(tiles.net, tiles.x, "nngp")
    return prior + np.einsum("ij,ij->j", A, Matrix(K)(A) - 2 * _columns(K, x_new))


def _columns(tiles: Tiles, x_new: np.ndarray) -> np.ndarray:
    lines = cuts(tiles.points)
    made = in_threads(lambda old: tiles.between(tiles.x[old], x_new, np.float64), lines, "kernel")
    return np.concatenate(list(made))


def _few(count: int, news: int, memory: float) -> list[slice]:
    # As many new inputs at once as what is left of the memory holds vectors for.
    left = max(BUDGET, memory - _budget.resident())
    return cuts(news, min(TILE, block_size(8 * _VECTORS * count, news, budget=left)))
