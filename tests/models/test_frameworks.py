"""PyTorch and Flax models, read in an environment of their own that the variable FRAMEWORKS_PYTHON names."""

import json
import os
import subprocess
from pathlib import Path

import pytest

import neft
from neft._framework_functions import GELU_BY_TANH

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("frameworks")]  # models are read once

HERE = Path(__file__).parent


@pytest.fixture(scope="module")
def answers():
    python = os.environ.get("FRAMEWORKS_PYTHON")
    if not python:
        pytest.skip("FRAMEWORKS_PYTHON names no Python that has torch and flax (CONTRIBUTING says how one is made)")
    source = str(Path(neft.__file__).parents[1])
    # JAX promotes ranks and types here: models are what their users wrote.
    run = subprocess.run(
        [python, str(HERE / "in_frameworks.py")],
        capture_output=True,
        text=True,
        timeout=300,
        env={**os.environ, "PYTHONPATH": source},
    )
    assert run.returncode == 0, run.stderr
    return json.loads(run.stdout)


MODELS = [
    "torch, by axis",
    *("torch, functions", "linen, functions", "torch, moved axes", "torch, channels last"),
    *("torch, plain", "torch, pre-norm", "torch, post-norm", "torch, 20 layers", "torch, convolutional"),
    *("linen, plain", "linen, pre-norm", "linen, convolutional", "nnx, post-norm", "nnx, 20 layers", "nnx, batch norm"),
]


@pytest.mark.parametrize("name", MODELS)
def test_the_network_gives_what_the_model_gives(answers, name):
    found = answers["models"][name]
    assert found["size"] > 0.1 and found["error"] < 1e-5 * max(1, found["size"])
    assert found["shapes"][0] == found["shapes"][1]
    assert not any("\n" in note for note in found["notes"]) and "C_W" in found["table"]


def test_every_model_is_compared(answers):
    assert sorted(answers["models"]) == sorted(MODELS)


def test_layers_are_where_the_program_has_them(answers):
    plain, residual = answers["models"]["torch, plain"], answers["models"]["torch, pre-norm"]
    assert plain["blocks"] == ["Dense", "Nonlinearity", "Dense", "Nonlinearity", "Dense"]
    assert plain["layers"] == ["fc1", "", "fc2", "", "out"] and "Dropout" in plain["notes"][0]
    assert residual["blocks"] == ["Dense", *["Residual"] * 3, "LayerNorm", "Dense"]
    assert residual["layers"][1:3] == ["blocks.0.norm", "blocks.0.mlp.0"]
    assert answers["models"]["nnx, batch norm"]["blocks"] == ["Dense", "BatchNorm", "Nonlinearity", "Dense"]


def test_functions_of_frameworks_are_expressions_that_programs_write(answers):
    wanted = [GELU_BY_TANH, "min(relu(z),6)", "z*min(relu(z+3),6)/6", "cos(z)", "relu(z)^2"]
    assert answers["models"]["torch, functions"]["functions"] == wanted
    assert answers["models"]["linen, functions"]["functions"] == wanted
    assert len(answers["programs"]) == 7
    for name, errors in answers["programs"].items():
        assert max(errors) < 1e-5, name


def test_the_frameworks_own_initializers_are_named(answers):
    torch, flax = answers["fresh"]["torch"], answers["fresh"]["nnx"]
    assert torch["drawn"] == "uniform ±1/√fan-in, the framework's default"
    assert flax["drawn"] == "truncated normal LeCun, the framework's default"
    for layer, variance in ((torch, 1 / 3), (flax, 1.0)):
        assert abs(layer["C_W"] - variance) < 4 * layer["error_W"] and layer["error_W"] < 0.05 * variance


def test_what_was_read_stays_when_the_model_trains_on(answers):
    size, moved = answers["moved"]
    assert size > 0.1 and moved == 0.0


def test_hooks_are_said_to_be_left_out(answers):
    assert [note for note in answers["hooks"] if "Hooks" in note] == [
        "Hooks are left out, whatever they change (of 0)."
    ]


def test_what_is_not_known_is_named(answers):
    for words, sentence in answers["bad"].items():
        assert words in sentence and sentence.endswith(".") and "\n" not in sentence, sentence
