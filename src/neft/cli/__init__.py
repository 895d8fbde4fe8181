"""The command line. Each command parses, calls one public function and prints what came back.

Nothing here imports NumPy, JAX or matplotlib before a command runs, so that `neft --help` answers at once.
"""

from ._activation import activation
from ._app import app as app
from ._app import main as main
from ._claims import claims
from ._data import data
from ._flat import flat
from ._network import network
from ._report import report
from ._show import show

for _command in (activation, network, data, claims, report, show):
    app.command()(flat(_command))
