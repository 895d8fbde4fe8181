"""What claims were called in older commands and files: a number stood for the source, as in "004-recursions"."""

from collections.abc import Mapping
from typing import Any

_SOURCES = {
    "000": ("action-a", "action note A"),
    "001": ("action-b", "action note B"),
    "002": ("action-c", "action note C"),
    "003": ("sun-nielsen", "Sun, Nielsen 2017"),
    "004": ("lecture", "lecture"),
}


def current_id(id: str) -> str:
    """The id of today for one of before; any other comes back as it is.

    >>> current_id("004-recursions"), current_id("lecture-recursions")
    ('lecture-recursions', 'lecture-recursions')
    """
    number, _, rest = id.partition("-")
    return f"{_SOURCES[number][0]}-{rest}" if number in _SOURCES and rest else id


def current_outcome(record: Mapping[str, Any]) -> dict[str, Any]:
    """A saved outcome with the fields and names of today; the source was the field `seed`."""
    if "seed" not in record:
        return dict(record)
    number = record["seed"]
    source = _SOURCES[number][1] if number in _SOURCES else number
    rest = {name: value for name, value in record.items() if name != "seed"}
    return {**rest, "id": current_id(str(record.get("id"))), "source": source}
