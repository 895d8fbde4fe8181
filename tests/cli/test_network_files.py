import json
import tomllib

import numpy as np
import pytest
from helpers import one_sentence
from typer.testing import CliRunner

from neft import MLP, BatchNorm, Dense, Network
from neft.cli import app
from neft.cli._options import Network as Options
from neft.cli._specification import text_of


@pytest.fixture
def neft():
    return lambda *args: CliRunner().invoke(app, [str(arg) for arg in args])


def test_a_file_that_does_not_fit_the_data_is_named(tmp_path):
    file = tmp_path / "net.toml"
    file.write_text('inputs = 3\nblocks = [{type = "Dense", width = 2}]')
    options = Options(file=file)
    assert options.sized(np.zeros((4, 3)), np.zeros((4, 2))) is options
    with one_sentence("net.toml", "3 inputs and 2 outputs", "the data have 5 and 1", "--inputs 5 --outputs 1"):
        options.sized(np.zeros((4, 5)), np.zeros(4))


def test_a_network_goes_to_a_file_and_every_command_takes_it(neft, tmp_path):
    file = tmp_path / "net.toml"
    options = ("--activation", "relu", "--depth", 4, "--width", 8, "--inputs", 3, "--C-W", 1.5)
    found = neft("network", *options, "--residual", "--skip", 0.5, "--norm", "rms", "--out", file)
    assert found.exit_code == 0 and "Residual(RMSNorm" in found.stdout
    record = tomllib.loads(file.read_text())
    net = Network.from_dict(record)
    assert net.widths == (3, 8, 8, 8, 1) and net.to_dict() == {**record, "blocks": net.to_dict()["blocks"]}
    stats = neft("stats", "--network", file, "--json", "--input", "1,2,3")
    assert stats.exit_code == 0
    # 0.25 K + 1.5/2 of a norm and relu, from K = 1.5 · 14/3.
    K = json.loads(stats.stdout)["tensors"]["K"]
    assert K[1] == pytest.approx(0.25 * 7 + 0.75 * 7 / (7 + 1e-6)) and len(K) == 4


def test_a_plain_network_is_written_and_read_as_one(neft, tmp_path):
    file = tmp_path / "net.toml"
    assert neft("network", "--widths", "3,8,1", "--C-b", "0.1,0", "--out", file).exit_code == 0
    assert MLP.from_dict(tomllib.loads(file.read_text())) == MLP((3, 8, 1), C_b=(0.1, 0.0))
    assert neft("network", "--network", file, "--json").exit_code == 0


def test_a_batch_normalized_network_has_a_card_and_no_kernel(neft, tmp_path):
    file, net = tmp_path / "net.toml", Network(3, [Dense(8), BatchNorm(lambda_gain=0.5), "relu", Dense(1)])
    file.write_text(text_of(net))
    assert Network.from_dict(tomllib.loads(file.read_text())) == net
    card = neft("network", "--network", file)
    assert card.exit_code == 0 and "No K and Theta: block BatchNorm(" in card.stdout and "49 parameters" in card.stdout
    stats = neft("stats", "--network", file)
    assert stats.exit_code == 2 and "no kernel at infinite width" in stats.stderr and stats.stderr.count("\n") == 1
    given = net.with_moments([([0.5] * 8, [2.0] * 8)])
    file.write_text(text_of(given))
    again = Network.from_dict(tomllib.loads(file.read_text()))
    assert again.to_dict() == given.to_dict() and not again.couples


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        ("", ("stats", "--network", "none.toml"), "cannot be read"),
        ("", ("stats", "--network", "net.txt"), "must end in .toml or .json"),
        ("x = [", ("stats", "--network", "net.toml"), "which is no TOML"),
        ("inputs = 3", ("stats", "--network", "net.toml"), "lacks blocks"),
        ('inputs = 3\nblocks = ["relu"]', ("stats", "--network", "net.toml"), "no weights"),
        ('inputs = 3\nblocks = [{type = "Conv"}]', ("stats", "--network", "net.toml"), "Conv"),
        ("", ("stats", "--network", "net.toml", "--depth", "3"), "--depth cannot be given"),
        ("", ("stats", "--skip", "2"), "goes with --residual"),
        ("", ("stats", "--norm", "batch"), "--norm is 'batch'"),
        ("", ("stats", "--out", "net.toml"), "must end in .json or .npz"),
    ],
)
def test_bad_files_and_options_get_one_sentence(neft, tmp_path, monkeypatch, text, line, words):
    monkeypatch.chdir(tmp_path)
    if text:
        (tmp_path / "net.toml").write_text(text)
    found = neft(*line)
    assert found.exit_code == 2 and words in found.output and "Traceback" not in found.output, found.output
