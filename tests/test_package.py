import ast
import functools
import inspect
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
LINES = re.search(r"^```text\n(gaussian.*?)^```", (ROOT / "CONTRIBUTING.md").read_text(), re.DOTALL | re.MULTILINE)[1]
NOT_BELOW = {"training": {"action", "fisher"}}


def below_each(lines):
    """The folders that each folder may import: those of the lines above, and those to its left up to a semicolon."""
    found, above = {}, set()
    for line in lines.splitlines():
        groups = [group.split(", ") for group in line.split("; ")]
        for group in groups:
            found |= {name: above | set(group[:i]) for i, name in enumerate(group)}
        above = above.union(*groups)
    return {name: allowed - NOT_BELOW.get(name, set()) for name, allowed in found.items()}


BELOW = below_each(LINES)


def name_of(path):
    return str(path.relative_to(PACKAGE))


@functools.cache
def tree_of(path):
    return ast.parse(path.read_text())


@functools.cache
def walked(tree):
    return list(ast.walk(tree))


def nodes(path, *kinds):
    return [node for node in walked(tree_of(path)) if isinstance(node, kinds)]


def package_of(path):
    """The dotted name of the package that a source file belongs to."""
    return ".".join(["neft", *path.relative_to(PACKAGE).parts[:-1]])


def imported(tree, package):
    """The full names of all that a module of this package imports, wherever in the file it does."""
    for node in walked(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            above = package.split(".")
            start = above[: len(above) - node.level + 1] if node.level else []
            base = ".".join([*start, *filter(None, [node.module])])
            yield from (f"{base}.{alias.name}" for alias in node.names)


@functools.cache
def used(tree, package):
    """The full names in neft of all that a module imports, and of all that it takes from modules it has imported."""
    names = {name for name in imported(tree, package) if name.startswith("neft.")}
    bound = {"neft": "neft"}
    for node in walked(tree):
        if isinstance(node, ast.ImportFrom):
            own = imported(ast.Module([node], []), package)
            bound |= {alias.asname or alias.name: name for alias, name in zip(node.names, own) if is_module(name)}
    for node in walked(tree):
        first, *rest = dotted(node)
        if rest and first in bound:
            names.add(".".join([bound[first], *rest]))
    return names


def dotted(node):
    """The names of `a.b.c`, or one that is empty for anything else: much faster than to write the program again."""
    names = []
    while isinstance(node, ast.Attribute):
        names.append(node.attr)
        node = node.value
    return [node.id, *names[::-1]] if isinstance(node, ast.Name) else [""]


def is_module(name):
    place = ROOT / "src" / Path(*name.split("."))
    return place.is_dir() or place.with_suffix(".py").is_file()


def folder_of(name):
    """The folder that a full name belongs to, "" for the core."""
    first = name.partition(".")[2].partition(".")[0]
    return first if first in BELOW else ""


def upwards(tree, package):
    """The names that a module of this package takes from a folder that is not below its own."""
    own = folder_of(package)
    allowed = {"", own} | BELOW.get(own, set())
    return {name for name in used(tree, package) if folder_of(name) not in allowed}


def private(tree, package):
    """The private names that a module of this package takes from another folder, or out of a module of the core."""
    found = set()
    for name in used(tree, package):
        parts = name.split(".")
        inside = parts[2:] if is_module(".".join(parts[:2])) else parts[1:]
        if folder_of(name) != folder_of(package) and any(re.match(r"_(?!_)", part) for part in inside):
            found.add(name)
    return found


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
    assert len(pins) > 20 and "://" not in text
    for pin in pins:
        assert re.match(r"[a-zA-Z0-9._-]+(\[[a-z,]+\])?==\S+ .*--hash=sha256:[0-9a-f]{64}", pin), pin


def test_every_requirement_is_pinned():
    pinned = set(re.findall(r"^([a-z0-9._-]+)==", (ROOT / "requirements.lock").read_text(), re.MULTILINE))
    required = {re.match(r"[A-Za-z0-9._-]+", line)[0].lower() for line in metadata.requires("neft")}
    assert "jax" in required and required <= pinned


@pytest.mark.slow
def test_the_theory_needs_no_package_for_pictures_commands_or_clusters():
    program = "import sys; sys.modules.update(dict.fromkeys(sys.argv[1:])); import neft; neft.sweep, neft.claims; "
    program += "print(neft.width.statistics(neft.MLP((1, 2, 1), 'relu', C_W=2.0), [1.0]).K.round(9).tolist())"
    absent = ["dask", "distributed", "matplotlib", "typer", "rich", "pandas", "starlette", "uvicorn", "anywidget"]
    run = subprocess.run([sys.executable, "-c", program, *absent], capture_output=True, text=True, check=True)
    assert run.stdout == "[2.0, 2.0]\n"


def test_the_extras_are_among_what_the_tests_install():
    table = tomllib.loads((ROOT / "pyproject.toml").read_text())
    extras = table["project"]["optional-dependencies"]
    assert set(extras["cluster"]) | set(extras["notebook"]) <= set(table["dependency-groups"]["dev"])


def test_the_citation_is_that_of_this_version():
    text = (ROOT / "CITATION.cff").read_text()
    assert f"\nversion: {neft.__version__}\n" in text and "\ncff-version: 1.2.0\n" in f"\n{text}"


def test_every_folder_has_its_place_in_the_order():
    assert sorted(BELOW) == sorted(path.parent.name for path in PACKAGE.glob("*/__init__.py"))


def test_folders_import_only_those_below_them():
    # The front door is above all, and `load` finds the type of a result through it.
    inside = [path for path in SOURCES if name_of(path) not in {"__init__.py", "_result.py"}]
    found = {name_of(path): upwards(tree_of(path), package_of(path)) for path in inside}
    assert not {path: names for path, names in found.items() if names}


def test_folders_take_public_names_of_each_other():
    inside = [path for path in SOURCES if path != PACKAGE / "__init__.py"]
    found = {name_of(path): private(tree_of(path), package_of(path)) for path in inside}
    assert not {path: names for path, names in found.items() if names}


HYPERPARAMETERS = {"C_b", "C_W", "lambda_b", "lambda_W"}
RESULTS = {"self", "found", "point", "best", "chosen", "diagram", "advice", "row"}
BY_HAND = {
    # Claims are measured by formulas that share nothing with the theory.
    "claims/_lecture.py",
    # What the page prints, or says of a network beside its advice.
    "report/_critical_words.py",
    "report/_section_glance.py",
    "report/_section_width.py",
}


def hyperparameters(tree):
    """Where a module reads hyperparameters of a block or a network; results have fields of the same names."""
    read = (node for node in ast.walk(tree) if isinstance(node, ast.Attribute) and node.attr in HYPERPARAMETERS)
    return {text for node in read if (text := ast.unparse(node)).rpartition(".")[0].rpartition(".")[2] not in RESULTS}


def test_hyperparameters_of_blocks_are_read_in_their_own_folder_alone():
    outside = [path for path in SOURCES if folder_of(package_of(path)) != "network"]
    found = {name_of(path): hyperparameters(tree_of(path)) for path in outside}
    assert {path for path, names in found.items() if names} <= BY_HAND, found
    program = "found.C_W + of.best.C_b\nnet.C_W[0] * net.dense[1].lambda_W + of.net.C_b"
    assert hyperparameters(ast.parse(program)) == {"net.C_W", "net.dense[1].lambda_W", "of.net.C_b"}


@pytest.mark.parametrize(
    ("package", "program", "wrong"),
    [
        ("neft", "from . import width", {"neft.width"}),
        ("neft", "from .gaussian import pair", {"neft.gaussian.pair"}),
        ("neft.gaussian", "from .. import width", {"neft.width"}),
        ("neft.data", "from ..claims import check", {"neft.claims.check"}),
        ("neft.fisher", "def f():\n    from ..sweep import run", {"neft.sweep.run"}),
        ("neft.tangent", "import neft\nneft.training.predict(1)", {"neft.training.predict", "neft.training"}),
        ("neft.width", "import neft.training", {"neft.training"}),
        ("neft.sweep", "from ..claims import check", {"neft.claims.check"}),
        ("neft.report", "from .. import cli as c\nc.main()", {"neft.cli", "neft.cli.main"}),
        ("neft.tangent", "from ..width import kernel", {"neft.width.kernel"}),
        ("neft.training", "from ..fisher import rngd", {"neft.fisher.rngd"}),
        ("neft.describe", "from ..claims import check", {"neft.claims.check"}),
        ("neft.training", "from ..width import kernel\nfrom ..tangent import ntk\nfrom .._check import real", set()),
        ("neft.claims", "from ..sweep import run\nimport neft\nneft.activation", set()),
    ],
)
def test_an_import_upwards_is_found(package, program, wrong):
    assert upwards(ast.parse(program), package) == wrong


@pytest.mark.parametrize(
    ("package", "program", "wrong"),
    [
        ("neft.width", "from ..gaussian._closed import Form", {"neft.gaussian._closed.Form"}),
        ("neft.width", "from ..gaussian import _one", {"neft.gaussian._one"}),
        (
            "neft.width",
            "from .. import gaussian\ngaussian._one.expect",
            {"neft.gaussian._one", "neft.gaussian._one.expect"},
        ),
        ("neft.sweep", "from .. import _progress\nx = _progress._quiet", {"neft._progress._quiet"}),
        ("neft.sweep", "from .._progress import _quiet", {"neft._progress._quiet"}),
        ("neft.plot", "import neft\nneft.width._phase.phase", {"neft.width._phase", "neft.width._phase.phase"}),
        ("neft.plot", "import neft\nneft._FOLDERS", {"neft._FOLDERS"}),
        ("neft.width", "from ._one_input import _step\nfrom .._closed import Form\nfrom .. import __version__", set()),
    ],
)
def test_a_private_name_of_another_folder_is_found(package, program, wrong):
    assert private(ast.parse(program), package) == wrong


def exported(name):
    """What a folder's `__init__` exports, by name, without modules."""
    module = getattr(neft, name)
    names = [alias.asname for node in nodes(PACKAGE / name / "__init__.py", ast.ImportFrom) for alias in node.names]
    return {alias: getattr(module, alias) for alias in names if alias and not alias.startswith("_")}


@pytest.mark.parametrize("name", sorted(set(BELOW) - {"cli"}))
def test_a_thing_has_one_name_among_the_arguments(name):
    others = {"of", "act", "sigma", "rate", "lr", "step_size", "rng", "prng", "subset", "tol", "n_draws"}
    made = lambda value: isinstance(value, type) and issubclass(value, neft.Result)  # noqa: E731
    functions = {f"{name}.{alias}": value for alias, value in exported(name).items() if callable(value)}
    functions |= {
        f"{owner}.{method}": value
        for owner, cls in functions.items()
        if isinstance(cls, type)
        for method, value in vars(cls).items()
        if inspect.isfunction(value) and not method.startswith("_")
    }
    assert not {owner for owner, f in functions.items() if not made(f) and set(arguments(f)) & others}


def arguments(function):
    try:
        return inspect.signature(function).parameters
    except ValueError:  # warnings and errors have none that Python knows
        return {}


def test_nobody_imports_the_internals_of_jax():
    internal = re.compile(r"jax\.(core|interpreters|_src)\b")
    for path in SOURCES:
        attributes = (".".join(dotted(node)) for node in nodes(path, ast.Attribute))
        names = (*imported(tree_of(path), package_of(path)), *attributes)
        assert not [name for name in names if internal.match(name)], name_of(path)


def test_nothing_runs_code_from_a_file():
    runs = {"eval", "exec", "builtins.eval", "builtins.exec", "pickle.load", "pickle.loads"}
    loaders = {"pickle", "cloudpickle", "dill", "marshal", "shelve", "joblib"}
    for path in SOURCES:
        for call in nodes(path, ast.Call):
            assert ".".join(dotted(call.func)) not in runs, name_of(path)
            for keyword in call.keywords:
                assert keyword.arg != "allow_pickle" or ast.unparse(keyword.value) == "False", name_of(path)
        names = imported(tree_of(path), package_of(path))
        assert not {name.split(".")[0] for name in names} & loaders, name_of(path)


def test_the_rules_look_at_all_of_the_source():
    found = {name_of(path) for path in SOURCES}
    assert {"network/_network.py", "_result.py", "gaussian/_one.py", "cli/_app.py"} <= found and len(found) > 40
    network = tree_of(PACKAGE / "network" / "_network.py")
    assert {"neft._check", "neft._activation.Activation"} <= set(imported(network, "neft.network"))
