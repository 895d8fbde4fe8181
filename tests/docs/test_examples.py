"""Every example of the documentation runs, and prints what its page says."""

import importlib.util
import json
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import run_notebooks
import run_pages

DOCS = Path(__file__).parents[2] / "docs"
PAGES = sorted(path for path in DOCS.rglob("*.md") if "_build" not in path.parts)
QUICK = {"peers.md"}
# Recipes of sweeps.md and tangent_kernels.md need packages that are not among neft's.
OTHERS = ("dask_jobqueue", "dask_kubernetes", "flax")
# What sweeps.md runs is an experiment of hours: its specification is replaced by one of seconds.
EXPERIMENT = """
kind = "check"
[fixed]
activation = "tanh"
depth = 2
inputs = 3
draws = 64
[grid]
width = [8]
"""


def name_of(path):
    return str(path.relative_to(DOCS))


def marked(paths, quick=()):
    return [
        pytest.param(path, id=name_of(path), marks=() if name_of(path) in quick else pytest.mark.slow) for path in paths
    ]


def missing(source):
    """The packages of others that an example imports and that are not here."""
    wanted = [name for name in OTHERS if re.search(rf"^\s*(?:from|import) {name}\b", source, flags=re.MULTILINE)]
    return [name for name in wanted if importlib.util.find_spec(name) is None]


WITH_EXAMPLES = [path for path in PAGES if list(run_pages.examples(path.read_text()))]


@pytest.mark.parametrize("path", marked(WITH_EXAMPLES, QUICK))
def test_the_examples_of_a_page_run_and_print_what_it_shows(path):
    namespace, left_out = {}, set()
    with run_pages.folder() as here:
        (here / "experiment.toml").write_text(EXPERIMENT)
        for example in run_pages.examples(path.read_text()):
            if absent := missing(example.source):
                compile(example.source, path.name, "exec")
                left_out.update(absent)
                continue
            printed = example.run(namespace)
            if example.shown is not None:
                assert run_pages.same(example.shown, printed), f"{example.source}\nprints\n{printed}"
    if left_out:
        pytest.skip(f"the examples with {', '.join(sorted(left_out))}, which is not installed, were compiled only")


@pytest.mark.parametrize("path", marked(PAGES, {name_of(path) for path in PAGES}))
def test_the_pictures_of_a_page_exist_and_one_of_its_calls_draws_them(path):
    text = path.read_text()
    # A picture of what was computed for long is drawn by a tool that the page names.
    tools = [tool.read_text() for tool in (DOCS.parent / "tools").glob("*.py") if f"`tools/{tool.name}`" in text]
    for name in run_pages.pictures(text):
        assert (DOCS / "images" / name).is_file(), name
        assert any(f'"{name}"' in one for one in (text, *tools)), f"{name} is drawn by no call on {path.name}"


def test_every_command_is_on_the_page_of_the_command_line():
    from neft.cli import app

    text = (DOCS / "cli.md").read_text()
    commands = {command.callback.__name__ for command in app.registered_commands}
    assert len(commands) >= 16
    for command in commands:
        assert re.search(rf"^## {command}$", text, flags=re.MULTILINE), command
        assert re.search(rf"^(\$ )?neft {command}\b", text, flags=re.MULTILINE), command


def test_outputs_are_compared_word_by_word_and_numbers_nearly():
    same = run_pages.same
    assert same("K  [2.15 1,000]\n", "K [2.1500001 1,000]") and same("1.5 … s", "1.5 9.3 s")
    assert not same("K 2.15", "K 2.25") and not same("K 2.15", "V 2.15") and not same("K 2.15", "K 2.15 2.15")
    assert not same("-1.0", "1.0") and not same("True", "False") and not same("<1", "<2") and same("1e-17", "-3e-17")


def test_examples_are_found_with_their_outputs():
    text = "a\n```python\nprint(1)\n```\n\n```text\n1\n```\n```console\n$ neft --version\nneft\n$ neft data\n```\n"
    found = list(run_pages.examples(text))
    assert [(e.source, e.shown, e.is_command) for e in found] == [
        ("print(1)\n", "1\n", False),
        ("neft --version", "neft\n", True),
        ("neft data", "", True),
    ]
    assert [text[slice(*e.span)] for e in found] == ["1\n", "neft\n", ""]


NOTEBOOKS = sorted((DOCS / "notebooks").glob("*.py"))


def test_there_are_three_notebooks_and_each_is_shown():
    text = (DOCS / "notebooks.md").read_text()
    assert len(NOTEBOOKS) == 3
    for path in NOTEBOOKS:
        assert f"notebooks/{path.name}" in text and path.read_text().startswith("# %% [markdown]\n# # ")


@pytest.mark.slow
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_runs_and_what_it_asserts_holds(path, tmp_path):
    # A program of its own, as its reader would run it: without the types checked and with a fresh JAX.
    run = subprocess.run([sys.executable, "-W", "error", path], cwd=tmp_path, capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    assert path.read_text().count("\nassert ") >= 3 and run.stdout.count("\n") >= 4


GALLERY = sorted((DOCS / "gallery").glob("*.py"))


def run_again(paths, tmp_path):
    # One program for several of them, without the types checked and with JAX as it comes.
    command = [sys.executable, "-W", "error", DOCS.parent / "tools" / "run_notebooks.py", "--check", *paths]
    run = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert run.returncode == 0, run.stderr


def test_the_gallery_shows_a_notebook_for_every_chapter():
    text = (DOCS / "gallery" / "index.md").read_text()
    assert [path.stem[:9] for path in GALLERY[:8]] == [f"chapter{k:02}" for k in range(4, 12)]
    for path in GALLERY:
        notebook = json.loads(path.with_suffix(".ipynb").read_text())
        assert notebook["nbformat"] == 4 and run_notebooks.pictures(notebook) >= 1 and f"\n{path.stem}\n" in text
        shown = [cell for cell in notebook["cells"] if any("data" in output for output in cell.get("outputs", ()))]
        # The last comment of such a cell is the picture in words.
        assert all(cell["source"][-2].startswith("# ") and len(cell["source"][-2]) > 60 for cell in shown)
        assert path.read_text().count("\nassert ") + path.read_text().count("    assert ") >= 1


@pytest.mark.slow
@pytest.mark.parametrize("third", range(3))
def test_notebooks_of_the_gallery_run_and_say_what_they_show(third, tmp_path):
    assert GALLERY[third::3]
    run_again(GALLERY[third::3], tmp_path)


def test_a_notebook_that_says_something_else_is_found(tmp_path):
    script = tmp_path / "small.py"
    script.write_text("# %% [markdown]\n# # Title\n\n# %%\nprint(2.0)\n6 * 7\n")
    run_notebooks.write(script)
    notebook = json.loads(script.with_suffix(".ipynb").read_text())
    assert run_notebooks.printed(notebook) == "2.0\n" and notebook["cells"][0]["source"] == ["# Title"]
    assert notebook["cells"][1]["outputs"][1]["data"] == {"text/plain": ["42"]}
    assert run_notebooks.differences(script) is None
    script.write_text(script.read_text().replace("2.0", "3.0"))
    assert "another script" in run_notebooks.differences(script)
    notebook["cells"][1]["source"] = ["print(3.0)\n", "6 * 7"]
    script.with_suffix(".ipynb").write_text(json.dumps(notebook))
    assert "prints\n3.0\nbut its notebook has\n2.0" in run_notebooks.differences(script)


def test_the_numbers_of_the_page_on_other_libraries_are_those_of_the_formulas():
    # The table says λ_W = C_W and λ_b = C_b for the NTK parameterization: its NTK by unit rates on scaled weights.
    import jax
    import jax.numpy as jnp

    import neft

    W_std, b_std, n = 1.5, 0.3, 4
    net = neft.MLP((n, 3), "erf", C_W=W_std**2, C_b=b_std**2, lambda_W=W_std**2, lambda_b=b_std**2)
    x = np.random.default_rng(0).normal(size=(2, n))

    def output(theta, x):
        return W_std / n**0.5 * x @ theta["W"].T + b_std * theta["b"][None, :]

    theta = {"W": jnp.ones((3, n)), "b": jnp.ones(3)}
    by_hand = neft.tangent.ntk(output, theta, jnp.asarray(x, jnp.float32))
    assert np.allclose(by_hand[:, :, 0, 0], neft.width.kernel(net, x).Theta, rtol=1e-5)
    assert np.allclose(by_hand[:, :, 0, 1], 0) and jax.config.jax_enable_x64 is False
