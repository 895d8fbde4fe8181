"""Kernel regression of an infinitely wide network on as many points as memory holds half a matrix of, or more."""

import contextlib
import os
import time
from typing import Any, ClassVar, NamedTuple

import numpy as np
from jaxtyping import Float

from .. import _check
from .._dask import connected
from .._progress import say
from .._public import public
from .._result import Made, Result, result
from ..network import MLP, Network
from . import _budget
from ._budget import in_words
from ._given_points import distinct, points
from ._kept import EVERY, Folder, Part, fingerprint
from ._kernels import digest, refuse_too_many, targets
from ._learning import LearningCurve, expected, seen
from ._left_out import PROBES, LeftOut, leave_one_out
from ._left_out import probes as signs_of
from ._new_inputs import few, mean
from ._new_inputs import variance as variance_of
from ._panels import panel_bytes
from ._solver import IllConditioned, Solver, solver
from ._spectrum import rates, spectrum
from ._spread import Spread
from ._tiles import Kept, Tiles, keep
from ._where import free, spare

_LOST = 90.0
"""Seconds of tiles in memory that may be lost."""


@result
class Regression(Result):
    """A kernel regression: coefficients a (N, n_L) of (Θ + ridge) a = y, so that the mean at x is Θ_xA a.

    At ridge 0 an input that is given more than once is held once.

    `residual` is the largest relative one of the float64 system, |y - (Θ + ridge) a|/|y|. `way` says how it was solved,
    and `cost` what that took: CPU and wall seconds, products with the matrix, bytes expected and at the peak.

    `leave_one_out` holds, for each of `ridges` that was tried, the mean square by which a training target is missed by
    the regression on all the others, and `leave_one_out_error` how far random vectors leave that open; infinity where
    float32 cannot bear the ridge, None where neither several ridges nor probes were asked for. `ridge` is the best.
    """

    coefficients: Float[np.ndarray, "trains outputs"]
    x: Float[np.ndarray, "trains inputs"]
    y: Float[np.ndarray, "trains outputs"]
    kernel: str
    ridge: float
    ridges: Float[np.ndarray, " ridges"]
    leave_one_out: Float[np.ndarray, " ridges"] | None
    leave_one_out_error: Float[np.ndarray, " ridges"] | None
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
        if self.leave_one_out is not None and self.leave_one_out_error is not None:
            best = self.ridges.tolist().index(self.ridge)
            error = self.leave_one_out_error[best]
            yield "leave-one-out", f"{self.leave_one_out[best]:.4g} ± {error:.1g}, of {len(self.ridges)} ridges"
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
        tiles = self._tiles()
        found = mean(tiles, x_new, self.coefficients)
        if not variance:
            return found
        return found, np.concatenate(
            [variance_of(self._solver(tiles), x_new[cut]) for cut in few(tiles.points, len(x_new), self.memory)]
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

    @public
    def learning_curve(
        self, sizes: Any, *, x_test: Any = None, y_test: Any = None, sample: int = 4096, seed: int = 0
    ) -> LearningCurve:
        """The test error that theory expects for numbers of training inputs, at this kernel and ridge.

        From the eigenvalues of the kernel of a sample and its targets along the eigenvectors (docs/theory/training,
        eqs. 65-70), for new inputs that come from where the training inputs came from. It takes 24 M² bytes and about
        10 M³ operations for a sample of M.

        Args:
            sizes: a list of numbers of training inputs; those above the sample are reached by power laws.
            x_test: new inputs (M, n_0) on which regressions on as many of the training inputs are tried, if wanted.
            y_test: their targets, (M, n_L) or (M,).
            sample: the largest number of training inputs whose spectrum is taken.
            seed: which of them are taken.
        """
        found = _check.array("sizes", sizes, ndim=1, dtype=np.int64, at_least=1)
        if not found.size:
            raise ValueError(f"sizes is {_check.brief(sizes)}, but must hold at least one number of inputs.")
        count = min(_check.integer("sample", sample, at_least=16), len(self.x))
        order = np.random.default_rng(_check.integer("seed", seed, at_least=0)).permutation(len(self.x))
        if (x_test is None) != (y_test is None):
            missing = "x_test" if x_test is None else "y_test"
            raise ValueError(f"{missing} is missing, but test inputs and their targets go together.")
        measured = None
        if x_test is not None:
            x_test = points(self._net(), "x_test", x_test)
            y_test = targets(y_test, len(x_test), self.y.shape[1], name="y_test")
            measured = np.array([self._measured(order, size, x_test, y_test) for size in found.tolist()])
        refuse_too_many(count, 24.0 * count**2)
        # In the order of the data, so that a sample of all of them is the matrix itself.
        chosen = np.sort(order[:count])
        Theta = self._tiles().between(self.x[chosen], None, np.float64) + self.ridge * np.eye(count)
        shown = seen(Theta, self.y[chosen])
        expectations = [expected(shown, size) for size in found.tolist()]
        error, kappa, dimension = np.array(expectations).T
        return LearningCurve(
            sizes=found,
            error=error,
            measured=measured,
            beyond=found > count,
            kappa=kappa,
            dimension=dimension,
            sample=count,
            kernel=self.kernel,
            ridge=self.ridge,
            made=Made.by("neft.training.learning_curve", specification={"fit": self.made.specification, "seed": seed}),
        )

    def _measured(self, order: np.ndarray, size: int, x_test: np.ndarray, y_test: np.ndarray) -> float:
        # The other end of the shuffled inputs than the sample's, so that small sizes share nothing with it.
        if size > len(self.x):
            return np.nan
        chosen = order[len(order) - size :]
        fit = regress(
            self._net(), self.x[chosen], self.y[chosen], ridge=self.ridge, kernel=self.kernel, memory=self.memory
        )
        return float(np.mean((fit.predict(x_test) - y_test) ** 2))

    def _tiles(self) -> Tiles:
        return Tiles(self._net(), self.x, "ntk" if self.kernel == "ntk" else "nngp", self.ridge)

    def _net(self) -> Network:
        if self._live is not None:
            return self._live.matrix.tiles.net
        return (MLP if self.network.get("type") == "MLP" else Network).from_dict(self.network)

    def _solver(self, tiles: Tiles) -> "Solver":
        if self._live is None:
            residual = self.made.tolerances["residual"]
            plan = _budget.fitting(_ways(tiles, residual, tiles.net.outputs), tiles.points, self.memory)
            kept = keep(tiles, np.float64) if plan.keeps else None
            object.__setattr__(self, "_live", solver(tiles, residual, plan, kept=kept))
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
    ridge: Any = 0.0,
    kernel: str = "ntk",
    memory: Any = "8GB",
    folder: str | os.PathLike[str] | None = None,
    residual: float = 1e-6,
    probes: int | None = None,
    scheduler: str | None = None,
    tls: dict[str, str] | None = None,
    timeout: float = 10.0,
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
        ridge: what is added to the kernel's diagonal; of a list the one with the least leave-one-out error is taken,
            which costs a solution for each.
        kernel: "ntk" or "nngp".
        memory: the most that all processes of this machine may hold, such as "8GB" or "2GiB", JAX and data included. A
            factor that does not fit goes to a file: in the folder, or a temporary one that is removed.
        folder: a new folder, in which the factor and the solution are kept as they are made; after any stop the same
            call goes on from there. Without one nothing is kept.
        residual: the relative residual of the float64 system that is wanted.
        probes: random vectors from which the leave-one-out error is told (docs/theory/training, eq. 64); by default 64
            for several ridges and none for one.
        scheduler: the address of a dask.distributed scheduler, such as "tcp://10.0.0.1:8786", whose workers compute
            and, where their memory allows it, keep the tiles. They need neft, nothing of the folder.
        tls: for a scheduler at "tls://…", the arguments of `distributed.Security`: tls_ca_file, tls_client_cert,
            tls_client_key.
        timeout: seconds to wait for the scheduler.

    >>> from neft import MLP
    >>> fit = regress(MLP((1, 64, 1), "relu", C_b=0.1), [[-1.0], [0.5], [1.0]], [1.0, 0.0, 1.0], memory="16GB")
    >>> bool(abs(fit.predict([[0.5]])).max() < 1e-6)
    True
    """
    started, worked = time.monotonic(), time.process_time()
    ridges = _ridges(ridge)
    _check.one_of("kernel", kernel, ("ntk", "nngp"))
    residual = _check.real("residual", residual, above=0.0)
    many = _check.integer("probes", (PROBES if ridges.size > 1 else 0) if probes is None else probes, at_least=0)
    if ridges.size > 1 and not many:
        raise ValueError("probes is 0, but several ridges are told apart by their leave-one-out errors.")
    if tls and scheduler is None:
        raise ValueError("tls is given without a scheduler, but belongs to one.")
    net.refuse_positions("regressions on many points (`predict` has those on thousands)")
    x = points(net, "x", x)
    y = targets(y, len(x), net.outputs, name="y")
    specification = {"net": net.to_dict(), "data": digest(x, y), "ridge": ridges.tolist(), "kernel": kernel}
    if not ridges.min():
        x, y = distinct(x, y)
    tiles = Tiles(net, x, "ntk" if kernel == "ntk" else "nngp", float(ridges.min()))
    task = fingerprint(specification | {"residual": residual, "probes": many})
    place = None if folder is None else Folder(folder, task)
    columns = net.outputs + many
    with contextlib.ExitStack() as stack:
        spread = None
        if scheduler is not None:
            client = stack.enter_context(connected(scheduler, tls or {}, _check.real("timeout", timeout, above=0.0)))
            spread = Spread(client, tiles, None if place is None else f"neft-{task}")
        plan = _budget.fitting(_ways(tiles, residual, columns, place, spread), len(x), memory)
        say(f"{len(x)} points: {plan}, {in_words(plan.bytes)} of memory, about {plan.seconds:.0f} seconds.")
        if place is None and plan.group:
            say(f"A temporary file in {spare()} takes {in_words(panel_bytes(len(x)))} and is removed.")
        if place is not None:
            on_disk = plan.on_disk(len(x), columns) + 16 * len(x) * net.outputs * ridges.size
            say(f"{place.path} will hold {in_words(on_disk)}.")
            place.begin(plan._asdict(), on_disk)
        if spread is not None:
            spread.begin(keeps=plan.keeps)
        job = _Job(y, residual, plan, signs_of(len(x), many) if many else None, spread)
        found = job.all_of(tiles, ridges, place)
        if spread is not None:
            spread.end()
    if place is not None:
        place.end()
    best = min(range(len(found)), key=lambda i: found[i].left_out.value)
    fit = Regression(
        coefficients=found[best].coefficients,
        x=x,
        y=y,
        kernel=kernel,
        ridge=float(ridges[best]),
        ridges=ridges,
        leave_one_out=np.array([one.left_out.value for one in found]) if many else None,
        leave_one_out_error=np.array([one.left_out.error for one in found]) if many else None,
        residual=found[best].residual,
        way=f"{plan}, on a cluster" if spread is not None else str(plan),
        memory=_budget.parsed(memory),
        cost={
            "CPU seconds": time.process_time() - worked,
            "CPU seconds of refinement": job.refining,
            "seconds": time.monotonic() - started,
            "products": float(sum(one.products for one in found)),
            "seconds expected": plan.seconds * len(found),
            "bytes expected": plan.bytes,
            "bytes at the peak": _budget.peak(),
        },
        network=net.to_dict(),
        made=Made.by("neft.training.regress", specification=specification, tolerances={"residual": residual}),
    )
    if found[best].live is not None and spread is None:
        object.__setattr__(fit, "_live", found[best].live)
    return fit


class _Found(NamedTuple):
    # The solution at one ridge; the solver of the last one only, since two factors may not fit.
    coefficients: np.ndarray
    residual: float
    products: int
    left_out: LeftOut
    live: Solver | None = None


class _Job:
    # One system of equations after the other, at growing ridges.
    def __init__(
        self, y: np.ndarray, residual: float, plan: _budget.Plan, signs: np.ndarray | None, spread: Spread | None
    ) -> None:
        self.y, self.residual, self.plan, self.signs, self.spread = y, residual, plan, signs, spread
        self.refining = 0.0

    def all_of(self, tiles: Tiles, ridges: np.ndarray, place: Folder | None) -> list[_Found]:
        kept = keep(tiles, np.float64) if self.plan.keeps and self.spread is None else None
        found: list[_Found] = []
        refused = None
        for i, ridge in enumerate(ridges.tolist()):
            if found:
                found[-1] = found[-1]._replace(live=None)
            part = None if place is None else place.within(f"ridge-{i:03d}-" if ridges.size > 1 else "")
            try:
                found.append(self._one(tiles._replace(ridge=ridge), kept, part, last=ridges.size == 1))
            except IllConditioned as error:
                # Its words alone: the error itself would keep the frames it came through, and their panels, alive.
                refused = str(error)
                if part is not None:
                    part.drop()
                found.append(_Found(np.empty((0, 0)), np.inf, 0, LeftOut(np.inf, np.inf)))
        if refused is not None and all(np.isinf(one.residual) for one in found):
            raise ValueError(refused)
        return found

    def _one(self, tiles: Tiles, kept: Kept | None, part: Part | None, *, last: bool) -> _Found:
        done = None if part is None or last else part.load("solved")
        if done is not None:
            value, error, residual, products = done["numbers"].tolist()
            return _Found(done["coefficients"], residual, int(products), LeftOut(value, error))
        spread = None if self.spread is None else self.spread.at(tiles.ridge)
        live = solver(tiles, self.residual, self.plan, part, kept=kept, spread=spread)
        started = time.process_time()
        right = self.y if self.signs is None else np.concatenate([self.y, self.signs], axis=1)
        solved = live(right, part)
        self.refining += time.process_time() - started
        outputs = self.y.shape[1]
        a, left_out = solved.x[:, :outputs].copy(), LeftOut(0.0, 0.0)
        if self.signs is not None:
            left_out = leave_one_out(a, self.signs, solved.x[:, outputs:], tiles.diagonal() + tiles.ridge)
        if part is not None and not last:
            numbers = np.array([*left_out, solved.residual, solved.products])
            part.drop()
            part.save("solved", coefficients=a, numbers=numbers)
        return _Found(a, solved.residual, solved.products, left_out, live)


def _ridges(ridge: Any) -> np.ndarray:
    if not isinstance(ridge, (list, tuple)) and not getattr(ridge, "ndim", 0):
        return np.array([_check.real("ridge", ridge, at_least=0.0)])
    found = _check.array("ridge", ridge, ndim=1, at_least=0.0)
    if not found.size:
        raise ValueError(f"ridge is {_check.brief(ridge)}, but must be a number or a list of at least one.")
    return found


def _ways(
    tiles: Tiles, residual: float, columns: int, folder: Folder | None = None, spread: Spread | None = None
) -> list[_budget.Plan]:
    expected = spectrum(tiles).iterations(tiles.ridge, residual)
    speed = rates(tiles, spare() if folder is None else folder.path)
    if spread is not None:
        found = [
            plan._replace(bytes=plan.bytes + spread.here(keeps=keeps, rank=plan.rank))
            for keeps in ((True, False) if spread.fits else (False,))
            for plan in _budget.on_cluster(tiles.points, columns, expected, speed, spread.threads, keeps=keeps)
        ]
        found.sort(key=lambda plan: plan.seconds)
    else:
        # A folder that is too small is refused in words; what is kept in it is whole panels, so they may not take long.
        limits = {"disk": free(spare())} if folder is None else {"longest": EVERY}
        found = _budget.plans(tiles.points, columns, expected, speed, residual, **limits)
    if folder is None:
        return found
    # What is there already serves every way with as many columns of a preconditioner; and tiles in memory are lost
    # with the process, which may not be minutes of work.
    begun = folder.plan and folder.plan["rank"]
    lost = speed.entry64 * tiles.points**2 / 2 > _LOST and spread is None
    return [plan for plan in found if (begun is None or plan.rank == begun) and not (plan.keeps and lost)]
