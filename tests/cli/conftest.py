import os
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from neft.cli import app


@pytest.fixture
def neft():
    """Runs a command line in this process and returns its exit code and streams."""
    return lambda *args: CliRunner().invoke(app, [str(arg) for arg in args])


@pytest.fixture
def process():
    """Runs a command line as a program of its own."""

    def run(*args, **environment):
        program = Path(sys.executable).with_name("neft")
        return subprocess.run(
            [program, *map(str, args)], capture_output=True, text=True, timeout=120, env={**os.environ, **environment}
        )

    return run
