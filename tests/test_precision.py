import jax
import jax.numpy as jnp
import numpy as np
import pytest

from neft._precision import float64


def bits() -> int:
    return jnp.zeros(()).dtype.itemsize * 8


@pytest.fixture(params=[32, 64])
def caller(request):
    """The two configurations a caller may have."""
    with jax.enable_x64(request.param == 64):
        yield request.param


@float64
def third(x):
    return jnp.asarray(x) / 3


@pytest.mark.parametrize("x", [1.0, 1, np.float64(1), np.ones(3), np.ones((2, 2))], ids=repr)
def test_numbers_come_out_as_float64_of_numpy(caller, x):
    result = third(x)
    assert isinstance(result, np.ndarray) and result.dtype == np.float64
    np.testing.assert_array_equal(result, np.asarray(x) / 3)


def test_compiled_code_runs_in_64_bits(caller):
    np.testing.assert_array_equal(float64(jax.jit(lambda x: x * x))(np.array([1 / 3])), [(1 / 3) ** 2])


def test_derivatives_run_in_64_bits(caller):
    np.testing.assert_allclose(float64(jax.grad(jnp.tanh))(1.0), np.cosh(1.0) ** -2, rtol=1e-15)


def test_the_configuration_of_the_caller_is_left_alone(caller):
    seen = float64(bits)()
    assert seen == 64 and bits() == caller


def test_the_configuration_is_left_alone_after_an_error(caller):
    @float64
    def fails():
        assert bits() == 64
        raise RuntimeError("inside")

    with pytest.raises(RuntimeError, match="inside"):
        fails()
    assert bits() == caller


def test_nested_calls_are_one_call(caller):
    outer = float64(lambda x: third(x) + bits())
    np.testing.assert_array_equal(outer(1.0), 1 / 3 + 64)
    assert bits() == caller


def test_only_jax_arrays_change(caller):
    own, text = np.ones(2, np.float32), "text"
    result = float64(lambda: {"jax": (jnp.ones(2), [jnp.arange(2)]), "own": own, "text": text, "none": None})()
    assert result["own"] is own and result["text"] is text and result["none"] is None
    assert [a.dtype for a in (result["jax"][0], result["jax"][1][0])] == [np.float64, np.int64]
    assert not any(isinstance(leaf, jax.Array) for leaf in jax.tree.leaves(result))


def test_the_function_keeps_its_name_and_arguments():
    @float64
    def kernel(x, *, scale=1.0):
        """Scaled."""
        return scale * jnp.asarray(x)

    assert (kernel.__name__, kernel.__doc__) == ("kernel", "Scaled.")
    assert kernel(2.0, scale=3.0) == 6.0
