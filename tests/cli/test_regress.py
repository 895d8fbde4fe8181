import json

import numpy as np
import pytest

from neft import MLP, training

RNG = np.random.default_rng(0)
X, Y, NEW = RNG.normal(size=(12, 3)), RNG.normal(size=(12, 2)), RNG.normal(size=(4, 3))


@pytest.mark.slow
def test_regress_prints_what_python_gives_and_resumes(neft, tmp_path):
    np.savez(tmp_path / "a.npz", x_train=X, y_train=Y, x_test=NEW)
    line = ("regress", tmp_path / "a.npz", "--activation", "relu", "--ridge", "0.2", "--folder", tmp_path / "kept")
    found = [neft(*line, "--json") for _ in range(2)]
    assert [one.exit_code for one in found] == [0, 0] and not found[0].stderr
    fit = training.regress(MLP((3, 128, 128, 2), "relu"), X, Y, ridge=0.2)
    for one in found:
        record = json.loads(one.stdout)
        np.testing.assert_allclose(record["mean"], fit.predict(NEW), atol=1e-6)
        assert record["type"] == "Tested" and record["accuracy"] is None and record["residual"] <= 1e-6
    table = neft(*line).stdout
    assert "Kernel regression on 12 points: ntk, ridge 0.2, direct" in table and "residual" in table
    other = neft(*line, "--kernel", "nngp")
    assert other.exit_code == 2 and "another ridge" in other.stderr and other.stderr.count("\n") == 1
    small = neft("regress", tmp_path / "a.npz", "--memory", "1MB")
    assert small.exit_code == 2 and "memory is '1MB'" in small.stderr and small.stderr.count("\n") == 1
