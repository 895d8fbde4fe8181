import numpy as np
import pytest
from helpers import one_sentence

import neft
from neft.data import _preprocess
from neft.data._steps import Global

from .helpers import fake_set, idx

RNG = np.random.default_rng(1)
IMAGES, Y = RNG.integers(0, 256, (40, 28, 28), dtype=np.uint8), np.arange(40) % 4


def load(preprocess, x=IMAGES, **options):
    return neft.data.load((x, Y), preprocess=preprocess, dtype=np.float64, **options)


@pytest.mark.parametrize(
    "text, canonical",
    [("none", "none"), (" pad + per-image ", "pad+per-image"), ("pool( 49 )", "pool(49)"), ("none+unit", "unit")],
)
def test_text_has_one_canonical_form(text, canonical):
    assert _preprocess.canonical(_preprocess.parse(text)) == canonical


def test_an_unknown_step_names_the_closest():
    with one_sentence("preprocess is 'per_image'", "did you mean 'per-image'?", "pool(E)"):
        load("unit+per_image")


@pytest.mark.parametrize(
    "text", ["", "unit+", "pool", "pool(-4)", "pool(4.0)", "pool(E)", "Unit", "unit()", "pool(9" * 9]
)
def test_what_the_grammar_does_not_know_is_refused(text):
    with one_sentence("preprocess is"):
        load(text)


def test_a_step_is_given_once():
    with one_sentence("'global+pad+global'", "once"):
        load("global+pad+global")


@pytest.mark.parametrize("text", ["global+unit", "per-image+pool(49)+unit"])
def test_unit_comes_before_standardisation(text):
    with one_sentence(repr(text), "before"):
        load(text)


def test_unit_is_for_bytes():
    with one_sentence("unit", "uint8", "float64"):
        load("unit", IMAGES / 2)


def test_pixels_of_bytes_become_unit_by_default_and_other_data_stays():
    assert load(None).preprocessing == "unit"
    assert load(None, IMAGES.astype(np.float32)).preprocessing == "none"
    assert load(None, IMAGES.reshape(40, -1)).preprocessing == "none"


def test_global_uses_one_mean_and_one_deviation():
    data = load("global")
    mean, std = np.mean(IMAGES), np.std(IMAGES)
    np.testing.assert_allclose(data.x, (IMAGES.reshape(40, -1) - mean) / std, rtol=1e-12, atol=1e-13)
    assert data.statistics == pytest.approx({"mean": mean, "std": std}, rel=1e-13)


def test_global_after_pooling_is_about_the_pooled_values():
    data = load("unit+pool(49)+global")
    pooled = IMAGES.reshape(40, 7, 4, 7, 4).mean((2, 4)).reshape(40, 49) / 255
    np.testing.assert_allclose(data.x, (pooled - pooled.mean()) / pooled.std(), rtol=1e-11, atol=1e-12)


def test_test_data_is_standardised_by_the_training_data(tmp_path):
    fake_set(tmp_path)
    (tmp_path / "t10k-images-idx3-ubyte.gz").unlink()
    (tmp_path / "t10k-images-idx3-ubyte").write_bytes(idx(IMAGES[:20] // 2))
    train = neft.data.load(tmp_path, preprocess="none", dtype=np.float64)
    test = neft.data.load(tmp_path, split="test", preprocess="global", dtype=np.float64)
    expected = (IMAGES[:20].reshape(20, -1) // 2 - train.x.mean()) / train.x.std()
    np.testing.assert_allclose(test.x, expected, rtol=1e-12, atol=1e-13)
    assert test.statistics == neft.data.load(tmp_path, preprocess="global").statistics


def test_steps_are_done_from_left_to_right():
    padded = load("pad+per-image")
    assert padded.shape == (32, 32)
    image = np.zeros((32, 32))
    image[2:30, 2:30] = IMAGES[7]
    np.testing.assert_allclose(padded.x[7], (image - image.mean()).ravel() / image.std(), rtol=1e-12, atol=1e-13)
    assert load("per-image+pad").x[7].reshape(32, 32)[0, 0] == 0


def test_blocks_do_not_change_the_result(monkeypatch):
    whole = load("pad+pool(81)+global+per-image")
    monkeypatch.setattr(_preprocess, "_BUDGET", 3 * 32 * 1024)
    cut = load("pad+pool(81)+global+per-image")
    np.testing.assert_allclose(cut.x, whole.x, rtol=1e-10, atol=1e-12)
    assert cut.statistics == pytest.approx(whole.statistics, rel=1e-13)


def test_a_constant_image_is_named_by_its_place_in_the_data(monkeypatch):
    monkeypatch.setattr(_preprocess, "_BUDGET", 1)
    x = IMAGES.copy()
    x[31] = 9
    with one_sentence("image 31", "constant"):
        load("unit+per-image", x)


def test_a_constant_image_of_the_training_split_is_told_from_one_of_the_test_split(tmp_path):
    fake_set(tmp_path)
    (tmp_path / "train-images-idx3-ubyte.gz").unlink()
    (tmp_path / "train-images-idx3-ubyte").write_bytes(idx(np.zeros((30, 28, 28))))
    with one_sentence("image 0 of the train split"):
        neft.data.load(tmp_path, split="test", preprocess="per-image+global")


@pytest.mark.parametrize("value", [0.0, 0.1, 1e300])
def test_data_that_is_all_equal_cannot_be_standardised(value):
    with one_sentence("global"):
        load("global", np.full((40, 3), value))


def test_values_too_large_for_their_squares_are_refused():
    with one_sentence("1e+200", "global"):
        load("global", RNG.standard_normal((40, 3)) + np.array([1e200, 0, 0]))


def test_values_too_large_for_the_type_are_refused():
    x = np.zeros((40, 3))
    x[5, 2] = 1e39
    with one_sentence("example 5", "feature 2", "float32"):
        neft.data.load((x, Y))
    assert load(None, x).x[5, 2] == 1e39


def test_a_mean_far_from_zero_loses_no_digits():
    x = 1e8 + RNG.standard_normal((40, 50))
    (step,) = _preprocess.fit((Global(),), x, "all")
    assert isinstance(step, Global)
    assert step.std == pytest.approx(np.std(x - 1e8), rel=1e-7)
