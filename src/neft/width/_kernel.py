"""Infinite-width kernels of thousands of inputs, in blocks, in memory or in a file."""

import functools
import os
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from .. import _check
from .._blocks import BUDGET, block_size, blocks
from .._closed import Pair, form_of
from .._guard import positive, root
from .._progress import track
from .._public import public
from .._tilt import tilt_of
from ..network import Means, Network, Stage
from ._kernel_engines import InOrder, Part, way_of
from ._kernel_expansion import Expansion, expansion, reaches
from ._kernel_file import Destination, opened
from ._kernel_own import Occurrence, Own, averages, own
from ._kernel_pairs import Kernel, refuse_jumps
from ._kernel_positions import OnPositions
from ._kernel_tiles import (
    Program,
    by_forms,
    by_quadrature,
    by_segments,
    entering,
    line,
    nearness,
    paired,
    products,
    program,
)

_TILE = 256  # inputs on each side of a tile; smaller ones leave less of a symmetric kernel to do twice
_LARGEST = {4: 1e18, 8: 1e140}  # K whose square is still a number, by bytes
_FEW = 64  # inputs
_NEAR = 1e-6  # 1 - |ρ| below which a kink wants the correlation from differences of inputs


@public
def kernel(
    net: Network, x1: Any, x2: Any = None, *, dtype: Any = None, out: str | os.PathLike[str] | None = None
) -> Kernel:
    """The kernel K and the neural tangent kernel Θ of the output layer at infinite width, each of shape (N1, N2).

        K' = C_b + C_W⟨σσ⟩,    Θ' = λ_b + λ_W⟨σσ⟩ + C_W Θ⟨σ'σ'⟩,    K = C_b + C_W x·x/n_0, Θ = λ_b + λ_W x·x/n_0 first

    for dense blocks and activations (docs/theory/width, eqs. 47-48; docs/theory/blocks for others). Work goes in
    blocks, so memory is that of the result and a few hundred megabytes; without `x2` half of it is done. The diagonal
    comes from the recursion of one input, and nothing is lost near ρ = ±1. Activations without a closed form take a
    Hermite expansion, and where that would be long (kinks, large variances) quadrature, which is much slower.
    `pair_kernel` is the pure function for jit, vmap and grad.

    Args:
        net: the specification; hidden widths do not matter.
        x1: inputs of shape (N1, n_0).
        x2: inputs of shape (N2, n_0); the same as `x1` by default.
        dtype: "float32" or "float64"; by default float32 where the inputs are, else float64.
        out: a new file "….npy" to hold an array of shape (2, N1, N2), K and then Θ, which is returned as read-only
            memory maps. It appears when it is complete; the same call resumes an interrupted one where it stopped.

    >>> from neft import MLP
    >>> K, Theta = kernel(MLP(widths=(2, 8, 1), activation="relu"), [[3.0, 4.0], [4.0, 3.0]])
    >>> K.round(4)
    array([[6.25 , 6.015],
           [6.015, 6.25 ]])
    """
    refuse_jumps(net)
    chosen = _dtype(dtype, x1, x2)
    x1 = _inputs("x1", x1, net)
    x2 = None if x2 is None else _inputs("x2", x2, net)
    with jax.enable_x64(True):
        job = (OnPositions if net.positions else _Job)(net, x1, x2, chosen)
        with opened(out, (2, len(x1), len(job.x2)), chosen, () if out is None else job.identity) as target:
            job.fill(target)
        job.forget()
        return Kernel(*target.result)


def _dtype(dtype: Any, *inputs: Any) -> np.dtype:
    if dtype is None:
        kinds = [str(x.dtype) for x in inputs if hasattr(x, "dtype")]
        return np.dtype(np.float32 if kinds and all(kind == "float32" for kind in kinds) else np.float64)
    return _check.floating("dtype", dtype)


def _inputs(name: str, x: Any, net: Network) -> np.ndarray:
    kept = np.float32 if getattr(x, "dtype", None) == np.float32 else np.float64
    x = _check.array(name, net.flat(x), ndim=2, dtype=kept)
    if x.shape[1] != net.inputs:
        raise ValueError(f"{name} has {x.shape[1]} columns, but must have {net.inputs}, the inputs of the network.")
    if not len(x):
        raise ValueError(f"{name} has shape {x.shape}, but must hold at least one input.")
    return x


class _Job:
    # One kernel: what each input has by itself, and how tiles of pairs are made from that.

    def __init__(self, net: Network, x1: np.ndarray, x2: np.ndarray | None, dtype: np.dtype) -> None:
        self.net, self.dtype = net, dtype
        self.x1, self.x2, self.symmetric = x1, x1 if x2 is None else x2, x2 is None
        self.segments = net.segments()
        self.ends = [_ends(x1)] * 2 if x2 is None else [_ends(x) for x in (x1, x2)]
        self.owns = [self._own(*self.ends[0])] * 2 if x2 is None else [self._own(*ends) for ends in self.ends]
        self.met = [_both(*pair) for pair in zip(*(one.occurrences for one in self.owns))]
        self.tolerance = 1e-8 if dtype == np.float32 else 1e-12
        self.plans = [_plan(one, self.tolerance) for one in self.met]
        if any(plan is None for plan in self.plans):
            # Quadrature for one activation is quadrature for all that have no closed form.
            self.plans = [plan if isinstance(plan, tuple) and not plan else None for plan in self.plans]
        self.quadrature = any(plan is None for plan in self.plans)
        self.expanded = not self.quadrature and any(self.plans)
        # Where averages change quickly near ρ = ±1, correlations need more digits than their dtype has.
        self.kinked = any(act.kinks for act in net.activations)
        self.sharp = self.kinked or any(one.K.max() > 16 for one in self.met)
        self.products = np.dtype(np.float32 if dtype == np.float32 and not self.sharp else np.float64)
        self.counts = self.owns[0].counts
        self.ways = tuple(way_of(one.act, plan) for one, plan in zip(self.met, self.plans))
        self.exact = self.kinked and dtype == np.float64
        wanted = (self.exact or self.expanded) and not self.counts[0]
        self.first = self._coded(0, 1) if wanted else None
        if not self.quadrature:
            every = range(len(self.segments)) if self.expanded else ()
            self.whole, self.each = self._coded(0, len(self.segments)), [self._coded(i, i + 1) for i in every]
        self.reaches = self._reaches() if self.expanded else ((0, 1.0),)
        longest = max(len(self.x1), len(self.x2))
        self.size = min(4 * _TILE if self.quadrature else _TILE, 1 << (longest - 1).bit_length())
        # As many blocks of inputs as the budget holds are kept, so that none is prepared twice for small kernels.
        terms = sum(one.most * len(one.orders) for plan in self.plans for one in plan or ())
        per_block = self.size * (net.inputs * self.products.itemsize + 16 * len(self.met) + terms * dtype.itemsize)
        kept = functools.lru_cache(block_size(per_block, 1 << 20, budget=BUDGET))
        self._inputs, self._ends = kept(self._prepared), kept(self._sizes)
        self._values, self._oriented = kept(self._stacked), kept(self._facing)

    @property
    def identity(self) -> tuple[Any, ...]:
        """What makes this kernel this one and no other."""
        return (self.net.to_dict(), self.x1, None if self.symmetric else self.x2)

    def _own(self, q: np.ndarray, mean: np.ndarray) -> Own:
        with np.errstate(over="ignore", invalid="ignore"):  # what overflows is refused in words
            found = own(self.segments, q, mean)
        for values, name in ((found.K, "K"), (found.Theta, "Theta")):
            beyond = ~(np.abs(values) < _LARGEST[self.dtype.itemsize])
            if beyond.any():
                l = int(np.argmax(beyond.any(axis=1))) + 1
                raise ValueError(
                    f"{name} overflows {self.dtype} at layer {l}, so nothing beyond it is defined: lower C_W or C_b, "
                    "the depth or the inputs."
                )
        return found

    def _coded(self, start: int, stop: int) -> tuple[Program, Any]:
        # Segments as compiled code sees them, and their numbers, which would be moved anew for each tile.
        numbers, structure = jax.tree.flatten(self.segments[start:stop])
        counts = self.counts[start:stop]
        before = sum(self.counts[:start])
        side = jax.tree.structure(self._parts(0, np.zeros(1, int), 0)) if not self.expanded else None
        found = program(structure, counts, self.ways[before : before + sum(counts)], side)
        plain = all(np.ndim(number) == 0 for number in numbers)
        return found, jnp.asarray(numbers) if plain else tuple(map(jnp.asarray, numbers))

    def _reaches(self) -> tuple[tuple[int, float], ...]:
        # How many terms serve pairs up to which correlation of the first Gaussian stage: with positive coefficients
        # |⟨σ₁σ₂⟩| is at most Σ a_k² |ρ|^k, the average of an input with itself at that correlation.
        used = [(i, one) for i, plan in enumerate(self.plans) for one in plan or ()]
        if self.counts[0]:
            return reaches([one for _, one in used], np.ones(1), [np.ones(1)] * len(used), self.tolerance)
        chosen = np.unique([np.argsort(one.K)[[0, len(one.K) // 2, -1]] for one in self.met])
        q, mean = (np.concatenate([end[i] for end in self.ends])[chosen] for i in (0, 1))
        first = self.segments[0].kernel(Stage.itself(q, 0 * q, mean1=mean, mean2=mean, kind="input"), InOrder(()))
        K, rho = first.K1[None, :], _STARTS[:, None]
        stage = Stage.between(K, K, rho * K, 0 * rho * K)
        engine = _Bound(self.plans, self.met, chosen)
        for segment in self.segments[1:]:
            stage = segment.kernel(stage, engine)
        largest = [np.minimum(engine.seen[i].max(axis=1), 1) for i, _ in used]
        return reaches([one for _, one in used], _STARTS, largest, self.tolerance)

    def fill(self, target: Destination) -> None:
        rows, columns = (list(blocks(len(x), self.size)) for x in (self.x1, self.x2))
        work = [
            (i, j)
            for i in range(len(rows))
            if i >= target.done
            for j in range(i if self.symmetric else 0, len(columns))
        ]
        make = self._by_quadrature if self.quadrature else self._by_program
        for i, j in track(work, "kernel"):
            row, column = rows[i], columns[j]
            made = make(row, column, self.symmetric and i == j)
            for into, values in zip(target.arrays, made):
                if self.symmetric and i == j:
                    # One of the two triangles, so that the kernel is symmetric to the last bit.
                    values = np.triu(values) + np.triu(values, 1).T
                into[row, column] = values
                if self.symmetric and i != j:
                    _transpose(into[column, row], values)
            if self.symmetric and i == j:
                self._diagonal(target, row)
            if j == len(columns) - 1:
                target.finished(i + 1)

    def forget(self) -> None:
        """Let blocks of inputs go: the caches belong to the job and it to them, so nothing else would for a while."""
        for cached in (self._inputs, self._values, self._oriented, self._ends):
            cached.cache_clear()

    def _diagonal(self, target: Destination, row: slice) -> None:
        # From the recursion of one input.
        where = np.arange(row.start, row.stop)
        for into, values in zip(target.arrays, self.owns[0][:2]):
            into[where, where] = values[-1, row]

    def _where(self, start: int, stop: int) -> np.ndarray:
        # Short blocks are filled up with their last input, so that compiled code sees one shape.
        return np.minimum(np.arange(start, start + self.size), stop - 1)

    def _prepared(self, which: int, start: int, stop: int) -> Any:
        return jnp.asarray((self.x1, self.x2)[which][self._where(start, stop)].astype(self.products, copy=False))

    def _sizes(self, which: int, start: int, stop: int) -> tuple[Any, ...]:
        # |x|²/n_0 and the means of x.
        return tuple(jnp.asarray(value[self._where(start, stop)], self.products) for value in self.ends[which])

    def _stacked(self, which: int, start: int, stop: int) -> Any:
        # What a block of inputs has at all activations, (values, n).
        found = jax.tree.leaves(self._parts(which, self._where(start, stop), 0))
        return jnp.asarray(np.stack(found) if found else np.empty((0, self.size), self.dtype))

    def _facing(self, which: int, start: int, stop: int, terms: int, column: bool) -> list[Part]:
        # What a block of inputs has at each activation, standing along rows or columns.
        found = self._parts(which, self._where(start, stop), terms)
        facing = jax.tree.map(lambda value: value[..., None, :] if column else value[..., :, None], found)
        return jax.device_put(facing)  # all at once, which takes less time than one by one

    def _parts(self, which: int, where: np.ndarray, terms: int) -> list[Part]:
        found = []
        for one, plan in zip(self.owns[which].occurrences, self.plans):
            K = one.K[where]
            part = Part(one.square[where].astype(self.dtype))
            if one.mean is not None:
                part = part._replace(mean=one.mean[where].astype(self.dtype))
            for expanded in plan or ():
                table = expanded.table(K, terms, self.dtype)
                part = part._replace(terms=table) if len(table) == 2 else part._replace(tilt=table[0])
            found.append(part)
        return found

    def _by_program(self, row: slice, column: slice, own: bool) -> list[np.ndarray]:
        one, two = (0, row.start, row.stop), (0 if self.symmetric else 1, column.start, column.stop)
        gram = products(self._inputs(*one), self._inputs(*two))
        real = slice(row.stop - row.start), slice(column.stop - column.start)
        near = self._nearness(gram, one, two, own) if self.exact or self.expanded else np.empty((0, 0))
        if self.expanded:
            return self._expanded(np.asarray(gram), near, one, two)
        ends = tuple(self._ends(*side) for side in (one, two))
        sides = self._values(*one), self._values(*two)
        made = by_forms(*self.whole, gram, ends, sides, sharp=self.sharp, dtype=self.dtype)
        found = [np.asarray(values)[real] for values in made]
        close = np.flatnonzero((near < _NEAR).any(axis=1)) if self.exact else ()
        found = [np.array(values) for values in found] if len(close) else found
        for n in close:
            alone = self._parts(0, np.array([row.start + n]), 0)
            others = self._parts(two[0], self._where(*two[1:]), 0)
            again = line(*self.whole, alone, others, self._inputs(*one)[n], self._inputs(*two))
            for values, better in zip(found, again):
                values[n] = np.asarray(better)[real[1]]
        return found

    def _nearness(self, gram: Any, one: Any, two: Any, own: bool) -> np.ndarray:
        # 1 - |ρ| at the first Gaussian stage.
        found = nearness(self.first, gram, self._ends(*one), self._ends(*two))
        near = np.asarray(found)[: one[2] - one[1], : two[2] - two[1]]
        if own:
            near = near.copy()
            # These are done by themselves.
            np.fill_diagonal(near, 2.0)
        return near

    def _expanded(self, gram: np.ndarray, near: np.ndarray, one: Any, two: Any) -> list[np.ndarray]:
        # As many terms as all but a few of the pairs ask for; those few get all there are.
        few = 0.005 * near.size
        terms, reach = next(pair for pair in self.reaches if np.count_nonzero(near < 1 - pair[1]) <= few)
        # Rows stand for one side's inputs, columns for the other's.
        sides = [self._oriented(*side, terms, column) for side, column in ((one, False), (two, True))]
        where = [self._where(*side[1:]) for side in (one, two)]
        made = self._segments(gram, sides, where[0][:, None], where[1][None, :], two[0])
        found = [values[: near.shape[0], : near.shape[1]] for values in made]
        rows, columns = np.nonzero(near < 1 - reach)
        if len(rows):
            # A power of two, so that compiled code is found again.
            many = 1 << (len(rows) - 1).bit_length()
            i, j = np.resize(rows, many), np.resize(columns, many)
            most = self.reaches[-1][0]
            places = where[0][i], where[1][j]
            sides = [self._parts(which, place, most) for which, place in zip((0, two[0]), places)]
            found = [np.array(values) for values in found]
            for values, again in zip(found, self._segments(gram[i, j], sides, *places, two[0])):
                values[rows, columns] = again[: len(rows)]
        return found

    def _segments(self, gram: np.ndarray, sides: Any, row: np.ndarray, column: np.ndarray, which: int) -> list[Any]:
        (q1, m1), (q2, m2) = self.ends[0], self.ends[which]
        K1, K2, mean1, mean2 = (value.astype(self.dtype) for value in (q1[row], q2[column], m1[row], m2[column]))
        gram = gram.astype(self.dtype, copy=False)
        # The rest is made from these where the code is compiled.
        stage = Stage(K1, K2, gram, None, None, np.zeros_like(gram), mean1=mean1, mean2=mean2, kind="input")
        return [np.asarray(values) for values in by_segments(self.each, sides[0], sides[1], stage)]

    def _by_quadrature(self, row: slice, column: slice, own: bool) -> list[np.ndarray]:
        x1, x2 = self.x1[row].astype(np.float64), self.x2[column].astype(np.float64)
        (q1, m1), (q2, m2) = self.ends
        stage = entering(x1 @ x2.T / x1.shape[1], q1[row, None], q2[None, column], m1[row, None], m2[None, column])
        if own:
            gap = np.array(stage.gap)
            np.fill_diagonal(gap, 0.0)
            stage = stage.replace(gap=gap)
        sides = []
        for which, part, shape in ((0, row, (-1, 1)), (0 if self.symmetric else 1, column, (1, -1))):
            found = self._parts(which, np.arange(part.start, part.stop), 0)
            sides.append(jax.tree.map(lambda value, shape=shape: value.reshape(shape).astype(float), found))
        made = by_quadrature(paired(self.segments, self.counts, self.ways, *sides), stage)
        return [values.astype(self.dtype) for values in made]


def _transpose(into: np.ndarray, values: np.ndarray) -> None:
    # A few rows at a time: rows are a power of two apart, and more of them do not fit the cache together.
    for start in range(0, len(values), 32):
        into[:, start : start + 32] = values[start : start + 32].T


def _ends(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    # |x|²/n_0 and the mean of each input.
    return np.einsum("ij,ij->i", x, x, dtype=np.float64) / x.shape[1], x.mean(1, dtype=np.float64)


_STARTS = np.append(np.linspace(0.02, 0.98, 49), [0.99, 0.995, 0.998, 0.999, 1.0])


def _both(one: Occurrence, two: Occurrence) -> Occurrence:
    joined = (np.concatenate([getattr(one, name), getattr(two, name)]) for name in ("K", "square"))
    return Occurrence(one.act, *joined, tilted=one.tilted)


def _plan(one: Occurrence, tolerance: float) -> tuple[Expansion, ...] | None:
    # The expansions that an activation needs: none where it has a closed form; None where only quadrature serves.
    found: list[Expansion | None] = []
    if form_of(one.act) is None:
        # Few pairs of a user's own function take less time than compiling an expansion of it.
        short = one.act.named or len(one.K) > 2 * _FEW
        found.append(expansion(one.act, one.K, one.square, tolerance) if short else None)
    tilt = tilt_of(one.act)
    if one.tilted and form_of(tilt) is None:
        square = averages(tilt, one.K, slopes=False)[0]
        found.append(expansion(tilt, one.K, square, tolerance, derivatives=(0,)))
    return None if any(plan is None for plan in found) else tuple(plan for plan in found if plan is not None)


class _Bound:
    # Averages of chosen inputs with themselves at correlations, and the correlations that were met.
    def __init__(self, plans: Any, met: list[Occurrence], chosen: np.ndarray) -> None:
        self._left = list(zip(plans, met))
        self._chosen, self.seen = chosen, []
        self._last: Any = None

    def pair(self, activation: Any, stage: Any) -> Means:
        plan, one = self._left.pop(0)
        K, square = one.K[self._chosen], one.square[self._chosen]
        rho = np.clip(stage.c / positive(root(stage.K1) * root(stage.K2)), 0, 1)
        self.seen.append(rho)
        value = self._power(plan[0], K, rho) if plan and len(plan[0].orders) == 2 else self._form(activation, K, rho)
        self._last = K
        return Means(square[None, :], square[None, :], np.minimum(value, square[None, :]), 0 * value)

    def mean(self, activation: Any, stage: Any) -> tuple[Any, Any]:
        mean = averages(activation, self._last, means=True)
        return mean, mean

    def tilted(self, activation: Any, stage: Any) -> Any:
        return 0 * stage.c

    @staticmethod
    def _power(one: Expansion, K: np.ndarray, rho: np.ndarray) -> np.ndarray:
        a = one.whole(K)[0]
        return np.einsum("kn,ksn->sn", a * a, rho ** np.arange(len(a))[:, None, None])

    @staticmethod
    def _form(act: Any, K: np.ndarray, rho: np.ndarray) -> np.ndarray:
        form = form_of(act)
        assert form is not None
        return np.asarray(form.value(Pair.of(K[None, :], K[None, :], jnp.asarray(rho))))
