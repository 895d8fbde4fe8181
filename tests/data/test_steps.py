from fractions import Fraction

import numpy as np
import pytest
from helpers import one_sentence
from hypothesis import given
from hypothesis import strategies as st

from neft.data._steps import Global, Pad, PerImage, Pool, Unit

RNG = np.random.default_rng(0)
PIXELS = RNG.integers(0, 256, (5, 28, 28)).astype(np.float64)


def label(index: int) -> str:
    return f"image {index}"


def cell_mean(row: list[int], cell: int, cells: int) -> Fraction:
    """The mean over one cell in exact fractions: the integral of a step function."""
    low, high = Fraction(cell * len(row), cells), Fraction((cell + 1) * len(row), cells)
    parts = (value * max(0, min(high, j + 1) - max(low, j)) for j, value in enumerate(row))
    return sum(parts, Fraction(0)) / (high - low)


def test_unit_divides_by_255():
    np.testing.assert_array_equal(Unit().apply(PIXELS, label), PIXELS / 255)


def test_global_subtracts_and_divides():
    step = Global().fitted(3.0, 2.0)
    np.testing.assert_array_equal(step.apply(PIXELS, label), (PIXELS - 3) / 2)


@pytest.mark.parametrize("scale", [1.0, 1e-200, 1e200])
def test_per_image_gives_mean_zero_and_std_one_at_any_scale(scale):
    x = PerImage().apply(PIXELS * scale, label)
    expected = [(image - np.mean(image)) / np.std(image) for image in PIXELS]
    np.testing.assert_allclose(x, expected, rtol=1e-13, atol=1e-13)


@pytest.mark.parametrize("value", [0.0, 0.1, 255.0])
def test_per_image_names_the_image_that_is_constant(value):
    x = PIXELS.copy()
    x[3] = value
    with one_sentence("image 3", "constant"):
        PerImage().apply(x, label)


@pytest.mark.parametrize("height, width", [(28, 28), (32, 32), (27, 30), (1, 1)])
def test_pad_puts_zeros_around(height, width):
    x = PIXELS[:, :1, :1] + np.ones((5, height, width))
    padded = Pad().apply(x, label)
    top, left = (32 - height) // 2, (32 - width) // 2
    expected = np.zeros((5, 32, 32))
    expected[:, top : top + height, left : left + width] = x
    np.testing.assert_array_equal(padded, expected)
    assert Pad().shape((height, width)) == (32, 32)


@pytest.mark.parametrize("shape", [(33, 28), (784,)])
def test_pad_refuses_what_it_cannot_pad(shape):
    with one_sentence("pad", "32×32", str(shape[0])):
        Pad().shape(shape)


@pytest.mark.parametrize("side", [1, 2, 4, 7, 14, 28])
def test_pooling_by_a_divisor_is_the_mean_of_each_cell(side):
    k = 28 // side
    pooled = Pool(side**2).apply(PIXELS, label)
    np.testing.assert_array_equal(pooled, PIXELS.reshape(5, side, k, side, k).sum((2, 4)) / k**2)


@given(st.lists(st.integers(0, 255), min_size=1, max_size=12), st.data())
def test_pooling_of_features_is_exact(row, data):
    cells = data.draw(st.integers(1, len(row)))
    pooled = Pool(cells).apply(np.array([row], np.float64), label)
    assert pooled[0].tolist() == [float(cell_mean(row, cell, cells)) for cell in range(cells)]


@given(st.integers(1, 9), st.integers(1, 9), st.data())
def test_pooling_of_images_is_pooling_of_rows_and_columns(height, width, data):
    side = data.draw(st.integers(1, min(height, width)))
    image = PIXELS[0, :height, :width].astype(int)
    rows = [[cell_mean(row, c, side) for c in range(side)] for row in image.tolist()]
    both = [[float(cell_mean(column, c, side)) for column in zip(*rows)] for c in range(side)]
    pooled = Pool(side**2).apply(image[None].astype(np.float64), label)
    np.testing.assert_array_equal(pooled[0], both)


def test_pooling_keeps_the_mean():
    np.testing.assert_allclose(Pool(81).apply(PIXELS, label).mean((1, 2)), PIXELS.mean((1, 2)), rtol=1e-14)


@pytest.mark.parametrize(
    "inputs, shape, words",
    [
        (50, (28, 28), "perfect square"),
        (29**2, (28, 28), "between 1 and 784"),
        (25, (4, 9), "between 1 and 16"),
        (0, (28, 28), "between 1 and 784"),
        (6, (5,), "between 1 and 5"),
        (0, (5,), "between 1 and 5"),
    ],
)
def test_pooling_refuses_a_number_that_does_not_fit(inputs, shape, words):
    with one_sentence(f"pool({inputs})", words):
        Pool(inputs).shape(shape)
