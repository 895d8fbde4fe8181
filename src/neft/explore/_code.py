"""The Python and the command line that make a view again."""

import shlex
from typing import Any

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
        axes = "np.linspace(0, 1, 41), np.linspace(0.1, 4, 79)"
        return "\n".join([*lines, f"found = neft.width.phase(repeated, {axes})", *_saved("phase")])
    if view == "regression":
        x, y = ([f"{value:g}" for value in column] for column in zip(*settings.points))
        lines += _network(settings, 1)
        lines += [f"x = [[{'], ['.join(x)}]]", f"y = [{', '.join(y)}]", "line = [[k / 5 - 2] for k in range(21)]"]
        return "\n".join(
            [
                *lines,
                "found = neft.training.predict(net, x, y, line, order=1)  # order=0: infinite width",
                "print(found.mean[:, 0], found.std[:, 0])",
            ]
        )
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
    if settings.residual == "two":
        return (
            "# two matrices in a branch: in Python write net.to_dict() to net.json with json.dump, then\n"
            f"neft {'phase' if view == 'phase' else 'stats'} --network net.json --plot {view}.svg"
        )
    if view == "phase":
        words = ["neft", "phase", settings.activation, *_blocked(settings), "--C-b", "0,1", "--C-W", "0.1,4"]
        return shlex.join([*words, "--plot", "phase.svg"])
    if view == "regression":
        inputs = ["--inputs", "1"]
        return "# x_train, y_train and x_test in points.npz (numpy.savez)\n" + shlex.join(
            ["neft", "predict", "points.npz", *_options(settings), *inputs, "--order", "1"]
        )
    words = ["neft", "stats", *_options(settings)]
    return shlex.join([*words, *(["--interpret"] if view == "density" else []), "--plot", f"{view}.svg"])


def _options(settings: Settings) -> list[str]:
    words: list[Any] = ["--activation", settings.activation, "--depth", settings.depth, "--width", settings.width]
    for name, value in settings.dense.items():
        if value != {"C_b": 0.0}.get(name, 1.0):
            words += [f"--{name.replace('_', '-')}", f"{value!r}"]
    return [*map(str, words), *_blocked(settings)]


def _blocked(settings: Settings) -> list[str]:
    words = [] if settings.residual == "none" else ["--residual"]
    if settings.residual != "none" and settings.skip != 1.0:
        words += ["--skip", f"{settings.skip!r}"]
    return [*words, *([] if settings.norm == "none" else ["--norm", settings.norm])]
