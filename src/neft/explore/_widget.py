"""The page in a notebook: the same views, with numbers computed by the notebook's own process."""

import threading
from typing import Any

try:
    import anywidget
    import traitlets
except ImportError:
    raise ValueError("neft.explore.Widget needs anywidget: pip install 'neft[notebook]'.") from None

from .. import MLP, Network, _check
from . import _page
from ._app import AT_ONCE, JOBS, at_once, told
from ._jobs import Job, Workers
from ._settings import Refused, Settings


def _program() -> str:
    # Libraries that look for a module system are to find none, wherever the notebook runs them.
    libraries = "\n".join(
        f"(function(exports, module, define) {{\n{_page.text(name)}\n}}).call(globalThis);" for name in _page.LIBRARIES
    )
    own = "\n".join(_page.text(name) for name in (*_page.OWN, "widget.js"))
    return f"{libraries}\n{own}\nexport default {{ render: globalThis.neftExplore.render }};\n"


class Widget(anywidget.AnyWidget):
    """The explorer of a network in a notebook.

    Args:
        net: a perceptron of equal hidden widths and one number for each hyperparameter, to begin with; or None.

    >>> Widget(MLP((1, 64, 64, 1), "gelu", C_W=1.5)).settings["width"]
    64
    """

    _esm = traitlets.Unicode(_program()).tag(sync=True)
    _css = traitlets.Unicode("\n".join(map(_page.text, _page.STYLES))).tag(sync=True)
    facts = traitlets.Dict().tag(sync=True)
    settings = traitlets.Dict().tag(sync=True)

    def __init__(self, net: Network | None = None) -> None:
        chosen = Settings() if net is None else settings_of(net)
        facts = _page.facts(mode="widget", settings=chosen.record(), body=_page.text("body.html"))
        super().__init__(facts=facts, settings=chosen.record())
        self._workers, self._jobs = Workers(), {}
        self.on_msg(lambda _, message, __: self._heard(message))

    def _heard(self, message: Any) -> None:
        if not isinstance(message, dict):
            return
        mark, name = message.get("mark"), message.get("name")
        if message.get("kind") == "stop":
            job = self._jobs.pop(mark, None)
            if job is not None:
                job.stop()
            return
        try:
            known = AT_ONCE if message.get("kind") == "ask" else JOBS
            if name not in known:
                raise Refused({"": f"the name must be one of {', '.join(known)}."})
            settings = Settings.of(message.get("settings"))
            if message.get("kind") == "ask":
                self.send({"mark": mark, "result": at_once(str(name), settings)})
                return
            job = self._workers.run(str(name), settings.record())
        except Exception as error:
            self.send({"mark": mark, **told(error)})
        else:
            self._jobs[mark] = job
            threading.Thread(target=self._tell, args=(mark, job), daemon=True).start()

    def _tell(self, mark: Any, job: Job) -> None:
        for record in job:
            if mark in self._jobs:
                self.send({"mark": mark, **record})
        self._jobs.pop(mark, None)

    def close(self) -> None:
        """End the widget and its processes."""
        workers = vars(self).get("_workers")
        if workers is not None:  # else it was refused before it began
            workers.close()
            super().close()


def settings_of(net: Network) -> Settings:
    """The settings that describe a perceptron; a ValueError says what the page cannot show.

    >>> settings_of(MLP((8, 32, 32, 1), "relu", C_W=2.0)).depth
    3
    """
    if not isinstance(net, MLP):
        raise ValueError(
            f"net is {_check.brief(net)}, but must be a perceptron (MLP): skips and norms are chosen there."
        )
    record = net.to_dict()
    hidden = set(record["widths"][1:-1])
    if len(hidden) != 1:
        raise ValueError(f"net has widths {tuple(record['widths'])}, but must have hidden layers of one width.")
    values = {}
    for name in ("C_b", "C_W", "lambda_b", "lambda_W"):
        several = set(record[name])
        if len(several) != 1:
            raise ValueError(f"net has a {name} of its own for each layer, but must have one for all.")
        values[name] = float(several.pop())
    return Settings.of({"activation": record["activation"], "depth": net.depth, "width": hidden.pop(), **values})
