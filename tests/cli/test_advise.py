import json

import numpy as np
import pytest

from neft import load
from neft.scaling import parameterize
from neft.scaling.results import Parameterization
from neft.width import advise
from neft.width.results import Advice


def test_advise_prints_numbers_sentences_and_layers(neft):
    text = neft("advise", "tanh", "--depth", "8", "--width", "64").stdout
    rows = [line.split() for line in text.splitlines()]
    found = advise("tanh", 8, 64)
    assert found.summary in text and ["verdict", "on", "depth/width", "fine"] in rows
    last = [f"{v:.6g}" for v in (0, found.C_W_last / 64, found.K[7])]
    assert ["8", "64", *last, *(f"{found.settings(name).rate_W[7]:.3g}" for name in ("sgd", "adam"))] in rows
    assert f"rate of Adam, all layers {found.settings('adam').rate_W[0]:.3g}" in " ".join(text.split())


def test_advise_tells_of_other_points_and_where_to_start(neft):
    text = neft("advise", "gelu", "--depth", "2").stdout
    assert "Another critical point: C_b = 0, C_W = 4 (K*=0)." in text
    assert "Inputs of mean square 1.70879 start at K* = 3.56155." in text


@pytest.mark.slow
def test_advise_as_json_and_as_files(neft, tmp_path):
    line = ("advise", "relu", "--depth", "3", "--width", "32", "--json", "--plot", tmp_path / "a.png", "--out")
    record = json.loads(neft(*line, tmp_path / "a.npz").stdout)
    assert record["type"] == "Advice" and record["C_W"] == 2 and len(record["share_W"]) == 3
    assert isinstance(load(tmp_path / "a.npz"), Advice) and (tmp_path / "a.png").stat().st_size > 5000


@pytest.mark.parametrize(("framework", "optimizer"), [("jax", None), ("flax", "momentum"), ("torch", "adamw")])
def test_advise_prints_a_program_and_nothing_else(neft, framework, optimizer):
    more = () if optimizer is None else ("--optimizer", optimizer)
    result = neft("advise", "tanh", "--depth", "3", "--width", "16", "--code", framework, *more)
    assert result.stdout == advise("tanh", 3, 16).code(framework, optimizer=optimizer or "sgd")
    compile(result.stdout, "printed.py", "exec")


def test_advise_says_what_an_optimizer_is_given(neft):
    text = neft("advise", "tanh", "--depth", "3", "--width", "16", "--optimizer", "adamw").stdout
    rate = advise("tanh", 3, 16).settings("adamw").rate_W[1]
    rows = [line.split() for line in text.splitlines()]
    assert text.startswith(advise("tanh", 3, 16).summary) and "a mean over the batch" in text
    assert "Settings of adamw" in text and ["weights", f"{rate:.4g}", "0.01", "1e-08"] in rows
    assert ["biases", f"{rate:.4g}", "0", "1e-08"] in rows


def test_advise_in_another_parameterization(neft, tmp_path):
    line = (
        "advise",
        "tanh",
        "--depth",
        "3",
        "--width",
        "16",
        "--parameterization",
        "mup",
        "--optimizer",
        "adamw",
        "--to-width",
        "64",
        "--out",
        tmp_path / "a.json",
    )
    text, wanted = neft(*line).stdout, parameterize(advise("tanh", 3, 16), "mup", optimizer="adamw", width=64)
    assert "mup with adamw: tanh, depth 3, width 64" in text and f"{wanted.rate[2]:.4g} · 64/n" in text
    found = load(tmp_path / "a.json")
    assert isinstance(found, Parameterization) and found == wanted and found.multiplier[4] == 1 / 4


@pytest.mark.slow
def test_advise_tries_what_it_advises(neft, tmp_path):
    x = np.random.default_rng(0).normal(size=(40, 3))
    np.savez(tmp_path / "own.npz", x_train=x, y_train=(x[:, 0] > 0).astype(int), x_test=x)
    line = ("advise", "tanh", "--depth", "2", "--width", "8", "--data", tmp_path / "own.npz", "--try")
    result = neft(*line, "--steps", "20", "--optimizer", "adamw", "--json", "--plot", tmp_path / "a.svg")
    record = json.loads(result.stdout)
    assert record["type"] == "Trial" and record["loss"] == "cross-entropy" and record["batch"] == 40
    assert record["rates"][1] == 0.001 and (tmp_path / "a.svg").stat().st_size > 5000


@pytest.mark.slow
def test_show_draws_an_advice_from_a_file(neft, tmp_path):
    printed = neft("advise", "tanh", "--out", tmp_path / "a.json", "--plot", tmp_path / "first.svg").stdout
    assert neft("show", tmp_path / "a.json", "--plot", tmp_path / "again.svg").stdout == printed
    assert (tmp_path / "first.svg").read_bytes() == (tmp_path / "again.svg").read_bytes()


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ("tahn", "did you mean 'tanh'?"),
        ("tanh --depth 0", "depth is 0, but must be at least 1."),
        ("tanh --width 0", "width is 0, but must be at least 1."),
        ("tanh --C-W 1", "C_b is missing"),
        ("tanh --C-b 0 --C-W 0", "C_W is 0, but must be greater than 0."),
        ("quadratic", "no critical point"),
        ("tanh --code keras", "--code is 'keras', but must be one of jax, equinox, flax, torch."),
        ("tanh --code jax --json", "--code prints a program"),
        ("tanh --optimizer lion", "optimizer is 'lion', but must be one of sgd, momentum, adam, adamw"),
        ("tanh --to-width 64", "--to-width is 64, but goes with --parameterization"),
        ("tanh --parameterization mup --to-width 0", "width is 0"),
        ("tanh --parameterization mup --to-depth 9", "says nothing of depth"),
        ("tanh --parameterization completep", "the advised network has none"),
        ("tanh --parameterization yaida", "--s must be given"),
        ("tanh --parameterization yaida --s 2", "s is 2, but must be at most 1."),
        ("tanh --try", "--data must be given"),
        ("tanh --steps 3", "--steps is 3, but goes with --try"),
        ("tanh --try --data fashion-mnist --code jax", "--code and --parameterization cannot be given with it"),
        ("tanh --try --data fashion-mnist --subset --seed -1", "--seed is -1"),
        (
            "tanh --parameterization mp",
            "--parameterization is 'mp', but must be one of standard, ntk, mup, depth-mup, completep, yaida",
        ),
    ],
)
def test_bad_options_are_one_sentence(neft, options, words):
    result = neft("advise", *options.split())
    assert result.exit_code == 2 and words in result.stderr
