"""Activations written as expressions of z, such as "z*sigmoid(1.7*z)": a small grammar, parsed and never evaluated.

sum     = product, {("+" | "-"), product}
product = signed, {("*" | "/"), signed}
signed  = ["+" | "-"], signed | power
power   = atom, [("^" | "**"), signed]
atom    = number | "z" | "pi" | "e" | function, "(", sum, {",", sum}, ")" | "(", sum, ")"
"""

import dataclasses
import functools
import math
import re
from collections.abc import Callable, Mapping
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
FUNCTIONS = tuple(_FUNCTIONS)
"""Names of the functions that expressions may hold."""

_OPERATORS: dict[str, Callable[..., Any]] = {
    "+": jnp.add,
    "-": jnp.subtract,
    "*": jnp.multiply,
    "/": jnp.divide,
}
_BINDS = {"+": 0, "-": 0, "*": 1, "/": 1, "negative": 2, "^": 3}
_ATOM = 4


@dataclasses.dataclass(frozen=True, eq=False)
class Term:
    """An expression: "z", a "number", or a sign ("negative"), a power ("^" to its number), an operator, a function."""

    kind: str
    of: "tuple[Term, ...]" = ()
    number: float = 0.0

    def __call__(self, z: Any) -> Any:
        if self.kind == "z":
            return z
        if self.kind == "number":
            return jnp.asarray(self.number, z.dtype)
        found = [term(z) for term in self.of]
        if self.kind == "negative":
            return -found[0]
        if self.kind == "^":
            return found[0] ** _whole(self.number)
        return (_OPERATORS.get(self.kind) or _FUNCTIONS[self.kind][1])(*found)

    @property
    def varies(self) -> bool:
        """Whether z is in it."""
        return self.kind == "z" or any(term.varies for term in self.of)

    @property
    def constant(self) -> float | None:
        """What it comes to without z; None with it."""
        if self.varies:
            return None
        with jax.ensure_compile_time_eval(), jax.enable_x64(True):
            return float(self(jnp.asarray(0.0)))


def _whole(power: float) -> float:
    # A whole number is a product, whose derivatives are right at 0 too.
    return int(power) if power.is_integer() and abs(power) < 64 else power


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
    tokens, term = _parsed(text)
    return "".join("^" if token.text == "**" else token.text for token in tokens), term


def _parsed(text: str) -> "tuple[list[_Token], Term]":
    parser = _Parser(text)
    found = parser.sum(0)
    if parser.next.kind != "end":
        parser.refuse("an operator or the end of the expression")
    return parser.tokens, found


def written(text: str, functions: Mapping[str, str], bounded: Mapping[str, str] | None = None) -> str:
    """An expression as a program in Python, whose variable is z.

    Args:
        text: the expression.
        functions: how each of `FUNCTIONS` is written, with braces where its arguments stand.
        bounded: the same of "max" and "min" where one of the two is a number, which stands second.

    What does not depend on z is a number, so a function is never one of numbers alone.

    >>> names = {name: f"{name}({{}})" for name in FUNCTIONS} | {"max": "maximum({}, {})"}
    >>> written("z * tanh(sqrt(4)*(z - 1)) - max(0.5, z^2)", names, {"max": "clip({}, min={})"})
    'z * tanh(2 * (z - 1)) - clip(z**2, min=0.5)'
    """
    return _text(_parsed(text)[1], functions, bounded or {})[0]


def expression(term: Term) -> str:
    """The expression that `parsed` reads a term from, as it is kept.

    >>> expression(Term("*", (Term("z"), Term("+", (Term("z"), Term("number", number=0.5))))))
    'z*(z+0.5)'
    """
    functions = {name: f"{name}({', '.join(['{}'] * count)})" for name, (count, _) in _FUNCTIONS.items()}
    return parsed(_text(term, functions, {})[0])[0]


def _text(term: Term, functions: Mapping[str, str], bounded: Mapping[str, str]) -> tuple[str, int]:
    """A term, and how closely what is outside of it binds."""
    if term.kind == "z":
        return "z", _ATOM
    if (number := term.constant) is not None:
        if not math.isfinite(number):
            return f'float("{number}")', _ATOM
        return _shortest(number), _ATOM if number >= 0 else _BINDS["negative"]
    if term.kind not in _BINDS:
        inside = [_text(part, functions, bounded)[0] for part in sorted(term.of, key=lambda part: not part.varies)]
        table = bounded if term.kind in bounded and not all(part.varies for part in term.of) else functions
        return table[term.kind].format(*inside), _ATOM
    binds = _BINDS[term.kind]
    parts = [_text(part, functions, bounded) for part in term.of]
    # On the right of an operator, and as the base of a power, what binds as closely needs brackets too.
    least = [binds + (i > 0 or term.kind == "^") for i in range(len(parts))]
    texts = [text if own >= needed else f"({text})" for (text, own), needed in zip(parts, least)]
    if term.kind == "negative":
        return f"-{texts[0]}", binds
    if term.kind == "^":
        return f"{texts[0]}**{_shortest(term.number)}", binds
    return f"{texts[0]} {term.kind} {texts[1]}", binds


def _shortest(number: float) -> str:
    return f"{number:g}" if float(f"{number:g}") == number else repr(number)


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

    def sum(self, depth: int) -> Term:
        found = self._product(depth)
        while sign := self._taken("+", "-"):
            found = Term(sign, (found, self._product(depth)))
        return found

    def _product(self, depth: int) -> Term:
        found = self._signed(depth)
        while sign := self._taken("*", "/"):
            found = Term(sign, (found, self._signed(depth)))
        return found

    def _signed(self, depth: int) -> Term:
        if depth > DEEPEST:
            raise ValueError(
                f"activation is {_check.brief(self.text)}, but brackets and signs may stand at most {DEEPEST} deep "
                "inside each other."
            )
        if sign := self._taken("+", "-"):
            found = self._signed(depth + 1)
            return found if sign == "+" else Term("negative", (found,))
        return self._power(depth)

    def _power(self, depth: int) -> Term:
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
        return Term("^", (base,), constant)

    def _atom(self, depth: int) -> Term:
        token = self.next
        if token.kind == "number" and math.isfinite(value := float(token.text)):
            self._at += 1
            return Term("number", number=value)
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

    def _named(self, token: _Token, depth: int) -> Term:
        if token.text == "z":
            return Term("z")
        if token.text in _CONSTANTS:
            return Term("number", number=_CONSTANTS[token.text])
        if token.text not in _FUNCTIONS:
            known = (*_FUNCTIONS, *_CONSTANTS)
            raise ValueError(
                f"activation is {_check.brief(self.text)}, but {token.text!r} at character {token.place + 1} must be z "
                f"or one of {', '.join(known)}{_check.closest(token.text, known)}."
            )
        count, _ = _FUNCTIONS[token.text]
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
        return Term(token.text, tuple(arguments))


def _constant(function: Function) -> float | None:
    # What an expression without z comes to; one with z is not the same at two places.
    with jax.ensure_compile_time_eval(), jax.enable_x64(True):
        one, two = (float(function(jnp.asarray(z))) for z in (0.3, 1.7))
    return one if one == two and math.isfinite(one) else None
