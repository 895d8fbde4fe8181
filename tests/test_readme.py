import re
import shlex
from pathlib import Path

import pytest
from typer.testing import CliRunner

ROOT = Path(__file__).parents[1]
TEXT = (ROOT / "README.md").read_text()


def test_the_python_of_the_readme_runs(capsys):
    first, second = re.findall(r"```python\n(.*?)```", TEXT, flags=re.DOTALL)
    exec(compile(first, "README.md", "exec"), {})
    spread, average = map(float, capsys.readouterr().out.split())
    assert 0 < spread < 10 and 0 < average < 1.5
    exec(compile(second, "README.md", "exec"), {})
    printed = capsys.readouterr().out
    assert printed.startswith("Draw the biases of gelu") and "import torch" in printed


@pytest.mark.parametrize("line", re.findall(r"^\.venv/bin/neft (.*)$", TEXT, flags=re.MULTILINE))
def test_the_commands_of_the_readme_run(line, tmp_path, monkeypatch):
    from neft.cli import app

    monkeypatch.chdir(tmp_path)
    found = CliRunner().invoke(app, shlex.split(line))
    assert found.exit_code == 0, found.output


def test_the_readme_shows_the_two_commands_and_a_picture_that_exists():
    assert "make report" in TEXT and "make test" in TEXT
    (picture,) = re.findall(r"!\[.*?\]\((.*?)\)", TEXT)
    assert (ROOT / picture).is_file()
