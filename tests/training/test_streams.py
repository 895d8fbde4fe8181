"""Residual networks at order 1/width: `predict` beside networks trained by `benchmarks/finite_width.py`."""

import json
from pathlib import Path

import numpy as np
import pytest

from neft import Network
from neft.training import predict

KEPT = json.loads(Path(__file__).with_name("streams.json").read_text(encoding="utf-8"))


@pytest.mark.slow
@pytest.mark.parametrize("name", KEPT)
def test_trained_residual_networks_have_the_predicted_mean_and_covariance(name):
    kept = KEPT[name]
    data = (np.array(kept[part]) for part in ("x_train", "y_train", "x_test"))
    options = {"steps": kept["steps"], "learning_rate": kept["learning_rate"], "rtol": 1e-4}
    found = predict(Network.from_dict(kept["network"]), *data, order=1, **options)
    mean = (found.mean - found.infinite_mean)[0]
    cov = found.cov[0, :, 0] - found.infinite_cov[0, 0] * np.eye(len(mean))
    for what, theory in (("mean", mean), ("covariance", cov)):
        value, error = (np.array(kept[what][part]) for part in ("simulation", "stderr"))
        z, resolved = (value - found.width * theory) / error, np.abs(found.width * theory) / error
        assert np.abs(z).max() < 5, (what, z)
        assert resolved.max() > 10, (what, resolved)
        assert np.max(kept[what]["chi_squared"]) < 25, what
