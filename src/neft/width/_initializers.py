"""A network as a short program for JAX with Equinox, for Flax or for PyTorch: initial weights and learning rates.

Weights are drawn from Gaussians that are not cut off: Flax's default is truncated and PyTorch's uniform, which changes
the statistics at order 1/width.
"""

import itertools
import textwrap
from collections.abc import Sequence

from .. import _check
from .._public import public
from ..network import MLP, Network
from ..network.engine import perceptron

FRAMEWORKS = ("jax", "flax", "torch")

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
}

_NUMBERS = """
# Layer by layer: standard deviations √(C_W / fan-in) and √C_b, learning rates λ_W / fan-in and λ_b.
WIDTHS = {widths}
STD_W = {std_W}
STD_B = {std_b}
RATE_W = {rate_W}
RATE_B = {rate_b}


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
            for k, *sizes in zip(jax.random.split(key, len(STD_W)), WIDTHS, WIDTHS[1:], STD_W, STD_B)
        ]

    def __call__(self, x):
        for layer in self.layers[:-1]:
            x = activation(layer(x))
        return self.layers[-1](x)


def gaussian_layer(key, fan_in, fan_out, std_W, std_b):
    key, key_W, key_b = jax.random.split(key, 3)
    layer = eqx.nn.Linear(fan_in, fan_out, key=key)
    values = std_W * jax.random.normal(key_W, (fan_out, fan_in)), std_b * jax.random.normal(key_b, (fan_out,))
    return eqx.tree_at(lambda of: (of.weight, of.bias), layer, values)


def optimizer(learning_rate):
    """Gradient descent with the rates of each layer times `learning_rate`, for the arrays of a `Network`."""

    def update(gradients, params=None):
        where = lambda of: [leaf for layer in of.layers for leaf in (layer.weight, layer.bias)]
        rates = [rate for pair in zip(RATE_W, RATE_B) for rate in pair]
        steps = [-learning_rate * rate * g for rate, g in zip(rates, where(gradients))]
        return eqx.tree_at(where, gradients, steps)

    return optax.stateless(update)


model = eqx.filter_jit(Network)(jax.random.key(0))
optim = optimizer(learning_rate=1.0)
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
        for l, (fan_out, std_W, std_b) in enumerate(zip(WIDTHS[1:], STD_W, STD_B)):
            # `normal` is not truncated, unlike Flax's default.
            init = {{"kernel_init": nn.initializers.normal(std_W), "bias_init": nn.initializers.normal(std_b)}}
            x = nn.Dense(fan_out, name=f"layer_{{l}}", **init)(activation(x) if l else x)
        return x


def optimizer(learning_rate):
    """Gradient descent with the rates of each layer times `learning_rate`."""
    rates = {{f"layer_{{l}}": {{"kernel": W, "bias": b}} for l, (W, b) in enumerate(zip(RATE_W, RATE_B))}}

    def update(gradients, params=None):
        return jax.tree.map(lambda rate, g: -learning_rate * rate * g, {{"params": rates}}, gradients)

    return optax.stateless(update)


model = Network()
params = model.init(jax.random.key(0), jnp.zeros(WIDTHS[0]))
optim = optimizer(learning_rate=1.0)
''',
    "torch": '''"""{title} (PyTorch)."""

import torch
from torch import nn
{numbers}

class Network(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(*sizes) for sizes in zip(WIDTHS, WIDTHS[1:]))
        for layer, std_W, std_b in zip(self.layers, STD_W, STD_B):
            # Gaussian, unlike PyTorch's default, which is uniform.
            nn.init.normal_(layer.weight, std=std_W)
            nn.init.normal_(layer.bias, std=std_b)

    def forward(self, x):
        for layer in self.layers[:-1]:
            x = activation(layer(x))
        return self.layers[-1](x)


def optimizer(model, learning_rate):
    """Gradient descent with the rates of each layer times `learning_rate`."""
    groups = []
    for layer, rate_W, rate_b in zip(model.layers, RATE_W, RATE_B):
        groups.append({{"params": [layer.weight], "lr": learning_rate * rate_W}})
        groups.append({{"params": [layer.bias], "lr": learning_rate * rate_b}})
    return torch.optim.SGD(groups)


torch.manual_seed(0)
model = Network()
optim = optimizer(model, learning_rate=1.0)
''',
}


@public
def initializer_code(net: Network, framework: str) -> str:
    """A program that makes `model`, drawn with the variances of `net`, and `optim`, with its learning rates.

    Args:
        net: the specification.
        framework: "jax" (with Equinox), "flax" or "torch".

    >>> print(initializer_code(MLP(widths=(3, 8, 1), activation="tanh"), "torch").splitlines()[0])
    \"\"\"MLP 3 - 8 - 1, tanh: weights and learning rates layer by layer, by neft (PyTorch).\"\"\"
    """
    net = perceptron(net, "programs")
    framework = _check.one_of("framework", framework, FRAMEWORKS)
    variances, rates = net.variances(), net.rates()
    numbers = _NUMBERS.format(
        widths=_literal(net.widths),
        std_W=_literal([variance.W**0.5 for variance in variances]),
        std_b=_literal([variance.b**0.5 for variance in variances]),
        rate_W=_literal([rate.W for rate in rates]),
        rate_b=_literal([rate.b for rate in rates]),
        activation=_activation(net, _TORCH if framework == "torch" else _JAX),
    )
    sizes = [*map(str, net.widths)] if net.depth < 6 else [*map(str, net.widths[:2]), "…", *map(str, net.widths[-2:])]
    name = net.activation.name if net.activation.named else "own activation"
    title = f"MLP {' - '.join(sizes)}, {name}: weights and learning rates layer by layer, by neft"
    return _PROGRAMS[framework].format(title=title, numbers=numbers, inputs=net.widths[0], outputs=net.widths[-1])


def _activation(net: MLP, table: dict[str, str]) -> str:
    name, _, inside = net.activation.name.partition("(")
    if not net.activation.named or name not in table:
        return 'raise NotImplementedError("put your own activation here")'
    return "return " + table[name].format(inside.rstrip(")"))


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
