"""Right answers and calibration of classifiers, against counting by hand."""

import numpy as np
import pytest
from helpers import one_sentence

from neft import plot, training
from neft.report import tables

LOGITS = np.log([[[0.9, 0.1], [0.3, 0.7], [0.6, 0.4]], [[0.2, 0.8], [0.45, 0.55], [0.6, 0.4]]]) + 5.0
LABELS = np.array([0, 1, 1])


def test_answers_are_counted_and_averaged_over_draws():
    found = training.assess(LOGITS, LABELS, bins=2)
    np.testing.assert_allclose(found.probabilities, [[0.55, 0.45], [0.375, 0.625], [0.6, 0.4]])
    np.testing.assert_allclose(found.probability_spread[:, 0], np.array([0.7, 0.15, 0.0]) / np.sqrt(2), atol=1e-12)
    # Of three answers the draws have two and one right.
    assert found.accuracy == pytest.approx(0.5) and found.together == pytest.approx(2 / 3)
    assert found.accuracy_spread == pytest.approx(1 / 3 / np.sqrt(2))
    sure = np.array([(0.9 + 0.7 + 0.6) / 3, (0.8 + 0.55 + 0.6) / 3])
    assert found.confidence == pytest.approx(sure.mean())
    assert found.overconfidence == pytest.approx((sure - [2 / 3, 1 / 3]).mean())
    assert found.overconfidence_spread == pytest.approx((sure - [2 / 3, 1 / 3]).std(ddof=1))
    assert found.nll == pytest.approx(-np.log([0.9, 0.7, 0.4, 0.2, 0.55, 0.4]).mean())
    # All confidences are in the upper half: three of six are right.
    np.testing.assert_allclose(found.bin_share, [0, 1])
    assert np.isnan(found.bin_confidence[0]) and found.bin_accuracy[1] == pytest.approx(0.5)
    assert found.calibration_error == pytest.approx(abs(0.5 - sure.mean()))
    finer = training.assess(LOGITS, LABELS, bins=4)
    # Above 3/4 are 0.9 (right) and 0.8 (wrong); below 0.7, 0.55 (right), 0.6 twice (wrong).
    assert finer.calibration_error == pytest.approx((abs(1.7 - 1) + abs(2.45 - 2)) / 6)


def test_moments_keep_their_axis_and_draws_that_failed_are_left_out():
    twice = np.stack([LOGITS, LOGITS[:, ::-1]], axis=1)
    found = training.assess(twice, LABELS)
    assert found.accuracy.shape == (2,) and found.bin_share.shape == (2, 10)
    np.testing.assert_allclose(found.accuracy[0], training.assess(LOGITS, LABELS).accuracy)
    np.testing.assert_allclose(found.accuracy[1], training.assess(LOGITS[:, ::-1], LABELS).accuracy)
    drawn = training.sample_from_kernels(np.eye(4), np.eye(4), [0], 1.0, outputs=2, draws=3)
    drawn.good[1] = False
    np.testing.assert_allclose(
        training.assess(drawn, LABELS).probabilities, training.assess(drawn.outputs[[0, 2]], LABELS).probabilities
    )
    assert len(tables(found)[0].rows) == 2
    line = plot.draw(training.assess(LOGITS, LABELS)).axes[0].lines[0]
    np.testing.assert_allclose(line.get_ydata().mean(), np.nanmean(training.assess(LOGITS, LABELS).bin_accuracy))


def test_bad_input_gets_one_clear_sentence():
    with one_sentence("outputs has shape (2, 3)", "(draws, tests, classes)"):
        training.assess(np.ones((2, 3)), LABELS)
    with one_sentence("y_test holds the label 2", "from 0 to 1"):
        training.assess(LOGITS, [0, 1, 2])
    with one_sentence("bins is 0", "at least 1"):
        training.assess(LOGITS, LABELS, bins=0)
