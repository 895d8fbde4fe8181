"""A residual network as a short program for JAX with Equinox, for Flax or for PyTorch.

A dense layer, equal residual blocks whose skip is a number, norms if there are any, and a dense layer; one rate for
all of them. Perceptrons have programs of their own.
"""

import textwrap
from collections.abc import Sequence
from typing import Any

from .. import _check
from ..network import Network
from ..network.engine import Weights, weights_of
from ._initializers import FRAMEWORKS, activation_line
from ._settings import Settings

_PROGRAMS = {
    "jax": '''"""{title} (JAX with Equinox)."""

import equinox as eqx
import jax
import jax.numpy as jnp
import optax

RATE = {rate}


def activation(z):
    {activation}


def gaussian_layer(key, fan_in, fan_out, std_W, std_b):
    key, key_W, key_b = jax.random.split(key, 3)
    layer = eqx.nn.Linear(fan_in, fan_out, key=key)
    values = std_W * jax.random.normal(key_W, (fan_out, fan_in)), std_b * jax.random.normal(key_b, (fan_out,))
    return eqx.tree_at(lambda of: (of.weight, of.bias), layer, values)


class Block(eqx.Module):
    layers: list

    def __init__(self, key):
        keys = iter(jax.random.split(key, {inside}))
        self.layers = [
{branch}
        ]

    def __call__(self, x):
        layers = iter(self.layers)
        z = x
{forward}
        return {skip}x + z


class Network(eqx.Module):
    """Maps one input of shape ({inputs},) to outputs of shape ({outputs},); `jax.vmap` it over a batch."""

    first: eqx.nn.Linear
    blocks: list
    norms: list
    last: eqx.nn.Linear

    def __init__(self, key):
        first, last, *rest = jax.random.split(key, {count} + 2)
        self.first = gaussian_layer(first, {first})
        self.blocks = [Block(k) for k in rest]
        self.norms = [{norms}]
        self.last = gaussian_layer(last, {last})

    def __call__(self, x):
        x = self.first(x)
        for part in (*self.blocks, *self.norms):
            x = part(x)
        return self.last(x)


def matrices(params):
    return jax.tree.map(lambda leaf: leaf.ndim > 1, params)


model = eqx.filter_jit(Network)(jax.random.key(0))
optim = {optimizer}
''',
    "flax": '''"""{title} (Flax)."""

import flax.linen as nn
import jax
import jax.numpy as jnp
import optax

RATE = {rate}


def activation(z):
    {activation}


def gaussian_layer(fan_out, std_W, std_b):
    # `normal` is not truncated, unlike Flax's default.
    init = {{"kernel_init": nn.initializers.normal(std_W), "bias_init": nn.initializers.normal(std_b)}}
    return nn.Dense(fan_out, **init)


class Block(nn.Module):
    @nn.compact
    def __call__(self, x):
        z = x
{forward}
        return {skip}x + z


class Network(nn.Module):
    @nn.compact
    def __call__(self, x):
        x = gaussian_layer({first})(x)
        for _ in range({count}):
            x = Block()(x)
        for norm in [{norms}]:
            x = norm(x)
        return gaussian_layer({last})(x)


def matrices(params):
    return jax.tree.map(lambda leaf: leaf.ndim > 1, params)


model = Network()
params = model.init(jax.random.key(0), jnp.zeros({inputs}))
optim = {optimizer}
''',
    "torch": '''"""{title} (PyTorch)."""

import torch
from torch import nn

RATE = {rate}


def activation(z):
    {activation}


def gaussian_layer(fan_in, fan_out, std_W, std_b):
    # Gaussian, unlike PyTorch's default, which is uniform.
    layer = nn.Linear(fan_in, fan_out)
    nn.init.normal_(layer.weight, std=std_W)
    nn.init.normal_(layer.bias, std=std_b)
    return layer


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList([
{branch}
        ])

    def forward(self, x):
        layers = iter(self.layers)
        z = x
{forward}
        return {skip}x + z


class Network(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = gaussian_layer({first})
        self.blocks = nn.ModuleList(Block() for _ in range({count}))
        self.norms = nn.ModuleList([{norms}])
        self.last = gaussian_layer({last})

    def forward(self, x):
        x = self.first(x)
        for part in (*self.blocks, *self.norms):
            x = part(x)
        return self.last(x)


torch.manual_seed(0)
model = Network()
groups = [
    {{"params": [part for part in model.parameters() if part.ndim > 1], "weight_decay": {decay:g}}},
    {{"params": [part for part in model.parameters() if part.ndim == 1], "weight_decay": 0.0}},
]
optim = {optimizer}
''',
}


def block_program(net: Network, count: int, framework: str, chosen: Settings) -> str:
    """The program of a network of `count` equal residual blocks, with the optimizer of these settings."""
    kind = _check.one_of("framework", framework, FRAMEWORKS)
    kind = "jax" if kind == "equinox" else kind
    middle = [_whole(block) for block in net.to_dict()["blocks"][1:-1]]
    block, closing = middle[0], middle[count:]
    _refuse_others(middle[:count], closing)
    each = weights_of(net)
    inside = each[1 : 1 + (len(each) - 2) // count]
    width = each[0].width
    inner = [part for part in block["branch"] if part["type"] == "Nonlinearity"]
    names = [part["activations"] for part in inner]
    if len({tuple(name) for name in names}) != 1 or len(names[0]) != 1:
        raise ValueError("the branch holds several activations, but programs are written for one.")
    # A function of the user's own may be called anything.
    name = names[0][0] if inner[0].get("named", True) else ""
    skip = "" if block["skip"] == 1 else f"{block['skip']:.10g} * "
    layers, lines = _branch(kind, block["branch"], inside, width)
    indent = " " * 12
    return _PROGRAMS[kind].format(
        title=f"Dense layer, {count} residual blocks of width {width}, {'norm, ' * len(closing)}dense layer, by neft",
        rate=f"{float(chosen.rate_W[0]):.10g}",
        activation=activation_line(name, kind),
        inside=max(1, len(inside)),
        branch=textwrap.indent(",\n".join(layers) + ",", indent),
        forward=textwrap.indent("\n".join(lines), " " * 8),
        skip=skip,
        inputs=net.inputs,
        outputs=each[-1].width,
        count=count,
        first=_layer(kind, each[0]),
        last=_layer(kind, each[-1]),
        norms=", ".join(_norm(kind, norm, width) for norm in closing),
        optimizer=_optimizer(kind, chosen),
        decay=float(chosen.decay_W[0]),
    )


def _whole(block: Any) -> dict[str, Any]:
    """A record in which activations are records too."""
    if isinstance(block, str):
        return {"type": "Nonlinearity", "activations": [block]}
    return {**block, "branch": [_whole(part) for part in block["branch"]]} if block["type"] == "Residual" else block


def _refuse_others(blocks: Sequence[Any], closing: Sequence[Any]) -> None:
    for block in blocks:
        if block["type"] != "Residual" or isinstance(block["skip"], dict):
            raise ValueError(
                f"the network repeats {block['type']}, but programs are written for residual blocks whose skip is a "
                "number."
            )
        for part in block["branch"]:
            if part["type"] not in ("Dense", "Nonlinearity", "LayerNorm", "RMSNorm"):
                raise ValueError(f"the branch holds {part['type']}, for which no program is written.")
    for block in closing:
        if block["type"] not in ("LayerNorm", "RMSNorm"):
            raise ValueError(f"the network ends with {block['type']}, for which no program is written.")


def _branch(kind: str, branch: Sequence[Any], inside: Sequence[Weights], width: int) -> tuple[list[str], list[str]]:
    """The layers of a branch, and the lines that run them."""
    layers, lines, dense = [], [], iter(inside)
    for part in branch:
        if part["type"] == "Nonlinearity":
            lines.append("z = activation(z)")
            continue
        if part["type"] == "Dense":
            of = next(dense)
            key = "next(keys), " if kind == "jax" else ""
            layers.append(f"gaussian_layer({key}{_layer(kind, of)})")
            width = of.width
        else:
            layers.append(_norm(kind, part, width))
        lines.append(f"z = {layers[-1]}(z)" if kind == "flax" else "z = next(layers)(z)")
    return layers, lines


def _layer(kind: str, of: Weights) -> str:
    sizes = f"{of.width}" if kind == "flax" else f"{of.fan_in}, {of.width}"
    return f"{sizes}, {of.variance_W**0.5:.10g}, {of.variance_b**0.5:.10g}"


def _norm(kind: str, norm: Any, width: int) -> str:
    centred, epsilon = norm["type"] == "LayerNorm", norm["epsilon"]
    gain, bias = (norm.get(name) is not None for name in ("lambda_gain", "lambda_bias"))
    if kind == "torch":
        if bias and not gain:
            raise ValueError("a norm has biases but no gains, which norms of PyTorch do not: take another framework.")
        more = f", elementwise_affine={gain}" + (f", bias={bias}" if centred and gain else "")
        return f"nn.{norm['type']}({width}, eps={epsilon:g}{more})"
    if kind == "flax":
        return f"nn.{norm['type']}(epsilon={epsilon:g}, use_scale={gain}" + (f", use_bias={bias})" if centred else ")")
    return f"eqx.nn.{norm['type']}({width}, eps={epsilon:g}, use_weight={gain}, use_bias={bias})"


def _optimizer(kind: str, chosen: Settings) -> str:
    name = chosen.optimizer
    if name in ("sgd", "momentum"):
        more = f", momentum={chosen.momentum:g}" if name == "momentum" else ""
        return f"torch.optim.SGD(groups, lr=RATE{more})" if kind == "torch" else f"optax.sgd(RATE{more})"
    assert chosen.betas is not None
    one, two = chosen.betas
    if kind == "torch":
        called = "AdamW" if name == "adamw" else "Adam"
        return f"torch.optim.{called}(groups, lr=RATE, betas=({one:g}, {two:g}), eps={chosen.epsilon:g})"
    numbers = f"RATE, b1={one:g}, b2={two:g}, eps={chosen.epsilon:g}"
    if name == "adam":
        return f"optax.adam({numbers})"
    return f"optax.adamw({numbers}, weight_decay={float(chosen.decay_W[0]):g}, mask=matrices)"
