"""A residual network as a short program for JAX with Equinox, for Flax or for PyTorch.

A dense layer, equal residual blocks whose skip is a number, each with the norms that follow its sum, norms at the end
if there are any, and a dense layer. Perceptrons have programs of their own.
"""

import textwrap
from collections.abc import Sequence
from typing import Any

from .. import _check
from ..network import Network
from ..network.engine import Weights, step_length, weights_of
from ._initializers import FRAMEWORKS, LAYER, activation_line
from ._optimizer_program import optimizer_part
from ._settings import Settings

_PROGRAMS = {
    "jax": '''"""{title} (JAX with Equinox)."""

import equinox as eqx
import jax
import jax.numpy as jnp
import optax

{constants}

def activation(z):
    {activation}


{helper}


class Block(eqx.Module):
    layers: list
{after_field}
    def __init__(self, key):
        keys = iter(jax.random.split(key, {inside}))
        self.layers = [
{branch}
        ]
{after_made}
    def __call__(self, x):
        layers = iter(self.layers)
        z = x
{forward}
{ending}


class Network(eqx.Module):
    """Maps one input of shape ({inputs},) to outputs of shape ({outputs},); `jax.vmap` it over a batch."""

    first: eqx.nn.Linear
    blocks: list
    norms: list
    last: eqx.nn.Linear

    def __init__(self, key):
        first, last, *rest = jax.random.split(key, {count} + 2)
        self.first = {first}
        self.blocks = [Block(k) for k in rest]
        self.norms = [{norms}]
        self.last = {last}

    def __call__(self, x):
        x = self.first(x)
        for part in (*self.blocks, *self.norms):
            x = part(x)
        return self.last(x)


{functions}

model = eqx.filter_jit(Network)(jax.random.key(0))
optim = optimizer()
''',
    "flax": '''"""{title} (Flax)."""

import flax.linen as nn
import jax
import jax.numpy as jnp
import optax

{constants}

def activation(z):
    {activation}


{helper}


class Block(nn.Module):
    @nn.compact
    def __call__(self, x):
        z = x
{forward}
{ending}


class Network(nn.Module):
    @nn.compact
    def __call__(self, x):
        x = {first}(x)
        for _ in range({count}):
            x = Block()(x)
        for norm in [{norms}]:
            x = norm(x)
        return {last}(x)


{functions}

model = Network()
params = model.init(jax.random.key(0), jnp.zeros({inputs}))
optim = optimizer()
''',
    "torch": '''"""{title} (PyTorch)."""

import torch
from torch import nn

{constants}

def activation(z):
    {activation}


{helper}


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList([
{branch}
        ])
{after_made}
    def forward(self, x):
        layers = iter(self.layers)
        z = x
{forward}
{ending}


class Network(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = {first}
        self.blocks = nn.ModuleList(Block() for _ in range({count}))
        self.norms = nn.ModuleList([{norms}])
        self.last = {last}

    def forward(self, x):
        x = self.first(x)
        for part in (*self.blocks, *self.norms):
            x = part(x)
        return self.last(x)


{functions}

torch.manual_seed(0)
model = Network()
optim = optimizer(model)
''',
}

_LAYERS = {
    "flax": {
        True: """def gaussian_layer(fan_out, std_W, std_b):
    # `normal` is not truncated, unlike Flax's default.
    init = {"kernel_init": nn.initializers.normal(std_W), "bias_init": nn.initializers.normal(std_b)}
    return nn.Dense(fan_out, **init)
""",
        False: """def gaussian_layer(fan_out, std_W):
    # `normal` is not truncated, unlike Flax's default.
    return nn.Dense(fan_out, use_bias=False, kernel_init=nn.initializers.normal(std_W))
""",
    },
    "torch": {
        True: """def gaussian_layer(fan_in, fan_out, std_W, std_b):
    # Gaussian, unlike PyTorch's default, which is uniform.
    layer = nn.Linear(fan_in, fan_out)
    nn.init.normal_(layer.weight, std=std_W)
    nn.init.normal_(layer.bias, std=std_b)
    return layer
""",
        False: """def gaussian_layer(fan_in, fan_out, std_W):
    # Gaussian, unlike PyTorch's default, which is uniform.
    layer = nn.Linear(fan_in, fan_out, bias=False)
    nn.init.normal_(layer.weight, std=std_W)
    return layer
""",
    },
    "jax": LAYER,
}
"""With biases and without."""

# Groups layer by layer; doubled braces stay for the program.
_BY_LAYER = {
    "jax": '''def dense(model):
    inside = [layer for block in model.blocks for layer in block.layers if isinstance(layer, eqx.nn.Linear)]
    return [model.first, *inside, model.last]


def labels(params):
    """The group of each array."""
    pairs = list(zip(dense(params), zip(GROUP_W, GROUP_B)))
    where = lambda of: [leaf for layer in dense(of) for leaf in (layer.weight, layer.bias) if leaf is not None]
    names = [name for _, pair in pairs for name in pair if name is not None]
    return eqx.tree_at(where, jax.tree.map(lambda leaf: {norms}, params), names)
''',
    "flax": '''def label(path, leaf):
    """The group of the array that stands there."""
    *above, layer, what = [part.key for part in path]
    if not layer.startswith("Dense"):
        return {norms}
    place = int(layer.split("_")[1])
    block = [int(name.split("_")[1]) for name in above if name.startswith("Block")]
    l = 1 + {per} * block[0] + place if block else -place
    return (GROUP_B if what == "bias" else GROUP_W)[l]


def labels(params):
    """The group of each array."""
    return jax.tree_util.tree_map_with_path(label, params)
''',
    "torch": '''def labelled(model):
    """The group of each parameter, beside it."""
    inside = [layer for block in model.blocks for layer in block.layers if isinstance(layer, nn.Linear)]
    dense = [model.first, *inside, model.last]
    pairs = [(name, layer.weight) for name, layer in zip(GROUP_W, dense)]
    pairs += [(name, layer.bias) for name, layer in zip(GROUP_B, dense) if name is not None]
    own = {{id(part) for _, part in pairs}}
    return pairs + [({norms}, part) for part in model.parameters() if id(part) not in own]
''',
}


def block_program(net: Network, count: int, framework: str, chosen: Settings) -> str:
    """The program of a network of `count` equal residual blocks, with the optimizer of these settings."""
    kind = _check.one_of("framework", framework, FRAMEWORKS)
    kind = "jax" if kind == "equinox" else kind
    middle = [_whole(block) for block in net.to_dict()["blocks"][1:-1]]
    size = step_length(net, count)
    step, closing = middle[:size], middle[size * count :]
    _refuse_others(step, closing)
    block, *after = step
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
    words = {"norms": "None" if chosen.norms is None else "GROUP_NORMS", "per": len(inside)}
    part = optimizer_part("torch" if kind == "torch" else "jax", chosen, each, _BY_LAYER[kind].format(**words))
    beside = "norm, " * len(closing)
    return _PROGRAMS[kind].format(
        title=f"Dense layer, {count} residual blocks of width {width}, {beside}dense layer, by neft",
        constants=part.constants,
        functions=part.functions,
        activation=activation_line(name, kind),
        helper=_helper(kind, each),
        inside=max(1, len(inside)),
        branch=textwrap.indent(",\n".join(layers) + ",", indent),
        forward=textwrap.indent("\n".join(lines), " " * 8),
        **_after(kind, [_norm(kind, norm, width) for norm in after], f"{skip}x + z"),
        inputs=net.inputs,
        outputs=each[-1].width,
        count=count,
        first=_layer(kind, each[0], "first"),
        last=_layer(kind, each[-1], "last"),
        norms=", ".join(_norm(kind, norm, width) for norm in closing),
    )


def _after(kind: str, norms: Sequence[str], total: str) -> dict[str, str]:
    """What follows the sum of a block."""
    if not norms:
        return {"after_field": "", "after_made": "", "ending": f"        return {total}"}
    listed = f"[{', '.join(norms)}]"
    made = {
        "jax": f"        self.after = {listed}\n",
        "torch": f"        self.after = nn.ModuleList({listed})\n",
        "flax": "",
    }
    of = listed if kind == "flax" else "self.after"
    lines = (f"z = {total}", f"for norm in {of}:", "    z = norm(z)", "return z")
    ending = "\n".join(f"        {line}" for line in lines)
    return {"after_field": "    after: list\n", "after_made": made[kind], "ending": ending}


def _whole(block: Any) -> dict[str, Any]:
    """A record in which activations are records too."""
    if isinstance(block, str):
        return {"type": "Nonlinearity", "activations": [block]}
    return {**block, "branch": [_whole(part) for part in block["branch"]]} if block["type"] == "Residual" else block


def _refuse_others(step: Sequence[Any], closing: Sequence[Any]) -> None:
    block, *after = step
    if block["type"] != "Residual" or isinstance(block["skip"], dict):
        raise ValueError(
            f"the network repeats {block['type']}, but programs are written for residual blocks whose skip is a number."
        )
    for part in block["branch"]:
        if part["type"] not in ("Dense", "Nonlinearity", *_NORMS):
            raise ValueError(f"the branch holds {part['type']}, for which no program is written.")
    for words, blocks in (("after its sums has", after), ("ends with", closing)):
        for block in blocks:
            if block["type"] not in _NORMS:
                raise ValueError(f"the network {words} {block['type']}, for which no program is written.")


_NORMS = ("LayerNorm", "RMSNorm")


def _helper(kind: str, layers: Sequence[Weights]) -> str:
    """The functions that make dense layers: with biases, without, or both."""
    both = (_LAYERS[kind][True], _LAYERS[kind][False].replace("gaussian_layer", _BARE))
    wanted = {layer.biases for layer in layers}
    return "\n\n".join(text for text, biases in zip(both, (True, False)) if biases in wanted).rstrip()


_BARE = "gaussian_matrix"
"""What makes a layer without biases."""


def _branch(kind: str, branch: Sequence[Any], inside: Sequence[Weights], width: int) -> tuple[list[str], list[str]]:
    """The layers of a branch, and the lines that run them."""
    layers, lines, dense = [], [], iter(inside)
    for part in branch:
        if part["type"] == "Nonlinearity":
            lines.append("z = activation(z)")
            continue
        if part["type"] == "Dense":
            of = next(dense)
            layers.append(_layer(kind, of, "next(keys)"))
            width = of.width
        else:
            layers.append(_norm(kind, part, width))
        lines.append(f"z = {layers[-1]}(z)" if kind == "flax" else "z = next(layers)(z)")
    return layers, lines


def _layer(kind: str, of: Weights, key: str) -> str:
    """The call that makes a dense layer; only Equinox's takes the key."""
    sizes = [key, of.fan_in, of.width] if kind == "jax" else [of.width] if kind == "flax" else [of.fan_in, of.width]
    numbers = [
        f"{variance**0.5:.10g}" for variance in ((of.variance_W, of.variance_b) if of.biases else (of.variance_W,))
    ]
    return f"{'gaussian_layer' if of.biases else _BARE}({', '.join(map(str, [*sizes, *numbers]))})"


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
