"""What every benchmark shares: CPU seconds, and a ratio with the figure it was promised to reach."""

import dataclasses
import time
from collections.abc import Callable
from typing import Any


@dataclasses.dataclass(frozen=True)
class Ratio:
    """A measured ratio: how many times better neft is than the named peer, and what was promised."""

    what: str
    peer: str
    ours: str
    theirs: str
    ratio: float
    promised: float

    @property
    def holds(self) -> bool:
        """Whether the promise is kept."""
        return self.ratio >= self.promised


def cpu_seconds(call: Callable[[], Any], repeat: int = 5) -> float:
    """The least CPU time of several calls, after one to compile and warm up."""
    call()
    times = []
    for _ in range(repeat):
        start = time.process_time()
        call()
        times.append(time.process_time() - start)
    return min(times)
