"""The examples of the documentation: run page by page, and the outputs that a page shows made again.

A ```python block runs in the namespace of its page; a ```text block right after it is what it prints. In a ```console
block each line that starts with "$ neft" is run, and the lines up to the next one are what it prints. All examples of a
page share one empty folder. `.venv/bin/python tools/run_pages.py docs/width.md …` writes outputs into the pages, and
the pictures that they show into docs/images.
"""

import contextlib
import io
import os
import re
import shlex
import shutil
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

DOCS = Path(__file__).parents[1] / "docs"

_BLOCK = re.compile(
    r"^```python\n(?P<code>.*?)^```\n(?:\n```text\n(?P<output>.*?)^```\n)?|^```console\n(?P<console>.*?)^```\n",
    flags=re.DOTALL | re.MULTILINE,
)
_NUMBER = re.compile(r"[-+]?\d[\d,]*\.?\d*(?:e[-+]?\d+)?|[-+]?\.\d+")
_PICTURE = re.compile(r"!\[.*?\]\(\S*?images/(\S+?\.svg)\)", flags=re.DOTALL)


@dataclass(frozen=True)
class Example:
    """A piece of Python, or a command line; `shown` is the output on the page (None: none is shown)."""

    source: str
    shown: str | None
    is_command: bool
    span: tuple[int, int]

    def run(self, namespace: dict[str, Any]) -> str:
        """What it prints."""
        if self.is_command:
            return _command(self.source)
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(compile(self.source, "example", "exec"), namespace)
        return printed.getvalue()


def examples(text: str) -> Iterator[Example]:
    """The examples of a page, with the place of each one's output."""
    for block in _BLOCK.finditer(text):
        if block["code"] is not None:
            yield Example(block["code"], block["output"], False, block.span("output"))
            continue
        for part in re.finditer(r"^\$ (neft .*)\n((?:(?!\$ ).*\n)*)", block["console"], flags=re.MULTILINE):
            start = block.start("console")
            yield Example(part[1], part[2], True, (start + part.start(2), start + part.end(2)))


def pictures(text: str) -> tuple[str, ...]:
    """The names of the vector pictures that a page shows."""
    return tuple(_PICTURE.findall(text))


def same(shown: str, printed: str, *, exactly: bool = False) -> bool:
    """Whether two outputs have the same words and nearly the same numbers; … stands for any one word.

    Fixed keys give the same draws everywhere, but sums are rounded differently from machine to machine.
    """
    ours, theirs = shown.split(), printed.split()
    near = str.__eq__ if exactly else _near
    return len(ours) == len(theirs) and all(a == "…" or near(a, b) for a, b in zip(ours, theirs))


def _near(a: str, b: str) -> bool:
    """Whether two words differ only by numbers within 2 % or one unit of the last digit after the point."""
    if _NUMBER.sub("#", a) != _NUMBER.sub("#", b):
        return False
    pairs = zip(_NUMBER.findall(a), _NUMBER.findall(b))
    return all(abs(_value(x) - _value(y)) <= 0.02 * abs(_value(x)) + _last_digit(x) + 1e-9 for x, y in pairs)


def _value(number: str) -> float:
    return float(number.replace(",", ""))


def _last_digit(number: str) -> float:
    digits, _, exponent = number.partition("e")
    decimals = len(digits.partition(".")[2])
    return 10.0 ** (int(exponent or 0) - decimals) if decimals else 0.0


def _command(line: str) -> str:
    from typer.testing import CliRunner

    from neft.cli import app

    found = CliRunner().invoke(app, shlex.split(line)[1:], env={"COLUMNS": "100", "TERM": "dumb"})
    if found.exit_code:
        raise RuntimeError(f"{line} left with exit code {found.exit_code}: {found.output}")
    return found.stdout


@contextlib.contextmanager
def folder() -> Iterator[Path]:
    """An empty folder to run a page in."""
    before = Path.cwd()
    with tempfile.TemporaryDirectory() as name:
        os.chdir(name)
        try:
            yield Path(name)
        finally:
            os.chdir(before)


def write(path: Path) -> None:
    """Run a page and put what its examples print and draw into it."""
    path = path.resolve()
    text, namespace, fresh = path.read_text(), {}, []
    with folder() as here:
        for example in examples(text):
            printed = example.run(namespace)
            if example.shown is not None and not same(example.shown, printed, exactly=True):
                fresh.append((example.span, "\n".join(line.rstrip() for line in printed.splitlines()) + "\n"))
        for name in pictures(text):
            if (here / name).exists():
                shutil.copy(here / name, DOCS / "images" / name)
    for (start, end), printed in reversed(fresh):
        text = text[:start] + printed + text[end:]
    path.write_text(text)


if __name__ == "__main__":
    for argument in sys.argv[1:]:
        write(Path(argument))
