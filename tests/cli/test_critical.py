import json

import pytest

from neft import load
from neft.width import Criticality, PhaseDiagram


def test_critical_prints_every_point_and_why(neft):
    text = neft("critical", "gelu").stdout
    rows = [line.split() for line in text.splitlines()]
    assert rows[1][:3] == ["C_b", "C_W", "K*"]
    assert rows[2] == ["0.172922391", "1.98305826", "3.56155281", "half-stable", "above"]
    assert rows[3] == ["0", "4", "0", "K*=0", "neither"]
    assert "attracts from above only" in text


def test_critical_says_that_there_is_none(neft):
    assert "There is none.\nK* = 0 is no fixed point because σ(0) = 0.5." in neft("critical", "sigmoid").stdout


def test_critical_as_json(neft):
    record = json.loads(neft("critical", "leaky_relu(0.1)", "--json").stdout)
    assert (record["C_b"], record["K_star"], record["universality"]) == (0, None, "scale-invariant")
    assert record["C_W"] == pytest.approx(2 / 1.01)


def test_phase_prints_shares_and_samples(neft):
    text = neft("phase", "relu", "--C-b", "0,1", "--C-W", "1,3", "--points", "5").stdout
    rows = [line.split() for line in text.splitlines()]
    assert ["ordered", "40", "%"] in rows and ["critical", "4", "%"] in rows
    assert "Critical at C_b = 0, C_W = 2: scale-invariant." in text
    assert ["0.5", "1.5", "ordered", "2", "0.75", "0.75", "3.47606", "3.47606"] in rows


def test_phase_as_json_and_as_files(neft, tmp_path):
    line = ("phase", "tanh", "--points", "4", "--json", "--plot", tmp_path / "a.png", "--out", tmp_path / "a.npz")
    record = json.loads(neft(*line).stdout)
    assert len(record["phase"]) == len(record["C_W"]) == 4
    assert isinstance(load(tmp_path / "a.npz"), PhaseDiagram)
    assert (tmp_path / "a.png").stat().st_size > 5000


def test_show_draws_criticality_from_a_file(neft, tmp_path):
    printed = neft("critical", "tanh", "--out", tmp_path / "a.json", "--plot", tmp_path / "first.svg").stdout
    assert isinstance(load(tmp_path / "a.json"), Criticality)
    assert neft("show", tmp_path / "a.json", "--plot", tmp_path / "again.svg").stdout == printed
    assert (tmp_path / "first.svg").read_bytes() == (tmp_path / "again.svg").read_bytes()


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ("critical tahn", "did you mean 'tanh'?"),
        ("phase tanh --C-b 1,0", "--C-b is '1,0', but must be two increasing numbers"),
        ("phase tanh --C-W 1", "--C-W is '1', but must be two increasing numbers"),
        ("phase tanh --points 1", "--points is 1, but must be at least 2."),
    ],
)
def test_bad_options_are_one_sentence(neft, options, words):
    result = neft(*options.split())
    assert result.exit_code == 2 and words in result.stderr
