import io
import tempfile
from pathlib import Path

import numpy as np
import pytest
from helpers import one_sentence
from hypothesis import given
from hypothesis import strategies as st

import neft
from neft.data._sources import IdxFolder, Npz

from .helpers import fake_set, write_split

X, Y = np.linspace(0, 1, 12).reshape(6, 2), np.array([0, 1, 2, 2, 1, 0])


def archive(**arrays) -> bytes:
    file = io.BytesIO()
    np.savez_compressed(file, **arrays)
    return file.getvalue()


@pytest.fixture
def npz(tmp_path):
    def write(content: bytes) -> Path:
        path = tmp_path / "own.npz"
        path.write_bytes(content)
        return path

    return write


@pytest.mark.parametrize("compressed", [True, False])
def test_a_folder_gives_both_splits(tmp_path, compressed):
    folder = IdxFolder(fake_set(tmp_path, compressed=compressed), "fake")
    assert folder.splits() == ("train", "test")
    assert folder.images("train").shape == (30, 28, 28)
    assert folder.labels("test").shape == (20,)


def test_a_missing_file_is_named(tmp_path):
    fake_set(tmp_path)
    (tmp_path / "train-images-idx3-ubyte.gz").unlink()
    with one_sentence("train-images-idx3-ubyte.gz", str(tmp_path)):
        neft.data.load(tmp_path)


def test_images_without_as_many_labels_are_refused(tmp_path):
    write_split(tmp_path, "train", np.zeros((4, 3, 3)), np.array([0, 1, 0]))
    with one_sentence("4 examples", "3 labels"):
        neft.data.load(tmp_path)


def test_an_archive_with_splits_gives_the_one_asked_for(npz):
    path = npz(archive(x_train=X, y_train=Y, x_test=X[:3] + 1, y_test=Y[:3]))
    np.testing.assert_array_equal(neft.data.load(path, split="test", dtype=np.float64).x, X[:3] + 1)
    np.testing.assert_array_equal(neft.data.load(str(path), split="train", dtype=np.float64).x, X)


def test_an_archive_of_x_and_y_is_taken_whole(npz):
    data = neft.data.load(npz(archive(x=X, y=Y)), dtype=np.float64)
    np.testing.assert_array_equal(data.x, X)
    np.testing.assert_array_equal(data.y, Y)
    assert (data.name, data.split) == ("own", "all")


def test_an_archive_without_splits_has_no_test_split(npz):
    with one_sentence("split is 'test'", "no splits"):
        neft.data.load(npz(archive(x=X, y=Y)), split="test")


def test_an_archive_with_training_only_has_no_test_split(npz):
    with one_sentence("split is 'test'", "x_test"):
        neft.data.load(npz(archive(x_train=X, y_train=Y)), split="test")


def test_an_archive_with_test_only_cannot_be_standardised(npz):
    path = npz(archive(x_test=X, y_test=Y))
    assert neft.data.load(path, split="test").count == 6
    with one_sentence("train split", "'own'"):
        neft.data.load(path, split="test", preprocess="global")


def test_an_archive_with_splits_that_differ_cannot_be_standardised(npz):
    path = npz(archive(x_train=X, y_train=Y, x_test=X[:, :1], y_test=Y))
    with one_sentence("(2,)", "(1,)"):
        neft.data.load(path, split="test", preprocess="global")


def test_an_archive_without_labels_is_refused(npz):
    with one_sentence("holds x, z", "x and y"):
        neft.data.load(npz(archive(x=X, z=Y)))


def test_an_empty_archive_is_refused(npz):
    with one_sentence("holds nothing"):
        neft.data.load(npz(archive()))


def test_pickled_objects_are_refused(npz):
    with one_sentence("pickled"):
        neft.data.load(npz(archive(x=np.array([{}, []], dtype=object), y=np.array([0, 1]))))


def test_a_single_array_is_not_an_archive(npz):
    file = io.BytesIO()
    np.save(file, X)
    with one_sentence("not an .npz file"):
        neft.data.load(npz(file.getvalue()))


def test_text_is_not_an_archive(npz):
    with one_sentence("not an .npz file"):
        neft.data.load(npz(b"x,y\n1,2\n"))


ARCHIVE = archive(x=X, y=Y)


def contents(content: bytes) -> tuple[np.ndarray, np.ndarray]:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "own.npz"
        path.write_bytes(content)
        source = Npz(path, "own")
        return source.images("all"), source.labels("all")


@given(st.integers(0, len(ARCHIVE) - 1))
def test_an_archive_cut_anywhere_is_refused(length):
    with one_sentence(".npz"):
        contents(ARCHIVE[:length])


@pytest.mark.slow
@given(st.integers(0, len(ARCHIVE) - 1), st.integers(1, 255))
def test_a_changed_byte_in_an_archive_is_refused_or_without_effect(place, change):
    damaged = bytearray(ARCHIVE)
    damaged[place] ^= change
    try:
        x, y = contents(bytes(damaged))
    except ValueError:
        return
    np.testing.assert_array_equal(x, X)
    np.testing.assert_array_equal(y, Y)
