import re
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from neft import tangent, training

TEXT = (Path(__file__).parents[2] / "docs" / "tangent_kernels.md").read_text()
EQUINOX, FLAX = re.findall(r"```python\n(.*?)```", TEXT, flags=re.DOTALL)


@pytest.mark.slow
def test_the_equinox_example_runs(capsys):
    exec(compile(EQUINOX, "tangent_kernels.md", "exec"), {})
    assert capsys.readouterr().out.startswith("(5, 5, 2, 2)")


def test_the_flax_example_runs(capsys):
    pytest.importorskip("flax")
    exec(compile(FLAX, "tangent_kernels.md", "exec"), {})
    assert capsys.readouterr().out.startswith("(5, 5, 2, 2)")


@pytest.mark.slow
def test_rounding_in_single_precision_does_not_count_as_asymmetry():
    matrices = [0.3 * jax.random.normal(key, (16, 16)) for key in jax.random.split(jax.random.key(2), 3)]
    x = jax.random.normal(jax.random.key(1), (40, 16))

    def deep(matrices, x):
        for matrix in matrices:
            x = jnp.tanh(x) @ matrix
        return x

    kernel = np.asarray(tangent.ntk(deep, matrices, x))
    assert kernel.dtype == np.float32
    np.testing.assert_array_equal(kernel, kernel.transpose(1, 0, 3, 2))
    rough = kernel * (1 + 1e-6 * np.random.default_rng(0).normal(size=kernel.shape)).astype(np.float32)
    largest = np.linalg.eigvalsh(kernel.astype(np.float64).transpose(0, 2, 1, 3).reshape(640, 640))[-1]
    assert training.max_learning_rate(rough) == pytest.approx(2 / largest, rel=1e-4)
    with pytest.raises(ValueError, match="must be symmetric"):
        training.max_learning_rate(rough.astype(np.float64))


class Dense:
    """A module that is called as Flax's are: `init` makes nested variables, `apply` takes them first."""

    def init(self, key, x):
        return {"params": {"Dense_0": {"kernel": jax.random.normal(key, (x.shape[1], 2)), "bias": jnp.zeros(2)}}}

    def apply(self, variables, x):
        layer = variables["params"]["Dense_0"]
        return x @ layer["kernel"] + layer["bias"][None, :]


def test_models_in_the_manner_of_flax_are_taken():
    x = jax.random.normal(jax.random.key(1), (5, 3))
    module = Dense()
    variables = module.init(jax.random.key(0), x)
    rates = {"params": {"Dense_0": {"kernel": 0.5, "bias": 2.0}}}
    kernel = np.asarray(tangent.ntk(module.apply, variables, x, rates=rates))
    exact = (2.0 + 0.5 * np.asarray(x) @ np.asarray(x).T)[:, :, None, None] * np.eye(2)
    np.testing.assert_allclose(kernel, exact, rtol=1e-5, atol=1e-5)
    largest = np.linalg.eigvalsh(exact[:, :, 0, 0])[-1]
    assert training.max_learning_rate(kernel) == pytest.approx(2 / largest, rel=1e-4)
