"""Infinite-width kernels of thousands of inputs, in blocks, in memory or in a file."""

import functools
import os
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from .. import _check
from .._blocks import BUDGET, block_size, blocks
from .._closed import form_of
from .._progress import track
from .._public import public
from ..network import Network
from ._kernel_engines import Part, way_of
from ._kernel_file import Destination, opened
from ._kernel_own import Occurrence, Own, own
from ._kernel_pairs import Kernel, refuse_jumps
from ._kernel_plan import lengths, planned
from ._kernel_positions import OnPositions
from ._kernel_tiles import (
    Program,
    by_forms,
    by_quadrature,
    by_segments,
    chosen,
    entering,
    line,
    nearness,
    paired,
    products,
    program,
    stacked,
)

_TILE = 256  # inputs on each side of a tile; smaller ones leave less of a symmetric kernel to do twice
_LARGEST = {4: 1e18, 8: 1e140}  # K whose square is still a number, by bytes
_TERMS = 200  # of a product of inputs that are summed at once in float32
_MORE = 16  # terms that all pairs of a tile may get for a few of them
_LEAST = 64  # pairs that are done again together
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


class _Block(NamedTuple):
    # Inputs (n, n_0) in pieces, |x|²/n_0 and the means of x (2, n), what they have at activations in closed form
    # (rows, n).
    x: Any
    ends: Any
    values: Any


@functools.partial(jax.jit, static_argnums=0)
def _moved(pieces: int, x: Any, ends: Any, values: Any) -> _Block:
    # Arrays that a program is given and gives back take a third of the time of arrays moved one by one.
    return _Block(tuple(jnp.array_split(x, pieces, axis=1)), ends, values)


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
        self.plans = planned(self.met, self.tolerance)
        self.quadrature = any(plan is None for plan in self.plans)
        self.expanded = not self.quadrature and any(self.plans)
        # Where averages change quickly near ρ = ±1, correlations need more digits than their dtype has.
        self.kinked = any(act.kinks for act in net.activations)
        self.sharp = self.kinked or any(one.K.max() > 16 for one in self.met)
        self.products = np.dtype(np.float32 if dtype == np.float32 and not self.sharp else np.float64)
        self.fast = self.products == np.float32 and not self.expanded and not self.quadrature
        self.counts = self.owns[0].counts
        self.ways = tuple(way_of(one.act, plan) for one, plan in zip(self.met, self.plans))
        self.exact = self.kinked and dtype == np.float64
        self.coded = functools.cache(self._coded)
        wanted = (self.exact or self.expanded) and not self.counts[0]
        self.first = self.coded(0, 1) if wanted else (None, ())
        ends = [np.concatenate(both) for both in zip(*self.ends)]
        known = self.segments, self.met, self.plans, ends, bool(self.counts[0]), self.tolerance
        self.reaches = lengths(*known) if self.expanded else ((0, 1.0),)
        known = [[], []] if self.expanded else [self._parts(which, slice(None), 0) for which in (0, 1)]
        self.values = [stacked(parts, dtype)[0] for parts in known]
        longest = max(len(self.x1), len(self.x2))
        self.size = min(4 * _TILE if self.quadrature else _TILE, 1 << (longest - 1).bit_length())
        self.below = np.tri(self.size, k=-1, dtype=bool)
        # As many blocks of inputs as the budget holds are kept, so that none is prepared twice for small kernels.
        terms = sum(one.most * len(one.orders) for plan in self.plans for one in plan or ())
        per_block = self.size * (net.inputs * self.products.itemsize + 16 * len(self.met) + terms * dtype.itemsize)
        kept = functools.lru_cache(block_size(per_block, 1 << 20, budget=BUDGET))
        self._block, self._terms = kept(self._prepared), kept(self._tables)

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

    def _coded(self, start: int, stop: int, terms: int = 0) -> tuple[Program, Any]:
        # Segments as compiled code sees them, and their numbers, which would be moved anew for each tile.
        numbers, structure = jax.tree.flatten(self.segments[start:stop])
        counts = self.counts[start:stop]
        _, rows = stacked(self._parts(0, np.zeros(1, int), terms, start, stop), self.dtype)
        before = sum(self.counts[:start])
        found = program(structure, counts, self.ways[before : before + sum(counts)], rows)
        plain = all(np.ndim(number) == 0 for number in numbers)
        return found, jnp.asarray(numbers) if plain else tuple(map(jnp.asarray, numbers))

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
                    values, other = values.copy(), values.T
                    np.copyto(values, other, where=self.below[: len(values), : len(values)])
                into[row, column] = values
                if self.symmetric and i != j:
                    _transpose(into[column, row], values)
            if self.symmetric and i == j:
                self._diagonal(target, row)
            if j == len(columns) - 1:
                target.finished(i + 1)

    def forget(self) -> None:
        """Let blocks of inputs go: the caches belong to the job and it to them, so nothing else would for a while."""
        for cached in (self._block, self._terms, self.coded):
            cached.cache_clear()

    def _diagonal(self, target: Destination, row: slice) -> None:
        # From the recursion of one input.
        where = np.arange(row.start, row.stop)
        for into, values in zip(target.arrays, self.owns[0][:2]):
            into[where, where] = values[-1, row]

    def _where(self, which: int, start: int) -> Any:
        # Short blocks are filled up with what follows them, so that compiled code sees one shape.
        last, stop = len((self.x1, self.x2)[which]), start + self.size
        return slice(start, stop) if stop <= last else np.minimum(np.arange(start, stop), last - 1)

    def _prepared(self, which: int, start: int) -> "_Block":
        where = self._where(which, start)
        x = (self.x1, self.x2)[which][where].astype(self.products, copy=False)
        # Sums of fewer terms round less; in float64 one does.
        pieces = -(-x.shape[1] // _TERMS) if self.products == np.float32 else 1
        ends = np.stack([value[where] for value in self.ends[which]]).astype(self.products)
        values = self.values[which]
        return _moved(pieces, x, ends, values[:, where] if values.size else values)

    def _tables(self, which: int, start: int, terms: int) -> list[Any]:
        # What a block of inputs has at activations that are expanded to so many terms, segment by segment.
        where = self._where(which, start)
        parts = (self._parts(which, where, terms, i, i + 1) for i in range(len(self.segments)))
        return jax.device_put([stacked(part, self.dtype)[0] for part in parts])

    def _parts(self, which: int, where: Any, terms: int, start: int = 0, stop: int | None = None) -> list[Part]:
        # What inputs have at the activations of some of the segments.
        found, chosen = [], slice(sum(self.counts[:start]), sum(self.counts[:stop]))
        for one, plan in zip(self.owns[which].occurrences[chosen], self.plans[chosen]):
            K = one.K[where]
            part = Part(one.square[where].astype(self.dtype))
            form = form_of(one.act)
            if self.fast and form is not None and form.fast is not None:
                part = part._replace(factor=form.fast.factor(K).astype(self.dtype))
            if one.mean is not None:
                part = part._replace(mean=one.mean[where].astype(self.dtype))
            for expanded in plan or ():
                table = expanded.table(K, terms, self.dtype)
                part = part._replace(terms=table) if len(table) == 2 else part._replace(tilt=table[0])
            found.append(part)
        return found

    def _by_program(self, row: slice, column: slice, own: bool) -> list[np.ndarray]:
        places = (0, row.start), (0 if self.symmetric else 1, column.start)
        one, two = (self._block(*place) for place in places)
        given, ends = (one.x, two.x), (one.ends, two.ends)
        if self.exact or self.expanded:
            given = products(*given)
        real = slice(row.stop - row.start), slice(column.stop - column.start)
        near = self._nearness(given, ends, own)[real] if self.exact or self.expanded else np.empty((0, 0))
        if self.expanded:
            return self._expanded(given, ends, near, places)
        whole = self.coded(0, len(self.segments))
        made = by_forms(*whole, given, ends, (one.values, two.values), sharp=self.sharp, dtype=self.dtype)
        found = [np.asarray(values)[real] for values in made]
        close = np.flatnonzero((near < _NEAR).any(axis=1)) if self.exact else ()
        found = [np.array(values) for values in found] if len(close) else found
        for n in close:
            alone = self._parts(0, np.array([row.start + n]), 0)
            others = self._parts(places[1][0], self._where(*places[1]), 0)
            again = line(*whole, alone, others, one.x[0][n], two.x[0])
            for values, better in zip(found, again):
                values[n] = np.asarray(better)[real[1]]
        return found

    def _nearness(self, gram: Any, ends: tuple[Any, Any], own: bool) -> np.ndarray:
        # 1 - |ρ| at the first Gaussian stage.
        near = np.asarray(nearness(*self.first, gram, ends))
        if own:
            near = near.copy()
            # These are done by themselves.
            np.fill_diagonal(near, 2.0)
        return near

    def _expanded(self, gram: Any, ends: tuple[Any, Any], near: np.ndarray, places: Any) -> list[np.ndarray]:
        # As many terms as all but a few of the pairs ask for; those few get more, unless a few more serve everyone.
        most = next(terms for terms, reach in self.reaches if near.min() >= 1 - reach)
        few = 0.005 * near.size
        terms, reach = next(pair for pair in self.reaches if np.count_nonzero(near < 1 - pair[1]) <= few)
        terms = most if most - terms <= _MORE else terms
        sides = [self._terms(*place, terms) for place in places]
        made = by_segments(self._each(terms), gram, ends, *sides, dtype=self.dtype)
        found = [np.asarray(values)[: near.shape[0], : near.shape[1]] for values in made]
        if terms < most:
            rows, columns = np.nonzero(near < 1 - reach)
            # A power of two, so that compiled code is found again.
            many = max(_LEAST, 1 << (len(rows) - 1).bit_length())
            sides = [self._terms(*place, most) for place in places]
            picked = chosen(gram, ends, *sides, np.resize(rows, many), np.resize(columns, many))
            found = [np.array(values) for values in found]
            for values, again in zip(found, by_segments(self._each(most), *picked, dtype=self.dtype)):
                values[rows, columns] = np.asarray(again)[: len(rows)]
        return found

    def _each(self, terms: int) -> list[tuple[Program, Any]]:
        return [self.coded(i, i + 1, terms) for i in range(len(self.segments))]

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
    # A few whole rows of the result at a time: values are a power of two apart, and more do not fit the cache together.
    for start in range(0, len(into), 32):
        into[start : start + 32] = values[:, start : start + 32].T


def _ends(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    # |x|²/n_0 and the mean of each input; in pieces that stay in the cache while their digits are doubled.
    q, mean = np.empty(len(x)), np.empty(len(x))
    for part in blocks(len(x), _TILE):
        piece = x[part].astype(np.float64)
        q[part], mean[part] = np.einsum("ij,ij->i", piece, piece) / x.shape[1], piece.mean(1)
    return q, mean


def _both(one: Occurrence, two: Occurrence) -> Occurrence:
    joined = (np.concatenate([getattr(one, name), getattr(two, name)]) for name in ("K", "square"))
    return Occurrence(one.act, *joined, tilted=one.tilted)
