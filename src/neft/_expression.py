"""Activations written as expressions of z, such as "z*sigmoid(1.7*z)": a small grammar, parsed and never evaluated.

sum     = product, {("+" | "-"), product}
product = signed, {("*" | "/"), signed}
signed  = ["+" | "-"], signed | power
power   = atom, [("^" | "**"), signed]
atom    = number | "z" | "pi" | "e" | function, "(", sum, {",", sum}, ")" | "(", sum, ")"
"""

import functools
import math
import re
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax, nn

from . import _check

LONGEST, DEEPEST = 300, 30
"""Characters of an expression, and brackets and signs inside each other."""

_TOKEN = re.compile(r"\s*(?:(\d+\.?\d*(?:[eE][+-]?\d+)?|\.\d+(?:[eE][+-]?\d+)?)|([A-Za-z_]\w*)|(\*\*|[-+*/^(),]))")
_VARIABLE = re.compile(r"(?<![A-Za-z_])z(?!\w)")
_CONSTANTS = {"pi": math.pi, "e": math.e}

Function = Callable[[Any], Any]

_FUNCTIONS: dict[str, tuple[int, Callable[..., Any]]] = {
    "exp": (1, jnp.exp),
    "log": (1, jnp.log),
    "log1p": (1, jnp.log1p),
    "expm1": (1, jnp.expm1),
    "sqrt": (1, jnp.sqrt),
    "abs": (1, jnp.abs),
    "sin": (1, jnp.sin),
    "cos": (1, jnp.cos),
    "sinh": (1, jnp.sinh),
    "cosh": (1, jnp.cosh),
    "tanh": (1, jnp.tanh),
    "arctan": (1, jnp.arctan),
    "arcsinh": (1, jnp.arcsinh),
    "erf": (1, lax.erf),
    "sigmoid": (1, nn.sigmoid),
    "softplus": (1, nn.softplus),
    "relu": (1, nn.relu),
    "gelu": (1, functools.partial(nn.gelu, approximate=False)),
    "silu": (1, nn.silu),
    "max": (2, jnp.maximum),
    "min": (2, jnp.minimum),
}


class _Token(NamedTuple):
    kind: str  # "number", "name", "sign" or "end"
    text: str
    place: int


def is_expression(text: str) -> bool:
    """Whether a text speaks of z, as expressions do and names do not.

    >>> is_expression("z*tanh(z)"), is_expression("leaky_relu(0.1)")
    (True, False)
    """
    return _VARIABLE.search(text) is not None


def parsed(text: str) -> tuple[str, Function]:
    """An expression as it is kept, without spaces, and the elementwise JAX function that it is.

    >>> name, function = parsed("z / (1 + z**2)")
    >>> name, round(float(function(jnp.asarray(2.0))), 6)
    ('z/(1+z^2)', 0.4)
    """
    if len(text) > LONGEST:
        raise ValueError(
            f"activation is an expression of {len(text)} characters, but must be one of at most {LONGEST}."
        )
    parser = _Parser(text)
    function = parser.sum(0)
    if parser.next.kind != "end":
        parser.refuse("an operator or the end of the expression")
    return "".join("^" if token.text == "**" else token.text for token in parser.tokens), function


class _Parser:
    def __init__(self, text: str) -> None:
        self.text, self.tokens, self._at = text, [], 0
        place = 0
        while text[place:].strip():
            match = _TOKEN.match(text, place)
            if match is None:
                start = place + len(text[place:]) - len(text[place:].lstrip())
                raise ValueError(
                    f"activation is {_check.brief(text)}, but {text[start]!r} at character {start + 1} is not part of "
                    "an expression of numbers, z, + - * / ^, brackets and functions."
                )
            kind = "number" if match[1] else "name" if match[2] else "sign"
            self.tokens.append(_Token(kind, match[1] or match[2] or match[3], match.end() - len(match[0].strip())))
            place = match.end()

    @property
    def next(self) -> _Token:
        return self.tokens[self._at] if self._at < len(self.tokens) else _Token("end", "", len(self.text))

    def refuse(self, wanted: str) -> None:
        found = f"{self.next.text!r} at character {self.next.place + 1}" if self.next.text else "its end"
        raise ValueError(f"activation is {_check.brief(self.text)}, but has {found} where {wanted} must be.")

    def _taken(self, *signs: str) -> str | None:
        token = self.next
        if token.kind == "sign" and token.text in signs:
            self._at += 1
            return token.text
        return None

    def sum(self, depth: int) -> Function:
        found = self._product(depth)
        while sign := self._taken("+", "-"):
            found = _both(jnp.add if sign == "+" else jnp.subtract, found, self._product(depth))
        return found

    def _product(self, depth: int) -> Function:
        found = self._signed(depth)
        while sign := self._taken("*", "/"):
            found = _both(jnp.multiply if sign == "*" else jnp.divide, found, self._signed(depth))
        return found

    def _signed(self, depth: int) -> Function:
        if depth > DEEPEST:
            raise ValueError(
                f"activation is {_check.brief(self.text)}, but brackets and signs may stand at most {DEEPEST} deep "
                "inside each other."
            )
        if sign := self._taken("+", "-"):
            found = self._signed(depth + 1)
            return found if sign == "+" else lambda z: -found(z)
        return self._power(depth)

    def _power(self, depth: int) -> Function:
        base = self._atom(depth)
        if not self._taken("^", "**"):
            return base
        place, exponent = self.next, self._signed(depth + 1)
        # Of a number, so that derivatives are right at z = 0 too.
        constant = _constant(exponent)
        if constant is None:
            raise ValueError(
                f"activation is {_check.brief(self.text)}, but the exponent at character {place.place + 1} must be a "
                "number: write exp(… * log(…)) for another one."
            )
        power = int(constant) if constant.is_integer() and abs(constant) < 64 else constant
        return lambda z: base(z) ** power

    def _atom(self, depth: int) -> Function:
        token = self.next
        if token.kind == "number" and math.isfinite(value := float(token.text)):
            self._at += 1
            return _Number(value)
        if token.kind == "name":
            self._at += 1
            return self._named(token, depth)
        if self._taken("("):
            found = self.sum(depth + 1)
            if not self._taken(")"):
                self.refuse("')'")
            return found
        self.refuse("a number, z, a function or '('")
        raise AssertionError

    def _named(self, token: _Token, depth: int) -> Function:
        if token.text == "z":
            return lambda z: z
        if token.text in _CONSTANTS:
            return _Number(_CONSTANTS[token.text])
        if token.text not in _FUNCTIONS:
            known = (*_FUNCTIONS, *_CONSTANTS)
            raise ValueError(
                f"activation is {_check.brief(self.text)}, but {token.text!r} at character {token.place + 1} must be z "
                f"or one of {', '.join(known)}{_check.closest(token.text, known)}."
            )
        count, function = _FUNCTIONS[token.text]
        if not self._taken("("):
            self.refuse(f"'(' after {token.text}")
        arguments = [self.sum(depth + 1)]
        while self._taken(","):
            arguments.append(self.sum(depth + 1))
        if len(arguments) != count:
            raise ValueError(
                f"activation is {_check.brief(self.text)}, but {token.text} takes {count} instead of {len(arguments)} "
                "arguments."
            )
        if not self._taken(")"):
            self.refuse("')'")
        return lambda z: function(*(argument(z) for argument in arguments))


class _Number(NamedTuple):
    value: float

    def __call__(self, z: Any) -> Any:
        return jnp.asarray(self.value, z.dtype)


def _both(operation: Callable[[Any, Any], Any], one: Function, two: Function) -> Function:
    return lambda z: operation(one(z), two(z))


def _constant(function: Function) -> float | None:
    # What an expression without z comes to; one with z is not the same at two places.
    with jax.ensure_compile_time_eval(), jax.enable_x64(True):
        one, two = (float(function(jnp.asarray(z))) for z in (0.3, 1.7))
    return one if one == two and math.isfinite(one) else None
