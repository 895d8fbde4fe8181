"""`neft advise --model FILE.py:NAME`."""

import json

import numpy as np
import pytest

from neft.width import advise

PROGRAM = """
import equinox as eqx
import jax

model = eqx.nn.MLP(784, 10, 32, 4, key=jax.random.key(0))


def make():
    return eqx.nn.MLP(3, 1, 16, 4, activation=jax.numpy.tanh, key=jax.random.key(0))


def needs(width):
    return model


number = 3
"""


@pytest.fixture
def program(tmp_path):
    path = tmp_path / "mine.py"
    path.write_text(PROGRAM)
    return path


@pytest.mark.slow
def test_a_model_is_read_and_advised(neft, program):
    text = neft("advise", "--model", f"{program}:make").stdout
    assert "A model of Equinox" in text and "uniform ±1/√fan-in" in text
    assert advise("tanh", 5, 16, inputs=3).summary in text


@pytest.mark.slow
def test_a_function_without_a_name_is_one_activation_however_often_it_stands(neft, program):
    own = "(lambda z: jax.numpy.where(z > 0, z, 0.2 * jax.numpy.tanh(z)))"
    program.write_text(PROGRAM.replace("jax.numpy.tanh", own))
    text = neft("advise", "--model", f"{program}:make").stdout
    assert "function of" in text and "C_W" in text.split("Weights that are not Gaussian")[1]


@pytest.mark.slow
def test_the_gelu_of_jax_is_an_expression(neft, program):
    # By default it is the form with tanh.
    program.write_text(PROGRAM.replace("jax.numpy.tanh", "jax.nn.gelu"))
    text = neft("advise", "--model", f"{program}:make").stdout
    advice = text.split("Weights that are not Gaussian")[1]
    assert "function of" not in text and "Advice for z*sigmoid(" in advice and "1.98" in advice


@pytest.mark.slow
def test_the_size_of_inputs_is_that_of_the_data(neft, program, tmp_path):
    line = ("advise", "--model", f"{program}:model", "--data", "fashion-mnist", "--subset", "--json")
    record = json.loads(neft(*line).stdout)
    assert (record["inputs"], record["outputs"], record["C_W"]) == (784, 10, 2) and record["q"] != 1
    x = np.full((4, 3), 2.0)
    np.savez(tmp_path / "own.npz", x_train=x, y_train=x, x_test=x)
    record = json.loads(neft("advise", "--model", f"{program}:make", "--data", tmp_path / "own.npz", "--json").stdout)
    assert record["q"] == 4


@pytest.mark.parametrize(
    ("where", "more", "words"),
    [
        ("nowhere.py:model", (), "there is no file 'nowhere.py'"),
        ("mine:model", (), "must be FILE.py:NAME"),
        ("{}", (), "must be FILE.py:NAME"),
        ("{}:modle", (), "defines no 'modle' (did you mean 'model'?)"),
        ("{}:needs", (), "needs() without arguments failed"),
        ("{}:number", (), "model is 3, but must be"),
        ("{}:make", ("--depth", "3"), "so --depth cannot be given"),
        ("{}:make", ("tanh",), "so an activation cannot be given"),
    ],
)
def test_bad_models_get_a_sentence(neft, program, where, more, words):
    result = neft("advise", "--model", where.format(program), *more)
    assert result.exit_code == 2 and words in result.stderr and result.stderr.count("\n") == 1


def test_data_without_inputs_gets_a_sentence(neft, program, tmp_path):
    np.savez(tmp_path / "none.npz", x_train=np.ones((0, 3)), y_train=np.ones(0), x_test=np.ones((1, 3)))
    for line in (("tanh", "--try"), ("--model", f"{program}:make")):
        result = neft("advise", *line, "--data", tmp_path / "none.npz")
        assert result.exit_code == 2 and "x_train has shape (0, 3), but must hold at least one" in result.stderr
        assert result.stderr.count("\n") == 1


def test_a_program_that_fails_gets_a_sentence(neft, tmp_path):
    path = tmp_path / "broken.py"
    path.write_text("1 / 0\n")
    assert "failed when it was run (ZeroDivisionError" in neft("advise", "--model", f"{path}:model").stderr
    assert "goes with --model" in neft("advise", "tanh", "--data", "mnist").stderr
