import json

import pytest

from neft import load
from neft.width.results import Criticality, PhaseDiagram


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


@pytest.mark.slow
def test_phase_as_json_and_as_files(neft, tmp_path):
    line = ("phase", "tanh", "--points", "4", "--json", "--plot", tmp_path / "a.png", "--out", tmp_path / "a.npz")
    record = json.loads(neft(*line).stdout)
    assert len(record["phase"]) == len(record["C_W"]) == 4
    assert isinstance(load(tmp_path / "a.npz"), PhaseDiagram)
    assert (tmp_path / "a.png").stat().st_size > 5000


@pytest.mark.slow
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


def test_blocks_are_critical_elsewhere(neft, tmp_path):
    text = neft("critical", "relu", "--residual", "--skip", "0.6", "--plot", tmp_path / "c.png").stdout
    assert "Critical points of Residual(relu, Dense(128), skip=0.6)" in text and "1.28" in text
    assert "C_b and C_W are those of the dense block Dense(128)." in text
    assert (tmp_path / "c.png").stat().st_size > 5000


@pytest.mark.slow
def test_the_block_of_a_network_in_a_file(neft, tmp_path):
    line = ("network", "--activation", "relu", "--depth", "5", "--width", "16", "--residual", "--skip", "0.6")
    assert neft(*line, "--inputs", "7", "--outputs", "3", "--out", tmp_path / "net.toml").exit_code == 0
    text = neft("critical", "--network", tmp_path / "net.toml", "--json").stdout
    record = json.loads(text)
    assert record["activation"] == "Residual(relu, Dense(16), skip=0.6)" and record["dense"].endswith("Dense(16)")
    advice = json.loads(neft("advise", "--network", tmp_path / "net.toml", "--json").stdout)
    assert advice["type"] == "BlockAdvice" and (advice["depth"], advice["width"]) == (5, 16)
    assert (advice["inputs"], advice["outputs"]) == (7, 3)
    assert advice["strength"] > 0 and advice["C_W"] == pytest.approx(1.28)


@pytest.mark.slow
def test_phases_of_a_block(neft, tmp_path):
    line = ("phase", "relu", "--residual", "--skip", "0.6", "--C-W", "0.5,2", "--points", "2")
    text = neft(*line, "--out", tmp_path / "p.json").stdout
    assert "Phases of Residual(relu, Dense(128), skip=0.6)" in text and "diverging" in text
    assert "C_b and C_W are those of" in neft("show", tmp_path / "p.json").stdout


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("critical", "an activation is missing"),
        ("critical tanh --skip 0.5", "--skip is 0.5, but goes with --residual."),
        ("critical tanh --norm batch", "--norm is 'batch', but must be one of rms, layer"),
        ("critical tanh --network net.toml", "so the activation 'tanh' cannot be given with it"),
        ("critical --network net.toml --residual", "so --residual cannot be given with it"),
        ("critical tanh --dense 0", "no block was given"),
        ("phase tanh --residual --dense 1 --points 2", "dense is 1, but must be at most 0"),
        ("advise tanh --residual --depth 2", "depth is 2, but must be at least 3"),
        (
            "advise tanh --residual --C-b 0 --C-W 1 --depth 4 --width 8 --parameterization mup --to-depth 9",
            "kind 'mup' says nothing of depth",
        ),
    ],
)
def test_bad_options_of_blocks_are_one_sentence(neft, line, words):
    result = neft(*line.split())
    assert result.exit_code == 2 and words in result.stderr
