"""The Python and the command line that make a view again."""

import shlex
from typing import Any

from .. import activation
from ._settings import Settings

VIEWS = ("phase", "flow", "density", "ntk", "regression")


def code(settings: Settings) -> dict[str, dict[str, str]]:
    """For each view a program and a command.

    >>> print(code(Settings(activation="relu", C_W=2.0))["phase"]["shell"])
    neft phase relu --C-b 0,1 --C-W 0.1,4 --plot phase.svg
    """
    return {view: {"python": _python(settings, view), "shell": _shell(settings, view)} for view in VIEWS}


def _python(settings: Settings, view: str) -> str:
    lines = ["import neft", ""]
    if view == "phase":
        lines = ["import numpy as np", *lines, *_repeated(settings)]
        if settings.residual == "two":  # whose command reads the network from a file
            lines += _network(settings, settings.width)[len(_blocks(settings)) :]
        axes = "np.linspace(0, 1, 41), np.linspace(0.1, 4, 79)"
        return "\n".join([*lines, f"found = neft.width.phase(repeated, {axes})", *_saved("phase")])
    if view == "regression":
        x, y = _points(settings)
        order = "order=1)  # order=0: infinite width" if _corrected(settings) else "order=0)"
        time = "" if settings.until is None else f"time={settings.until!r}, "
        lines += [*_network(settings, 1), f"x = {x}", f"y = {y}", f"line = {_LINE}"]
        lines += [f"found = neft.training.predict(net, x, y, line, {time}{order}"]
        return "\n".join([*lines, "print(found.mean[:, 0], found.std[:, 0])"])
    lines += [*_network(settings, settings.width), f"stats = neft.width.statistics(net, [1.0] * {settings.width})"]
    if view == "density":
        return "\n".join([*lines, "found = neft.width.density(stats)", *_saved("density")])
    if view == "ntk":
        n = settings.width
        return "\n".join(
            [
                *lines,
                f"mean = stats.Theta[-1] + stats.Theta1[-1] / {n}",
                f"spread = ((stats.A[-1] + 2 * stats.B[-1]) / {n}) ** 0.5",
                "print(mean, spread)",
            ]
        )
    return "\n".join([*lines, "found = stats", *_saved("flow")])


_LINE = "[[k / 5 - 2 or 0.02] for k in range(21)]"
"""Where the curves are made, in a program: not at 0, as in the page, because nothing passes there without biases."""


def _points(settings: Settings) -> tuple[list[list[float]], list[float]]:
    return [[x] for x, _ in settings.points], [y for _, y in settings.points]


def _corrected(settings: Settings) -> bool:
    """Whether its training has corrections of order 1/width: with a norm or a jump of the slope there are none."""
    return settings.norm == "none" and all(kink.order > 1 for kink in activation(settings.activation).kinks)


def _saved(name: str) -> list[str]:
    return [f'neft.plot.save(neft.plot.draw(found), "{name}.svg")']


def _dense(settings: Settings) -> str:
    chosen = {name: value for name, value in settings.dense.items() if value != getattr(Settings(), name)}
    return "".join(f", {name}={value!r}" for name, value in chosen.items())


def _step(settings: Settings) -> str:
    norm = {"none": "", "rms": "neft.RMSNorm(), ", "layer": "neft.LayerNorm(), "}[settings.norm]
    inner = f"{settings.activation!r}, dense"
    if settings.residual == "none":
        return f"[{norm}{inner}]"
    inner = f"dense, {inner}" if settings.residual == "two" else inner
    return f"[neft.Residual({norm}{inner}, skip={settings.skip!r})]"


def _blocks(settings: Settings) -> list[str]:
    return [f"dense = neft.Dense({settings.width}{_dense(settings)})", f"step = {_step(settings)}"]


def _repeated(settings: Settings) -> list[str]:
    return [f"repeated = {settings.activation!r}"] if settings.plain else [*_blocks(settings), "repeated = step"]


def _network(settings: Settings, inputs: int) -> list[str]:
    if settings.plain:
        widths = f"({inputs}, *[{settings.width}] * {settings.depth - 1}, 1)"
        return [f"net = neft.MLP({widths}, {settings.activation!r}{_dense(settings)})"]
    norm = {"none": "", "rms": "neft.RMSNorm(), ", "layer": "neft.LayerNorm(), "}[settings.norm]
    act = "" if settings.residual == "two" else f"{settings.activation!r}, "
    end = f"{norm}{act}neft.Dense(1{_dense(settings)})"
    return [*_blocks(settings), f"net = neft.Network({inputs}, [dense, *step * {settings.depth - 2}, {end}])"]


def _shell(settings: Settings, view: str) -> str:
    # Of two matrices in a branch the options know nothing.
    two = settings.residual == "two"
    lines = [_WRITTEN] if two else []
    network = ["--network", "net.json"] if two else _options(settings)
    if view == "phase":
        words = ["--C-b", "0,1", "--C-W", "0.1,4", "--plot", "phase.svg"]
        name = settings.activation
        if two:
            words = ["neft", "phase", *network, *words]
        elif name.startswith("-"):  # which would be read as an option
            words = ["neft", "phase", *_blocked(settings), *words, "--", name]
        else:
            words = ["neft", "phase", name, *_blocked(settings), *words]
    elif view == "regression":
        x, y = _points(settings)
        saved = f"import numpy; numpy.savez('points.npz', x_train={x}, y_train={y}, x_test={_LINE})"
        lines.append(shlex.join(["python", "-c", saved]))
        words = ["neft", "predict", "points.npz", *network, *([] if two else ["--inputs", "1"])]
        words += [] if settings.until is None else ["--time", f"{settings.until!r}"]
        words += ["--order", "1"] if _corrected(settings) else []
    else:
        # The plot of `neft stats` is that of the flow.
        more = {"flow": ["--plot", "flow.svg"], "density": ["--interpret", "--plot", "density.svg"], "ntk": []}
        words = ["neft", "stats", *network, *more[view]]
    return "\n".join([*lines, shlex.join(words)])


_WRITTEN = "# After the Python above, and then  import json; json.dump(net.to_dict(), open('net.json', 'w'))"


def _options(settings: Settings) -> list[str]:
    name = settings.activation
    # What begins with a sign would be read as an option.
    words: list[Any] = [f"--activation={name}"] if name.startswith("-") else ["--activation", name]
    words += ["--depth", settings.depth, "--width", settings.width]
    for name, value in settings.dense.items():
        if value != {"C_b": 0.0}.get(name, 1.0):
            words += [f"--{name.replace('_', '-')}", f"{value!r}"]
    return [*map(str, words), *_blocked(settings)]


def _blocked(settings: Settings) -> list[str]:
    words = [] if settings.residual == "none" else ["--residual"]
    if settings.residual != "none" and settings.skip != 1.0:
        words += ["--skip", f"{settings.skip!r}"]
    return [*words, *([] if settings.norm == "none" else ["--norm", settings.norm])]
