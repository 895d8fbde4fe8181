"""How a peer answers: `PYTHON SCRIPT JOB.json DATA.npz ANSWER.npz`, then CPU seconds for each line it reads.

`measure.peer` is at the other end.
"""

import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np


def serve(solve: Callable[[dict, dict], tuple[dict, Callable[[], Any]]]) -> None:
    """Write what `solve(job, data)` found, and repeat the call it returns for as long as turns are asked for."""
    found, again = solve(json.loads(Path(sys.argv[1]).read_text()), dict(np.load(sys.argv[2])))
    np.savez(sys.argv[3], **found)
    print("ready", flush=True)
    for _ in sys.stdin:
        start = time.process_time()
        again()
        print(time.process_time() - start, flush=True)
