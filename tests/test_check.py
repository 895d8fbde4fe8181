import numpy as np
import pytest
from helpers import one_sentence
from hypothesis import given
from hypothesis import strategies as st

from neft import _check

NAMES = ["relu", "tanh", "silu"]


@pytest.mark.parametrize("near", ["tahn", "TANH", "tan"])
def test_the_nearest_name_is_offered(near):
    with one_sentence("activation is", repr(near), "relu, tanh, silu", "(did you mean 'tanh'?)"):
        _check.one_of("activation", near, NAMES)


def test_no_name_is_offered_when_none_is_near():
    assert _check.closest("xyzzy", NAMES) == ""
    with one_sentence("activation is 'xyzzy', but must be one of relu, tanh, silu."):
        _check.one_of("activation", "xyzzy", NAMES)


@pytest.mark.parametrize("value", [None, 3, ["tanh"]])
def test_what_is_not_a_name_is_refused(value):
    with one_sentence(f"activation is {value!r}"):
        _check.one_of("activation", value, NAMES)


@given(st.sampled_from(NAMES))
def test_an_allowed_name_passes(name):
    assert _check.one_of("activation", name, NAMES) == name


@given(st.integers())
def test_whole_numbers_pass_as_python_integers(value):
    assert _check.integer("n", value) == value
    assert _check.integer("n", value, at_least=value, at_most=value) == value


@pytest.mark.parametrize("kind", [np.int8, np.uint64, np.int64])
def test_whole_numbers_of_numpy_pass(kind):
    number = _check.integer("n", kind(7))
    assert number == 7 and type(number) is int


@pytest.mark.parametrize("value", [True, False, np.True_, 2.0, 2.5, "2", None, np.float64(2), np.array([1, 2])])
def test_what_is_not_a_whole_number_is_refused(value):
    with one_sentence(f"n is {value!r}", "must be a whole number"):
        _check.integer("n", value)


@given(st.integers(), st.integers(min_value=1))
def test_integers_out_of_range_are_refused(bound, excess):
    with one_sentence(f"n is {bound - excess}, but must be at least {bound}."):
        _check.integer("n", bound - excess, at_least=bound)
    with one_sentence(f"n is {bound + excess}, but must be at most {bound}."):
        _check.integer("n", bound + excess, at_most=bound)


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_finite_numbers_pass_as_python_floats(value):
    for given_as in (value, np.float64(value)):
        number = _check.real("C_W", given_as, at_least=value)
        assert number == value and type(number) is float


@pytest.mark.parametrize("value", [True, np.False_, "1.5", None, 1j, [1.0, 2.0], np.ones(2)])
def test_what_is_not_a_real_number_is_refused(value):
    with one_sentence(f"C_W is {value!r}", "must be a real number"):
        _check.real("C_W", value)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_a_number_must_be_finite(value):
    with one_sentence(f"C_W is {value}, but must be finite."):
        _check.real("C_W", value)


def test_a_whole_number_beyond_all_floats_is_refused():
    with one_sentence("C_W is 1", "must be"):
        _check.real("C_W", 10**400)


def test_numbers_below_their_bound_are_refused():
    with one_sentence("C_W is -0.5, but must be at least 0."):
        _check.real("C_W", -0.5, at_least=0.0)
    with one_sentence("C_W is 0, but must be greater than 0."):
        _check.real("C_W", 0, above=0.0)
    assert _check.real("C_W", 0, at_least=0.0) == 0
    assert _check.real("C_W", 1e-300, above=0.0) == 1e-300


@pytest.mark.parametrize("value", [[1, 2], (1.0, 2.0), np.array([1, 2], np.int8), np.array([1, 2], np.float32)])
def test_arrays_become_float64(value):
    result = _check.array("K", value)
    assert result.dtype == np.float64
    np.testing.assert_array_equal(result, [1, 2])


def test_an_array_of_the_right_kind_is_not_copied():
    x = np.ones(3)
    assert _check.array("x", x) is x


def test_an_array_can_be_asked_for_in_another_dtype():
    assert _check.array("x", [1, 2], dtype=np.uint8).dtype == np.uint8


@pytest.mark.parametrize(
    "value",
    [
        "text",
        ["a", "b"],
        None,
        {1.0},
        [1.0, [2.0]],
        [1j],
        np.array([1.0, None], dtype=object),
        np.array([b"a"]),
        np.zeros(2, dtype="i4,i4"),
        [10**400],
    ],
    ids=str,
)
def test_what_is_not_an_array_of_real_numbers_is_refused(value):
    with one_sentence("K must be an array of real numbers, got "):
        _check.array("K", value)


def test_a_long_value_is_cut_in_the_message():
    with pytest.raises(ValueError, match=r"got \[0, 1, 2.{0,50}\.\.\.\.$"):
        _check.array("K", [*range(1000), None])


def test_the_number_of_axes_is_checked():
    with one_sentence("K has shape (2, 3), but must have 1 axis."):
        _check.array("K", np.ones((2, 3)), ndim=1)
    with one_sentence("K has shape (), but must have 1 or 2 axes."):
        _check.array("K", 1.0, ndim=(1, 2))
    assert _check.array("K", np.ones((2, 3)), ndim=(1, 2)).shape == (2, 3)


@pytest.mark.parametrize("shape", [(2,), (3, 2), (2, 2), (2, 3, 1)])
def test_the_shape_is_checked(shape):
    with one_sentence(f"x has shape {shape}, but must have shape (any, 3)."):
        _check.array("x", np.ones(shape), shape=(None, 3))


def test_a_shape_of_one_axis_is_written_as_a_tuple():
    with one_sentence("b has shape (2,), but must have shape (3,)."):
        _check.array("b", np.ones(2), shape=(3,))


@given(
    st.tuples(st.integers(1, 4), st.integers(1, 4)).flatmap(
        lambda shape: st.tuples(st.just(shape), st.integers(0, shape[0] - 1), st.integers(0, shape[1] - 1))
    ),
    st.sampled_from([np.nan, np.inf, -np.inf]),
)
def test_the_position_of_what_is_not_finite_is_named(where, odd):
    shape, row, column = where
    x = np.zeros(shape)
    x[row, column] = odd
    with one_sentence(f"x holds {odd} at index ({row}, {column}), but must be finite."):
        _check.array("x", x)


def test_a_single_number_that_is_not_finite_has_no_position():
    with one_sentence("K holds nan, but must be finite."):
        _check.array("K", np.nan)


def test_the_smallest_entry_below_the_bound_is_named():
    with one_sentence("K holds -2, but must be at least 0."):
        _check.array("K", [1.0, -1.0, -2.0], at_least=0.0)
    assert _check.array("K", [], at_least=0.0).size == 0
