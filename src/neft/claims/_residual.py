"""What papers state about deep residual networks: Kawase and Ota, Fischer et al., Doshi et al., Yang et al."""

import functools
import math
from typing import NamedTuple

import numpy as np
from scipy.optimize import minimize_scalar

from .. import Dense, LayerNorm, Residual, width
from ._claim import Level, Measurement
from ._ledger import claim

_BLOCKS, _C_W = 32, 2.0  # relu, branches of √(2/32): all of K, V and K1 is of order 1
_KAWASE, _FISCHER = "Kawase, Ota 2026", "Fischer, Dahmen, Helias 2023"
_DOSHI, _YANG = "Doshi, He, Gromov 2023", "Yang, Yu, Zhu, Hayou 2023"


class _Drawn(NamedTuple):
    # Of R, the kernel G = |z|²/n but for noise of mean 0, and of G² over the squared mean.
    mean: float
    mean_error: float
    spread: float
    spread_error: float


@functools.cache
def _drawn(n: int, draws: int, blocks: int = _BLOCKS) -> _Drawn:
    """Streams z' = z + Wσ(z) of relu: given z, the increments are independent Gaussian numbers, so no W is drawn."""
    rng, groups, share = np.random.default_rng([n, draws]), 20, np.float32(_C_W / _BLOCKS)
    rows = []
    for _ in range(groups):
        z = rng.standard_normal((draws // groups, n), dtype=np.float32)
        R = np.ones(len(z))
        for _ in range(blocks):
            kappa = share * (np.maximum(z, 0) ** 2).mean(1)
            R += kappa
            z += np.sqrt(kappa)[:, None] * rng.standard_normal(z.shape, dtype=np.float32)
        G = (z.astype(float) ** 2).mean(1)
        rows.append((R.mean(), np.mean(G**2), G.mean()))
    R, square, G = np.array(rows).T

    def spread(left):
        return n * math.log(square[left].mean() / G[left].mean() ** 2)

    every = np.arange(groups)
    without = np.array([spread(every != g) for g in every])
    error = without.std() * math.sqrt(groups - 1)
    return _Drawn(float(R.mean()), float(R.std(ddof=1) / math.sqrt(groups)), spread(every >= 0), float(error))


def _times(level: Level) -> int:
    return 1 if level == "quick" else 10


@functools.cache
def _theory() -> width.results.DepthFlow:
    return width.depth_flow(Residual("relu", Dense(8, C_W=_C_W / _BLOCKS)), _BLOCKS)


def _limit(values: list[tuple[float, float]], widths: tuple[int, ...]) -> tuple[float, float]:
    # The constant of a polynomial in 1/n through all widths, and its error.
    at = 1 / np.array(widths, float)
    weights = np.linalg.inv(at[:, None] ** np.arange(len(at)))[0]
    mean, error = np.array(values).T
    return float(weights @ mean), float(np.sqrt(weights**2 @ error**2))


@claim(
    id="kawase-ota-mean-kernel",
    source=_KAWASE,
    equation="abstract, K_0",
    statement="The mean kernel K_0 of a residual network remains accurate at all depths.",
)
def mean_kernel(level: Level) -> Measurement:
    growth, found = 1 + _C_W / 2 / _BLOCKS, {}
    for blocks in (8, 16, 32):
        drawn = _drawn(64, 4000 * _times(level), blocks)
        K = growth**blocks
        found[f"relative difference after {blocks} blocks"] = drawn.mean / K - 1
        found[f"its error after {blocks} blocks"] = drawn.mean_error / K
    differences = [found[f"relative difference after {blocks} blocks"] for blocks in (8, 16, 32)]
    # What is left is K1/n, of order 1/64.
    return Measurement(
        verdict="holds" if max(map(abs, differences)) < 0.03 else "refuted",
        summary=f"At width 64 the mean of |z|²/n is within {100 * max(map(abs, differences)):.1f} % of K after 8, 16 "
        "and 32 blocks.",
        values=found,
    )


@claim(
    id="kawase-ota-transport",
    source=_KAWASE,
    equation="abstract, V_4",
    statement="An equation of the kernel's covariance that is closed on the kernel alone is off by O(1) in the end.",
)
def transport(level: Level) -> Measurement:
    widths = (48, 96, 288)
    drawn = [_drawn(n, size * _times(level)) for n, size in zip(widths, (8000, 16_000, 16_000))]
    U, error = _limit([(one.spread, one.spread_error) for one in drawn], widths)
    # Closed on the kernel alone: its fluctuation passes through d⟨σ²⟩/dK and nothing else does.
    M = 1 + _C_W / 2 / _BLOCKS
    closed, V, full = 2 * _BLOCKS * (1 - M**-2), U - 2, float(_theory().V[-1])
    wrong, right = (V - closed) / error, (V - full) / error
    holds = wrong > 5 and (V - closed) / V > 0.2 and abs(right) < 5
    return Measurement(
        verdict="holds" if holds else "refuted",
        summary=f"relu, {_BLOCKS} blocks: V/K² is {V:.2f} ± {error:.2f} in drawn networks, {closed:.2f} by a closure "
        f"on the kernel and {full:.2f} with the functionals of one neuron.",
        values={"V/K²": V, "its error": error, "closed": closed, "with functionals": full, "z of these": right},
    )


@claim(
    id="kawase-ota-next-order",
    source=_KAWASE,
    equation="abstract, K_1,EFT",
    statement="The 1/n correction of the mean kernel fails when it is closed on the kernel alone, from the start.",
)
def next_order(level: Level) -> Measurement:
    n = 16
    found, theory = {}, _theory().K1
    for blocks in (4, _BLOCKS):
        drawn, K = _drawn(n, 120_000 * _times(level), blocks), (1 + _C_W / 2 / _BLOCKS) ** blocks
        found[f"K1/K after {blocks} blocks"] = n * (drawn.mean / K - 1)
        found[f"its error after {blocks} blocks"] = n * drawn.mean_error / K
        found[f"with functionals after {blocks} blocks"] = float(theory[blocks - 1])
    # ⟨σ²⟩ of relu is linear in K, so that a closure on the kernel has K1 = 0 exactly.
    seen = {
        blocks: found[f"K1/K after {blocks} blocks"] / found[f"its error after {blocks} blocks"]
        for blocks in (4, _BLOCKS)
    }
    ratio = found[f"K1/K after {_BLOCKS} blocks"] / float(theory[-1])
    # The next order in 1/n is there as well.
    holds = seen[_BLOCKS] > 10 and (seen[4] > 3 or level == "quick") and abs(ratio - 1) < 0.3
    return Measurement(
        verdict="holds" if holds else "refuted",
        summary=f"relu at width {n}: K1/K is {found[f'K1/K after {_BLOCKS} blocks']:.3f} in drawn networks, "
        f"{seen[_BLOCKS]:.0f} standard errors from the 0 of a closure on the kernel, and {float(theory[-1]):.3f} with "
        f"the functionals of one neuron; after 4 blocks it is {seen[4]:.1f} standard errors from 0.",
        values=found,
    )


def _response(log_s: float, L: int, C_W: float, K: float) -> float:
    # d K_out / d K_0 of erf branches s W φ and a readout of φ: ⟨φ²⟩ = (2/π) asin(2K/(1+2K)).
    slope = 1.0
    for _ in range(L):
        square, growth = _erf(K)
        slope *= 1 + math.exp(2 * log_s) * C_W * growth
        K += math.exp(2 * log_s) * C_W * square
    return slope * _erf(K)[1]


def _erf(K: float) -> tuple[float, float]:
    return 2 / math.pi * math.asin(2 * K / (1 + 2 * K)), 4 / math.pi / ((1 + 2 * K) * math.sqrt(1 + 4 * K))


def _best(L: int, C_W: float = 1.0, K: float = 0.05) -> float:
    found = minimize_scalar(lambda s: -_response(s, L, C_W, K), bounds=(-6, 1), method="bounded")
    return float(found.x)


@claim(
    id="fischer-optimal-scale",
    source=_FISCHER,
    equation="optimal scaling of the residual branch",
    statement="The scale of the branches at which the response of a deep network is largest falls like 1/√L.",
)
def optimal_scale(level: Level) -> Measurement:
    depths = (256, 512, 1024) if level == "full" else (128, 256, 512)
    scales = {L: _best(L) for L in depths}
    power = (scales[depths[-1]] - scales[depths[0]]) / math.log(depths[-1] / depths[0])
    return Measurement(
        verdict="holds" if abs(power + 0.5) < 0.02 else "refuted",
        summary=f"erf, infinite width: the best scale goes like L to the power {power:.3f} from {depths[0]} to "
        f"{depths[-1]} blocks ({math.exp(scales[depths[-1]]):.3f} at {depths[-1]}).",
        values={"power": power} | {f"scale at {L} blocks": math.exp(scale) for L, scale in scales.items()},
    )


@claim(
    id="fischer-universal-scale",
    source=_FISCHER,
    equation="abstract",
    statement="The optimal scale of the branches depends only weakly on the weight variance.",
)
def universal_scale(level: Level) -> Measurement:
    variances, L = (0.7, 1.0, 1.4), 64
    scales = [math.exp(_best(L, C_W)) for C_W in variances]
    power = math.log(scales[-1] / scales[0]) / math.log(variances[-1] / variances[0])
    change = abs(scales[-1] / scales[0] - 1)
    weak = abs(power) < 0.2
    return Measurement(
        verdict="holds" if weak else "depends",
        summary=f"erf, {L} blocks, infinite width: from C_W = {variances[0]} to {variances[-1]} the best scale changes "
        f"by {100 * change:.0f} %, like C_W to the power {power:.2f}: of scale and weights only the product counts, so "
        "that how weak this is depends on the range of variances.",
        values={"power": power, **{f"scale at C_W = {C}": s for C, s in zip(variances, scales)}},
    )


@claim(
    id="doshi-everywhere-critical",
    source=_DOSHI,
    equation="abstract",
    statement="LayerNorm of preactivations together with residual connections is critical for any initialization.",
)
def everywhere_critical(level: Level) -> Measurement:
    block, found, holds = Residual(LayerNorm(epsilon=0.0), "tanh", Dense(64)), {}, True
    for C_b, C_W in ((0.0, 0.5), (0.3, 1.0), (0.1, 3.0)):
        K = 1.0 + 1000 * _added(C_b, C_W)
        chi = float(width.susceptibilities(block, K, C_W, C_b=C_b).perpendicular)
        power = _power_of_tangents(C_b, C_W, draws=100 * _times(level))
        expected = (chi - 1) * K / _added(C_b, C_W)
        name = f"C_b = {C_b:g}, C_W = {C_W:g}"
        found |= {f"χ_⊥ - 1 after 1000 blocks, {name}": chi - 1, f"power in theory, {name}": expected}
        found |= {f"power of drawn networks, {name}": power}
        holds &= chi - 1 < 2 / 1000 and abs(power - expected) < 0.15
    powers = [value for name, value in found.items() if name.startswith("power of drawn")]
    return Measurement(
        verdict="holds" if holds else "refuted",
        summary="tanh, three initializations: χ_⊥ - 1 falls like 1/l, and small differences of inputs grow like powers "
        f"{', '.join(f'{power:.2f}' for power in powers)} of the depth in drawn networks, never exponentially.",
        values=found,
    )


def _added(C_b: float, C_W: float) -> float:
    # What a block adds to K: C_b + C_W⟨tanh²⟩ over N(0, 1), by a sum.
    x = np.linspace(-9, 9, 1801)
    return float(C_b + C_W * (np.tanh(x) ** 2 * np.exp(-x * x / 2)).sum() * 0.01 / math.sqrt(2 * math.pi))


def _power_of_tangents(C_b: float, C_W: float, draws: int, n: int = 64, blocks: int = 48) -> float:
    # A small difference of inputs through drawn weights; the power of l with which its mean square grows.
    rng, early = np.random.default_rng(7), 12
    z, t = (rng.standard_normal((draws, n), dtype=np.float32) for _ in range(2))
    seen = {}
    for l in range(1, blocks + 1):
        W = rng.standard_normal((draws, n, n), dtype=np.float32) * np.float32(math.sqrt(C_W / n))
        centred, dt = z - z.mean(1, keepdims=True), t - t.mean(1, keepdims=True)
        size = np.sqrt((centred**2).mean(1, keepdims=True))
        unit = centred / size
        dt = (dt - unit * (unit * dt).mean(1, keepdims=True)) / size
        s = np.tanh(unit)
        bias = np.float32(math.sqrt(C_b)) * rng.standard_normal((draws, n), dtype=np.float32)
        z = z + (W @ s[:, :, None])[:, :, 0] + bias
        t = t + (W @ ((1 - s * s) * dt)[:, :, None])[:, :, 0]
        seen[l] = float((t.astype(float) ** 2).mean())
    k = _added(C_b, C_W)
    return math.log(seen[blocks] / seen[early]) / math.log((1 + k * blocks) / (1 + k * early))


@claim(
    id="yang-depth-limit",
    source=_YANG,
    equation="classification of depthwise parametrizations; Depth-μP",
    statement="Of multipliers L^-α of one-layer blocks, α = 1/2 has a limit of infinite depth, and not a trivial one.",
)
def depth_limit(level: Level) -> Measurement:
    kernels = {alpha: [(1 + L ** (-2 * alpha)) ** L for L in (64, 256)] for alpha in (0.25, 0.5, 1.0)}
    flow = width.depth_flow(Residual("relu", Dense(8, C_W=_C_W)), 128 if level == "quick" else 1024, scaled=True)
    rows = {name: getattr(flow, name) for name in ("K", "Theta", "V", "A", "B")}
    changes = {name: abs(values[-1] / values[-2] - 1) for name, values in rows.items()}
    explodes, stays, trivial = (kernels[alpha][1] / kernels[alpha][0] for alpha in (0.25, 0.5, 1.0))
    holds = explodes > 100 and abs(stays - 1) < 0.01 and kernels[0.5][1] > 2.5 and kernels[1.0][1] < 1.01
    holds &= max(changes.values()) < 0.03
    return Measurement(
        verdict="holds" if holds else "refuted",
        summary=f"relu, from 64 to 256 blocks: K grows {explodes:.0f} times with α = 1/4, {stays:.3f} times with 1/2, "
        "and with 1 it stays what it was at the input; K, Θ, V/K², A/Θ² and B/Θ² of α = 1/2 change by at most "
        f"{100 * max(changes.values()):.1f} % when the depth is doubled to {flow.depth[-1]}.",
        values={"growth of K, α = 1/4": explodes, "growth of K, α = 1/2": stays, "growth of K, α = 1": trivial}
        | {f"change of {name}": change for name, change in changes.items()},
    )
