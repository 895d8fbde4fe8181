import numpy as np
import pytest

import neft
from neft.data import _named

FOLDER = _named.BUNDLED / "fashion-mnist"


@pytest.mark.parametrize("split, each", [("train", 600), ("test", 100)])
def test_the_bundle_is_balanced(split, each):
    data = neft.data.load("fashion-mnist", split=split, full=False)
    assert np.bincount(data.y).tolist() == [each] * 10
    assert (data.shape, data.features, data.x.dtype) == ((28, 28), 784, np.float32)
    assert data.x.min() == 0 and data.x.max() == 1


def test_the_bundle_takes_at_most_five_megabytes():
    assert sum(file.stat().st_size for file in FOLDER.iterdir()) <= 5_000_000


def test_the_licence_is_beside_the_bundle():
    text = (FOLDER / "LICENSE").read_text(encoding="utf-8")
    assert "MIT" in text and "2017 Zalando SE" in text and "WITHOUT WARRANTY" in text


@pytest.mark.parametrize("split, each", [("train", 600), ("test", 100)])
def test_the_bundle_is_the_beginning_of_the_full_set(split, each):
    if neft.data.available()["fashion-mnist"] == ("bundled subset",):
        pytest.skip("the full fashion-mnist is neither in NEFT_DATA nor in the system's dataset folder")
    full = neft.data.load("fashion-mnist", split=split, full=True)
    subset = neft.data.load("fashion-mnist", split=split, full=False)
    seen, chosen = [0] * 10, []
    for place, label in enumerate(full.y):
        if seen[label] < each:
            chosen.append(place)
        seen[label] += 1
    np.testing.assert_array_equal(subset.y, full.y[chosen])
    np.testing.assert_array_equal(subset.x, full.x[chosen])
