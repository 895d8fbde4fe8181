import contextlib
import gzip
import tempfile
from pathlib import Path

import numpy as np
import pytest
from helpers import one_sentence
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays

from neft.data import _idx

from .helpers import idx

VALUES = np.arange(24, dtype=np.uint8).reshape(2, 3, 4)
PLAIN, COMPRESSED = idx(VALUES), gzip.compress(idx(VALUES))


def read(content: bytes, ndim: int = 3, suffix: str = "") -> np.ndarray:
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / f"images{suffix}"
        file.write_bytes(content)
        return _idx.read(file, ndim)


@given(arrays(np.uint8, array_shapes(min_dims=1, max_dims=4, max_side=5)), st.booleans())
def test_what_was_written_is_read(values, compressed):
    content = gzip.compress(idx(values)) if compressed else idx(values)
    again = read(content, values.ndim, ".gz" if compressed else "")
    assert again.dtype == np.uint8
    np.testing.assert_array_equal(again, values)


@given(st.integers(0, len(PLAIN) - 1))
def test_a_file_cut_anywhere_is_refused(length):
    with one_sentence("truncated"):
        read(PLAIN[:length])


@given(st.integers(0, len(COMPRESSED) - 1))
def test_a_compressed_file_cut_anywhere_is_refused(length):
    with one_sentence("truncated"):
        read(COMPRESSED[:length], suffix=".gz")


@given(st.integers(0, 15), st.integers(1, 255))
def test_a_changed_byte_in_the_header_is_refused(place, change):
    damaged = bytearray(PLAIN)
    damaged[place] ^= change
    with one_sentence():
        read(bytes(damaged))


@given(st.integers(0, len(COMPRESSED) - 1), st.integers(1, 255))
def test_a_changed_byte_in_a_compressed_file_is_refused_or_without_effect(place, change):
    damaged = bytearray(COMPRESSED)
    damaged[place] ^= change
    try:
        again = read(bytes(damaged), suffix=".gz")
    except ValueError:
        return
    np.testing.assert_array_equal(again, VALUES)


@given(st.binary(max_size=80), st.sampled_from(["", ".gz"]), st.booleans())
def test_bytes_of_any_kind_raise_nothing_but_value_errors(content, suffix, with_header):
    with contextlib.suppress(ValueError):
        read(PLAIN[:4] + content if with_header else content, suffix=suffix)


@pytest.mark.parametrize("suffix", ["", ".gz"])
def test_bytes_after_the_last_value_are_refused(suffix):
    content = PLAIN + b"\x00"
    with one_sentence("bytes follow the 24"):
        read(gzip.compress(content) if suffix else content, suffix=suffix)


def test_labels_in_the_place_of_images_are_refused():
    with one_sentence("00 00 08 01", "00 00 08 03"):
        read(idx(np.arange(5)), ndim=3)


def test_other_types_than_unsigned_bytes_are_refused():
    with one_sentence("00 00 0d 03", "unsigned bytes"):
        read(b"\x00\x00\x0d\x03" + PLAIN[4:])


def test_a_shape_larger_than_memory_is_refused_at_once():
    with one_sentence("truncated", "but holds 24"):
        read(gzip.compress(PLAIN[:4] + b"\xff" * 12 + PLAIN[16:]), suffix=".gz")


def test_a_file_without_values_is_refused():
    with one_sentence("(0, 3, 4)", "at least one"):
        read(idx(np.zeros((0, 3, 4))))


def test_what_is_not_a_file_is_refused(tmp_path):
    with one_sentence("cannot read"):
        _idx.read(tmp_path / "missing", 1)
    with one_sentence("cannot read"):
        _idx.read(tmp_path, 1)
