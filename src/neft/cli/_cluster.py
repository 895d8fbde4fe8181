"""Options of commands that can do their work on a dask.distributed cluster."""

from typing import Any

import typer


def cluster(name: str, help: str) -> Any:
    """An option about the cluster."""
    return typer.Option(name, help=help, rich_help_panel="Cluster", show_default=False)


def certificates(ca_file: str | None, cert: str | None, key: str | None) -> dict[str, str]:
    """The `tls` that the functions take."""
    given = {"tls_ca_file": ca_file, "tls_client_cert": cert, "tls_client_key": key}
    return {name: value for name, value in given.items() if value is not None}
