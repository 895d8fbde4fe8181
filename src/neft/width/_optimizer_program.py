"""The part of a program that makes the optimizer, group by group.

One group has a plain optimizer. Weights apart from the rest are told by their dimensions; groups that differ beyond
that are listed layer by layer, and each program says itself which array belongs to which layer.
"""

import itertools
from collections.abc import Sequence
from typing import NamedTuple

from ..network.engine import Weights
from ._settings import Group, Settings, bias_groups

_NAMES = {"sgd": "Gradient descent", "momentum": "Gradient descent with momentum", "adam": "Adam", "adamw": "AdamW"}
_COLUMNS = {"sgd": ("rate",), "momentum": ("rate",), "adam": ("rate", "eps"), "adamw": ("rate", "decay", "eps")}
_WORDS = {"rate": "learning rate", "decay": "weight decay", "eps": "ε of Adam"}
_LINE = 120


class Part(NamedTuple):
    """Lines of a program: its constants, and its functions with the one called `optimizer`."""

    constants: str
    functions: str


class _Groups(NamedTuple):
    """The groups of a network's weights, biases (None where a layer has none) and norms."""

    weights: Sequence[Group]
    biases: Sequence[Group | None]
    norms: Group | None

    def others(self) -> set[Group]:
        return {group for group in (*self.biases, self.norms) if group is not None}


def optimizer_part(framework: str, chosen: Settings, layers: Sequence[Weights], by_layer: str) -> Part:
    """The lines for "jax" (of Equinox and of Flax) or "torch".

    Args:
        framework: which.
        chosen: the settings.
        layers: the dense blocks of the network.
        by_layer: a function of the program that says of arrays to which group they belong, by GROUP_W, GROUP_B and
            GROUP_NORMS; used where groups differ from layer to layer.
    """
    # Of biases that stay as they are drawn the rate is 0. They keep their ε, without which Adam's 0/0 is no number.
    biases = [group if layer.biases else None for layer, group in zip(layers, bias_groups(chosen))]
    groups = _Groups(chosen.weights, biases, chosen.norms)
    names = _named(groups)
    if len(names) == 1:
        return _single(framework, chosen, groups.weights[0])
    # Whether there is more to tell than weights from all else.
    differ = len(set(groups.weights)) > 1 or len(groups.others()) > 1
    functions = by_layer if differ else _BY_DIMENSION[framework].format(**_two(names, groups))
    constants = _table(chosen, names) + (_listed(groups, names) if differ else "")
    return Part(constants, functions + "\n\n" + _grouped(framework, chosen))


def _named(groups: _Groups) -> dict[Group, str]:
    """What the groups are called; equal ones of several kinds have one name."""
    kinds = {
        "weights": groups.weights,
        "biases": [group for group in groups.biases if group is not None],
        "norms": [] if groups.norms is None else [groups.norms],
    }
    labels: dict[Group, list[str]] = {}
    for kind, each in kinds.items():
        distinct = list(dict.fromkeys(each))
        for i, group in enumerate(distinct, 1):
            labels.setdefault(group, []).append(kind if len(distinct) == 1 else f"{kind} {i}")
    return {group: " and ".join(words) for group, words in labels.items()}


def _two(names: dict[Group, str], groups: _Groups) -> dict[str, str]:
    """The names of the weights and of what else there is."""
    weights = names[groups.weights[0]]
    return {"weights": weights, "others": next((name for name in names.values() if name != weights), weights)}


def _numbers(chosen: Settings, group: Group) -> list[str]:
    values = {"rate": group.rate, "decay": group.decay, "eps": group.epsilon}
    return [f"{values[name]:.10g}" for name in _COLUMNS[chosen.optimizer]]


def _table(chosen: Settings, names: dict[Group, str]) -> str:
    columns = _COLUMNS[chosen.optimizer]
    words = ", ".join(_WORDS[name] for name in columns[:-1]) + (" and " if columns[1:] else "") + _WORDS[columns[-1]]
    lines = []
    for group, name in names.items():
        numbers = ", ".join(_numbers(chosen, group))
        lines.append(f'    "{name}": ' + (f"({numbers})" if columns[1:] else numbers))
    return f"# Groups of parameters: {words}.\nGROUPS = {{\n" + "".join(f"{line},\n" for line in lines) + "}\n"


def _listed(groups: _Groups, names: dict[Group, str]) -> str:
    """Which group the weights and biases of each layer belong to, and the norms."""
    weights = _tuple([names[group] for group in groups.weights])
    biases = _tuple([None if group is None else names[group] for group in groups.biases])
    norms = "" if groups.norms is None else f'GROUP_NORMS = "{names[groups.norms]}"\n'
    return f"GROUP_W = {weights}\nGROUP_B = {biases}\n{norms}"


def _tuple(names: Sequence[str | None]) -> str:
    runs = [(name, len(list(equal))) for name, equal in itertools.groupby(names)]
    texts = ["None" if name is None else f'"{name}"' for name, _ in runs]
    if len(runs) == 1:
        return f"({texts[0]},) * {len(names)}"
    parts = [f"*({text},) * {count}" if count > 1 else text for text, (_, count) in zip(texts, runs)]
    inside = ", ".join(parts)
    return f"({inside})" if len(inside) < _LINE - 20 else "(\n" + "".join(f"    {part},\n" for part in parts) + ")"


def _call(chosen: Settings, rate: str, decay: str, eps: str) -> str:
    """The optimizer of optax for one group."""
    if chosen.betas is None:
        return f"optax.sgd({rate}" + (f", momentum={chosen.momentum:g})" if chosen.momentum else ")")
    one, two = chosen.betas
    more = f", weight_decay={decay}" if chosen.optimizer == "adamw" else ""
    return f"optax.{chosen.optimizer}({rate}, b1={one:g}, b2={two:g}, eps={eps}{more})"


def _of_torch(chosen: Settings, groups: str, more: str = "") -> str:
    if chosen.betas is None:
        momentum = f", momentum={chosen.momentum:g}" if chosen.momentum else ""
        return f"torch.optim.SGD({groups}{more}{momentum})"
    one, two = chosen.betas
    return f"torch.optim.{_NAMES[chosen.optimizer]}({groups}{more}, betas=({one:g}, {two:g}))"


def _single(framework: str, chosen: Settings, group: Group) -> Part:
    constants, name = f"RATE = {group.rate:.10g}\n", _NAMES[chosen.optimizer]
    decay, eps = f"{group.decay:g}", f"{group.epsilon:g}"
    if framework == "torch":
        more = ", lr=factor * RATE" + ("" if chosen.betas is None else f", eps={eps}")
        more += f", weight_decay={decay}" if chosen.optimizer == "adamw" else ""
        made = (
            f"def optimizer(model, factor=1.0):\n    {{}}\n    return {_of_torch(chosen, 'model.parameters()', more)}\n"
        )
    else:
        called = _call(chosen, "factor * RATE", decay, eps)
        made = f"def optimizer(factor=1.0):\n    {{}}\n    return {called}\n"
    return Part(constants, made.format(f'"""{name}, with `factor` times the rate."""'))


def _grouped(framework: str, chosen: Settings) -> str:
    """The function that makes the optimizer of several groups, each as a line of GROUPS says."""
    columns, said = _COLUMNS[chosen.optimizer], f'"""{_NAMES[chosen.optimizer]}, with `factor` times the rates."""'
    of = f"({', '.join(columns)})" if columns[1:] else columns[0]
    if framework == "torch":
        names = {"rate": '"lr": factor * rate', "decay": '"weight_decay": decay', "eps": '"eps": eps'}
        numbers = ", ".join(names[column] for column in columns)
        return f"""def optimizer(model, factor=1.0):
    {said}
    members = {{name: [] for name in GROUPS}}
    for name, part in labelled(model):
        members[name].append(part)
    groups = [
        {{"params": members[name], {numbers}}}
        for name, {of} in GROUPS.items()
    ]
    return {_of_torch(chosen, "groups")}
"""
    return f"""def optimizer(factor=1.0):
    {said}
    each = {{
        name: {_call(chosen, "factor * rate", "decay", "eps")}
        for name, {of} in GROUPS.items()
    }}
    return optax.multi_transform(each, labels)
"""


_BY_DIMENSION = {
    "jax": '''def labels(params):
    """The group of each array."""
    return jax.tree.map(lambda leaf: "{weights}" if leaf.ndim > 1 else "{others}", params)
''',
    "torch": '''def labelled(model):
    """The group of each parameter, beside it."""
    return [("{weights}" if part.ndim > 1 else "{others}", part) for part in model.parameters()]
''',
}
