"""A network as a short program for JAX with Equinox, for Flax or for PyTorch: initial weights and an optimizer.

Weights are drawn from Gaussians that are not cut off: Flax's default is truncated and PyTorch's uniform, which changes
the statistics at order 1/width.
"""

import itertools
import textwrap
from collections.abc import Sequence

from .. import _check
from .._expression import is_expression, written
from .._framework_functions import GELU_BY_TANH, HARD_SWISH, RELU6
from .._public import public
from ..network import MLP, Network
from ..network.engine import perceptron, weights_of
from ._optimizer_program import optimizer_part
from ._settings import Settings, of_network

FRAMEWORKS = ("jax", "equinox", "flax", "torch")
"""Of which "jax" and "equinox" are the same."""

_JAX = {
    "linear": "z",
    "relu": "jax.nn.relu(z)",
    "leaky_relu": "jax.nn.leaky_relu(z, {})",
    "elu": "jax.nn.elu(z, {})",
    "tanh": "jnp.tanh(z)",
    "hard_tanh": "jax.nn.hard_tanh(z)",
    "sigmoid": "jax.nn.sigmoid(z)",
    "softplus": "jax.nn.softplus(z)",
    "erf": "jax.scipy.special.erf(z)",
    "sin": "jnp.sin(z)",
    "gelu": "jax.nn.gelu(z, approximate=False)",
    "silu": "jax.nn.silu(z)",
    "swish": "z * jax.nn.sigmoid({} * z)",
    "mish": "jax.nn.mish(z)",
    "quadratic": "z**2",
    GELU_BY_TANH: "jax.nn.gelu(z, approximate=True)",
    RELU6: "jax.nn.relu6(z)",
    HARD_SWISH: "jax.nn.hard_swish(z)",
}
_TORCH = {
    "linear": "z",
    "relu": "torch.relu(z)",
    "leaky_relu": "nn.functional.leaky_relu(z, {})",
    "elu": "nn.functional.elu(z, {})",
    "tanh": "torch.tanh(z)",
    "hard_tanh": "nn.functional.hardtanh(z)",
    "sigmoid": "torch.sigmoid(z)",
    "softplus": "nn.functional.softplus(z)",
    "erf": "torch.erf(z)",
    "sin": "torch.sin(z)",
    "gelu": "nn.functional.gelu(z)",
    "silu": "nn.functional.silu(z)",
    "swish": "z * torch.sigmoid({} * z)",
    "mish": "nn.functional.mish(z)",
    "quadratic": "z**2",
    GELU_BY_TANH: 'nn.functional.gelu(z, approximate="tanh")',
    RELU6: "nn.functional.relu6(z)",
    HARD_SWISH: "nn.functional.hardswish(z)",
}
# How the functions of expressions are written; `nn` is another module in Flax's programs than in those of PyTorch.
_PLAIN = ("exp", "log", "log1p", "expm1", "sqrt", "abs", "sin", "cos", "sinh", "cosh", "tanh", "arctan", "arcsinh")
_JAX_FUNCTIONS = {
    **{name: f"jnp.{name}({{}})" for name in _PLAIN},
    **{name: f"jax.nn.{name}({{}})" for name in ("sigmoid", "softplus", "relu", "silu")},
    "erf": "jax.scipy.special.erf({})",
    "gelu": "jax.nn.gelu({}, approximate=False)",
    "max": "jnp.maximum({}, {})",
    "min": "jnp.minimum({}, {})",
}
_TORCH_FUNCTIONS = {
    **{name: f"torch.{name}({{}})" for name in (*_PLAIN, "sigmoid", "relu", "erf")},
    **{name: f"nn.functional.{name}({{}})" for name in ("softplus", "silu", "gelu")},
    "max": "torch.maximum({}, {})",
    "min": "torch.minimum({}, {})",
}
_TORCH_BOUNDED = {"max": "torch.clamp({}, min={})", "min": "torch.clamp({}, max={})"}
_LINE = 112

_NUMBERS = """
# Layer by layer: {words}.
WIDTHS = {widths}
STD_W = {std_W}
{std_b}{constants}

def activation(z):
    {activation}
"""

_PROGRAMS = {
    "jax": '''"""{title} (JAX with Equinox)."""

import equinox as eqx
import jax
import jax.numpy as jnp
import optax
{numbers}

class Network(eqx.Module):
    """Maps one input of shape ({inputs},) to outputs of shape ({outputs},); `jax.vmap` it over a batch."""

    layers: list

    def __init__(self, key):
        self.layers = [
            gaussian_layer(k, *sizes)
            for k, *sizes in zip(jax.random.split(key, len(STD_W)), WIDTHS, WIDTHS[1:], STD_W{zip_b})
        ]

    def __call__(self, x):
        for layer in self.layers[:-1]:
            x = activation(layer(x))
        return self.layers[-1](x)


{layer}

{functions}

model = eqx.filter_jit(Network)(jax.random.key(0))
optim = optimizer()
''',
    "flax": '''"""{title} (Flax)."""

import flax.linen as nn
import jax
import jax.numpy as jnp
import optax
{numbers}

class Network(nn.Module):
    @nn.compact
    def __call__(self, x):
        for l, (fan_out, std_W{and_b}) in enumerate(zip(WIDTHS[1:], STD_W{zip_b})):
            # `normal` is not truncated, unlike Flax's default.
            init = {{"kernel_init": nn.initializers.normal(std_W), {init_b}}}
            x = nn.Dense(fan_out, name=f"layer_{{l}}", **init)(activation(x) if l else x)
        return x


{functions}

model = Network()
params = model.init(jax.random.key(0), jnp.zeros(WIDTHS[0]))
optim = optimizer()
''',
    "torch": '''"""{title} (PyTorch)."""

import torch
from torch import nn
{numbers}

class Network(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(*sizes{torch_bias}) for sizes in zip(WIDTHS, WIDTHS[1:]))
        for layer, std_W{and_b} in zip(self.layers, STD_W{zip_b}):
            # Gaussian, unlike PyTorch's default, which is uniform.
            nn.init.normal_(layer.weight, std=std_W){torch_init}

    def forward(self, x):
        for layer in self.layers[:-1]:
            x = activation(layer(x))
        return self.layers[-1](x)


{functions}

torch.manual_seed(0)
model = Network()
optim = optimizer(model)
''',
}

LAYER = {
    True: """def gaussian_layer(key, fan_in, fan_out, std_W, std_b):
    key, key_W, key_b = jax.random.split(key, 3)
    layer = eqx.nn.Linear(fan_in, fan_out, key=key)
    values = std_W * jax.random.normal(key_W, (fan_out, fan_in)), std_b * jax.random.normal(key_b, (fan_out,))
    return eqx.tree_at(lambda of: (of.weight, of.bias), layer, values)
""",
    False: """def gaussian_layer(key, fan_in, fan_out, std_W):
    key, key_W = jax.random.split(key)
    layer = eqx.nn.Linear(fan_in, fan_out, use_bias=False, key=key)
    return eqx.tree_at(lambda of: of.weight, layer, std_W * jax.random.normal(key_W, (fan_out, fan_in)))
""",
}
"""A dense layer of Equinox, with biases or without."""

# Where biases are, or are not.
_WITH = {
    "words": "standard deviations √(C_W / fan-in) and √C_b",
    "and_b": ", std_b",
    "zip_b": ", STD_B",
    "init_b": '"bias_init": nn.initializers.normal(std_b)',
    "torch_bias": "",
    "torch_init": "\n            nn.init.normal_(layer.bias, std=std_b)",
    "leaves": "for leaf in (layer.weight, layer.bias)",
    "pairs": "(W, b)",
    "flax_b": ', "bias": b',
    "torch_pairs": "((W, layer.weight), (b, layer.bias))",
}
_WITHOUT = {
    "words": "standard deviations √(C_W / fan-in)",
    "and_b": "",
    "zip_b": "",
    "init_b": '"use_bias": False',
    "torch_bias": ", bias=False",
    "torch_init": "",
    "leaves": "for leaf in (layer.weight,)",
    "pairs": "(W,)",
    "flax_b": "",
    "torch_pairs": "((W, layer.weight),)",
}
# Groups layer by layer; doubled braces stay for the program.
_BY_LAYER = {
    "jax": '''def labels(params):
    """The group of each array."""
    where = lambda of: [leaf for layer in of.layers {leaves}]
    return eqx.tree_at(where, params, [name for W, b in zip(GROUP_W, GROUP_B) for name in {pairs}])
''',
    "flax": '''def labels(params):
    """The group of each array."""
    pairs = enumerate(zip(GROUP_W, GROUP_B))
    return {{"params": {{f"layer_{{l}}": {{"kernel": W{flax_b}}} for l, (W, b) in pairs}}}}
''',
    "torch": '''def labelled(model):
    """The group of each parameter, beside it."""
    layers = zip(GROUP_W, GROUP_B, model.layers)
    return [pair for W, b, layer in layers for pair in {torch_pairs}]
''',
}


@public
def initializer_code(net: Network, framework: str) -> str:
    """A program that makes `model`, drawn with the variances of `net`, and `optim`, gradient descent at its rates.

    Args:
        net: the specification.
        framework: "jax" (with Equinox, which is "equinox" too), "flax" or "torch".

    >>> print(initializer_code(MLP(widths=(3, 8, 1), activation="tanh"), "torch").splitlines()[0])
    \"\"\"MLP 3 - 8 - 1, tanh: weights and learning rates, by neft (PyTorch).\"\"\"
    """
    return program(perceptron(net, "programs"), framework)


def program(net: MLP, framework: str, chosen: Settings | None = None) -> str:
    """The program, with the optimizer of these settings; without any, gradient descent at the rates of the network."""
    framework = _check.one_of("framework", framework, FRAMEWORKS)
    kind = "jax" if framework == "equinox" else framework
    variances = net.variances()
    chosen = of_network(net.rates()) if chosen is None else chosen
    # Where some layers have biases the others are given some that are 0 and stay so.
    layers = weights_of(net)
    biases = any(layer.biases for layer in layers)
    layers = [layer._replace(biases=biases) for layer in layers]
    words = _WITH if biases else _WITHOUT
    part = optimizer_part("torch" if kind == "torch" else "jax", chosen, layers, _BY_LAYER[kind].format(**words))
    numbers = _NUMBERS.format(
        words=words["words"],
        widths=_literal(net.widths),
        std_W=_literal([variance.W**0.5 for variance in variances]),
        std_b=f"STD_B = {_literal([variance.b**0.5 for variance in variances])}\n" if biases else "",
        constants=part.constants,
        activation=activation_line(net.activation.name if net.activation.remakable else "", framework),
    )
    sizes = [*map(str, net.widths)] if net.depth < 6 else [*map(str, net.widths[:2]), "…", *map(str, net.widths[-2:])]
    name = net.activation.name if net.activation.remakable else "own activation"
    name = name if len(name) < 24 else "activation below"
    title = f"MLP {' - '.join(sizes)}, {name}: weights and learning rates, by neft"
    ends = {"inputs": net.widths[0], "outputs": net.widths[-1]}
    more = {"numbers": numbers, "functions": part.functions, "layer": LAYER[biases].rstrip()}
    return _PROGRAMS[kind].format(title=title, **ends, **more, **words)


def activation_line(name: str, framework: str) -> str:
    """The body of a function that is the activation of this name or expression, in a framework of `FRAMEWORKS`.

    >>> activation_line("leaky_relu(0.1)", "torch")
    'return nn.functional.leaky_relu(z, 0.1)'
    >>> activation_line("sin(2)", "jax")
    'return jnp.sin(2 * z)'
    >>> activation_line("z*max(tanh(2*z),0.1)", "torch")
    'return z * torch.clamp(torch.tanh(2 * z), min=0.1)'
    """
    table = _TORCH if framework == "torch" else _JAX
    plain, _, inside = (name, "", "") if is_expression(name) else name.partition("(")
    if plain == "sin" and inside:
        name = plain = f"sin({inside.rstrip(')')}*z)"
    if plain in table:
        return "return " + table[plain].format(inside.rstrip(")"))
    if not is_expression(name):
        return 'raise NotImplementedError("put your own activation here")'
    text = written(name, _TORCH_FUNCTIONS, _TORCH_BOUNDED) if framework == "torch" else written(name, _JAX_FUNCTIONS)
    if len(text) < _LINE:
        return f"return {text}"
    spaces = " " * 8
    lines = textwrap.wrap(text, _LINE - len(spaces), break_long_words=False, break_on_hyphens=False)
    return "return (\n" + "".join(f"{spaces}{line}\n" for line in lines) + "    )"


def _literal(values: Sequence[float]) -> str:
    """A tuple as a program writes it: runs of equal numbers as products, many numbers on several lines."""
    texts = [str(value) if isinstance(value, int) else f"{value:.10g}" for value in values]
    runs = [(text, len(list(equal))) for text, equal in itertools.groupby(texts)]
    parts = [f"*({text},) * {count}" if count > 3 else ", ".join([text] * count) for text, count in runs]
    inside = ", ".join(parts) + ("," if len(texts) == 1 else "")
    if len(runs) == 1 and len(texts) > 3:
        return f"({texts[0]},) * {len(texts)}"
    if len(inside) < 90:
        return f"({inside})"
    lines = textwrap.fill(inside + ",", 100, initial_indent="    ", subsequent_indent="    ", break_long_words=False)
    return f"(\n{lines}\n)"
