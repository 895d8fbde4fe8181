"""What a sweep varies: a TOML file, and the configurations it stands for."""

import hashlib
import inspect
import itertools
import json
import math
import os
import re
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from .. import _check
from .._public import public
from .._result import Result, result
from ._registry import known

_TABLES = ("kind", "fixed", "grid", "cases")
_LONGEST = 80
_FOLDER = Path(__file__).parent / "specs"
SPECS = tuple(sorted(path.stem for path in _FOLDER.glob("*.toml")))
"""Names of the specifications inside the package: the experiment of Sun, Nielsen 2017 at two sizes."""

# A name of before still finds what it named.
_OLDER = {"seed003": "sun-nielsen"}


class Configuration(NamedTuple):
    """One point of a sweep: a name that is also a file's, and all keywords of its work."""

    name: str
    values: dict[str, Any]


@result
class Specification(Result):
    """The kind of work, what is the same in all configurations, and what varies.

    Attributes:
        kind: of work: "train", "check", "fit", "action", or one's own (see `neft.sweep.kind`).
        fixed: keywords and their values.
        grid: keywords and the list of values of each; every combination is run.
        cases: further grids, of which each combination of `grid` is run with one after the other (an optimizer with
            its own learning rates, say). A case may set what is fixed, for itself.

    >>> spec = Specification(kind="check", fixed={"draws": 64}, grid={"width": [8, 16], "depth": [2]}, cases=())
    >>> [configuration.values["width"] for configuration in spec.configurations()]
    [8, 16]
    """

    kind: str
    fixed: dict[str, Any]
    grid: dict[str, Any]
    cases: tuple[dict[str, Any], ...] = ()

    @classmethod
    @public
    def read(cls, path: str | os.PathLike[str]) -> "Specification":
        """The specification in a TOML file, complete with defaults, or a ValueError of one sentence.

        "quick" and "sun-nielsen" name two that come with neft.

        >>> Specification.read("quick").kind
        'train'
        """
        name = _OLDER.get(str(path), path)
        source = _FOLDER / f"{name}.toml" if name in SPECS else Path(path)
        try:
            record = tomllib.loads(source.read_text(encoding="utf-8"))
        except OSError as error:
            raise ValueError(f"cannot read {str(source)!r}: {error.strerror or error}.") from None
        except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
            raise ValueError(f"{str(source)!r} is not a TOML file: {str(error).rstrip('.')}.") from None
        for name in record:
            _check.one_of(f"a key of {source.name}", name, _TABLES)
        if "kind" not in record:
            raise ValueError(f"kind is missing in {str(source)!r}.")
        tables = {name: record.get(name, {}) for name in ("fixed", "grid")}
        cases = record.get("cases", [])
        if not isinstance(cases, list) or not all(isinstance(case, dict) for case in cases):
            raise ValueError(f"cases in {str(source)!r} must be tables, each under [[cases]].")
        for name, table in tables.items():
            if not isinstance(table, dict):
                raise ValueError(f"{name} in {str(source)!r} must be a table, under [{name}].")
        return cls(kind=record["kind"], **tables, cases=tuple(cases)).complete()

    def complete(self) -> "Specification":
        """The same with the defaults of its kind written out, after everything was checked."""
        keywords = known(self.kind).keywords
        varied = set(self.grid) | {name for case in self.cases for name in case}
        for table, names in (("fixed", self.fixed), ("grid", self.grid), *(("cases", case) for case in self.cases)):
            for name in names:
                _check.one_of(f"a key of {table}", name, tuple(keywords))
        for name in self.grid:
            for table, names in (("fixed", self.fixed), *(("cases", case) for case in self.cases)):
                if name in names:
                    raise ValueError(f"{name} stands in grid and in {table}, but must stand in one of them.")
        for table, grid in (("grid", self.grid), *(("cases", case) for case in self.cases)):
            for name, values in grid.items():
                if not isinstance(values, list):
                    raise ValueError(f"{name} in {table} is {_check.brief(values)}, but must be a list of values.")
                if not values:
                    raise ValueError(f"{name} in {table} is an empty list, but must hold at least one value.")
        defaults = {n: v for n, v in keywords.items() if n not in varied and v is not inspect.Parameter.empty}
        # A keyword that only some cases set has its default in the others.
        everywhere = set(self.grid) | set.intersection(*map(set, self.cases)) if self.cases else set(self.grid)
        for name in varied - everywhere:
            if keywords[name] is not inspect.Parameter.empty:
                defaults[name] = keywords[name]
        fixed = _plain({**defaults, **self.fixed})
        whole = Specification(kind=self.kind, fixed=fixed, grid=_plain(self.grid), cases=tuple(map(_plain, self.cases)))
        check = known(self.kind).check
        for configuration in whole.configurations():
            missing = sorted(set(keywords) - set(configuration.values))
            if missing:
                raise ValueError(f"{missing[0]} is not set, but the kind {self.kind!r} has no default for it.")
            if check is not None:
                check(configuration.values)
        return whole

    def configurations(self) -> tuple[Configuration, ...]:
        """All configurations, each once, in the order they are begun."""
        found = {}
        for shared in _combinations(self.grid):
            for case in self.cases or ({},):
                for own in _combinations(case):
                    values = {**self.fixed, **shared, **own}
                    name = self._name(values)
                    found[name] = Configuration(name, values)
        return tuple(found.values())

    @property
    def varied(self) -> tuple[str, ...]:
        """The keywords that a grid or a case names, in their order."""
        return tuple(dict.fromkeys([*self.grid, *(name for case in self.cases for name in case)]))

    def _name(self, values: Mapping[str, Any]) -> str:
        # For the eye what varies, for certainty a hash of everything.
        text = json.dumps({"kind": self.kind, **values}, sort_keys=True, allow_nan=False)
        digest = hashlib.sha256(text.encode()).hexdigest()[:12]
        words = [_word(name, values[name]) for name in self.varied if name in values]
        readable = re.sub(r"[^A-Za-z0-9._+-]+", "_", "-".join(filter(None, words)))[:_LONGEST].strip("-.")
        return f"{readable or self.kind}-{digest}"


def _combinations(grid: Mapping[str, list[Any]]) -> Iterator[dict[str, Any]]:
    for values in itertools.product(*grid.values()):
        yield dict(zip(grid, values, strict=True))


def _word(name: str, value: Any) -> str:
    if isinstance(value, bool):
        return name if value else ""
    if isinstance(value, list):
        return "x".join(map(str, value))
    return f"{value:g}" if isinstance(value, float) else str(value)


def _plain(value: Any, name: str = "a value") -> Any:
    # What JSON holds and gives back unchanged.
    if isinstance(value, Mapping):
        return {key: _plain(inner, key) for key, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(inner, name) for inner in value]
    if value is None or isinstance(value, (bool, int, str)) or (isinstance(value, float) and math.isfinite(value)):
        return value
    raise ValueError(
        f"{name} is {_check.brief(value)}, but must be a text, a finite number, true, false, or a list of these."
    )
