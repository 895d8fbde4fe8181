"""Multiplies one term after the other of the recursions of blocks by 1.1, and says which ones no kept tensor notices.

    .venv/bin/python tools/mutate_blocks.py [function …]   the mutants; exits with 1 if one survives
    .venv/bin/python tools/mutate_blocks.py --keep   writes tests/width/kept.json instead, the tensors as they are now

The networks of `tests/width/kept.json` hold every term; those of `drawn.json` and `drawn_differentials.json` say that
the tensors are right. What several inputs go through is held to the recursions of one input, which share no code with
it, at each of two inputs, and to its symmetries, as in `tests/width/test_streams.py`; averages at two kinks are held to
those of `tests/gaussian/test_pinned.py`.
"""

import ast
import importlib
import json
import sys
from pathlib import Path
from typing import Any

import jax
import numpy as np

from neft import Dense, LayerNorm, Network, Residual, RMSNorm, _pinned_slopes, activation
from neft._tuples import almost_everywhere
from neft.width import (
    _behind_norm,
    _functionals,
    _halves,
    _many_blocks,
    _norms,
    _one_matrix,
    _past,
    _through_blocks,
    _two_matrices,
)
from neft.width._one_input import Tensors

ROOT = Path(__file__).parents[1]
FILE = ROOT / "tests" / "width" / "kept.json"
X = np.array([1.0, -0.5, 0.8])
HYPER = [
    dict(zip(("C_b", "C_W", "lambda_b", "lambda_W"), values))
    for values in ((0.1, 1.2, 0.4, 0.8), (0.2, 1.3, 0.3, 0.7), (0.1, 0.9, 0.5, 0.6), (0.1, 1.1, 0.2, 0.9))
]
PLACES = {
    _norms: ("normed", "_trained", "together"),
    _two_matrices: ("next_block", "_next_order"),
    _one_matrix: ("next_stream", "through_two_matrices"),
    _behind_norm: ("of_stream", "sums", "means", "_curved", "_times_z"),
    _functionals: ("parts", "slope"),
}
SEVERAL = {
    _halves: (*(f"Slopes.{name}" for name in ("along", "mixed", "across", "moved", "turned", "through")), "_curved"),
    _past: ("sources", "went", "taken", "own_parts", "_of_two", "_of_one", "_of_none"),
    _many_blocks: ("_advanced", "_hatted", "_still", "_means"),
}
PINNED = {_pinned_slopes: ("curved_slopes", "_both_pinned")}
SYMMETRIES = {"V": "cdab", "A": "cdab", "D": "bacd", "F": "cdab", "B": "cdab", "T": "cdab", "U": "cdab", "R": "abdc"}
CARRIES = ("np.einsum", *(f"self.{name}" for name in ("along", "across", "moved", "mixed", "turned")))
SKIPPED = ("lost", "seen", "later", "power", "rho")  # what is estimated, or has its own tests


def single(act, skip, *norm):
    """One matrix."""
    return Residual(*norm, act, Dense(8, **HYPER[2]), skip=skip)


def double(act, skip, *norm):
    """Two matrices."""
    return Residual(*norm, Dense(4, **HYPER[1]), act, Dense(8, **HYPER[2]), skip=skip)


def networks():
    """Networks that hold every term between them."""
    first, last = Dense(8, **HYPER[0]), Dense(2, **HYPER[3])
    norm = LayerNorm(epsilon=0.4, lambda_gain=0.6, lambda_bias=0.5)
    after = [double("gelu", 0.8), LayerNorm(epsilon=0.2)]
    blocks = {
        "one and two": [single("gelu", -0.9), double("gelu", 0.8), double("gelu", 0.7), single("gelu", 0.9), "gelu"],
        "one, relu": [single("relu", 0.9), single("relu", 1.0), "relu"],
        "one behind norms": [
            single("gelu", 0.8, RMSNorm(epsilon=0.2)),
            single("gelu", -0.9, LayerNorm(epsilon=0.3)),
            single("gelu", 0.9, RMSNorm(epsilon=0.1)),
            LayerNorm(epsilon=0.4),
            "gelu",
        ],
        "norms": [double("gelu", 0.8, norm), double("gelu", 0.9, norm), LayerNorm(epsilon=0.3), *after],
        "norms and activations": [double("gelu", 0.8), LayerNorm(epsilon=0.2), RMSNorm(epsilon=0.5), "gelu"],
        "a gain": [double("gelu", 0.8), LayerNorm(epsilon=0.4, lambda_gain=0.7, lambda_bias=0.3)],
    }
    start = [Dense(16, **HYPER[1]), "gelu"]
    found = {
        name: Network(3, [*(start if name == "one and two" else []), first, *b, last]) for name, b in blocks.items()
    }
    return dict(reversed(found.items()))  # those that take least come first


def tensors(net):
    """By name, layer by layer, without compiling."""
    with jax.enable_x64(True):
        names, layers, _ = _through_blocks.through_blocks(net, X)
    return {name: [float(getattr(layer, name)) for layer in layers] for name in names}


class Terms(ast.NodeTransformer):
    """Multiplies the term of this number by 1.1, and counts terms."""

    def __init__(self, number=None):
        self.number, self.count, self.text = number, 0, ""

    def term(self, node):
        """The node, or 1.1 times it."""
        self.count += 1
        if self.count - 1 != self.number:
            return node
        self.text = ast.unparse(node)
        return ast.BinOp(ast.Constant(1.1), ast.Mult(), node)

    def visit_BinOp(self, node):
        """Terms of sums."""
        self.generic_visit(node)
        if isinstance(node.op, ast.Add | ast.Sub):
            node.left, node.right = (
                one if isinstance(one, ast.BinOp) and isinstance(one.op, ast.Add | ast.Sub) else self.term(one)
                for one in (node.left, node.right)
            )
        return node

    def visit_Dict(self, node):
        """Lines that are one term."""
        self.generic_visit(node)
        node.values = [self.whole(value) for value in node.values]
        return node

    def visit_Call(self, node):
        """Terms of what is linear in two arguments, and of tuples with names."""
        self.generic_visit(node)
        name = ast.unparse(node.func)
        if name.endswith("theta"):
            node.args = [self.term(one) for one in node.args]
        if name in ("Slopes", "Apart", "Functionals", "Y"):
            node.args = [self.whole(one) for one in node.args]
            for keyword in node.keywords:
                keyword.value = self.whole(keyword.value)
        return node

    def visit_Assign(self, node):
        """Numbers that have a name."""
        names = {one.id for one in ast.walk(node.targets[0]) if isinstance(one, ast.Name)}
        if names & set(SKIPPED):
            return node
        self.generic_visit(node)
        if isinstance(node.value, ast.Tuple):
            node.value.elts = [self.whole(one) for one in node.value.elts]
        else:
            node.value = self.whole(node.value)
        return node

    def visit_AugAssign(self, node):
        """What is added to a sum."""
        self.generic_visit(node)
        node.value = self.whole(node.value)
        return node

    def visit_Return(self, node):
        """What a function gives, where it is one term."""
        self.generic_visit(node)
        node.value = self.whole(node.value)
        return node

    def whole(self, node):
        """Products, whose terms are not counted elsewhere."""
        product = isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult | ast.MatMult | ast.Div)
        carried = isinstance(node, ast.Call) and ast.unparse(node.func) in CARRIES
        return self.term(node) if product or carried else node


def mutated(module, function, number):
    """The function with one term changed, what the term is, and how many there are."""
    body = ast.parse(Path(module.__file__).read_text()).body
    for name in function.split(".")[:-1]:
        (body,) = [one.body for one in body if isinstance(one, ast.ClassDef) and one.name == name]
    function = function.split(".")[-1]
    (node,) = [one for one in body if isinstance(one, ast.FunctionDef) and one.name == function]
    terms = Terms(number)
    terms.visit(node)
    node.decorator_list = []
    space = dict(vars(module))
    program = ast.fix_missing_locations(ast.Module([node], []))
    exec(compile(program, module.__file__, "exec"), space)
    # Functions of the module see the mutant too.
    return space[function], terms.text, terms.count


def main(names, keep):
    """Every mutant of these functions, or of all; or the tensors as they are."""
    _through_blocks._compiled = _through_blocks._one_by_one
    nets = networks()
    if keep:
        kept = {
            name: {"network": net.to_dict(), "x": X.tolist(), "tensors": tensors(net)} for name, net in nets.items()
        }
        FILE.write_text(json.dumps(kept, indent=1) + "\n")
        return 0
    kept = {name: entry["tensors"] for name, entry in json.loads(FILE.read_text()).items()}
    # What averages are at a K is asked for again and again.
    for name in ("_averages", "squares"):
        setattr(_through_blocks, name, remembered(getattr(_through_blocks, name)))

    def of_one_input():
        assert noticed(nets, kept) is None
        return lambda: noticed(nets, kept)

    survivors = []
    for places, notice in ((PLACES, of_one_input), (SEVERAL, of_two_inputs), (PINNED, of_kinks)):
        if not names or any(one in names for functions in places.values() for one in functions):
            survivors += tried(places, names, notice())
    print(f"{len(survivors)} survive: {survivors}")
    return 1 if survivors else 0


def tried(places, names, notice):
    """The terms of these functions, or of all, that nothing notices."""
    survivors, count = [], 0
    for module, functions in places.items():
        for function in (one for one in functions if one in names or not names):
            for number in range(mutated(module, function, None)[2]):
                changed, text, _ = mutated(module, function, number)
                *inside, own = function.split(".")
                holders = [getattr(module, inside[0])] if inside else [*places, _through_blocks]
                originals = [(one, getattr(one, own)) for one in holders if hasattr(one, own)]
                for one, _ in originals:
                    setattr(one, own, changed)
                found = notice()
                for one, original in originals:
                    setattr(one, own, original)
                count += 1
                print(f"{module.__name__.split('.')[-1]}.{function}: {text}: {found or 'SURVIVES'}", flush=True)
                if found is None:
                    survivors.append(f"{function}: {text}")
    print(f"{count} mutants")
    return survivors


def of_two_inputs():
    """What two inputs say of a mutant: the first tensor that is not that of one input, or has not its symmetry."""
    # Averages depend on K alone, which no mutant changes.
    _many_blocks.averages, _past.almost_everywhere = (
        remembered(_many_blocks.averages),
        remembered(_past.almost_everywhere),
    )
    x = np.array([X, [0.7, 0.4, 1.2]])
    first, last = Dense(8, **HYPER[0]), Dense(2, **HYPER[3])
    blocks = [Dense(16, **HYPER[1]), "tanh", first, single("tanh", -0.9), double("tanh", 0.8), single("tanh", 0.9)]
    net = Network(3, [*blocks, "tanh", last])
    with jax.enable_x64(True):
        alone = [_through_blocks.through_blocks(net, one)[1] for one in x]

    def notice():
        with jax.enable_x64(True):
            try:
                layers = _many_blocks.through_many(net, x, frozenset(Tensors._fields), rtol=1e-7)
            except Exception as error:
                return f"{type(error).__name__}: {error}"
        for name in Tensors._fields:
            for l, layer in enumerate(layers):
                value = np.asarray(getattr(layer, name))
                size = 1e-6 * max(np.abs(value).max(), 1e-3)
                for i in (0, 1):
                    if not abs(value[(i,) * value.ndim] - float(getattr(alone[i][l], name))) < size:
                        return f"{name} of layer {l + 1} is not that of one input"
                if (
                    name in SYMMETRIES
                    and not np.abs(np.einsum(f"abcd->{SYMMETRIES[name]}", value) - value).max() < size
                ):
                    return f"{name} of layer {l + 1} is not symmetric"
        return None

    assert notice() is None
    return notice


def of_kinks():
    """What averages at kinks say of a mutant: the first that is not that with the derivatives on the density."""
    sys.path.insert(0, str(ROOT / "tests" / "gaussian"))
    tests: Any = importlib.import_module("test_pinned")
    K, wanted = tests.K[tests.ONE], {}
    for name in ("relu", "hard_tanh", "max(z, 0) + 0.3*z*abs(z)"):
        regular = almost_everywhere(activation(name), [(0, 0, 2, 2), (0, 0, 3, 1), (0, 0, 1, 3)], K, rtol=1e-8)
        wanted[name] = np.array(tests.by_parts(activation(name), K)) - [one[0, 0, 1, 2] for one in regular]

    def notice():
        for name, value in wanted.items():
            with jax.enable_x64(True):
                try:
                    td, ee = _pinned_slopes.curved_slopes(activation(name), K, 1, rtol=1e-8)
                except (TypeError, IndexError) as error:
                    return f"{type(error).__name__}: {error}"  # a place that is none
            if not np.allclose((ee[0, 0, 0, 1], td[0, 0, 0, 1], td[0, 0, 1, 0]), value, rtol=1e-6):
                return f"deltas of {name}"
        return None

    assert notice() is None
    return notice


def remembered(function):
    """The function, with what it found before."""
    known = {}

    def run(*args, **options):
        key = tuple(np.asarray(one).tobytes() if isinstance(one, np.ndarray | jax.Array) else str(one) for one in args)
        if key not in known:
            known[key] = function(*args, **options)
        return known[key]

    return run


def noticed(nets, kept):
    """The first tensor that differs from the kept one."""
    for name, net in nets.items():
        found = tensors(net)
        for tensor in Tensors._fields:
            if tensor in found and not np.allclose(found[tensor], kept[name][tensor], rtol=1e-9, atol=1e-12):
                return f"{tensor} of {name}"
    return None


if __name__ == "__main__":
    sys.exit(main([name for name in sys.argv[1:] if name != "--keep"], "--keep" in sys.argv[1:]))
