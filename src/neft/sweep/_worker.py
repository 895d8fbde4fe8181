"""A process of its own that works on a sweep: `python -m neft.sweep._worker FOLDER MODULE`."""

import importlib
import os
import sys
import threading


def _end_with_parent() -> None:
    sys.stdin.buffer.read()
    os._exit(1)


def main() -> int:
    """Work until nothing is left; the last line on stderr says why, if it could not."""
    folder, module = sys.argv[1:]
    threading.Thread(target=_end_with_parent, daemon=True).start()
    importlib.import_module(module)
    from ._folder import Folder
    from ._run import here

    try:
        here(Folder.open(folder))
    except ValueError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    code = main()
    sys.stderr.flush()
    # The watching thread still reads standard input, which would hold the interpreter's end up.
    os._exit(code)
