import ast
import re
import subprocess
import sys
import tomllib
from importlib import metadata
from pathlib import Path

import pytest

import neft

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "src" / "neft"
SOURCES = sorted(PACKAGE.rglob("*.py"))
ABOVE = {"claims", "report", "cli", "plot"}
BELOW = [path for path in SOURCES if path.parent.name in {"gaussian", "data"} or path.match("neft/_[a-z]*.py")]


def name_of(path):
    return str(path.relative_to(PACKAGE))


def nodes(path, *kinds):
    return [node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, kinds)]


def imported(path):
    """The full names of all that a source file imports, wherever in the file it does."""
    folder = ["neft", *path.relative_to(PACKAGE).parts[:-1]]
    for node in nodes(path, ast.Import):
        yield from (alias.name for alias in node.names)
    for node in nodes(path, ast.ImportFrom):
        start = folder[: len(folder) - node.level + 1] if node.level else []
        base = ".".join([*start, *filter(None, [node.module])])
        yield from (f"{base}.{alias.name}" for alias in node.names)


def test_importing_the_package_does_not_import_jax():
    program = "import sys, neft; neft.__version__; dir(neft); print(*sorted(sys.modules))"
    run = subprocess.run([sys.executable, "-W", "error", "-c", program], capture_output=True, text=True, check=True)
    modules = set(run.stdout.split())
    assert "neft" in modules and not modules & {"jax", "jaxlib", "numpy", "scipy", "matplotlib", "equinox"}


@pytest.mark.parametrize("name", neft.__all__)
def test_every_public_name_is_there(name):
    assert getattr(neft, name) is not None


def test_the_directory_is_the_public_names():
    assert dir(neft) == sorted(neft.__all__) and len(set(neft.__all__)) == len(neft.__all__)


def test_every_folder_is_public_but_the_command_line():
    folders = {path.parent.name for path in PACKAGE.glob("*/__init__.py")}
    assert folders - {"cli"} == {name for name in neft.__all__ if name in folders}


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="module 'neft' has no attribute 'mlp'"):
        _ = neft.mlp


def test_the_type_checker_and_the_front_door_see_the_same_names():
    tree = ast.parse((PACKAGE / "__init__.py").read_text())
    block = next(node for node in tree.body if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING")
    seen = {alias.asname for node in block.body for alias in node.names}
    assert seen | {"__version__"} == set(neft.__all__)


def test_the_package_is_typed():
    assert (PACKAGE / "py.typed").is_file()


def test_the_version_is_that_of_the_installed_package():
    assert neft.__version__ == metadata.version("neft")


def test_the_lock_pins_everything_by_hash_and_nothing_by_address():
    text = (ROOT / "requirements.lock").read_text()
    pins = [line for line in text.replace("\\\n", " ").splitlines() if line.strip() and not line.startswith("#")]
    assert len(pins) > 20 and "http" not in text
    for pin in pins:
        assert re.match(r"[a-zA-Z0-9._-]+(\[[a-z,]+\])?==\S+ .*--hash=sha256:[0-9a-f]{64}", pin), pin


def test_every_requirement_is_pinned():
    pinned = set(re.findall(r"^([a-z0-9._-]+)==", (ROOT / "requirements.lock").read_text(), re.MULTILINE))
    required = {re.match(r"[A-Za-z0-9._-]+", line)[0].lower() for line in metadata.requires("neft")}
    assert "jax" in required and required <= pinned


def test_the_theory_needs_no_package_for_pictures_commands_or_clusters():
    program = "import sys; sys.modules.update(dict.fromkeys(sys.argv[1:])); import neft; neft.sweep, neft.claims; "
    program += "print(neft.width.statistics(neft.MLP((1, 2, 1), 'relu', C_W=2.0), [1.0]).K.round(9).tolist())"
    absent = ["dask", "distributed", "matplotlib", "typer", "rich", "pandas"]
    run = subprocess.run([sys.executable, "-c", program, *absent], capture_output=True, text=True, check=True)
    assert run.stdout == "[2.0, 2.0]\n"


def test_the_extra_is_among_what_the_tests_install():
    table = tomllib.loads((ROOT / "pyproject.toml").read_text())
    assert set(table["project"]["optional-dependencies"]["cluster"]) <= set(table["dependency-groups"]["dev"])


def test_the_citation_is_that_of_this_version():
    text = (ROOT / "CITATION.cff").read_text()
    assert f"\nversion: {neft.__version__}\n" in text and "\ncff-version: 1.2.0\n" in f"\n{text}"


def test_data_flows_downwards_only():
    for path in BELOW:
        folders = {name.split(".")[1] for name in imported(path) if name.startswith("neft.")}
        assert not folders & ABOVE, name_of(path)


def test_nobody_imports_the_internals_of_jax():
    internal = re.compile(r"jax\.(core|interpreters|_src)\b")
    for path in SOURCES:
        attributes = (ast.unparse(node) for node in nodes(path, ast.Attribute))
        assert not [name for name in (*imported(path), *attributes) if internal.match(name)], name_of(path)


def test_nothing_runs_code_from_a_file():
    runs = {"eval", "exec", "builtins.eval", "builtins.exec", "pickle.load", "pickle.loads"}
    loaders = {"pickle", "cloudpickle", "dill", "marshal", "shelve", "joblib"}
    for path in SOURCES:
        for call in nodes(path, ast.Call):
            assert ast.unparse(call.func) not in runs, name_of(path)
            for keyword in call.keywords:
                assert keyword.arg != "allow_pickle" or ast.unparse(keyword.value) == "False", name_of(path)
        assert not {name.split(".")[0] for name in imported(path)} & loaders, name_of(path)


def test_the_rules_look_at_all_of_the_source():
    assert {"_network.py", "_result.py", "gaussian/_one.py", "data/_load.py"} <= {name_of(path) for path in BELOW}
    assert len(SOURCES) > 40
    assert {"neft._check", "neft._activation.Activation"} <= set(imported(PACKAGE / "_network.py"))
