"""The one loop over blocks: work is cut so that memory stays bounded when the data grows."""

from collections.abc import Iterator

from . import _progress

BUDGET = 256 * 2**20
"""Bytes that the intermediate arrays of one block may take together."""


def block_size(bytes_per_item: float, total: int, *, budget: float = BUDGET) -> int:
    """How many items fit the budget: at least one, at most `total`.

    >>> block_size(2**20, 10_000)
    256
    """
    return int(max(1, min(total, budget // max(bytes_per_item, 1))))


def blocks(total: int, size: int, *, label: str | None = None) -> Iterator[slice]:
    """Slices of at most `size` items that cover range(total) in order, with a progress bar named `label`.

    The sizes differ by at most one, so that compiled code sees two shapes and no sliver at the end.

    >>> list(blocks(7, 3))
    [slice(0, 3, None), slice(3, 5, None), slice(5, 7, None)]
    """
    parts = -(-total // max(1, size))
    slices = [slice(_edge(i, total, parts), _edge(i + 1, total, parts)) for i in range(parts)]
    return _progress.track(slices, label) if label else iter(slices)


def tiles(
    rows: int, columns: int, size: int, *, symmetric: bool = False, label: str | None = None
) -> Iterator[tuple[slice, slice]]:
    """Pairs of slices that cover a rows × columns array; `symmetric` leaves out what lies below the diagonal.

    >>> len(list(tiles(4, 4, 2))), len(list(tiles(4, 4, 2, symmetric=True)))
    (4, 3)
    """
    assert rows == columns or not symmetric
    pairs = [
        (row, column)
        for row in blocks(rows, size)
        for column in blocks(columns, size)
        if not symmetric or column.start >= row.start
    ]
    return _progress.track(pairs, label) if label else iter(pairs)


def _edge(index: int, total: int, parts: int) -> int:
    # The first `total % parts` blocks take one item more.
    return index * (total // parts) + min(index, total % parts)
