"""The specifications that come with neft."""

import os
from pathlib import Path

from ._specification import Specification

_FOLDER = Path(__file__).parent / "specs"
SPECS = tuple(sorted(path.stem for path in _FOLDER.glob("*.toml")))
"""Names of the specifications inside the package: the experiment of Sun, Nielsen 2017 at two sizes."""

# A name of before still finds what it named.
_OLDER = {"seed003": "sun-nielsen"}


def spec(source: str | os.PathLike[str]) -> Specification:
    """The specification in a TOML file, or one that comes with neft: "quick" or "sun-nielsen".

    >>> spec("quick").kind
    'train'
    """
    name = _OLDER.get(str(source), source)
    return Specification.read(_FOLDER / f"{name}.toml" if name in SPECS else source)
