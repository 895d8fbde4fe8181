"""Averages of functions that users bring: right to their tolerance, warned of, or refused, and nothing else."""

import collections
import math
import warnings

import any_function as reference
import numpy as np
import pytest

from neft import MLP, activation
from neft.gaussian import AccuracyWarning, Powers, moment, pair
from neft.width import kernel, statistics

INTEGRANDS = {
    (2, 0): lambda z, s, d, e: s * s,
    (4, 0): lambda z, s, d, e: s**4,
    (1, 1): lambda z, s, d, e: s * d,
    (0, 2): lambda z, s, d, e: d * d,
    (2, 2): lambda z, s, d, e: (s * d) ** 2,
    (0, 4): lambda z, s, d, e: d**4,
}


class Ledger:
    """What came of each case; one that is none of right, warned of or refused is an error at once."""

    def __init__(self) -> None:
        self.shares = collections.Counter()

    def judge(self, kind, text, call, exact, size, tolerance, floor):
        """`floor` is the rounding of the function itself, below which nothing can be known of it."""
        if exact is None:  # no reference in reasonable time
            return
        try:
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                found = float(call())
        except ValueError as error:
            assert str(error).endswith(".")
            self.shares[kind, "refused"] += 1
            return
        wrong = max(abs(found - exact) - floor, 0.0) / (size if size > 0 else 1.0)
        if any(issubclass(w.category, AccuracyWarning) for w in caught):
            self.shares[kind, "warned"] += 1
            assert wrong > 1e-10 or size < 1e6 * floor, f"{text}: right to {wrong:.1e}, but {caught[0].message}"
        else:
            assert wrong <= tolerance, f"{kind} of {text}: {found!r}, but {exact!r}, off by {wrong:.1e}"
            self.shares[kind, "right"] += 1

    def of(self, outcome: str) -> int:
        return sum(count for (_, what), count in self.shares.items() if what == outcome)


def rounding(steep, p, q):
    """Of σ^p σ'^q where σ, of order 10 at most, or σ' vanishes but for the rounding of autodiff (1 - tanh², say)."""
    return (4e-15) ** p * (4e-16 * steep) ** q if not (p and q) else 10**p * (4e-16 * steep) ** q


def one_average(f, powers, K):
    found = reference.average(f, INTEGRANDS[powers], K)
    if f.sine is None or f.frequency**2 * K < 1:  # where the closed form cancels
        return found
    size = found[1] if found else f.sine[1] ** powers[1] / 4
    return reference.sine_average(f, powers, K), size


def run(seed: int, functions: int, *, wild: bool, moments: int = 8, pairs: int = 3) -> Ledger:
    rng, ledger = np.random.default_rng(seed), Ledger()
    low, high = (-8, 8) if wild else (-3, 3)
    for _ in range(functions):
        spread = float(10 ** rng.uniform(low / 2, high / 2))
        f = reference.drawn(rng, wild=wild, spread=spread)
        act = activation(f.jax, name=f.text)
        quick = [2 / abs(p - q) for p, _ in f.places for q, _ in f.places if p != q]
        steep = max([f.steepness, f.frequency, 1.0, *quick])
        # A place that is known to rounding is known to this part of its width.
        place = 8e-16 * steep * max([abs(p) for p, _ in f.places], default=0.0)
        variances = [spread**2, *(10 ** rng.uniform(low, high, moments - 1))]
        for K in variances:
            powers = list(INTEGRANDS)[rng.integers(len(INTEGRANDS))]
            exact, size = one_average(f, powers, K) or (None, 1.0)
            call = lambda: moment(act, Powers(s=powers[0], s1=powers[1]), K)  # noqa: B023, E731
            floor = rounding(steep, *powers)
            ledger.judge("moment", f"{f.text}, K = {K:.4g}, {powers}", call, exact, size, 1e-11 + place, floor)
        for _ in range(pairs):
            K1, K2 = variances[0], variances[rng.integers(2)]
            near = 10 ** rng.uniform(-10, -1)
            rho, order = float(rng.choice([rng.uniform(-1, 1), 1 - near, near - 1])), int(rng.integers(2))
            exact, size = two_averages(f, order, K1, K2, rho)
            text = f"{f.text}, {K1:.4g}, {K2:.4g}, ρ = {rho!r}, order {order}"
            call = lambda: pair(act, K1, K2, rho, order=order)  # noqa: B023, E731
            ledger.judge(
                "pair", text, call, exact, size, 1e-10 + place, rounding(steep, *((0, 2) if order else (2, 0)))
            )
        of_networks(f, act, ledger, variances[0], rng, place, steep)
    return ledger


def two_averages(f, order, K1, K2, rho):
    squares = [one_average(f, (0, 2) if order else (2, 0), K) for K in (K1, K2)]
    if None in squares:
        return None, 1.0
    return reference.pair_average(f, order, K1, K2, rho), math.sqrt(squares[0][0] * squares[1][0])


def of_networks(f, act, ledger, K, rng, place, steep):
    """K, Θ and V behind one hidden layer, for one input and for two."""
    C_W, lambda_W = 0.8, 0.3
    floors = [rounding(steep, *powers) for powers in ((2, 0), (0, 2))]
    found = [one_average(f, powers, K) for powers in ((2, 0), (0, 2), (4, 0))]
    if None in found:
        return
    (ss, _), (dd, _), (ssss, _) = found
    net = MLP((2, 8, 1), act, C_W=C_W, lambda_W=lambda_W, lambda_b=0.0)
    x = math.sqrt(2 * K / C_W) * np.array([1.0, 0.0])
    Theta = lambda_W * ss + C_W * (lambda_W * K / C_W) * dd
    text, made = f"{f.text}, K = {K:.4g}", []

    def stats(name):
        made[:] = made or [statistics(net, x)]
        return getattr(made[0], name)[-1]

    tolerance = 1e-10 + place
    ledger.judge("statistics", text, lambda: stats("K"), C_W * ss, C_W * ss, tolerance, floors[0])
    ledger.judge("statistics", text, lambda: stats("Theta"), Theta, Theta, tolerance, sum(floors) * (1 + K))
    V = C_W**2 * (ssss - ss**2)
    ledger.judge("statistics", text, lambda: stats("V"), V, C_W**2 * ssss, tolerance, 0.0)
    rho = float(rng.choice([rng.uniform(-1, 1), 1 - 10 ** rng.uniform(-6, -2)]))
    both = [two_averages(f, order, K, K, rho) for order in (0, 1)]
    X = math.sqrt(2 * K / C_W) * np.array([[1.0, 0.0], [rho, math.sqrt((1 - rho) * (1 + rho))]])
    if both[0][0] is None or both[1][0] is None:
        return
    exact = lambda_W * both[0][0] + C_W * (lambda_W * K * rho / C_W) * both[1][0]
    text = f"{text}, ρ = {rho!r}"
    # What ρ of the inputs is known to is rounding, of which a kink sees the root, and a steep place that much more.
    known = (
        1e-10
        + place
        + 4e-15 * (1 + K * steep**2 + 1 / math.sqrt(max(1 - abs(rho), 1e-16)) * (1 + steep * math.sqrt(K)))
    )
    ledger.judge("kernel", text, lambda: kernel(net, X).K[0, 1], C_W * both[0][0], C_W * both[0][1], known, floors[0])
    ledger.judge("kernel", text, lambda: kernel(net, X).Theta[0, 1], exact, Theta, known, sum(floors) * (1 + K))


def test_a_few_functions_of_one_s_own():
    ledger = run(11, 2, wild=False, moments=3, pairs=1)
    assert ledger.of("right") == sum(ledger.shares.values()) >= 12


@pytest.mark.slow
def test_functions_that_are_not_wild_are_right_without_a_warning(record_property):
    ledger = run(1, 22, wild=False, moments=42, pairs=2)
    record_property("shares", dict(ledger.shares))
    print(dict(ledger.shares))
    assert sum(ledger.shares.values()) > 1000
    assert ledger.of("right") == sum(ledger.shares.values())


@pytest.mark.slow
def test_of_wild_functions_few_are_warned_of_or_refused_and_none_is_wrong(record_property):
    ledger = run(2, 34, wild=True, moments=27, pairs=2)
    record_property("shares", dict(ledger.shares))
    print(dict(ledger.shares))
    assert sum(ledger.shares.values()) > 1000
    assert ledger.of("right") >= 0.9 * sum(ledger.shares.values())
