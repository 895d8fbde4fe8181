import numpy as np
import pytest
from helpers import one_sentence

import neft

from .helpers import fake_set

pytestmark = pytest.mark.usefixtures("nowhere")


@pytest.fixture
def own(monkeypatch, tmp_path):
    monkeypatch.setenv("NEFT_DATA", str(tmp_path / "own"))
    return tmp_path / "own"


@pytest.fixture
def system(tmp_path):
    return tmp_path / "system"


def test_the_bundled_subset_is_used_where_nothing_else_is_found():
    data = neft.data.load("fashion-mnist")
    assert (data.name, data.count) == ("fashion-mnist (bundled subset)", 6000)


def test_the_system_folder_comes_before_the_bundled_subset(system):
    fake_set(system / "fashion-mnist")
    data = neft.data.load("fashion-mnist")
    assert (data.name, data.count) == ("fashion-mnist", 30)


def test_the_users_folder_comes_before_the_system_folder(own, system):
    fake_set(system / "mnist", seed=1)
    fake_set(own / "mnist", seed=2)
    data = neft.data.load("mnist", split="test")
    np.testing.assert_array_equal(data.x, neft.data.load(own / "mnist", split="test").x)
    assert data.checksum != neft.data.load(system / "mnist", split="test").checksum


def test_a_set_that_is_not_in_the_users_folder_is_taken_from_the_system(own, system):
    fake_set(system / "mnist")
    assert neft.data.load("mnist").count == 30


def test_an_empty_variable_is_no_folder(monkeypatch):
    monkeypatch.setenv("NEFT_DATA", "")
    assert neft.data.available() == {"fashion-mnist": ("bundled subset",), "mnist": ()}


def test_the_subset_can_be_asked_for(own):
    fake_set(own / "fashion-mnist")
    assert neft.data.load("fashion-mnist", full=False).count == 6000
    assert neft.data.load("fashion-mnist", full=True).count == 30


def test_a_full_set_that_is_not_there_is_refused(system):
    with one_sentence(str(system / "fashion-mnist"), "NEFT_DATA", "dataset-fashion-mnist"):
        neft.data.load("fashion-mnist", full=True)


def test_mnist_not_found_says_where_and_how(own, system):
    with one_sentence("'mnist'", str(own / "mnist"), str(system / "mnist"), "NEFT_DATA", "path"):
        neft.data.load("mnist")


def test_there_is_no_subset_of_mnist(own):
    fake_set(own / "mnist")
    with one_sentence("full is False", "'mnist'"):
        neft.data.load("mnist", full=False)


def test_an_incomplete_set_is_refused_and_not_passed_over(own):
    (own / "fashion-mnist").mkdir(parents=True)
    with one_sentence("train-labels-idx1-ubyte.gz"):
        neft.data.load("fashion-mnist")


def test_a_named_set_has_the_labels_it_is_known_for(own):
    fake_set(own / "mnist", classes=11)
    with one_sentence("label 10", "from 0 to 9"):
        neft.data.load("mnist")


def test_a_named_set_has_all_its_classes(own):
    fake_set(own / "mnist", classes=9)
    with one_sentence("class 9 is empty"):
        neft.data.load("mnist")


def test_a_named_set_has_images_of_its_shape(own):
    fake_set(own / "mnist", shape=(27, 28))
    with one_sentence("(27, 28)", "(28, 28)"):
        neft.data.load("mnist")


def test_available_lists_what_load_uses_first(own, system):
    fake_set(own / "mnist")
    fake_set(system / "mnist")
    assert neft.data.available()["mnist"] == (str(own / "mnist"), str(system / "mnist"))
