import json

import numpy as np
import pytest
from helpers import one_sentence

import neft

X, Y = np.arange(12.0).reshape(6, 2), np.array([0, 1, 1, 0, 1, 1])


@pytest.fixture
def data():
    return neft.data.load((X, Y))


def test_it_says_what_it_is(data):
    description = data.description()
    assert json.loads(json.dumps(description)) == description
    assert description["prior"] == pytest.approx([1 / 3, 2 / 3])
    assert {k: description[k] for k in ("name", "split", "count", "features", "classes", "preprocessing")} == {
        "name": "arrays",
        "split": "all",
        "count": 6,
        "features": 2,
        "classes": 2,
        "preprocessing": "none",
    }


def test_its_text_shows_what_matters(data):
    assert repr(data) == "Dataset('arrays', split='all', count=6, features=2, classes=2, preprocessing='none')"
    assert "0.3333 to 0.6667" in str(data) and data.checksum[:16] in str(data)
    images = neft.data.load("fashion-mnist", split="test", preprocess="pool(16)+global", full=False)
    assert "16 (4×4)" in str(images) and "0.1 each" in str(images) and "global, mean 7" in str(images)


def test_arrays_cannot_be_written_to(data):
    for values in (data.x, data.y, data.prior):
        with pytest.raises(ValueError, match="read-only"):
            values[0] = 1


def test_the_users_arrays_stay_the_users():
    x, y = X.copy(), Y.copy()
    data = neft.data.load((x, y), dtype=np.float64)
    x[:], y[:] = -1, 0
    np.testing.assert_array_equal(data.x, X)
    np.testing.assert_array_equal(data.y, Y)


def test_the_checksum_is_that_of_the_values(data):
    assert data.checksum == neft.data.load((X.copy(), list(Y))).checksum
    assert len(data.checksum) == 64
    others = [
        neft.data.load((X + 1, Y)),
        neft.data.load((X, 1 - Y)),
        neft.data.load((X, Y), dtype=np.float64),
        neft.data.load((X[:, ::-1], Y)),
        neft.data.load((np.hstack([X, X]), Y)),
    ]
    assert len({data.checksum, *(other.checksum for other in others)}) == 6


def test_balanced_takes_the_first_of_each_class(data):
    subset = data.balanced(2)
    assert subset.y.tolist() == [0, 1, 1, 0]
    np.testing.assert_array_equal(subset.x, X[[0, 1, 2, 3]])
    assert subset.prior.tolist() == [0.5, 0.5]
    assert subset.checksum != data.checksum
    assert not subset.x.flags.writeable


def test_balanced_refuses_more_than_the_smallest_class_has(data):
    with one_sentence("per_class is 3", "at most 2"):
        data.balanced(3)
    with one_sentence("per_class is 0"):
        data.balanced(0)
