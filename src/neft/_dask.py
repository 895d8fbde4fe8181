"""The one way to a dask.distributed scheduler: a connection, and a sentence where there is none."""

import contextlib
import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from . import _check

TLS = ("tls_ca_file", "tls_client_cert", "tls_client_key")


@contextlib.contextmanager
def connected(address: str, tls: dict[str, str], timeout: float) -> Iterator[Any]:
    """A client of the scheduler at an address; `tls` are the arguments of `distributed.Security`, or none."""
    try:
        from distributed import Client, Security
    except ImportError:
        raise ValueError(
            "a scheduler needs dask.distributed, which is not installed: pip install 'dask[distributed]' brings it, "
            "as does neft's extra 'cluster'."
        ) from None
    _check_tls(tls)
    security = Security(**tls) if tls else None
    # Dask says much about a connection that fails; one sentence is enough.
    with _quiet_logs():
        try:
            client = Client(address, security=security, timeout=timeout, set_as_default=False)
        except (OSError, ValueError, TypeError) as error:
            reason = " ".join(str(error).split()).partition(". ")[0].rstrip(".") or type(error).__name__
            raise ValueError(f"no scheduler answers at {address!r}: {reason}.") from None
        try:
            yield client
        finally:
            client.close(timeout=timeout)


def _check_tls(tls: dict[str, str]) -> None:
    for name in tls:
        _check.one_of("a key of tls", name, TLS)
    if tls and len(tls) < len(TLS):
        missing = next(name for name in TLS if name not in tls)
        raise ValueError(f"tls lacks {missing}, but needs {', '.join(TLS)}.")
    for name, file in tls.items():
        if not Path(file).is_file():
            raise ValueError(f"{name} is {str(file)!r}, but no such file exists.")


@contextlib.contextmanager
def _quiet_logs() -> Iterator[None]:
    # Dask gives several of its loggers levels of their own.
    names = [name for name in logging.root.manager.loggerDict if name.partition(".")[0] == "distributed"]
    before = {name: logging.getLogger(name).level for name in names}
    for name in names:
        logging.getLogger(name).setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        for name, level in before.items():
            logging.getLogger(name).setLevel(level)
