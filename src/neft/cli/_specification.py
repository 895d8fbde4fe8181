"""Networks in files: the record that `Network.to_dict` gives, as TOML or JSON."""

import json
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .. import Network

SUFFIXES = (".toml", ".json")


def read(path: Path) -> "Network":
    """The network of a file; what is wrong with it is told in one sentence."""
    from .. import MLP, Network

    if path.suffix not in SUFFIXES:
        raise ValueError(f"--network is {str(path)!r}, but must end in {' or '.join(SUFFIXES)}.")
    try:
        text = path.read_text(encoding="utf-8")
        record = tomllib.loads(text) if path.suffix == ".toml" else json.loads(text)
    except OSError as error:
        raise ValueError(f"--network is {str(path)!r}, which cannot be read: {error.strerror or error}.") from None
    except ValueError as error:
        reason = str(error).splitlines()[0].rstrip(".")
        raise ValueError(f"--network is {str(path)!r}, which is no {path.suffix[1:].upper()}: {reason}.") from None
    if not isinstance(record, Mapping):
        raise ValueError(f"--network is {str(path)!r}, which holds no record of a network.")
    return (MLP if record.get("type") == "MLP" else Network).from_dict(record)


def text_of(net: "Network") -> str:
    """The network as TOML, a line for each block.

    >>> from neft import MLP
    >>> print(text_of(MLP((2, 3, 1), "relu")).splitlines()[1])
    widths = [2, 3, 1]
    """
    lines = []
    for name, value in net.to_dict().items():
        if name == "blocks":
            inner = "".join(f"    {_inline(block)},\n" for block in value)
            lines.append(f"blocks = [\n{inner}]")
        else:
            lines.append(f"{name} = {_inline(value)}")
    return "\n".join(lines) + "\n"


def _inline(value: Any) -> str:
    if isinstance(value, Mapping):
        return "{ " + ", ".join(f"{k} = {_inline(v)}" for k, v in value.items() if v is not None) + " }"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(_inline, value)) + "]"
    if isinstance(value, bool):
        return str(value).lower()
    return json.dumps(value) if isinstance(value, str) else repr(value)
