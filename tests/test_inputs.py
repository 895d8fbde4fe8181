"""Bad and extreme arguments of public functions: one sentence each, before anything is compiled."""

import os
import subprocess
import sys
from pathlib import Path

import jax
import numpy as np
import pytest
import try_inputs
from helpers import one_sentence

import neft
from neft import MLP
from neft._public import public

NET = MLP((3, 4, 1), "tanh")
KEY = jax.random.key(0)
TENSOR = try_inputs.RefusesNumPy()


@pytest.mark.slow
def test_a_sample_of_all_bad_inputs_gets_one_sentence_each():
    # In a process of its own: here, types are checked in functions before they check anything themselves.
    script = str(Path(try_inputs.__file__))
    source = str(Path(neft.__file__).parents[1])
    found = subprocess.run(
        [sys.executable, script, "--here", "--sample", "300"],
        capture_output=True,
        text=True,
        timeout=300,
        env={**os.environ, "PYTHONPATH": source},
    )
    assert found.returncode == 0, found.stdout + found.stderr
    assert found.stdout.startswith("300 calls: ")


CALLS = [
    ("net is None, but must be a network", lambda: neft.width.statistics(None, [1.0])),
    ("net is 'tanh', but must be a network", lambda: neft.training.predict("tanh", [[1.0]], [1.0])),
    ("f is 3, but must be a function or a network", lambda: neft.tangent.ntk(3, [], [])),
    ("stats is 3, but must be what neft.width.statistics gives", lambda: neft.width.interpret(3)),
    ("metric is None, but must be a metric", lambda: neft.fisher.geometry(None)),
    ("data is [], but must be a data set", lambda: neft.fisher.train([])),
    ("dataset is 1, but must be a data set", lambda: neft.describe.data(1)),
    ("loss is 1, but must be a function", lambda: neft.action.ray(1, {}, 2)),
    ("path is 3, but must be the path", lambda: neft.load(3)),
    ("path is '', but must be the path", lambda: neft.load("")),
    ("own_width is 1, but must be True or False", lambda: neft.width.check(NET, np.ones(3), own_width=1)),
    ("optimizer is 'adam', but must be an optax optimizer", lambda: neft.action.fit(None, optimizer="adam")),
    ("draws is 10", lambda: neft.width.check(NET, np.ones(3), draws=10**30)),
    (
        "key is 3, but must be one JAX key such as jax.random.key(3)",
        lambda: neft.width.check(NET, np.ones(3), key=3),
    ),
    ("key is None, but must be one JAX key", lambda: neft.ensemble.estimate(NET, np.ones(3), draws=4, key=None)),
    ("but must be one JAX key", lambda: NET.init(jax.random.split(KEY))),
    ("parameters of widths", lambda: MLP((10**9, 10**9, 1)).init(KEY)),
    ("bytes of memory", lambda: MLP((10**9, 10**9, 1)).init(KEY)),
    ("x cannot be read as an array: Can't call numpy()", lambda: neft.width.statistics(NET, TENSOR)),
    ("x1 cannot be read as an array", lambda: neft.width.kernel(NET, TENSOR)),
    ("dtype is 'int8', but must be float32 or float64", lambda: neft.width.kernel(NET, np.ones((2, 3)), dtype="int8")),
    ("rates", lambda: neft.tangent.ntk(NET, NET.init(KEY), np.ones((1, 3)), rates="fast")),
    ("f is", lambda: neft.tangent.ntk(lambda: 1, NET.init(KEY), np.ones((1, 3)))),
    (
        "f cannot be called with params and x",
        lambda: neft.tangent.ntk(max, 3 * [np.ones(1)], np.ones((1, 3)), rates=1.0),
    ),
    ("coefficients is empty", lambda: neft.action.pade([])),
    ("found is {}", lambda: neft.plot.rivals({})),
]


@pytest.mark.parametrize(("says", "call"), CALLS, ids=[says for says, _ in CALLS])
def test_what_is_not_of_its_kind_gets_one_sentence(says, call):
    with one_sentence(says):
        call()


def test_old_keys_and_traced_keys_are_keys():
    old = NET.init(jax.random.PRNGKey(0))
    assert jax.tree.all(jax.tree.map(np.array_equal, old, NET.init(jax.random.key(0))))
    drawn = jax.vmap(NET.init)(jax.random.split(KEY, 2))
    assert drawn[0].W.shape == (2, 4, 3)


def test_defaults_and_unknown_keywords_are_left_to_python():
    @public
    def area(width: int, height: float | None = None, *, net: MLP | None = None) -> float:
        return width * (2.0 if height is None else height)

    assert area(3) == 6 and area(np.int64(3), height=None, net=None) == 6
    with pytest.raises(TypeError, match="unexpected keyword argument 'depth'"):
        area(3, depth=4)
    with pytest.raises(TypeError, match="missing"):
        area()
    with one_sentence("width is 2.5, but must be a whole number"):
        area(2.5)
    with one_sentence("height is nan, but must be finite"):
        area(2, float("nan"))
    with one_sentence("net is 1, but must be a network"):
        area(2, net=1)
