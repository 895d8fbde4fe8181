"""Standard output and error as they are: closed, full, or of a terminal that knows ASCII alone."""

import codecs
import errno
import io
import os
import sys
import unicodedata
from typing import Any

_PLAIN = {"–": "-", "—": "-", "±": "+-", "×": "x", "·": "*", "…": "...", "→": "->", "⟨": "<", "⟩": ">", "√": "sqrt"}
_PLAIN |= {"≤": "<=", "≥": ">=", "⊥": "perp", "∥": "par", "∇": "grad ", "∂": "d", "Σ": "sum ", "−": "-", "∞": "inf"}
_LETTER = "LETTER "


class _Closed(io.TextIOBase):
    # In place of a stream that the program was started without.

    def write(self, text: str, /) -> int:
        raise OSError(errno.EBADF, os.strerror(errno.EBADF))


def open_streams() -> None:
    """Let every character be written, in the letters that the terminal has, and say where there is no stream at all."""
    codecs.register_error("neft", _spelled)
    if sys.stdout is None:
        sys.stdout = _Closed()  # type: ignore[assignment]
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w", encoding="utf-8")  # noqa: PTH123, SIM115
    for stream in (sys.stdout, sys.stderr):
        # In the tests they are other objects, which write everything.
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="neft")


def spelled(text: str) -> str:
    """A character in ASCII: a letter by its name, a sign by what stands for it.

    >>> "".join(map(spelled, "σ"))
    'sigma'
    """
    return "".join(_spell(character) for character in text)


def _spelled(error: Any) -> tuple[str, int]:
    return spelled(error.object[error.start : error.end]), error.end


def _spell(character: str) -> str:
    if character in _PLAIN:
        return _PLAIN[character]
    simple = unicodedata.normalize("NFKD", character).encode("ascii", "ignore").decode()
    if simple:
        return simple
    name = unicodedata.name(character, "")
    if name.startswith("GREEK ") and _LETTER in name:
        letter = name.partition(_LETTER)[2].partition(" ")[0].lower()
        return letter.capitalize() if "CAPITAL" in name else letter
    if name.startswith("BOX DRAWINGS"):
        return "-" if "HORIZONTAL" in name else "|"
    return "?"


def reason(error: BaseException) -> str:
    """What an exception says, as a part of a sentence; without what `neft._check` would import."""
    return (str(error).strip() or type(error).__name__).splitlines()[0].rstrip(".")
