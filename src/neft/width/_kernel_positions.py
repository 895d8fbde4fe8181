"""Kernels of networks on positions, images and sequences, in blocks of bounded memory.

Networks that end in `Flatten` carry equal positions of two inputs only, those with pools all pairs of them (see
docs/theory/positions, eqs. 1-4). What each input has by itself comes first: K at its positions before activations.
A pool needs products of one input between different positions too, so that walk stops there, all pairs of positions of
each input are worked out up to that place, and the walk begins again, knowing them.
"""

import functools
from collections.abc import Callable
from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from .. import _check
from .._blocks import BUDGET, block_size, blocks
from .._closed import form_of
from .._guard import at_least_zero, root
from .._progress import track
from .._promote import library_of
from .._tilt import tilt_of
from ..network import Block, Network, Nonlinearity, Stage
from ..network.engine import Layout, facing
from ._kernel_alone import NotYetError, Walk
from ._kernel_engines import InOrder, Part, way_of
from ._kernel_expansion import Expansion, expansion
from ._kernel_file import Destination
from ._kernel_own import Occurrence, averages
from ._kernel_tables import Tables, averages_at

_EQUAL = 160 << 10  # entries of a tile of equal positions: what is carried along stays in the cache
_CROSSED = 1 << 18  # the same of all pairs of positions
_COLUMNS = (16, 24, 32, 40)  # inputs along the last axis of a tile
_CHANNELS = 16  # so few that differences of all pairs of inputs cost little
_LARGEST = {4: 1e18, 8: 1e140}  # K whose square is still a number, by bytes
_SHARP = 16.0  # K beyond which averages change quickly near ρ = ±1

View = Literal["row", "column", "first", "second"]  # of a tile of pairs, or of inputs paired with themselves


class Side(NamedTuple):
    """What a block of inputs has: itself (H, W, n, C), its parts at activations, and what pools ask, by segment."""

    x: Any
    parts: list[list[Part]]
    alone: list[list[Any]]


class OnPositions:
    """One kernel: what each input has by itself, and how tiles of pairs are made from that."""

    def __init__(self, net: Network, x1: np.ndarray, x2: np.ndarray | None, dtype: np.dtype) -> None:
        self.net, self.dtype, self.symmetric = net, dtype, x2 is None
        self.x1, self.x2 = x1, x1 if x2 is None else x2
        every = x1 if x2 is None else np.concatenate([x1, x2])
        # Inputs stand behind their positions, so that what shifts positions moves whole rows of memory.
        self.x = np.ascontiguousarray(np.moveaxis(every.reshape(-1, *net.input_shape), 0, -2))
        self.layout = Layout(len(net.positions), net.crossed)
        self.segments = net.segments()
        self.programs = jax.tree.map(jnp.asarray, self.segments)  # numbers would be moved anew for each tile
        self.tolerance = 1e-8 if dtype == np.float32 else 1e-12
        self.kinked = any(act.kinks for act in net.activations)
        self.known: list[np.ndarray] = []
        while True:
            walk = Walk(self.known)
            try:
                with np.errstate(over="ignore", invalid="ignore"):  # what overflows is refused in words
                    stage = walk.through(self.segments, self.x)
            except NotYetError:
                self._understand(walk)
                self.known.append(self._alone())
                continue
            self._understand(walk)
            self.ends = stage.c, stage.mean_theta
            for values, name in zip(self.ends, ("K", "Theta")):
                self._refuse_overflow(name, values, len(self.segments))
            return

    @property
    def identity(self) -> tuple[Any, ...]:
        """What makes this kernel this one and no other."""
        return (self.net.to_dict(), self.x1, None if self.symmetric else self.x2)

    def _understand(self, walk: Walk) -> None:
        self.met, self.asked = walk.seen, walk.asked
        for place, (count, _) in enumerate(self.asked):
            for one in self.met[sum(n for n, _ in self.asked[:place]) :][:count]:
                self._refuse_overflow("K", one.K, place)
        plans = [_plan(one, self.tolerance) for one in self.met]
        self.quadrature = any(plan is None for plan in plans)
        # Quadrature for one activation is quadrature for all that have no closed form.
        self.plans = [plan if plan == () else None for plan in plans] if self.quadrature else plans
        self.tables = [
            [Tables(expanded, one.K, self.tolerance) for expanded in plan or ()]
            for one, plan in zip(self.met, self.plans)
        ]
        self.sharp = self.kinked or any(one.K.max() > _SHARP for one in self.met)
        exact = self.dtype == np.float64 or self.quadrature or self._bends_after_pools
        self.work = np.dtype(np.float64 if exact else np.float32)
        positions = int(np.prod(self.net.positions))
        most = _CROSSED // positions**2 if self.layout.crossed else _EQUAL // positions
        longest = max(len(self.x1), len(self.x2))
        self.columns = _columns(longest, most)
        self.rows = max(1, min(most // self.columns, len(self.x1)))
        # As many blocks of inputs as the budget holds are kept, so that none is prepared twice for small kernels.
        terms = [2 + sum(one.most * len(one.orders) for one in plan or ()) for plan in self.plans]
        numbers = self.x[..., 0, :].size + sum(one.K[..., 0].size * n for one, n in zip(self.met, terms))
        numbers += sum(values[..., 0].size for values in self.known)
        self._side = functools.lru_cache(block_size(8 * numbers * self.columns, 1 << 20, budget=BUDGET))(self._prepared)
        # Rows and columns of tiles ask for the same coefficients: once, where those of all inputs are few.
        few = 8 * numbers * self.x.shape[-2] < BUDGET // 2
        self.terms = [
            [table(one.K, self.work) for table in tables] if few else None for one, tables in zip(self.met, self.tables)
        ]

    @property
    def _bends_after_pools(self) -> bool:
        # Beyond a pool √(K1 K2) - c is a difference, of which a kink sees the root.
        nodes = jax.tree.leaves(
            self.net.blocks,
            is_leaf=lambda node: isinstance(node, Nonlinearity) or (isinstance(node, Block) and node.mixes),
        )
        seen = False
        for node in nodes:
            if isinstance(node, Nonlinearity) and seen and node.activation.kinks:
                return True
            seen = seen or (isinstance(node, Block) and node.mixes)
        return False

    def _refuse_overflow(self, name: str, values: np.ndarray, l: int) -> None:
        if not (np.abs(values) < _LARGEST[self.dtype.itemsize]).all():
            raise ValueError(
                f"{name} overflows {self.dtype} at layer {l}, so nothing beyond it is defined: lower C_W or C_b, the "
                "depth or the inputs."
            )

    def fill(self, target: Destination) -> None:
        """All pairs of inputs, one block of rows after the other."""
        rows, columns = list(blocks(len(self.x1), self.rows)), list(blocks(len(self.x2), self.columns))
        work = [
            (i, row, column)
            for i, row in enumerate(rows)
            if i >= target.done
            for column in columns
            if not (self.symmetric and column.stop <= row.start)
        ]
        for i, row, column in track(work, "kernel"):
            made = self._tile(row, column)
            for into, values in zip(target.arrays, made):
                if not self.symmetric:
                    into[row, column] = values
                    continue
                # On and above the diagonal; the rest is its mirror image, to the last bit.
                above = np.arange(row.start, row.stop)[:, None] <= np.arange(column.start, column.stop)[None, :]
                into[row, column] = np.where(above, values, into[row, column])
                into[column, row] = np.where(above.T, values.T, into[column, row])
            if column is columns[-1]:
                if self.symmetric and not self.layout.crossed:
                    # From the recursion of one input.
                    where = np.arange(row.start, row.stop)
                    for into, values in zip(target.arrays, self.ends):
                        into[where, where] = values[row]
                target.finished(i + 1)

    def _tile(self, row: slice, column: slice) -> list[np.ndarray]:
        start = 0 if self.symmetric else len(self.x1)
        one = self._side(row.start, row.stop, self.rows, "row")
        two = self._side(start + column.start, start + column.stop, self.columns, "column")
        stage = self._through(one, two, len(self.segments))
        real = slice(row.stop - row.start), slice(column.stop - column.start)
        return [np.asarray(values)[real].astype(self.dtype, copy=False) for values in (stage.c, stage.mean_theta)]

    def _alone(self) -> np.ndarray:
        # What the first pool that is not known yet asks of each input, from all pairs of its positions.
        count, size, found = self.x.shape[-2], self.columns, None
        last = len(self.asked) - 1
        for part in blocks(count, size):
            one, two = (self._side(part.start, part.stop, size, view) for view in ("first", "second"))
            stage = self._through(one, two, last)
            averagers, owns = self._averagers(one, two, last)
            run = _asked if self.quadrature else _asked_compiled
            values = run((self.segments if self.quadrature else self.programs)[last], averagers, owns, stage)
            if found is None:
                self._refuse_too_much(values[..., 0].size)
                found = np.empty((*values.shape[:-1], count))
            found[..., part] = np.asarray(values, np.float64)[..., : part.stop - part.start]
        assert found is not None
        return found

    def _refuse_too_much(self, more: int) -> None:
        # Of each input attention keeps weights for all pairs of positions.
        count = self.x.shape[-2]
        each = more + sum(values[..., 0].size for values in self.known)
        _check.memory(f"what pools and attention keep of {count} inputs, {each:.2e} numbers each,", count * each)

    def _through(self, one: Side, two: Side, count: int) -> Stage:
        # The stage after so many segments.
        layout, sharp = self.layout, self.sharp
        differences = self.x.shape[-1] <= _CHANNELS or (sharp and self.work == np.float64)
        if self.quadrature:
            stage = _entering(one.x, two.x, layout, differences, sharp, self.work)
            for l, segment in enumerate(self.segments[:count]):
                stage = segment.kernel(stage, OnTile(*self._averagers(one, two, l)))
            return stage
        stage = _entering_compiled(one.x, two.x, layout, differences, sharp, self.work)
        for l, segment in enumerate(self.programs[:count]):
            stage = _segment(segment, *self._averagers(one, two, l), stage, sharp)
        return stage

    def _averagers(self, one: Side, two: Side, l: int) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
        before = sum(count for count, _ in self.asked[:l])
        found = []
        for n, (first, second) in enumerate(zip(one.parts[l], two.parts[l]), start=before):
            found.append(way_of(self.met[n].act, self.plans[n]).between(first, second))
        return tuple(found), tuple(zip(one.alone[l], two.alone[l]))

    def forget(self) -> None:
        """Let blocks of inputs go: the cache belongs to the job and it to the cache."""
        self._side.cache_clear()

    def _prepared(self, start: int, stop: int, size: int, view: View) -> Side:
        # Short blocks are filled up with their last input, so that compiled code sees one shape.
        where = np.minimum(np.arange(start, start + size), stop - 1)

        def among_pairs(value: np.ndarray, lead: int = 0) -> Any:
            # What inputs have, (…, n), among the axes of pairs; `lead` axes come before those of positions.
            value = value[..., where] if lead == 0 else value
            placed = lead < value.ndim - 1
            value = _spread(value, view)
            if placed:
                inner = value.shape[lead:]
                second = view in ("column", "second")
                value = value.reshape(
                    *value.shape[:lead], *facing(np.broadcast_to(False, inner), self.layout, second).shape
                )
            return value.astype(self.work, copy=False)

        parts = []
        for one, tables, known in zip(self.met, self.tables, self.terms):
            part = Part(among_pairs(one.square), None if one.mean is None else among_pairs(one.mean))
            made = (table(one.K[..., where], self.work) for table in tables)
            for terms in made if known is None else jax.tree.map(lambda half: half[..., where], known):
                terms = tuple(type(both)(*(among_pairs(half, 1) for half in both)) for both in terms)
                part = part._replace(terms=terms) if len(terms) == 2 else part._replace(tilt=terms[0])
            parts.append(part)
        # Pools place what they asked for themselves.
        alone = [_spread(values[..., where], view).astype(self.work) for values in self.known]
        x = _spread(np.moveaxis(self.x[..., where, :], -1, 0), view)
        by_segment = ([], [])
        for activations, pools in self.asked:
            by_segment[0].append([parts.pop(0) for _ in range(activations)])
            by_segment[1].append([alone.pop(0) for _ in range(pools)])
        side = Side(x, *by_segment)
        # All at once, which takes less time than one by one.
        return side if self.quadrature else jax.device_put(side)


def _columns(inputs: int, most: int) -> int:
    # Whole vectors of the processor, as many as go together without leaving the last tile half empty.
    if inputs <= 8 or most < _COLUMNS[0]:
        return min(8, 1 << (inputs - 1).bit_length())
    return min(_COLUMNS, key=lambda n: (-(-inputs // n) * n, -n))


def _spread(value: np.ndarray, view: View) -> np.ndarray:
    # The last axis, that of inputs, as rows or columns of a tile.
    return value[..., :, None] if view == "row" else value[..., None, :] if view == "column" else value


class OnTile(InOrder):
    """Averages for blocks that ask for them, and for what inputs have by themselves, in the order of these."""

    def __init__(self, averagers: Any, alone: Any) -> None:
        super().__init__(averagers)
        self._alone = list(alone)

    def alone(self, stage: Stage, function: Callable[[Any], Any]) -> tuple[Any, Any]:
        """See `neft.network.Averages`."""
        if not self._alone:
            raise _FoundError(function(stage.c))
        return self._alone.pop(0)


class _FoundError(Exception):
    # What a pool asks for of inputs that are paired with themselves.
    def __init__(self, values: Any) -> None:
        super().__init__()
        self.values = values


def _asked(segment: Any, averagers: Any, alone: Any, stage: Stage) -> Any:
    try:
        segment.kernel(_opened(stage), OnTile(averagers, alone))
    except _FoundError as found:
        return found.values
    raise AssertionError("no pool asked")


_asked_compiled = jax.jit(_asked)


@functools.partial(jax.jit, static_argnums=4)
def _segment(segment: Any, averagers: Any, alone: Any, stage: Stage, sharp: bool) -> Stage:
    # A call a segment, because equal segments are one program, and tiles that stay in the cache lose little by it.
    found = segment.kernel(_opened(stage), OnTile(averagers, alone))
    # Beyond the first weights nothing with a kink is opposite but for rounding, so √(K1 K2) + c has its digits; and
    # √(K1 K2) - c is carried on, which costs time, where averages change quickly near ρ = 1.
    return found.replace(gap=found.gap if sharp else None, total=None, before=None, activation=None, fresh=False)


def _opened(stage: Stage) -> Stage:
    scale = root(stage.K1) * root(stage.K2)
    gap = at_least_zero(scale - stage.c) if stage.gap is None else stage.gap
    return stage.replace(gap=gap, total=at_least_zero(scale + stage.c) if stage.total is None else stage.total)


def _entering(x1: Any, x2: Any, layout: Layout, differences: bool, sharp: bool, dtype: Any) -> Stage:
    # The stage of inputs (C, H, W, …) whose last axes broadcast.
    library = library_of(x1, x2)
    sides = [[facing(channel, layout, second) for channel in x] for x, second in ((x1, False), (x2, True))]
    if differences:
        one, two = (library.stack(side, axis=-1).astype(dtype) for side in sides)
        return Stage.of_inputs(one, two).replace(layout=layout)
    # Products, where differences of all pairs would take long; they want more digits where a kink sees the root.
    exact = np.float64 if sharp else dtype
    ends: Any = (
        (sum(a.astype(exact) ** 2 for a in side) / len(side), sum(a.astype(exact) for a in side) / len(side))
        for side in sides
    )
    (K1, mean1), (K2, mean2) = ends
    flat = [x.reshape(len(x), -1, max(x.shape[layout.axes + 1 :])).astype(exact) for x in (x1, x2)]
    pairs = "n,cqn" if x1.ndim == layout.axes + 2 else "i,cqj"
    letters = f"cp{pairs}->p{'q' * layout.crossed}{pairs[0] if pairs[0] == 'n' else 'ij'}"
    c = library.einsum(letters if layout.crossed else letters.replace("q", "p"), *flat) / len(x1)
    c = c.reshape(np.broadcast_shapes(K1.shape, K2.shape))
    stage = Stage.between(K1, K2, c, 0 * c, mean1=mean1, mean2=mean2, kind="input", layout=layout)
    return jax.tree.map(lambda value: value.astype(dtype), stage)


_entering_compiled = jax.jit(_entering, static_argnums=(2, 3, 4, 5))


def _plan(one: Occurrence, tolerance: float) -> tuple[Expansion, ...] | None:
    # The expansions that an activation needs: none where it has a closed form; None where only quadrature serves.
    found: list[Expansion | None] = []
    K, square = (values[one.K > 0].ravel() for values in (one.K, one.square))
    if not len(K):
        K, square = np.ones(1), averages(one.act, np.ones(1))[0]
    if form_of(one.act) is None:
        found.append(expansion(one.act, K, square, tolerance, series=False))
    tilt = tilt_of(one.act)
    if one.tilted and form_of(tilt) is None:
        squares = averages_at(tilt, K, slopes=False)[0]
        found.append(expansion(tilt, K, squares, tolerance, derivatives=(0,), series=False))
    return None if any(plan is None for plan in found) else tuple(plan for plan in found if plan is not None)
