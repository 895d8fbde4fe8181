import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from neft._blocks import BUDGET, block_size, blocks, tiles

totals, sizes = st.integers(0, 500), st.integers(1, 60)


def test_nothing_is_cut_into_no_blocks():
    assert list(blocks(0, 3)) == [] and list(tiles(0, 4, 2)) == [] and list(tiles(4, 0, 2)) == []


@given(totals, sizes)
def test_blocks_cover_the_range_once_and_in_order(total, size):
    assert [i for block in blocks(total, size) for i in range(total)[block]] == list(range(total))


@given(totals, sizes)
def test_block_sizes_are_nearly_equal_and_bounded(total, size):
    lengths = [block.stop - block.start for block in blocks(total, size)]
    assert max(lengths, default=0) <= size
    assert max(lengths, default=0) - min(lengths, default=0) <= 1


@given(totals, sizes)
def test_there_are_no_more_blocks_than_needed(total, size):
    assert len(list(blocks(total, size))) == int(np.ceil(total / size))


@given(st.integers(0, 5))
def test_a_size_below_one_counts_as_one(total):
    assert list(blocks(total, 0)) == list(blocks(total, 1))


def test_a_label_changes_nothing():
    assert list(blocks(7, 3, label="counting")) == list(blocks(7, 3))
    assert list(tiles(5, 7, 3, label="counting")) == list(tiles(5, 7, 3))


@given(st.integers(0, 40), st.integers(0, 40), st.integers(1, 15))
def test_tiles_cover_the_array_once(rows, columns, size):
    count = np.zeros((rows, columns), int)
    for row, column in tiles(rows, columns, size):
        assert max(count[row, column].shape) <= size
        count[row, column] += 1
    assert (count == 1).all()


@given(st.integers(0, 40), st.integers(1, 15))
def test_symmetric_tiles_cover_the_upper_triangle_once(n, size):
    count = np.zeros((n, n), int)
    for row, column in tiles(n, n, size, symmetric=True):
        count[row, column] += 1
    assert (count[np.triu_indices(n)] == 1).all() and (count <= 1).all()
    mirrored = count.T[np.tril_indices(n, -1)] + count[np.tril_indices(n, -1)]
    assert (mirrored >= 1).all()


@given(st.integers(1, 40), st.integers(1, 15))
def test_symmetric_tiles_leave_out_what_lies_below_the_diagonal(n, size):
    parts = len(list(blocks(n, size)))
    assert len(list(tiles(n, n, size, symmetric=True))) == parts * (parts + 1) // 2


@given(st.floats(0, 1e12), st.integers(1, 10**9), st.floats(1, 1e12))
def test_a_block_fits_the_budget_if_one_item_does(bytes_per_item, total, budget):
    size = block_size(bytes_per_item, total, budget=budget)
    assert 1 <= size <= total
    assert size == 1 or size * bytes_per_item <= budget
    assert size == total or (size + 1) * max(bytes_per_item, 1) > budget


@pytest.mark.parametrize(("bytes_per_item", "size"), [(BUDGET, 1), (BUDGET / 4, 4), (10 * BUDGET, 1), (0, 10)])
def test_the_budget_is_shared_by_the_items_of_a_block(bytes_per_item, size):
    assert block_size(bytes_per_item, 10) == size
