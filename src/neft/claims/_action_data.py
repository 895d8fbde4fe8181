"""What the action notes A, B and C saw on Fashion-MNIST at trained parameters, each with its test.

Quick tests train a small classifier on the bundled subset; full ones train 784-512-10 on all the data.
"""

import functools
import math
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax

from .. import action, data
from ._claim import Level, Measurement
from ._ledger import claim

_PREPROCESSINGS = ("per-image", "global")


class _Trained(NamedTuple):
    fit: action.results.Fit
    test: data.Dataset
    expansion: action.results.Expansion


@functools.cache
def _load(level: Level, split: str, preprocess: str) -> data.Dataset:
    return data.load("fashion-mnist", split, preprocess=preprocess, full=False if level == "quick" else None)


@functools.cache
def _trained(level: Level, preprocess: str = "per-image", hidden: int = 0) -> _Trained:
    train, test = (_load(level, split, preprocess) for split in ("train", "test"))
    width = hidden or (64 if level == "quick" else 512)
    fit = action.fit(train, test, hidden=width, epochs=4 if level == "quick" else 20, patience=2)
    return _Trained(fit, test, action.expand(fit.params, test, 4))


@functools.cache
def _elements(level: Level, preprocess: str = "per-image") -> action.results.Elements:
    trained = _trained(level, preprocess)
    return action.elements(trained.fit.params, trained.test)


def _dominates(level: Level, monomial: str, order: int) -> Measurement:
    shares = {}
    for preprocess in _PREPROCESSINGS:
        found = _trained(level, preprocess).expansion
        shares[preprocess] = found.terms[monomial].share
    least = min(shares.values())
    return Measurement(
        verdict="holds" if least > 0.5 else "refuted" if max(shares.values()) < 0.5 else "depends",
        summary=f"At θ* {monomial} is {least:.0%} to {max(shares.values()):.0%} of S_{order}, by preprocessing.",
        values=shares,
        data=_load(level, "test", "per-image").checksum,
    )


@claim(
    id="action-a-uw-dominates",
    source="action note A",
    equation="section 2.3",
    statement="The UW term dominates S_2(θ*).",
)
def uw_dominates(level: Level) -> Measurement:
    return _dominates(level, "UW", 2)


@claim(
    id="action-a-uww-dominates",
    source="action note A",
    equation="section 2.4",
    statement="The UWW term dominates S_3(θ*).",
)
def uww_dominates(level: Level) -> Measurement:
    return _dominates(level, "UWW", 3)


@claim(
    id="action-b-main-term-dominates",
    source="action note B",
    equation="section 2.5",
    statement="The main term J UW…W dominates S_{n+1}(θ*) for every n.",
)
def main_term_dominates(level: Level) -> Measurement:
    terms = _trained(level).expansion.terms
    values = {name: terms[name].share for name in ("UW", "UWW", "UWWW", "UUWW")}
    wrong = values["UWWW"] < 0.5 < values["UUWW"]
    return Measurement(
        verdict="refuted" if wrong else "holds",
        summary=f"In S_4 UWWW is {values['UWWW']:.0%} (the third derivative of SiLU at 0 vanishes), and the logit "
        f"variance UUWW, which the notes lack, is {values['UUWW']:.0%}.",
        values=values,
        data=_trained(level).test.checksum,
    )


def _range(level: Level, factor: float, stated: tuple[float, float]) -> Measurement:
    values, near = {}, {}
    for preprocess in _PREPROCESSINGS:
        J = factor * action.moments(_load(level, "train", preprocess), 1).J[1]
        values |= {f"lowest, {preprocess}": float(J.min()), f"highest, {preprocess}": float(J.max())}
        near[preprocess] = abs(J.min() / stated[0] - 1) < 0.1 and abs(J.max() / stated[1] - 1) < 0.1
    verdict = "holds" if all(near.values()) else "depends" if any(near.values()) else "refuted"
    low, high = values["lowest, per-image"], values["highest, per-image"]
    return Measurement(
        verdict=verdict,
        summary=f"With per-image standardisation it is {low:.3f} to {high:.3f}, with global "
        f"{values['lowest, global']:.3f} to {values['highest, global']:.3f}.",
        values=values,
        data=_load(level, "train", "per-image").checksum,
    )


@claim(
    id="action-a-range",
    source="action note A",
    equation="section 2.3 (and note B)",
    statement="J/(2M) varies from -0.1 to 0.075.",
)
def range_000(level: Level) -> Measurement:
    return _range(level, 0.5, (-0.1, 0.075))


@claim(id="action-c-range", source="action note C", equation="section 2.3", statement="J varies from -0.2 to 0.15.")
def range_002(level: Level) -> Measurement:
    return _range(level, 1.0, (-0.2, 0.15))


def _gaussian(level: Level, names: tuple[str, ...]) -> Measurement:
    of = _elements(level).of
    values = {f"excess kurtosis of {name}": of[name].kurtosis for name in names}
    values |= {f"mean/spread of {name}": of[name].mean / of[name].spread for name in names}
    values |= {f"distance of {name}": of[name].distance for name in names}
    every = all(of[name].gaussian and abs(of[name].kurtosis) < 0.5 for name in names)
    none = not any(of[name].gaussian for name in names)
    shown = ", ".join(f"{name} {of[name].kurtosis:.2g} ({of[name].distance:.3f})" for name in names)
    return Measurement(
        verdict="holds" if every else "refuted" if none else "depends",
        summary=f"Excess kurtosis, 0 for a Gaussian, and distance of the distribution to one: {shown}.",
        values=values,
        data=_trained(level).test.checksum,
    )


@claim(
    id="action-a-gaussian-uw",
    source="action note A",
    equation="section 2.3",
    statement="The elements of J and of UW at θ* are Gaussian and centred at zero.",
)
def gaussian_uw(level: Level) -> Measurement:
    return _gaussian(level, ("J2", "UW"))


@claim(
    id="action-a-gaussian-uww",
    source="action note A",
    equation="section 2.4",
    statement="The elements of J_αγδ and of UWW at θ* are Gaussian and centred at zero.",
)
def gaussian_uww(level: Level) -> Measurement:
    return _gaussian(level, ("J3", "UWW"))


@claim(
    id="action-a-products-negative",
    source="action note A",
    equation="section 2.3",
    statement="Most elements of J·UW at θ* are negative.",
)
def products_negative(level: Level) -> Measurement:
    found = {p: _elements(level, p).of["J2·UW"] for p in _PREPROCESSINGS}
    values = {f"count, {p}": e.negative for p, e in found.items()} | {
        f"mass, {p}": e.negative_mass for p, e in found.items()
    }
    least = min(e.negative for e in found.values())
    return Measurement(
        verdict="holds" if least > 0.52 else "refuted",
        summary=f"{least:.0%} or more of the elements are negative, and "
        f"{min(e.negative_mass for e in found.values()):.0%} or more of their mass.",
        values=values,
        data=_trained(level).test.checksum,
    )


@claim(
    id="action-a-products-positive",
    source="action note A",
    equation="section 2.4",
    statement="Most elements of J·UWW at θ* are positive.",
)
def products_positive(level: Level) -> Measurement:
    found = {p: _elements(level, p).of["J3·UWW"] for p in _PREPROCESSINGS}
    values = {f"positive, {p}": 1 - e.negative for p, e in found.items()} | {
        f"mean, {p}": e.mean for p, e in found.items()
    }
    shares = [1 - e.negative for e in found.values()]
    verdict = "holds" if min(shares) > 0.55 else "refuted" if max(shares) < 0.55 else "depends"
    return Measurement(
        verdict=verdict,
        summary=f"{min(shares):.1%} to {max(shares):.1%} are positive, by preprocessing.",
        values=values,
        data=_trained(level).test.checksum,
    )


@claim(
    id="action-b-counting",
    source="action note B",
    equation="section 2.4",
    statement="A term dominates because its sum has more sub-terms, if U, c, W and b are of one scale.",
)
def counting(level: Level) -> Measurement:
    trained = _trained(level)
    found = action.domination(trained.fit.params, trained.test, 3, draws=4)
    values = {
        f"{kind} {name}": getattr(found, kind)[name] for name in ("UW", "UWW") for kind in ("alignment", "random")
    }
    values["UW trained"] = abs(found.value["UW"])
    wrong = found.alignment["UW"] > 10
    return Measurement(
        verdict="refuted" if wrong else "holds",
        summary=f"Random θ of the same norms has |UW| = {found.random['UW']:.3g} against {abs(found.value['UW']):.3g} "
        "at θ*: alignment with the data makes the term large, not the number of sub-terms.",
        values=values,
        data=trained.test.checksum,
    )


@claim(
    id="action-b-scales",
    source="action note B",
    equation="section 2.4, open question",
    statement="The scales of U, c, W and b are of the same order at θ*.",
)
def scales(level: Level) -> Measurement:
    fit = _trained(level).fit
    at_end = {name: float(values[fit.best]) for name, values in fit.scales.items()}
    ratio = max(at_end.values()) / min(at_end.values())
    start = {f"{name} at the start": float(values[0]) for name, values in fit.scales.items()}
    return Measurement(
        verdict="holds" if ratio < 10 else "refuted",
        summary=f"Root mean squares at θ*: {', '.join(f'{n} {v:.3g}' for n, v in at_end.items())}; U and W stay near "
        "what they are initialised with, c and b grow from 0.",
        values=at_end | start | {"largest over smallest": ratio},
        data=_trained(level).test.checksum,
    )


@claim(
    id="action-b-small-e",
    source="action note B",
    equation="section 2.4",
    statement="When E is small the domination of the last term of S_3 vanishes.",
)
def small_e(level: Level) -> Measurement:
    sizes, seeds = ((1, 4, 49), 1) if level == "quick" else ((1, 4, 16, 49, 196, 784), 3)
    options: Any = {"hidden": 64, "epochs": 4} if level == "quick" else {"hidden": 512, "epochs": 12}
    shares = {E: [_uww_share(level, E, seed, options) for seed in range(seeds)] for E in sizes}
    mean = {E: float(np.mean(found)) for E, found in shares.items()}
    small, least = float(np.mean([mean[E] for E in sizes if E <= 16])), min(mean, key=mean.__getitem__)
    gone, weaker = small < 0.5, small < mean[sizes[-1]]
    elsewhere = f", and is least at E = {least}" if least > 16 else ""
    values = {f"UWW share, E = {E}": value for E, value in mean.items()}
    values |= {f"lowest, E = {E}": min(found) for E, found in shares.items()}
    values |= {f"highest, E = {E}": max(found) for E, found in shares.items()}
    return Measurement(
        verdict="holds" if gone else "corrected" if weaker else "refuted",
        summary=f"Of S_3 UWW has {mean[1]:.0%} with one input, {small:.0%} on average up to E = 16 and "
        f"{mean[sizes[-1]]:.0%} with {sizes[-1]}; the least is {mean[least]:.0%}, at E = {least}.",
        correction=None if gone or not weaker else f"It is weakened, not gone{elsewhere}.",
        values=values,
        data=_load(level, "test", "global").checksum,
    )


def _uww_share(level: Level, features: int, seed: int, options: dict[str, Any]) -> float:
    steps = f"pool({features})+global" if features < 784 else "global"
    train, test = (_load(level, split, steps) for split in ("train", "test"))
    fit = action.fit(train, test, patience=2, key=jax.random.key(seed), **options)
    return action.expand(fit.params, test, 3).terms["UWW"].share


@claim(
    id="action-b-power-law",
    source="action note B",
    equation="section 2.4",
    statement="The power law of the optimized loss in the model's size appears only at large E, with the domination.",
)
def power_law(level: Level) -> Measurement:
    features = (1, 49) if level == "quick" else (1, 4, 49, 784)
    hidden = (2, 8, 32) if level == "quick" else (2, 4, 8, 16, 32, 64, 128)
    names = [f"pool({E})+global" if E < 784 else "global" for E in features]
    pairs = [(_load(level, "train", name), _load(level, "test", name)) for name in names]
    found = action.sizes(pairs, hidden, epochs=3 if level == "quick" else 12)
    gain = found.loss[:, 0] - found.loss[:, -1]
    values = {f"gain, E = {E}": float(g) for E, g in zip(features, gain)}
    values |= {f"exponent, E = {E}": float(e) for E, e in zip(features, found.exponent)}
    values |= {f"UWW share, E = {E}": float(s) for E, s in zip(features, found.share_UWW[:, -1])}
    only_large = gain[0] < 0.2 * gain[-1]
    dominated = found.share_UWW[0, -1] < 0.5 < found.share_UWW[-1, -1]
    return Measurement(
        verdict="holds" if only_large and dominated else "depends" if only_large or dominated else "refuted",
        summary=f"From H = {hidden[0]} to {hidden[-1]} the loss falls by {gain[0]:.3f} at E = {features[0]} and by "
        f"{gain[-1]:.3f} at E = {features[-1]}, while UWW has {found.share_UWW[0, -1]:.0%} and "
        f"{found.share_UWW[-1, -1]:.0%} of S_3.",
        values=values,
        data=pairs[-1][1].checksum,
    )


@claim(
    id="action-b-series",
    source="action note B",
    equation="section 2.5",
    statement="S(θ) ≈ ln M + the series of main terms near θ*.",
)
def series(level: Level) -> Measurement:
    trained = _trained(level)
    bound = action.radius(trained.fit.params, trained.test)
    S = action.expand(trained.fit.params, trained.test, 12, terms=False)
    sums = S.partial_sums()
    # The notes' series ends up far from the loss because t = 1 lies outside its circle of convergence.
    outside = bound.radius < 1 and float(np.abs(sums[4:] - S.loss).min()) > 10 * S.loss
    return Measurement(
        verdict="refuted" if outside else "holds",
        summary=f"The series converges for |t| < {bound.radius:.3g} of θ* ({bound.binds}; the pole bound is "
        f"{bound.pole:.3g}); its sums at t = 1 are {sums[2]:.3g}, {sums[4]:.3g}, {sums[12]:.3g} against {S.loss:.4g}.",
        values={"radius": bound.radius, "pole bound": bound.pole, "loss": S.loss, "sum to 12": float(sums[12])},
        data=trained.test.checksum,
    )


@claim(
    id="action-b-early-stopping",
    source="action note B",
    equation="(7)",
    statement="Training stops early where ∇S_T·∇S_E = 0.",
)
def early_stopping(level: Level) -> Measurement:
    size, steps = (100, 150) if level == "quick" else (500, 600)
    train = _load(level, "train", "pool(49)+global").balanced(size // 10)
    test = _load(level, "test", "pool(49)+global").balanced(50 if level == "quick" else 500)
    start = _start(test)
    off, near, trusted = {}, {}, False
    for name, optimizer, rate in (("descent", optax.sgd(0.1), 0.1), ("adam", optax.adam(0.01), None)):
        monitor = action.StoppingMonitor(action.loss_of(train), action.loss_of(test))
        monitor.follow(start, optimizer, steps=steps if rate is None else 3 * steps, learning_rate=rate)
        report = monitor.report()
        trusted |= report.trusted
        for rule in ("alignment", "drift"):
            stop, least = getattr(report, f"stop_by_{rule}"), report.minimum
            case = f"{name}, {rule}"
            off[case] = math.inf if stop is None or least is None else float(abs(stop - least))
            # Steps are finite, and the minimum is flat: one step, or a twentieth of the way.
            near[case] = least is not None and off[case] <= 1 + least / 20
    flow = near["descent, alignment"] and trusted
    mended = near["descent, drift"] and near["adam, drift"] and not near["adam, alignment"]
    return Measurement(
        verdict="corrected" if flow and mended else "depends" if flow else "refuted",
        summary="Steps between the rule and the minimum of S_E: gradient descent "
        f"{off['descent, alignment']:g}, Adam {off['adam, alignment']:g}; with ∇S_E·Δθ = 0 "
        f"{off['descent, drift']:g} and {off['adam, drift']:g}.",
        correction="For gradient flow (small full-batch steps); in general ∇S_E·Δθ = 0 with the update Δθ."
        if flow and mended
        else None,
        values=off,
        data=train.checksum,
    )


@claim(
    id="action-b-data-size",
    source="action note B",
    equation="section 3",
    statement="The difference between the early stop and ∇S = 0 matters most when data are few.",
)
def data_size(level: Level) -> Measurement:
    sizes = (50, 500) if level == "quick" else (100, 1000, 10000)
    train = _load(level, "train", "pool(49)+global")
    test = _load(level, "test", "pool(49)+global").balanced(50 if level == "quick" else 500)
    steps = 400 if level == "quick" else 1500
    found = action.stops_by_size(train, test, sizes, learning_rate=0.1, steps=steps)
    runs = dict(zip(found.sizes, found.runs, strict=True))
    stop = {size: steps if r.minimum is None else r.minimum for size, r in runs.items()}
    gap = {size: float(r.evaluation[-1] - r.evaluation.min()) for size, r in runs.items()}
    values = {f"stop, n = {n}": float(s) for n, s in stop.items()} | {f"lost, n = {n}": g for n, g in gap.items()}
    values |= {f"trusted, n = {n}": float(r.trusted) for n, r in runs.items()}
    good = stop[sizes[0]] < stop[sizes[-1]] and gap[sizes[0]] > gap[sizes[-1]]
    return Measurement(
        verdict="holds" if good else "refuted",
        summary=f"With {sizes[0]} samples the stop is at step {stop[sizes[0]]} and going on costs {gap[sizes[0]]:.3g}; "
        f"with {sizes[-1]} at {stop[sizes[-1]]}, costing {gap[sizes[-1]]:.3g}.",
        values=values,
        data=train.checksum,
    )


@claim(
    id="action-b-stop-gradient",
    source="action note B",
    equation="(7)",
    statement="Training stops early where ∇S_T·∇S_E = 0, instead of ∇S = 0.",
)
def stop_gradient(level: Level) -> Measurement:
    size, steps = (100, 300) if level == "quick" else (500, 1200)
    train = _load(level, "train", "pool(49)+global").balanced(size // 10)
    test = _load(level, "test", "pool(49)+global").balanced(50 if level == "quick" else 500)
    loss, other = action.loss_of(train), action.loss_of(test)
    slopes = jax.jit(lambda params, first, second: (jax.grad(first)(params), jax.grad(second)(params)))
    params = _start(test)
    norms, cosine, least, at_least = [], [], math.inf, 0
    for step in range(steps):
        first, second = slopes(params, loss, other)
        sizes = [float(optax.tree.norm(g)) for g in (first, second)]
        norms.append(sizes)
        cosine.append(sum(float(jnp.vdot(first[k], second[k])) for k in first) / (sizes[0] * sizes[1]))
        if (value := float(other(params))) < least:
            least, at_least = value, step
        params = jax.tree.map(lambda p, g: p - 0.1 * g, params, first)
    left = {name: norms[at_least][i] / norms[0][i] for i, name in enumerate(("S_T", "S_E"))}
    good = 0 < at_least < steps - 1 and min(left.values()) > 0.02 and abs(cosine[at_least]) < 0.2 < cosine[0]
    return Measurement(
        verdict="holds" if good else "refuted",
        summary=f"Where S_E is least (step {at_least}) |∇S_T| is {left['S_T']:.1%} and |∇S_E| {left['S_E']:.1%} of "
        f"what they were at the start, and their cosine went from {cosine[0]:.2f} to {cosine[at_least]:.3f}.",
        values={f"|∇{name}| at the stop over that at the start": value for name, value in left.items()}
        | {"cosine at the start": cosine[0], "cosine at the stop": cosine[at_least], "step": at_least},
        data=train.checksum,
    )


def _start(dataset: data.Dataset, hidden: int = 64) -> dict[str, Any]:
    keys = jax.random.split(jax.random.key(0), 2)
    E, M = dataset.features, dataset.classes
    return {
        "U": jax.random.normal(keys[0], (M, hidden)) / math.sqrt(hidden),
        "W": jax.random.normal(keys[1], (hidden, E)) / math.sqrt(E),
        "b": jnp.zeros(hidden),
        "c": jnp.zeros(M),
    }
