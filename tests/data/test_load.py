import subprocess
import sys

import numpy as np
import pytest
from helpers import one_sentence

import neft

from .helpers import fake_set, write_split

X, Y = np.arange(12.0).reshape(6, 2), np.array([0, 1, 1, 0, 1, 1])


def test_the_promised_call_works():
    data = neft.data.load("fashion-mnist", split="test", preprocess="unit")
    assert data.x.ndim == 2 and len(data.x) == len(data.y)


def test_data_needs_no_jax():
    code = "import sys, neft.data; neft.data.load('fashion-mnist', full=False); sys.exit('jax' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_arrays_of_either_shape_become_count_times_features():
    assert neft.data.load((X, Y)).shape is None
    images = neft.data.load((X.reshape(6, 2, 1), Y))
    assert (images.shape, images.x.shape) == ((2, 1), (6, 2))


def test_the_type_is_float32_unless_asked_for():
    assert neft.data.load((X, Y)).x.dtype == np.float32
    assert neft.data.load((X, Y), dtype="float64").x.dtype == np.float64
    with one_sentence("dtype is", "float32 or float64"):
        neft.data.load((X, Y), dtype=np.int32)


def test_a_folder_is_named_after_itself(tmp_path):
    data = neft.data.load(fake_set(tmp_path / "digits", classes=3, shape=(5, 4)))
    assert (data.name, data.classes, data.shape) == ("digits", 3, (5, 4))


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_values_that_are_not_finite_are_refused(value):
    x = X.copy()
    x[4, 1] = value
    with one_sentence("x holds", "(4, 1)", "finite"):
        neft.data.load((x, Y))


@pytest.mark.parametrize(
    "y, words",
    [
        ([0, 2, 2, 0, 2, 2], "class 1 is empty"),
        ([1, 1, 1, 2, 2, 2], "class 0 is empty"),
        ([0, 1, 1, 0, 1, 10**15], "class 2 is empty"),
        ([0, 1, 1, 0, 1, -1], "label -1"),
        ([0.0, 1, 1, 0, 1, 1], "whole numbers"),
        ([[0, 1], [1, 0], [1, 1]], "(3, 2)"),
        ([], "(0,)"),
        (["a", "b", "a", "b", "a", "b"], "whole numbers"),
        ([0, 1, 1], "6 examples"),
        (np.array([0, 1, 1, 0, 1, 2**64 - 1], np.uint64), "label 18446744073709551615"),
    ],
)
def test_labels_that_are_no_labels_are_refused(y, words):
    with one_sentence("y", words):
        neft.data.load((X, y))


def test_a_class_that_is_empty_in_one_split_is_refused(tmp_path):
    write_split(tmp_path, "train", np.zeros((3, 2, 2)), np.array([0, 1, 2]))
    write_split(tmp_path, "t10k", np.zeros((2, 2, 2)), np.array([0, 1]))
    assert neft.data.load(tmp_path).classes == 3
    with one_sentence("class 2 is empty", "test split"):
        neft.data.load(tmp_path, split="test")


def test_a_test_label_unknown_in_training_is_refused(tmp_path):
    write_split(tmp_path, "train", np.zeros((2, 2, 2)), np.array([0, 1]))
    write_split(tmp_path, "t10k", np.zeros((3, 2, 2)), np.array([0, 1, 2]))
    with one_sentence("class 2 is empty", "train split"):
        neft.data.load(tmp_path)


@pytest.mark.parametrize(
    "x, words",
    [
        (np.arange(6.0), "2 or 3 axes"),
        (np.zeros((6, 2, 2, 3)), "2 or 3 axes"),
        (np.zeros((6, 0)), "at least one value"),
        (np.zeros((6, 2), complex), "real numbers"),
        ([["a", "b"]] * 6, "real numbers"),
        ([[1.0], [1.0, 2.0]], "rows differ"),
        (np.zeros((6, 2), "datetime64[s]"), "real numbers"),
    ],
)
def test_arrays_that_are_no_data_are_refused(x, words):
    with one_sentence("x", words):
        neft.data.load((x, Y))


def test_an_unknown_name_names_the_closest():
    with one_sentence("source is 'fashion-mnst'", "did you mean 'fashion-mnist'?"):
        neft.data.load("fashion-mnst")


def test_a_path_that_does_not_exist_is_refused(tmp_path):
    with one_sentence("no such file or folder"):
        neft.data.load(tmp_path / "nothing")
    with one_sentence("no such file or folder"):
        neft.data.load("nothing.npz")


def test_a_path_too_long_for_the_system_is_refused():
    with one_sentence("source is"):
        neft.data.load("m" * 5000)


def test_a_file_of_another_kind_is_refused(tmp_path):
    (tmp_path / "table.csv").write_text("1,2")
    with one_sentence("table.csv", ".npz"):
        neft.data.load(tmp_path / "table.csv")


def test_three_arrays_are_no_pair():
    with one_sentence("pair (x, y)"):
        neft.data.load((X, Y, Y))


def test_an_unknown_split_names_the_closest():
    with one_sentence("split is 'tests'", "did you mean 'test'?"):
        neft.data.load("fashion-mnist", split="tests")


def test_a_pair_has_no_test_split():
    with one_sentence("split is 'test'", "no splits"):
        neft.data.load((X, Y), split="test")


def test_only_named_sets_have_a_subset():
    with one_sentence("full is False", "fashion-mnist"):
        neft.data.load((X, Y), full=False)
