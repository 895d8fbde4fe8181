"""Activations as expressions of z."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from helpers import one_sentence
from hypothesis import given
from hypothesis import strategies as st

from neft import MLP, activation, width
from neft._expression import DEEPEST, LONGEST, is_expression, parsed, written

LEAVES = st.one_of(
    st.just(("z", lambda z: z)),
    st.just(("pi", lambda z: math.pi)),
    st.sampled_from([0.5, 1.25, 3.0]).map(lambda c: (repr(c), lambda z: c)),
)
FUNCTIONS = {"tanh": math.tanh, "sin": math.sin, "arctan": math.atan, "erf": math.erf, "abs": abs}


def _grown(children):
    # Texts with every bracket that their meaning needs, and what they mean in plain Python.
    two = st.tuples(children, children)
    return st.one_of(
        two.map(lambda ab: (f"({ab[0][0]} + {ab[1][0]})", lambda z: ab[0][1](z) + ab[1][1](z))),
        two.map(lambda ab: (f"({ab[0][0]} - {ab[1][0]})", lambda z: ab[0][1](z) - ab[1][1](z))),
        two.map(lambda ab: (f"({ab[0][0]})*({ab[1][0]})", lambda z: ab[0][1](z) * ab[1][1](z))),
        two.map(lambda ab: (f"({ab[0][0]})/(1+({ab[1][0]})^2)", lambda z: ab[0][1](z) / (1 + ab[1][1](z) ** 2))),
        two.map(lambda ab: (f"max({ab[0][0]}, {ab[1][0]})", lambda z: max(ab[0][1](z), ab[1][1](z)))),
        children.map(lambda a: (f"-({a[0]})", lambda z: -a[1](z))),
        st.tuples(st.sampled_from(sorted(FUNCTIONS)), children).map(
            lambda fa: (f"{fa[0]}({fa[1][0]})", lambda z: FUNCTIONS[fa[0]](fa[1][1](z)))
        ),
    )


@given(st.recursive(LEAVES, _grown, max_leaves=8), st.floats(-2, 2))
def test_an_expression_means_what_python_means_by_it(tree, z):
    text, meaning = tree
    with jax.enable_x64(True):
        found = float(parsed(text)[1](jnp.asarray(z)))
    np.testing.assert_allclose(found, meaning(z), rtol=1e-9, atol=1e-9)


@given(st.recursive(LEAVES, _grown, max_leaves=8), st.floats(-2, 2))
def test_the_program_of_an_expression_means_the_same(tree, z):
    text, meaning = tree
    # Numbers alone never get to a function, and of "max" and "min" a number stands second.
    names = {name: f"FUNCTIONS['{name}']({{}})" for name in FUNCTIONS} | {"max": "max({}, {})"}
    found = eval(written(text, names, {"max": "bounded({}, least={})"}), globals() | {"z": z})
    np.testing.assert_allclose(found, meaning(z), rtol=1e-9, atol=1e-9)


def bounded(value, *, least):
    return max(value, least)


@pytest.mark.parametrize(
    ("text", "program"),
    [
        ("-z^2", "-z**2"),
        ("(-z)^2", "(-z)**2"),
        ("2^3^2 - z", "512 - z"),
        ("(z^2)^3", "(z**2)**3"),
        ("z-(z-1)", "z - (z - 1)"),
        ("z/(z*2)/3", "z / (z * 2) / 3"),
        ("z*-sqrt(2)", "z * -1.4142135623730951"),
        ("z^-0.5", "z**-0.5"),
        ("(z-z-2)^2*-z", "(z - z - 2)**2 * -z"),
    ],
)
def test_brackets_are_written_where_they_are_needed(text, program):
    assert written(text, {}) == program


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("-z^2", -4.0),
        ("2^3^2 - z", 510.0),
        ("1 - 2 - z", -3.0),
        ("8/z/2", 2.0),
        ("--z + +z", 4.0),
        ("2*z**2*3", 24.0),
        ("exp(0)*z + 1.5e0 + .5", 4.0),
    ],
)
def test_operators_bind_as_they_do_on_paper(text, value):
    with jax.enable_x64(True):
        assert float(parsed(text)[1](jnp.asarray(2.0))) == value


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("z+", "its end where a number, z, a function or '(' must be"),
        ("2z", "'z' at character 2 where an operator or the end of the expression must be"),
        ("foo(z)", "'foo' at character 1 must be z or one of exp"),
        ("max(z)", "max takes 2 instead of 1"),
        ("tanh z", "'z' at character 6 where '(' after tanh"),
        ("exp(z", "its end where ')'"),
        ("z^z", "the exponent at character 3 must be a number"),
        ("z;z", "';' at character 2 is not part of an expression"),
        ("z.real", "'.' at character 2"),
        ("1e999*z", "'1e999' at character 1"),
        ("(" * (DEEPEST + 2) + "z", f"at most {DEEPEST} deep"),
        ("-" * (DEEPEST + 2) + "z", f"at most {DEEPEST} deep"),
        ("z+" * LONGEST + "z", f"at most {LONGEST}"),
        ("__import__(z)", "'__import__' at character 1"),
        ("log(z)", "not finite near the origin"),
    ],
)
def test_what_is_no_expression_is_one_sentence(text, says):
    assert is_expression(text)
    with one_sentence(says):
        activation(text)


def test_an_expression_is_an_activation_like_others_and_a_file_holds_it():
    net = MLP(widths=(2, 8, 8, 1), activation=" tanh( z ) ")
    assert net.activation.name == "tanh(z)" and net.activation.parity == "odd" and net.activation.remakable
    again = MLP.from_dict(net.to_dict())
    assert again == net and hash(again.activation) == hash(activation("tanh(z)"))
    x = np.array([0.3, 0.7])
    # A name before a bracket is not the function itself: its factor goes into the weights that follow.
    double, plain = (
        MLP(widths=(2, 8, 8, 1), activation=name, C_W=C_W)
        for name, C_W in (("erf(z)*2", 1.0), ("erf", (1.0, 4.0, 4.0)))
    )
    np.testing.assert_allclose(width.kernel(double, x[None]).K, width.kernel(plain, x[None]).K, rtol=1e-9)
