"""All commands, in the order of the help."""

from ._action import action
from ._activation import activation
from ._advise import advise
from ._app import app as app
from ._check import check
from ._claims import claims
from ._critical import critical
from ._data import data
from ._explore import explore
from ._fisher import fisher
from ._flat import flat
from ._network import network
from ._phase import phase
from ._predict import predict
from ._regress import regress
from ._report import report
from ._show import show
from ._stats import stats
from ._sweep import sweep
from ._train import train

for _command in (
    activation,
    network,
    stats,
    check,
    critical,
    phase,
    advise,
    predict,
    regress,
    action,
    fisher,
    train,
    sweep,
    data,
    claims,
    report,
    explore,
    show,
):
    app.command()(flat(_command))
