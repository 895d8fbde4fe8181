"""The page as a file."""

import os
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .. import _check
from .._files import writing
from .._public import public
from ._interrupts import ignore_interrupts
from ._page import Sections, Written, page, run

if TYPE_CHECKING:
    import neft


@public
def write(
    path: str | os.PathLike[str],
    net: "neft.Network | None" = None,
    train: "neft.data.Dataset | None" = None,
    test: "neft.data.Dataset | None" = None,
    *,
    quick: bool = False,
    seed: int = 0,
    command: str | None = None,
    sections: Sections | None = None,
    quiet: bool = False,
    workers: int = 1,
    loss: str = "square",
    batch: int | None = None,
    momentum: float = 0.0,
) -> Written:
    """The sections that now stand in the HTML file `path`, which is written whole or not at all.

    Args:
        path: the file; what it held before is replaced.
        net: the network that the page is about, of any blocks; by default that of `default`, with the inputs and
            outputs of the data. What does not apply to it says why.
        train: its training examples (see `examples`); by default those of Fashion-MNIST, pooled to the network's number
            of inputs.
        test: its test examples.
        quick: whether to take fewer draws and leave out what takes longest.
        seed: the seed of what is random.
        command: how the page says it was made.
        sections: (title, function, …) tuples, instead of those of `_sections.py`; each function takes a `Context` and
            returns HTML.
        quiet: whether to show no bars.
        workers: 2 for a second process that writes parts of the page. A script that asks for it must be importable, as
            multiprocessing wants it: with `if __name__ == "__main__":` around what it does.
        loss: "square" or "cross_entropy"; with another than the square loss, batches or momentum the page has a part
            about networks that are trained so.
        batch: how many training examples a step takes, all by default.
        momentum: of the steps, at least 0 and below 1.

    >>> import pathlib
    >>> target = pathlib.Path(tempfile.mkdtemp()) / "page.html"
    >>> write(target, sections=[("Greeting", lambda context: "<p>hello</p>")]).failed
    ()
    """
    start = time.perf_counter()
    seed = _check.integer("seed", seed, at_least=0, at_most=2**32 - 1)
    workers = _check.integer("workers", workers, at_least=1, at_most=2)
    loss = _check.one_of("loss", loss, ("square", "cross_entropy"))
    batch = None if batch is None else _check.integer("batch", batch, at_least=1)
    momentum = _check.real("momentum", momentum, at_least=0.0)
    if momentum >= 1:
        raise ValueError(f"momentum is {momentum:g}, but must be below 1.")
    if sections is not None and not all(_is_section(section) for section in sections):
        raise ValueError(f"sections is {_check.brief(sections)}, but must hold tuples of a title and functions.")
    target = Path(path)
    _refuse_unwritable(target)
    subject, heading, lead = None, "neft", ""
    if sections is None or net is not None or train is not None:
        from ._examples import examples
        from ._subject import Recipe, Subject  # with it comes JAX

        if train is None:
            train, test = examples(inputs=None if net is None else net.inputs)
        if net is None:
            from ._default import default

            net = default(train.features, train.classes)
        from ..network.engine import plain

        chain = plain(net)
        recipe = Recipe(loss=loss, batch=batch, momentum=momentum)
        subject = Subject(net=net if chain is None else chain, train=train, test=test, seed=seed, recipe=recipe)
        heading, lead = subject.title, subject.lead
    if sections is None:
        from ._sections import SECTIONS as sections
    command = command or f"neft report{' --quick' if quick else ''} --seed {seed}"
    done = run(sections, seed=seed, command=command, quick=quick, subject=subject, quiet=quiet, workers=workers)
    # Ctrl-C in the milliseconds of writing comes too late to stop anything, and could leave a temporary file.
    with ignore_interrupts(), writing(target) as file:
        file.write(page(done, heading, lead))
    return Written(sections=done, seconds=time.perf_counter() - start)


def _is_section(section: Any) -> bool:
    return (
        isinstance(section, Sequence)
        and len(section) > 1
        and isinstance(section[0], str)
        and all(map(callable, section[1:]))
    )


def _refuse_unwritable(target: Path) -> None:
    # Known before minutes of work; the file that tries it has no name, so nothing is left whatever happens.
    try:
        if target.is_dir():
            raise IsADirectoryError(21, "it is a folder")
        with tempfile.TemporaryFile(dir=target.parent):
            pass
    except OSError as error:
        raise ValueError(f"cannot write {str(target)!r}: {error.strerror or error}.") from None
