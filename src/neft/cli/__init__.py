"""The command line. Each command parses, calls one public function and prints what came back.

Nothing here imports NumPy, JAX or matplotlib before a command runs, so that `neft --help` answers at once.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ._commands import app as app


def main() -> None:
    """Entry point of the command `neft`."""
    from ._interrupt import until_interrupted

    until_interrupted(_run)


def _run() -> None:
    from ._commands import app

    app()


def __getattr__(name: str) -> Any:
    # Loaded when it is used: a Ctrl-C before `main` would be a traceback.
    if name == "app":
        from ._commands import app

        return app
    raise AttributeError(f"module 'neft.cli' has no attribute {name!r}")
