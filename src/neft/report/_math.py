"""Formulas: a few marks of TeX to MathML, which browsers set without help."""

import html
import re

_TOKEN = re.compile(r"\\(?:frac|sqrt)|\d+(?:\.\d+)?|'[^']*'|\s+|.")


def math(formula: str, *, block: bool = False) -> str:
    r"""A formula as a MathML element.

    It knows `_`, `^`, `{…}`, `\frac{…}{…}`, `\sqrt{…}` and 'words' in quotes; Greek is written as it is.

    >>> math("K_1")
    '<math><mrow><msub><mi>K</mi><mn>1</mn></msub></mrow></math>'
    """
    tokens = [token for token in _TOKEN.findall(formula) if not token.isspace()]
    body = _row(tokens)
    if tokens:
        raise ValueError(f"formula is {formula!r}, but its braces do not match.")
    if not block:
        return f"<math>{body}</math>"
    # A wide formula scrolls on a narrow page, for which the keyboard must reach it.
    return (
        f'<div class="formula" role="group" tabindex="0" aria-label="Formula"><math display="block">{body}</math></div>'
    )


_PAIRS = {"(": ")", "⟨": "⟩", "[": "]"}


def _row(tokens: list[str], end: str = "}") -> str:
    return f"<mrow>{''.join(_parts(tokens, end))}</mrow>"


def _parts(tokens: list[str], end: str) -> list[str]:
    parts = []
    while tokens and tokens[0] != end:
        parts.append(_scripted(tokens))
    return parts


def _scripted(tokens: list[str]) -> str:
    base, marks = _atom(tokens), {}
    while tokens and tokens[0] in "_^":
        mark = tokens.pop(0)
        marks[mark] = _atom(tokens)
    scripts = "".join(marks[mark] for mark in "_^" if mark in marks)
    element = {"_": "msub", "^": "msup"}.get("".join(sorted(marks)), "msubsup")
    return f"<{element}>{base}{scripts}</{element}>" if marks else base


def _atom(tokens: list[str]) -> str:
    if not tokens or tokens[0] in ("}", "_", "^"):
        raise ValueError(f"a formula needs a term before {''.join(tokens)[:10]!r}.")
    token = tokens.pop(0)
    if token == "{":
        inside = _row(tokens)
        if not tokens:
            raise ValueError("a formula has an open brace without its end.")
        tokens.pop(0)
        return inside
    if token in _PAIRS and _PAIRS[token] in tokens:
        # A pair is one row, so that both are as tall as what they hold, and an index at the end belongs to all of it.
        inside = "".join(_parts(tokens, _PAIRS[token]))
        if not tokens:
            raise ValueError(f"a formula has an open {token} without its end.")
        return f"<mrow><mo>{token}</mo>{inside}<mo>{tokens.pop(0)}</mo></mrow>"
    if token == r"\frac":
        return f"<mfrac>{_atom(tokens)}{_atom(tokens)}</mfrac>"
    if token == r"\sqrt":
        return f"<msqrt>{_atom(tokens)}</msqrt>"
    if token[0] == "'":
        return f"<mtext>{html.escape(token[1:-1])}</mtext>"
    element = "mn" if token[0].isdigit() else "mi" if token.isalpha() else "mo"
    return f"<{element}>{html.escape(token.replace('-', '−'))}</{element}>"
