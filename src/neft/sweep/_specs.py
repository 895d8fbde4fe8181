"""The specifications that come with neft."""

import os
from pathlib import Path

from ._specification import Specification

_FOLDER = Path(__file__).parent / "specs"
SPECS = tuple(sorted(path.stem for path in _FOLDER.glob("*.toml")))
"""Names of the specifications inside the package: the seed's experiment at two sizes."""


def spec(source: str | os.PathLike[str]) -> Specification:
    """The specification of a name in `SPECS` or in a TOML file.

    >>> spec("quick").kind
    'train'
    """
    return Specification.read(_FOLDER / f"{source}.toml" if source in SPECS else source)
