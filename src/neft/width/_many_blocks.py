"""The tensors of several inputs through all blocks (docs/theory/residual, eqs. 32-44).

A residual block is a skip around a chain of plain layers. Both neurons of a correlator go around it, or one of them
does, or none: these are γ⁴ times the tensor, γ² times its halves, and the tensor of the branch by itself.
"""

from typing import Any, NamedTuple

import numpy as np

from .._activation import Activation
from ..network import Block, Chain, Means, Network, Nonlinearity, Stage, Step
from . import _past
from ._halves import Halves, Slopes, halves_of, wholes
from ._known import no_average, stepped
from ._many_inputs import Four, Pair, after, first_layer
from ._many_moments import Averages, averages, of_identity
from ._one_input import Tensors
from ._past import Source, Tables, taken

_MEANS = ("K", "Theta", "K1", "Theta1")


class _State(NamedTuple):
    layer: Tensors
    past: tuple[Source, ...]


class _Read(NamedTuple):
    # Functionals at a stage, by half and by what they are taken of.
    past: tuple[Source, ...]
    tables: tuple[Tables, ...]
    mean: Averages

    def __call__(self, half: str, right: str) -> np.ndarray:
        return taken(self.past, self.tables, self.mean, half, right)


def through_many(net: Network, x: np.ndarray, wanted: frozenset[str], *, rtol: float) -> list[Tensors]:
    """The tensors after each block at the top that holds weights, in units of the width before it."""
    first, *later = net.blocks
    n, unit, act = net.inputs, net.inputs, None
    state = _State(first_layer(x @ x.T / n, first, wanted), ())
    found, fans = [state.layer], net.fans()[1:]
    for block, n in zip(later, fans):
        if isinstance(block, Nonlinearity):
            act = block.activation
            continue
        state = _rescaled(state, n / unit)
        chain = block.chain() or Chain(0.0, (Step(act, block, None),))
        state = _advanced(state, block, act, chain, n, wanted, rtol)
        unit, act = n, None
        found.append(state.layer)
    return found


def _rescaled(state: _State, scale: float) -> _State:
    # Where the width changes there is no stream, and no past.
    if scale == 1:
        return state
    layer = {k: v if v is None or k in ("K", "Theta") else scale * v for k, v in state.layer._asdict().items()}
    return state._replace(layer=Tensors(**layer))


def _advanced(
    state: _State, block: Block, act: Activation | None, chain: Chain, n: int, wanted: frozenset[str], rtol: float
) -> _State:
    layer, past = state
    skip, steps = chain
    seen: list[Averages] = []

    def take(act: Activation, stage: Stage) -> Means:
        seen.append(averages(act, stage.c, wanted, rtol=rtol))
        own = seen[-1].ss.diagonal()
        return Means(own[:, None], own[None, :], seen[-1].ss, seen[-1].dd)

    before = () if act is None else (Nonlinearity(act),)
    zero = np.zeros_like(layer.K)
    stage = Stage.of_matrix(layer.K, zero if layer.Theta is None else layer.Theta)
    K, Theta = stepped((*before, block), stage, take)
    means = iter(seen)
    # Without an activation at its start the branch sees contractions of the stream alone, all of them in its tensors.
    begins = steps[0].activation
    own = _past.own_parts(past, wanted)
    raw = {name: value for name, value in layer._asdict().items() if value is not None and name not in _MEANS}
    bare = {name: value - own.get(name, 0.0) for name, value in raw.items()} if begins else raw
    moving = bare if begins else _hatted(layer, raw)
    inside, halves, made = layer._replace(**bare), halves_of(moving), None
    slopes: list[Slopes] = []
    for i, step in enumerate(steps):
        mean = of_identity(inside.K) if step.activation is None else next(means)
        linear: Any = step.dense.tensors()
        of = Slopes(mean, inside.Theta, linear)
        r = 1.0 if step.width is None else step.width / n
        new_K, new_Theta = _step(step, inside, mean)
        new = after(inside, mean, r, linear, new_K, new_Theta, wanted)
        through = of.through(halves)
        if i == 0 and begins:
            tables = tuple(_past.tables(source, layer.K, wanted, rtol=rtol) for source in past)
            shared = tuple(_past.only_through(source, of) for source in past)
            in_branch, around = _Read(shared, tables, mean), _Read(past, tables, mean)
            if past:
                new = _plus(new, wholes(_still(in_branch, of, wanted)))
                new = _plus(new, _means(around, of, wanted))
                through = {name: value + more for (name, value), more in _paired(through, _still(around, of, wanted))}
            made = _past.sources(wanted, begins, layer.K, layer.Theta, mean, linear)
        inside, halves = _in_units(new, 1 / r), through
        slopes.append(of)
    found: dict[str, Any] = {"K": K, "Theta": None if layer.Theta is None else Theta}
    crossed = wholes(halves)
    for name, value in bare.items():
        found[name] = skip**4 * value + skip**2 * crossed[name] + getattr(inside, name)
    for name in ("K1", "Theta1"):
        if (value := getattr(layer, name)) is not None:
            found[name] = skip**2 * value + getattr(inside, name)
    if skip == 0:
        return _State(Tensors(**found), ())
    past = tuple(_past.went(source, skip, slopes, stayed=True) for source in past)
    if made is not None:
        past = (*past, _past.went(made, skip, slopes[1:], stayed=False))
        for name, value in _past.own_parts(past, wanted).items():
            found[name] = found[name] + value
    return _State(Tensors(**found), past)


def _step(step: Step, layer: Tensors, mean: Averages) -> tuple[Pair, Pair | None]:
    # K and Θ after one step of a branch.
    before = () if step.activation is None else (Nonlinearity(step.activation),)
    own = mean.ss.diagonal()
    means = Means(own[:, None], own[None, :], mean.ss, mean.dd)
    stage = Stage.of_matrix(layer.K, np.zeros_like(layer.K) if layer.Theta is None else layer.Theta)
    take = no_average if step.activation is None else lambda *_: means
    K, Theta = stepped((*before, step.dense), stage, take)
    return K, None if layer.Theta is None else Theta


def _hatted(layer: Tensors, raw: dict[str, Four]) -> dict[str, Four]:
    """With what two neurons share by being Gaussian vectors (docs/theory/blocks, eq. 17)."""
    K, Theta = layer.K, layer.Theta
    more = {"V": np.einsum("ac,bd->abcd", K, K) + np.einsum("ad,bc->abcd", K, K)}
    if Theta is not None:
        more |= {"F": np.einsum("ab,cd->acbd", K, Theta), "B": np.einsum("ab,cd->acbd", Theta, Theta)}
    return {name: value + more.get(name, 0.0) for name, value in raw.items()}


def _in_units(layer: Tensors, scale: float) -> Tensors:
    # From those of the width inside the branch to those of the stream.
    changed = {k: v if v is None or k in _MEANS[:2] else scale * v for k, v in layer._asdict().items()}
    return Tensors(**changed)


def _plus(layer: Tensors, more: dict[str, Any]) -> Tensors:
    return layer._replace(**{name: getattr(layer, name) + value for name, value in more.items()})


def _paired(halves: Halves, more: Halves):
    return ((item, more.get(item[0], 0.0)) for item in halves.items())


def _still(y: _Read, of: Slopes, wanted: frozenset[str]) -> Halves:
    """Halves whose moving neuron goes into the layer as a function of itself, which functionals see (eq. 41)."""
    C, rate = of.linear
    T: Any = of.Theta
    found: Halves = {}
    if "V" in wanted:
        found["V"] = C * y("V", "ss").transpose(2, 3, 0, 1)
    if "D" in wanted:
        found["Dz"] = C * y("DH", "ss").transpose(2, 3, 0, 1)
        found["DH"] = np.einsum("abcd->cdab", rate * y("V", "ss") + C * T * y("V", "dd"))
    if "A" in wanted:
        found["A"] = np.einsum("abcd->cdab", rate * y("DH", "ss") + C * T * y("DH", "dd"))
    if "F" in wanted:
        found["F"] = C * np.einsum("bdcac->acbd", y("F", "sd"))
    if "B" in wanted:
        found["B"] = C * np.einsum("bdacac->acbd", y("B", "dd"))
    if "P" in wanted:
        found["P1"] = C * np.einsum("bcaada->dabc", y("B", "se"))
        found["P2"] = C * np.einsum("dabcbc->bcad", y("P1", "dd"))
    if "Q" in wanted:
        found["Q1"] = rate * np.einsum("dcaba->abdc", y("F", "sd")) + C * np.einsum("ab,dcaab->abdc", T, y("F", "ed"))
        found["Q2"] = C * np.einsum("abcdc->dcab", y("Q1", "sd"))
    if "R" in wanted:
        found["R1"] = rate * np.einsum("cdaaba->abcd", y("B", "se")) + C * np.einsum("ab,cdaaab->abcd", T, y("B", "td"))
        found["R2"] = C * np.einsum("abcdcd->cdab", y("R1", "dd"))
    if "S" in wanted:
        found["S1"] = rate * np.einsum("cdabab->abcd", y("B", "dd")) + C * np.einsum("ab,cdabab->abcd", T, y("B", "ee"))
        found["S2"] = C * np.einsum("abcdcd->cdab", y("S1", "dd"))
    if "T" in wanted:
        found["T"] = rate * np.einsum("cdaba->abcd", y("Q1", "sd")) + C * np.einsum("ab,cdaab->abcd", T, y("Q1", "ed"))
    if "U" in wanted:
        found["U"] = C * np.einsum("cdabab->abcd", y("U", "ed"))
    return found


def _means(y: _Read, of: Slopes, wanted: frozenset[str]) -> dict[str, Pair]:
    """What functionals add to K₁ and Θ₁ of a layer (docs/theory/residual, eq. 42)."""
    found: dict[str, Pair] = {}
    if not wanted & {"K1", "Theta1"}:
        return found
    se, dd = y("V", "se"), y("V", "dd")
    own = np.einsum("aaba->ab", se)
    X_ss = (own + own.T) / 2 + np.einsum("abab->ab", dd)
    if "K1" in wanted:
        found["K1"] = of.linear.variance * X_ss
    if "Theta1" in wanted:
        own = np.einsum("aaab->ab", y("V", "td"))
        X_dd = (own + own.T) / 2 + np.einsum("abab->ab", y("V", "ee"))
        ed = y("F", "ed")
        slope = np.einsum("abaab->ab", ed) + np.einsum("bbaba->ab", ed)
        h_dd = np.einsum("abab->ab", y("DH", "dd")) + slope + slope.T
        found["Theta1"] = of.linear.theta(X_ss, of.Theta * X_dd + h_dd)
    return found
