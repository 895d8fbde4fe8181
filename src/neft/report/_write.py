"""The page as a file."""

import os
import time
from collections.abc import Sequence

from .. import _check
from .._files import writing
from ._page import Writer, Written, page, run


def write(
    path: str | os.PathLike[str],
    *,
    seed: int = 0,
    command: str | None = None,
    sections: Sequence[tuple[str, Writer]] | None = None,
) -> Written:
    """The sections that now stand in the HTML file `path`, which is written whole or not at all.

    Args:
        path: the file; what it held before is replaced.
        seed: the seed of what is random.
        command: how the page says it was made.
        sections: (title, function) pairs, instead of those of `_sections.py`; each function takes a `Context` and
            returns HTML.

    >>> import tempfile, pathlib
    >>> target = pathlib.Path(tempfile.mkdtemp()) / "page.html"
    >>> write(target, sections=[("Greeting", lambda context: "<p>hello</p>")]).failed
    ()
    """
    start = time.perf_counter()
    if sections is None:
        from ._sections import SECTIONS as sections  # with them come JAX and matplotlib
    seed = _check.integer("seed", seed, at_least=0)
    # The file is opened first, so that a folder that cannot be written to is known before the work.
    with writing(path) as file:
        done = run(sections, seed=seed, command=command or f"neft report --seed {seed}")
        file.write(page(done))
    return Written(sections=done, seconds=time.perf_counter() - start)
