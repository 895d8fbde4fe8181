"""Runs the benchmarks and prints the ratios: `python benchmarks/run.py [NAME …]`, all of them without a name.

A ratio of times is the median over turns of neft and its peer, with quartiles in brackets; the lower one must keep the
promise.
"""

import importlib
import os
import sys
from pathlib import Path

from rich.console import Console
from rich.table import Table

# CPU seconds are compared: threads of BLAS that wait for each other would count as work. Before NumPy is imported.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

HERE = Path(__file__).parent
NAMES = sorted(path.stem for path in HERE.glob("*.py") if path.stem not in ("run", "measure"))


def main(chosen: list[str]) -> int:
    """Prints a table; 0 if every promise is kept, 1 if not, 2 for an unknown name."""
    unknown = [name for name in chosen if name not in NAMES]
    if unknown:
        print(f"benchmark is {unknown[0]!r}, but must be one of {', '.join(NAMES)}.", file=sys.stderr)
        return 2
    sys.path.insert(0, str(HERE))
    table = Table("benchmark", "peer", "neft", "peer's", "ratio", "promised", "")
    kept = True
    for name in chosen or NAMES:
        print(f"running {name} …", file=sys.stderr)
        for ratio in importlib.import_module(name).run():
            kept &= ratio.holds
            row = (ratio.what, ratio.peer, ratio.ours, ratio.theirs, str(ratio), f"≥ {ratio.promised:g}")
            table.add_row(*row, "kept" if ratio.holds else "MISSED")
    Console(width=None if sys.stdout.isatty() else 160).print(table)
    return 0 if kept else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
