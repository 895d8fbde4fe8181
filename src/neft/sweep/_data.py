"""The data of a configuration, loaded once per process."""

import functools
from collections.abc import Mapping
from typing import Any

from ..data import Dataset, load_splits


def sets(configuration: Mapping[str, Any]) -> tuple[Dataset, Dataset | None]:
    """Training and test split of the data that a configuration names; None for the second where there are no splits."""
    return _sets(configuration["data"], configuration.get("preprocess"), configuration.get("full"))


def checksum(configuration: Mapping[str, Any]) -> str | None:
    """SHA-256 of both splits, None for a configuration without data."""
    if "data" not in configuration:
        return None
    return _checksum(configuration["data"], configuration.get("preprocess"), configuration.get("full"))


@functools.lru_cache(maxsize=2)
def _sets(data: str, preprocess: str | None, full: bool | None) -> tuple[Dataset, Dataset | None]:
    return load_splits(data, preprocess=preprocess, full=full)


@functools.lru_cache(maxsize=64)
def _checksum(data: str, preprocess: str | None, full: bool | None) -> str:
    train, test = _sets(data, preprocess, full)
    return train.checksum if test is None else f"{train.checksum}+{test.checksum}"
