import re
import shlex
from pathlib import Path

import pytest
import run_pages
from typer.testing import CliRunner

ROOT = Path(__file__).parents[1]
TEXT = (ROOT / "README.md").read_text()
COMMANDS = [
    line.removeprefix("neft ")
    for block in re.findall(r"^```console\n(.*?)^```", TEXT, flags=re.DOTALL | re.MULTILINE)
    for line in block.splitlines()
    if line.startswith("neft ")
]


@pytest.mark.slow
def test_the_python_of_the_readme_runs_and_prints_what_it_shows():
    first, second = run_pages.examples(TEXT)
    assert first.shown is not None and run_pages.same(first.shown, first.run({}))
    printed = second.run({})
    assert printed.startswith("Draw the biases of gelu") and "import torch" in printed


@pytest.mark.parametrize("line", COMMANDS)
def test_the_commands_of_the_readme_run(line, tmp_path, monkeypatch):
    from neft.cli import app

    monkeypatch.chdir(tmp_path)
    found = CliRunner().invoke(app, shlex.split(line))
    assert found.exit_code == 0, found.output


def test_the_readme_shows_how_to_install_two_commands_and_a_picture_that_exists():
    assert "make report" in TEXT and "make test" in TEXT and "\npip install .\n" in TEXT and len(COMMANDS) >= 5
    (picture,) = re.findall(r"!\[.*?\]\((.*?)\)", TEXT)
    assert (ROOT / picture).is_file()


def test_the_files_that_the_readme_links_to_exist():
    linked = [link for link in re.findall(r"\]\(([^)]*)\)", TEXT) if "://" not in link]
    assert "CITATION.cff" in linked and "docs/faq.md" in linked
    assert all((ROOT / link).is_file() for link in linked)
