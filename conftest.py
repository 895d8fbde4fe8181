"""For all tests: compiled programs are let go before a process holds more of them than the system allows."""

import gc
from pathlib import Path

import jax
import pytest

_MAPS = Path("/proc/self/maps")
_MOST = 25_000  # memory maps; Linux allows 65,530 by default, and XLA's compiler crashes there


def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> None:
    """Between files, forget all compiled programs if they are many: each holds some memory maps while JAX caches it."""
    if nextitem is None or nextitem.path == item.path or not _MAPS.exists():
        return
    with _MAPS.open("rb") as lines:
        held = sum(1 for _ in lines)
    if held > _MOST:
        jax.clear_caches()
        gc.collect()
