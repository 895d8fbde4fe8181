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
from .._network import MLP
from .._progress import track
from ._kernel_expansion import Expansion, expansion, layer
from ._kernel_file import Destination, opened
from ._kernel_pairs import Kernel, rates_of, refuse_jumps
from ._kernel_tiles import Diagonal, Side, by_quadrature, diagonal, line, products, tile
from ._one_input import Rates

_TILE = 256  # inputs on each side of a tile; smaller ones leave less of a symmetric kernel to do twice
_LARGEST = {4: 1e18, 8: 1e140}  # K whose square is still a number, by bytes
_FEW = 64  # inputs
_NEAR = 1e-6  # 1 - |ρ| below which a kink wants the correlation from differences of inputs


def kernel(
    net: MLP, x1: Any, x2: Any = None, *, dtype: Any = None, out: str | os.PathLike[str] | None = None
) -> Kernel:
    """The kernel K and the neural tangent kernel Θ of the output layer at infinite width, each of shape (N1, N2).

        K' = C_b + C_W⟨σσ⟩,    Θ' = λ_b + λ_W⟨σσ⟩ + C_W Θ⟨σ'σ'⟩,    K = C_b + C_W x·x/n_0, Θ = λ_b + λ_W x·x/n_0 first

    (docs/theory/width, eqs. 47-48). Work goes in blocks, so memory is that of the result and a few
    hundred megabytes; without `x2` half of it is done. The diagonal comes from the recursion of one input, and nothing
    is lost near ρ = ±1. Activations without a closed form take a Hermite expansion, and where that would be long
    (kinks, large variances) quadrature, which is much slower. `pair_kernel` is the pure function for jit, vmap and
    grad.

    Args:
        net: the specification; hyperparameters may differ from layer to layer, and hidden widths do not matter.
        x1: inputs of shape (N1, n_0).
        x2: inputs of shape (N2, n_0); the same as `x1` by default.
        dtype: "float32" or "float64"; by default float32 where the inputs are, else float64.
        out: a new file "….npy" to hold an array of shape (2, N1, N2), K and then Θ, which is returned as read-only
            memory maps. It appears when it is complete; the same call resumes an interrupted one where it stopped.

    >>> K, Theta = kernel(MLP(widths=(2, 8, 1), activation="relu"), [[3.0, 4.0], [4.0, 3.0]])
    >>> K.round(4)
    array([[6.25 , 6.015],
           [6.015, 6.25 ]])
    """
    refuse_jumps(net.activation)
    chosen = _dtype(dtype, x1, x2)
    x1 = _inputs("x1", x1, net)
    x2 = None if x2 is None else _inputs("x2", x2, net)
    with jax.enable_x64(True):
        job = _Job(net, x1, x2, chosen)
        with opened(out, (2, len(x1), len(job.x2)), chosen, job.identity) as target:
            job.fill(target)
        return Kernel(*target.result)


def _dtype(dtype: Any, *inputs: Any) -> np.dtype:
    if dtype is None:
        kinds = [np.dtype(x.dtype) for x in inputs if hasattr(x, "dtype")]
        return np.dtype(np.float32 if kinds and all(kind == np.float32 for kind in kinds) else np.float64)
    try:
        found = np.dtype(dtype)
        if found not in (np.float32, np.float64):
            raise TypeError
    except TypeError:
        raise ValueError(f"dtype is {dtype!r}, but must be 'float32' or 'float64'.") from None
    return found


def _inputs(name: str, x: Any, net: MLP) -> np.ndarray:
    kept = np.float32 if getattr(x, "dtype", None) == np.float32 else np.float64
    x = _check.array(name, x, ndim=2, dtype=kept)
    if x.shape[1] != net.widths[0]:
        raise ValueError(f"{name} has {x.shape[1]} columns, but must have {net.widths[0]}, the inputs of the network.")
    if not len(x):
        raise ValueError(f"{name} has shape {x.shape}, but must hold at least one input.")
    return x


class _Inputs(NamedTuple):
    # What a block of inputs gives to an expansion, by layer: √K, √⟨σ²⟩, and the terms of σ and σ'.
    r: list[Any]
    s: list[Any]
    terms: list[Any]


class _Job:
    # One kernel: what each input has by itself, and how tiles of pairs are made from that.

    def __init__(self, net: MLP, x1: np.ndarray, x2: np.ndarray | None, dtype: np.dtype) -> None:
        self.net, self.act, self.dtype = net, net.activation, dtype
        self.x1, self.x2, self.symmetric = x1, x1 if x2 is None else x2, x2 is None
        self.rates = rates_of(net)
        self.layer_rates = [Rates(*(np.asarray(v[l], dtype) for v in self.rates)) for l in range(net.depth)]
        self.diagonals = [self._diagonal(x1)] * 2 if x2 is None else [self._diagonal(x) for x in (x1, x2)]
        form = form_of(self.act)
        hidden = np.concatenate([one.K[:-1] for one in self.diagonals], axis=1)
        squares = np.concatenate([one.square for one in self.diagonals], axis=1)
        single = dtype == np.float32
        self.expansion: Expansion | None = None
        # Few pairs of a user's own function take less time than compiling an expansion of it.
        if form is None and hidden.size and (self.act.named or max(len(x1), len(self.x2)) > _FEW):
            self.expansion = expansion(self.act, hidden, squares, self.rates, 1e-8 if single else 1e-12)
        self.quadrature = form is None and self.expansion is None and hidden.size > 0
        # Where averages change quickly near ρ = ±1, correlations need more digits than their dtype has.
        self.kinked = bool(self.act.kinks)
        self.sharp = self.kinked or bool(hidden.size and hidden.max() > 16)
        self.products = np.dtype(np.float32 if single and not self.sharp else np.float64)
        longest = max(len(self.x1), len(self.x2))
        self.size = min(4 * _TILE if self.quadrature else _TILE, 1 << (longest - 1).bit_length())
        # As many blocks of inputs as the budget holds are kept, so that none is prepared twice for small kernels.
        terms = 0 if self.expansion is None else 2 * self.expansion.terms
        per_block = self.size * (net.widths[0] * self.products.itemsize + net.depth * (16 + terms * dtype.itemsize))
        kept = functools.lru_cache(block_size(per_block, 1 << 20, budget=BUDGET))
        self._side, self._table = kept(self._prepared), kept(self._coefficients)

    @property
    def identity(self) -> tuple[Any, ...]:
        """What makes this kernel this one and no other."""
        return (self.net.to_dict(), self.x1, None if self.symmetric else self.x2)

    def _diagonal(self, x: np.ndarray) -> Diagonal:
        q = np.einsum("ij,ij->i", x, x, dtype=np.float64) / x.shape[1]
        with np.errstate(over="ignore", invalid="ignore"):  # what overflows is refused in words
            found = diagonal(self.act, q, self.rates)
        for values, name in ((found.K, "K"), (found.Theta, "Theta")):
            beyond = ~(np.abs(values) < _LARGEST[self.dtype.itemsize])
            if beyond.any():
                l = int(np.argmax(beyond.any(axis=1))) + 1
                raise ValueError(
                    f"{name} overflows {self.dtype} at layer {l}, so nothing beyond it is defined: lower C_W or C_b, "
                    "the depth or the inputs."
                )
        return found

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
                    into[column, row] = values.T
            if self.symmetric and i == j:
                self._own(target, row)
            if j == len(columns) - 1:
                target.finished(i + 1)

    def _own(self, target: Destination, row: slice) -> None:
        # The diagonal, from the recursion of one input.
        where = np.arange(row.start, row.stop)
        for into, values in zip(target.arrays, self.diagonals[0][:2]):
            into[where, where] = values[-1, row]

    def _prepared(self, which: int, start: int, stop: int) -> Side:
        # Short blocks are filled up with their last input, so that compiled code sees one shape.
        where = np.minimum(np.arange(start, start + self.size), stop - 1)
        one, x = self.diagonals[which], (self.x1, self.x2)[which][where].astype(self.products, copy=False)
        return Side(*map(jnp.asarray, (x, np.sqrt(one.K[:, where]), np.sqrt(one.square[:, where]))))

    def _coefficients(self, which: int, start: int, stop: int, terms: int) -> tuple["_Inputs", "_Inputs"]:
        # For rows and for columns.
        side = self._side(which, start, stop)
        inputs = self._expandable(np.asarray(side.r), np.asarray(side.s), terms)
        rows, columns = (lambda values: values[..., :, None]), (lambda values: values[..., None, :])
        return jax.tree.map(rows, inputs), jax.tree.map(columns, inputs)

    def _expandable(self, r: np.ndarray, s: np.ndarray, terms: int) -> "_Inputs":
        assert self.expansion is not None
        table = self.expansion.table(r[:-1] ** 2, terms, self.dtype)
        roots, squares = ([one.astype(self.dtype) for one in values] for values in (r, s))
        return _Inputs(roots, squares, [self.expansion.cut(one) for one in table])

    def _by_program(self, row: slice, column: slice, own: bool) -> list[np.ndarray]:
        one, two = (0, row.start, row.stop), (0 if self.symmetric else 1, column.start, column.stop)
        side1, side2 = self._side(*one), self._side(*two)
        exact = self.kinked and self.dtype == np.float64
        gram, near = products(side1, side2, self.rates, nearness=exact or self.expansion is not None)
        real = slice(row.stop - row.start), slice(column.stop - column.start)
        near = np.empty((0, 0)) if near is None else np.asarray(near)[real]
        if own and near.size:
            near = near.copy()
            # These are done by themselves.
            np.fill_diagonal(near, 2.0)
        if self.expansion is not None:
            return self._expanded(np.asarray(gram), near, one, two)
        made = tile(self.act, gram, side1, side2, self.rates, sharp=self.sharp, dtype=self.dtype)
        found = [np.asarray(values)[real] for values in made]
        close = np.flatnonzero((near < _NEAR).any(axis=1)) if exact else ()
        found = [np.array(values) for values in found] if len(close) else found
        for n in close:
            for values, again in zip(found, line(self.act, side1, int(n), side2, self.rates)):
                values[n] = np.asarray(again)[real[1]]
        return found

    def _expanded(self, gram: np.ndarray, near: np.ndarray, one: Any, two: Any) -> list[np.ndarray]:
        # As many terms as all but a few of the pairs ask for; those few get all there are.
        assert self.expansion is not None
        few = 0.005 * near.size
        terms, reach = next(pair for pair in self.expansion.reaches if np.count_nonzero(near < 1 - pair[1]) <= few)
        # Rows stand for one side's inputs, columns for the other's.
        made = self._layers(gram, self._table(*one, terms)[0], self._table(*two, terms)[1])
        found = [values[: near.shape[0], : near.shape[1]] for values in made]
        rows, columns = np.nonzero(near < 1 - reach)
        if len(rows):
            # A power of two, so that compiled code is found again.
            many = 1 << (len(rows) - 1).bit_length()
            i, j = np.resize(rows, many), np.resize(columns, many)
            sides = [
                self._expandable(np.asarray(side.r)[:, where], np.asarray(side.s)[:, where], self.expansion.terms)
                for side, where in ((self._side(*one), i), (self._side(*two), j))
            ]
            found = [np.array(values) for values in found]
            for values, again in zip(found, self._layers(gram[i, j], *sides)):
                values[rows, columns] = again[: len(rows)]
        return found

    def _layers(self, gram: np.ndarray, one: "_Inputs", two: "_Inputs") -> list[np.ndarray]:
        assert self.expansion is not None
        first = [value[0] for value in self.rates]
        c, Theta = (
            (constant + factor * gram).astype(self.dtype, copy=False) for constant, factor in (first[:2], first[2:])
        )
        for l in range(self.net.depth - 1):
            roots = ((one.r[l], two.r[l]), (one.s[l], two.s[l]), (one.r[l + 1], two.r[l + 1]))
            c, Theta = layer(
                c, Theta, one.terms[l], two.terms[l], *roots, self.layer_rates[l + 1], orders=self.expansion.orders
            )
        return [np.asarray(c), np.asarray(Theta)]

    def _by_quadrature(self, row: slice, column: slice, own: bool) -> list[np.ndarray]:
        one, two = self.diagonals
        x1, x2 = self.x1[row].astype(np.float64), self.x2[column].astype(np.float64)
        gram = x1 @ x2.T / x1.shape[1]
        K1, K2 = one.K[:, row], two.K[:, column]
        scale = np.sqrt(np.outer(K1[0], K2[0]))
        c = self.rates.C_b[0] + self.rates.C_W[0] * gram
        rho = np.clip(np.divide(c, scale, out=np.zeros_like(c), where=scale > 0), -1, 1)
        if own:
            np.fill_diagonal(rho, 1.0)
        Theta = self.rates.lambda_b[0] + self.rates.lambda_W[0] * gram
        return [values.astype(self.dtype) for values in by_quadrature(self.act, rho, K1, K2, Theta, self.rates)]
