"""The program: what all commands share, and the one place where errors become sentences and exit codes."""

import contextlib
import os
import sys
import warnings
from typing import Annotated, Any, NoReturn

import typer
from typer.core import TyperGroup

from .._version import __version__
from ._interrupt import INTERRUPTED
from ._streams import open_streams, reason

OK, FAILS, BAD_INPUT = 0, 1, 2
"""Exit codes: it ran; what it checked does not hold; it could not run on this input."""


class Program(TyperGroup):
    """The group of commands, with errors told in one sentence on stderr instead of a traceback."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Without any arguments, show the help."""
        return super().parse_args(ctx, args or ["--help"])

    def main(self, *args: Any, standalone_mode: bool = True, **extra: Any) -> Any:
        """Run the command line and leave with its exit code."""
        open_streams()
        try:
            with warnings.catch_warnings():
                warnings.showwarning = _warn
                code = super().main(*args, standalone_mode=False, **extra)
            sys.stdout.flush()
        except BrokenPipeError:
            _leave_quietly()
        except OSError as error:
            if os.environ.get("NEFT_DEBUG"):
                raise
            _leave_without_output(error)
        except MemoryError as error:
            _leave(f"there is not enough memory: {reason(error)}.", BAD_INPUT)
        except typer.Abort:
            raise KeyboardInterrupt from None
        except ValueError as error:
            if os.environ.get("NEFT_DEBUG"):
                raise
            _leave(_sentence(error), BAD_INPUT)
        except Exception as error:
            # Usage errors: which package their class lives in depends on typer's version.
            if not hasattr(error, "format_message"):
                if os.environ.get("NEFT_DEBUG") or (sentence := _of_jax(error)) is None:
                    raise
                _leave(sentence, BAD_INPUT)
            _leave(error.format_message(), BAD_INPUT)  # type: ignore[attr-defined]
        if code == INTERRUPTED:
            raise KeyboardInterrupt  # which typer made an exit code of
        if not standalone_mode:
            return code
        sys.exit(code if isinstance(code, int) else OK)


app = typer.Typer(
    cls=Program,
    name="neft",
    help="Perturbation theory for neural networks: finite width, expanded losses, relative Fisher metrics.",
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _version(wanted: bool) -> bool:
    if wanted:
        typer.echo(f"neft {__version__}")
        raise typer.Exit
    return wanted


@app.callback()
def _neft(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    pass


def _say(sentence: str) -> None:
    with contextlib.suppress(OSError):  # nobody may listen
        print(f"neft: {' '.join(sentence.split())}", file=sys.stderr, flush=True)


def _warn(message: Warning | str, *place: Any, **more: Any) -> None:
    _say(str(message))


def _leave(sentence: str, code: int) -> NoReturn:
    _say(sentence)
    sys.exit(code)


def _leave_quietly() -> NoReturn:
    _forget_output()
    sys.exit(FAILS)


def _leave_without_output(error: OSError) -> NoReturn:
    if error.filename is not None:
        _leave(f"cannot use {str(error.filename)!r}: {error.strerror}.", BAD_INPUT)
    _forget_output()
    _leave(f"cannot write to the standard output: {error.strerror or error}.", BAD_INPUT)


def _forget_output() -> None:
    # Python flushes stdout once more at exit, which must not meet the closed pipe or the full disk again.
    with contextlib.suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    sys.stdout = sys.__stdout__ = None  # type: ignore[assignment]


def _sentence(error: ValueError) -> str:
    # What neft says is a sentence; what another library says is told as what it is.
    text = str(error)
    if text.endswith((".", "?", "!", ")")):
        return text
    return f"this input cannot be worked with ({type(error).__name__}: {reason(error)}); NEFT_DEBUG=1 shows where."


def _jax_starts() -> bool:
    import jax

    try:
        return bool(jax.devices())
    except Exception:
        return False


def _of_jax(error: Exception) -> str | None:
    # What the machine lacks. Without the platform it was asked for, JAX fails in many ways.
    asked = os.environ.get("JAX_PLATFORMS")
    if asked and not _jax_starts():
        return f"JAX does not start with JAX_PLATFORMS={asked!r}: unset it, or set it to cpu."
    if "RESOURCE_EXHAUSTED" in str(error):
        return "there is not enough memory for this: take smaller widths, fewer inputs or fewer draws."
    return None
