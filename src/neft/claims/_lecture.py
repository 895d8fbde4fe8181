"""The statements of the lecture on wide networks: first layer, two layers, deep ones."""

import functools
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree

from .. import MLP, ensemble, width
from .._blocks import block_size, blocks
from ._claim import Level, Measurement
from ._ledger import claim

_X = np.array([0.7, -1.1, 0.4])
_Q = float(_X @ _X / len(_X))


def _net(*hidden: int, activation: str = "tanh", **hyper: Any) -> MLP:
    options = {"C_b": 0.1, "C_W": 1.3, "lambda_b": 0.5, "lambda_W": 0.8, **hyper}
    return MLP(widths=(len(_X), *hidden), activation=activation, **options)


def _draws(level: Level, quick: int) -> int:
    return quick if level == "quick" else 20 * quick


def _sample(net: MLP, draws: int, seed: int = 0) -> tuple[np.ndarray, ...]:
    # (draws, n_l) preactivations of each layer, by NumPy alone: nothing to compile, and nothing shared with the theory.
    rng, parts = np.random.default_rng(seed), []
    widest = max(m * n for m, n in zip(net.widths, net.widths[1:]))
    for part in blocks(draws, block_size(8 * widest, draws)):
        count, zs = part.stop - part.start, []
        for m, n, C_b, C_W in zip(net.widths, net.widths[1:], net.C_b, net.C_W):
            signal = _activated(net, zs[-1]) if zs else np.broadcast_to(_X.astype(np.float32), (count, m))
            weights = rng.standard_normal((count, n, m), dtype=np.float32) * np.float32(np.sqrt(C_W / m))
            biases = rng.standard_normal((count, n), dtype=np.float32) * np.float32(np.sqrt(C_b))
            zs.append((weights @ signal[:, :, None])[:, :, 0] + biases)
        parts.append(zs)
    return tuple(np.concatenate(layer).astype(np.float64) for layer in zip(*parts))


def _activated(net: MLP, z: np.ndarray) -> np.ndarray:
    return {"tanh": np.tanh, "relu": lambda v: np.maximum(v, 0)}[net.activation.name](z)


def _z_score(per_draw: np.ndarray) -> float:
    return float(per_draw.mean() / (per_draw.std(ddof=1) / np.sqrt(len(per_draw))))


def _verdict(holds: bool) -> str:
    return "holds" if holds else "refuted"


def _slope(x: Sequence[float] | np.ndarray, y: np.ndarray, error: np.ndarray) -> tuple[float, float]:
    # Of ln y against ln x, with its standard error.
    weight = (y / error) ** 2
    u, v = np.log(np.asarray(x, float)), np.log(y)
    mean = np.average(u, weights=weight)
    spread = (weight * (u - mean) ** 2).sum()
    return float((weight * (u - mean) * v).sum() / spread), float(1 / np.sqrt(spread))


@claim(
    id="lecture-first-layer-gaussian",
    source="lecture",
    equation="2. One-Layer Neural Networks, p(z¹)",
    statement="Preactivations of the first layer are exactly Gaussian with variance C_b + C_W |x|²/n_0.",
)
def first_layer_gaussian(level: Level) -> Measurement:
    net, hermite = _net(6, 6), np.polynomial.hermite_e.hermeval
    first, second = _sample(net, _draws(level, 20_000))
    variance = net.C_b[0] + net.C_W[0] * _Q
    scores = {
        f"z of He{n} in layer 1": _z_score(hermite(first / np.sqrt(variance), [0] * n + [1]).mean(1)) for n in (2, 4, 6)
    }
    # The second layer is not Gaussian, and the same measure sees it.
    scale = float(second.std())
    contrast = _z_score(hermite(second / scale, [0, 0, 0, 0, 1]).mean(1))
    worst = max(map(abs, scores.values()))
    return Measurement(
        verdict=_verdict(worst < 5 and contrast > 10),
        summary=f"Hermite moments 2, 4 and 6 of layer 1 vanish within {worst:.1f} standard errors; "
        f"the fourth of layer 2 is {contrast:.0f} standard errors off zero.",
        values={**scores, "z of He4 in layer 2": contrast},
    )


@claim(
    id="lecture-neurons-independent",
    source="lecture",
    equation="2. and 3., 'neurons don't talk to each other'",
    statement="Neurons are statistically independent in the first layer, and dependent from the second on.",
)
def neurons_independent(level: Level) -> Measurement:
    net = _net(6, 6)
    z1, z2 = _sample(net, _draws(level, 20_000), seed=1)
    K1, K2 = width.statistics(net, _X).K
    scores = [_z_score((z[:, :3] ** 2 - K).mean(1) * (z[:, 3:] ** 2 - K).mean(1)) for z, K in ((z1, K1), (z2, K2))]
    return Measurement(
        verdict=_verdict(abs(scores[0]) < 5 and scores[1] > 10),
        summary=f"The covariance of z_i² and z_j² is {scores[0]:+.1f} standard errors off zero in layer 1 and "
        f"{scores[1]:+.0f} in layer 2.",
        values={"z in layer 1": scores[0], "z in layer 2": scores[1]},
    )


def _flat(net: MLP, seed: int = 0) -> tuple[Any, Any, Any]:
    # Parameters and learning rates as vectors, and the way back.
    params = net.init(jax.random.key(seed), dtype=jnp.float64)
    theta, back = ravel_pytree(params)
    rates = jax.tree.map(lambda rate, p: jnp.full(p.shape, rate), net.rates(), params)
    return theta, ravel_pytree(rates)[0], back


def _ntks(net: MLP, theta: Any, rates: Any) -> list[np.ndarray]:
    # Of every layer, by automatic differentiation.
    return [np.asarray((J * rates[None, :]) @ J.T) for J in _jacobians(net)(theta)]


@functools.lru_cache(maxsize=8)
def _jacobians(net: MLP) -> Any:
    back = _flat(net)[2]
    return jax.jit(jax.jacrev(lambda theta: net.preactivations(back(theta), jnp.asarray(_X))))


@claim(
    id="lecture-first-layer-ntk",
    source="lecture",
    equation="2. One-Layer Neural Networks, H¹",
    statement="The NTK of a one-layer network is deterministic, δ_ij (λ_b + λ_W |x|²/n_0), and frozen in training.",
)
def first_layer_ntk(level: Level) -> Measurement:
    with jax.enable_x64(True):
        net, deep = _net(4), _net(4, 4)
        exact = (net.lambda_b[0] + net.lambda_W[0] * _Q) * np.eye(4)
        theta, rates, _ = _flat(net)
        apart = max(float(np.abs(_ntks(net, *_flat(net, seed)[:2])[-1] - exact).max()) for seed in range(5))
        moved = float(np.abs(_ntks(net, theta + 0.3, rates)[-1] - exact).max())
        theta, rates, _ = _flat(deep)
        start = _ntks(deep, theta, rates)[-1]
        spread = float(np.abs(_ntks(deep, *_flat(deep, 1)[:2])[-1] - start).max())
        defrosted = float(np.abs(_ntks(deep, theta + 0.3, rates)[-1] - start).max())
    return Measurement(
        verdict=_verdict(max(apart, moved) < 1e-12 and min(spread, defrosted) > 1e-2),
        summary=f"Five draws and a moved one differ from the formula by {max(apart, moved):.0e}; the NTK of two layers "
        f"changes by {spread:.2f} between draws and by {defrosted:.2f} when its parameters move.",
        values={"draws, one layer": apart, "moved, one layer": moved, "draws, two": spread, "moved, two": defrosted},
    )


@claim(
    id="lecture-first-layer-dntk",
    source="lecture",
    equation="2. One-Layer Neural Networks, dH¹ = ddH¹ = 0",
    statement="The dNTK and all higher differentials of a one-layer network vanish: no representation learning.",
)
def first_layer_dntk(level: Level) -> Measurement:
    with jax.enable_x64(True):
        found = {}
        for name, net in (("one layer", _net(3)), ("two layers", _net(3, 3))):
            theta, _, back = _flat(net)
            hessian = jax.hessian(lambda t, net=net, back=back: net.apply(back(t), jnp.asarray(_X)))(theta)
            found[f"largest second derivative, {name}"] = float(jnp.abs(hessian).max())
    one, two = found.values()
    return Measurement(
        verdict=_verdict(one == 0.0 and two > 0.1),
        summary=f"Second derivatives in the parameters are at most {one:g} with one layer, {two:.2f} with two.",
        values=found,
    )


@claim(
    id="lecture-ntk-forward",
    source="lecture",
    equation="4. Deep Neural Networks, NTK forward equation",
    statement="H' = δ (λ_b + λ_W Σσ²/n) + Σ W W σ' σ' H, for every draw.",
)
def ntk_forward(level: Level) -> Measurement:
    net, worst = _net(5, 4, 6, 3, activation="gelu"), 0.0
    with jax.enable_x64(True):
        for seed in range(2 if level == "quick" else 20):
            theta, rates, back = _flat(net, seed)
            params = back(theta)
            z, H = net.preactivations(params, jnp.asarray(_X)), _ntks(net, theta, rates)
            for l in range(1, net.depth):
                s, slope = net.activation(z[l - 1]), net.activation.derivative(1)(z[l - 1])
                chain = np.asarray(params[l].W * slope[None, :])
                trivial = net.lambda_b[l] + net.lambda_W[l] * float((s**2).mean())
                forward = trivial * np.eye(net.widths[l + 1]) + chain @ H[l - 1] @ chain.T
                worst = max(worst, float(np.abs(forward - H[l]).max()))
    return Measurement(
        verdict=_verdict(worst < 1e-12),
        summary=f"Automatic differentiation and the forward equation differ by at most {worst:.0e} in every layer.",
        values={"largest difference": worst},
    )


@claim(
    id="lecture-width-scaling",
    source="lecture",
    equation="3. Two-Layer Neural Networks, 'width-scaling was important'",
    statement="Var W = C_W/n keeps the variance of a preactivation finite as the width grows.",
)
def width_scaling(level: Level) -> Measurement:
    widths, found = (8, 16, 32, 64), {}
    for name, scaled in (("with 1/n", True), ("without", False)):
        nets = [_net(n, 1, C_W=(1.3, 1.3 if scaled else 1.3 * n)) for n in widths]
        squares = [_sample(net, _draws(level, 4000), seed=2)[1][:, 0] ** 2 for net in nets]
        means = np.array([s.mean() for s in squares])
        errors = np.array([s.std(ddof=1) / np.sqrt(len(s)) for s in squares])
        found[name] = _slope(widths, means, errors)
    (kept, kept_error), (grown, grown_error) = found["with 1/n"], found["without"]
    holds = abs(kept) < 5 * kept_error and abs(grown - 1) < 0.1 and grown > 10 * grown_error
    return Measurement(
        verdict=_verdict(holds),
        summary=f"The variance goes like n to the power {kept:+.3f} ± {kept_error:.3f} with the factor 1/n and "
        f"{grown:+.3f} ± {grown_error:.3f} without.",
        values={"power with 1/n": kept, "its error": kept_error, "power without": grown, "error without": grown_error},
    )


def _last_variance(net: MLP, draws: int, seed: int) -> np.ndarray:
    # The variance of an output given the layers before it, one per draw: its cumulants are those of the outputs.
    z = _sample(net, draws, seed)[-2]
    return net.C_b[-1] + net.C_W[-1] * (_activated(net, z) ** 2).mean(1)


def _cumulant(G: np.ndarray, order: int) -> tuple[float, float]:
    # Of order 2 or 3 with its standard error, from ten groups.
    groups = G[: len(G) // 10 * 10].reshape(10, -1)
    per_group = ((groups - groups.mean(1, keepdims=True)) ** order).mean(1)
    return float(per_group.mean()), float(per_group.std(ddof=1) / np.sqrt(10))


def _power_in_width(order: int, level: Level, quick: int) -> tuple[float, float, float]:
    widths = (8, 16, 32, 64)
    cumulants = [
        _cumulant(_last_variance(_net(n, 1, activation="relu"), _draws(level, quick), seed=3), order) for n in widths
    ]
    values, errors = (np.array(column) for column in zip(*cumulants))
    return *_slope(widths, values, errors), float((values / errors).min())


@claim(
    id="lecture-four-point",
    source="lecture",
    equation="3. Two-Layer Neural Networks, connected four-point",
    statement="The connected four-point function of the second layer is V/n.",
)
def four_point(level: Level) -> Measurement:
    power, error, resolved = _power_in_width(2, level, 8000)
    return Measurement(
        verdict=_verdict(abs(power + 1) < 5 * error and error < 0.1 and resolved > 10),
        summary=f"It falls like n to the power {power:.3f} ± {error:.3f}.",
        values={"power": power, "its error": error, "least resolved, in standard errors": resolved},
    )


@claim(
    id="lecture-six-point",
    source="lecture",
    equation="3. Two-Layer Neural Networks, connected six-point",
    statement="The connected six-point function of the second layer is O(1/n²).",
)
def six_point(level: Level) -> Measurement:
    power, error, resolved = _power_in_width(3, level, 40_000)
    return Measurement(
        verdict=_verdict(abs(power + 2) < 5 * error and error < 0.2 and resolved > 5),
        summary=f"It falls like n to the power {power:.2f} ± {error:.2f}.",
        values={"power": power, "its error": error, "least resolved, in standard errors": resolved},
    )


@claim(
    id="lecture-recursions",
    source="lecture",
    equation="4. Deep Neural Networks and 'Similarly for A, B, D, F, P, Q, R, S, T, U'",
    statement="The recursions of K, Θ, V and of the tensors of NTK, dNTK and ddNTK hold to leading order in 1/n.",
)
def recursions(level: Level) -> Measurement:
    nets = {"tanh": (6, 9, 2)} if level == "quick" else dict.fromkeys(("tanh", "gelu", "sin", "silu"), (8, 12, 10, 2))
    worst = {}
    for name, hidden in nets.items():
        found = width.check(_net(*hidden, activation=name), _X, draws=_draws(level, 2000), key=jax.random.key(5))
        worst[f"largest |z|, {name}"] = found.worst
    return Measurement(
        verdict=_verdict(max(worst.values()) < 5),
        summary=f"Simulation extrapolated in 1/n is at most {max(worst.values()):.1f} standard errors off.",
        values=worst,
    )


@claim(
    id="lecture-dntk-order",
    source="lecture",
    equation="3. Two-Layer Neural Networks, E[dH z] = O(1/n), E[ddH] = O(1/n)",
    statement="dNTK and ddNTK enter the statistics at order 1/n.",
)
def dntk_order(level: Level) -> Measurement:
    # A tensor is n times its correlator: that it does not change with n is what the statement says.
    estimates = [ensemble.estimate(_net(n, 1), _X, draws=_draws(level, 2000), key=jax.random.key(6)) for n in (8, 32)]
    scores, resolved = {}, []
    for name in "PQRSTU":
        narrow, wide = (getattr(estimate, name) for estimate in estimates)
        error = float(np.hypot(narrow.stderr[1], wide.stderr[1]))
        scores[f"z of the change of {name}"] = float(wide.mean[1] - narrow.mean[1]) / error
        resolved.append(abs(float(wide.mean[1])) / error)
    worst = max(map(abs, scores.values()))
    return Measurement(
        verdict=_verdict(worst < 5 and min(resolved) > 5),
        summary=f"n times each correlator stays within {worst:.1f} standard errors from n = 8 to n = 32.",
        values={**scores, "least resolved, in standard errors": min(resolved)},
    )


@claim(
    id="lecture-depth-over-width",
    source="lecture",
    equation="4. Deep Neural Networks, O(L/n)",
    statement="At criticality the corrections grow like L/n.",
)
def depth_over_width(level: Level) -> Measurement:
    n, depths = 64, np.array([2, 3, 5, 9])
    net = _net(*(n,) * 8, 1, activation="relu", C_b=0.0, C_W=2.0)
    layers = _sample(net, _draws(level, 4000), seed=7)
    found = []
    for depth in depths:
        # ln E[G²]/E[G]² is V/(nK²) to leading order, and linear in depth at every width for scale-invariant networks.
        G = (2 * np.maximum(layers[depth - 2], 0) ** 2).mean(1).reshape(20, -1)
        without = [np.delete(G, group, axis=0) for group in range(20)]
        jackknife = np.array([np.log((left**2).mean() / left.mean() ** 2) for left in without])
        found.append((np.log((G**2).mean() / G.mean() ** 2), jackknife.std() * np.sqrt(19)))
    values, errors = np.array(found).T
    power, error = _slope(depths - 1, values, errors)
    deep = width.statistics(_net(*(n,) * 600, 1, activation="tanh", C_b=0.0, C_W=1.0), _X)
    coupling = float(deep.V[-1] / deep.K[-1] ** 2 / len(deep.V))
    return Measurement(
        verdict=_verdict(abs(power - 1) < 5 * error and error < 0.05 and abs(coupling - 2 / 3) < 0.05),
        summary=f"ReLU: n V/K² grows like (L-1) to the power {power:.3f} ± {error:.3f} in simulation; "
        f"tanh at depth 601: V/(K² L) = {coupling:.3f} in theory (2/3 in the limit).",
        values={"power": power, "its error": error, "V/(K² L) of tanh": coupling},
    )


@claim(
    id="lecture-step-expansion",
    source="lecture",
    equation="1. Neural Networks 101, Taylor expansion of a step",
    statement="A step changes z by -ηHε + η² dH εε/2 - η³ ddH εεε/6 + O(η⁴), contracted over outputs and samples.",
)
def step_expansion(level: Level) -> Measurement:
    net = _net(3, 2)
    with jax.enable_x64(True):
        theta, rates, back = _flat(net)
        x = jnp.stack([jnp.asarray(_X), jnp.asarray([-0.2, 0.5, 1.0])])

        def outputs(t):
            return net.apply(back(t), x).ravel()

        derivatives = (jax.jacrev(outputs), jax.hessian(outputs), jax.jacfwd(jax.hessian(outputs)))
        J, second, third = jax.jit(lambda t: [derivative(t) for derivative in derivatives])(theta)
        residual = outputs(theta) - jnp.array([0.3, -0.4, 0.1, 0.9])
        v = J * rates[None, :]
        H, dH = J @ v.T, jnp.einsum("iab,ja,kb->ijk", second, v, v)
        ddH = jnp.einsum("iabc,ja,kb,lc->ijkl", third, v, v, v)
        terms = [-H @ residual, jnp.einsum("ijk,j,k->i", dH, residual, residual) / 2]
        terms.append(-jnp.einsum("ijkl,j,k,l->i", ddH, residual, residual, residual) / 6)
        etas, powers = np.array([0.04, 0.02]), {}
        for order in (1, 2, 3):
            left = []
            for eta in etas:
                series = outputs(theta) + sum(eta ** (k + 1) * terms[k] for k in range(order))
                left.append(float(jnp.abs(outputs(theta - eta * v.T @ residual) - series).max()))
            powers[f"power of the rest at order {order}"] = float(np.log(left[0] / left[1]) / np.log(2))
    holds = all(abs(power - (order + 1)) < 0.2 for order, power in enumerate(powers.values(), start=1))
    shown = ", ".join(f"{power:.2f}" for power in powers.values())
    return Measurement(
        verdict=_verdict(holds),
        summary=f"What the expansion leaves at orders 1, 2, 3 falls like η to the powers {shown}.",
        values=powers,
    )


@claim(
    id="lecture-one-layer-training",
    source="lecture",
    equation="2. One-Layer Neural Networks, linear dynamics and z*",
    statement="A trained one-layer network is z* = z - H H⁻¹ (z - y), whatever the algorithm's step.",
)
def one_layer_training(level: Level) -> Measurement:
    net, rng = _net(2), np.random.default_rng(0)
    train, test = rng.normal(size=(2, 3)), rng.normal(size=(4, 3))
    apart = {}
    with jax.enable_x64(True):
        y = jnp.asarray(np.array([[0.5, -1.0], [0.2, 0.8]]))
        params, rates = net.init(jax.random.key(0), dtype=jnp.float64), net.rates()
        H = net.lambda_b[0] + net.lambda_W[0] * np.concatenate([train, test]) @ train.T / 3
        start = np.asarray(net.apply(params, np.concatenate([train, test])))
        exact = start - H @ np.linalg.solve(H[:2], start[:2] - np.asarray(y))

        def loss(p):
            return ((net.apply(p, train) - y) ** 2).sum() / 2

        for eta in (0.05, 0.2):

            def step(_, p, eta=eta):
                return jax.tree.map(lambda a, rate, g: a - eta * rate * g, p, rates, jax.grad(loss)(p))

            trained = jax.lax.fori_loop(0, 20_000, step, params)
            found = np.asarray(net.apply(trained, np.concatenate([train, test])))
            apart[f"difference with η = {eta:g}"] = float(np.abs(found - exact).max())
    return Measurement(
        verdict=_verdict(max(apart.values()) < 1e-8),
        summary=f"Networks trained with two step sizes agree with the formula to {max(apart.values()):.0e}.",
        values=apart,
    )
