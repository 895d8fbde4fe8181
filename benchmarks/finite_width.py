"""Theory of trained ensembles at order 1/n against trained networks: mean and covariance of a test output.

Two levels of Monte Carlo. Most of the variance lies in what costs little, the response z₂ = m₀ + Πz + c₁ + c₂ of each
draw to second order in its own kernels, of which there are many draws; the difference of a trained network from
its own z₂ is small, and a few draws do. What is known of a draw's first order (Πz and c₁, whose averages are exact) is
taken away as control variates. A quadratic in 1/n is fitted, whose constant is what theory speaks of.

A few steps cost less than z₂, so residual networks are all trained and nothing is followed to second order:

    python benchmarks/finite_width.py 40960 0 5 6 7

trains 40960 networks of each width and case, and keeps what was found in `tests/training/streams.json`.
"""

import functools
import json
import sys
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from measure import Ratio

import neft
from neft.training._hierarchy import drawn
from neft.training._pairings import contract, correlators, projected
from neft.training._response import TENSORS, Corrections, corrections
from neft.training._weights import Moment, Weights, weights

X = np.array([[1.2, 0.0], [0.0, 1.2]])
XT = np.array([[1.0, -0.6]])
Y = np.array([[1.0, -0.5], [-1.0, 1.0]])
WIDTHS = (16, 24, 32, 64)
WIDER = (32, 48, 72, 128)  # of residual networks, whose higher orders in 1/n are larger
A, O = Y.shape
END = Moment(np.inf)
FILE = Path(__file__).parents[1] / "tests" / "training" / "streams.json"  # residual networks


class Case(NamedTuple):
    """What is asked of which network."""

    activation: str
    hidden: int = 1
    moment: Moment = END
    skip: float | None = None
    matrices: int = 1

    @property
    def widths(self) -> tuple[int, ...]:
        """Those that are drawn."""
        return WIDTHS if self.skip is None else WIDER

    def net(self, n: int) -> neft.Network:
        """The network of hidden width n, with residual blocks of one or two matrices if there is a skip."""
        # Initial outputs of small variance: what is resolved is the noise that they leave.
        if self.skip is not None:
            rates = {"C_b": 0.05, "lambda_b": 0.7, "lambda_W": 0.8}
            inner = [neft.Dense(n, C_W=1.0, **rates)] * (self.matrices - 1)
            block = neft.Residual(*inner, self.activation, neft.Dense(n, C_W=0.6, **rates), skip=self.skip)
            ends = neft.Dense(n, C_W=1.0, **rates), neft.Dense(O, C_W=0.3, **rates)
            return neft.Network(2, [ends[0], *[block] * (self.hidden - 1), self.activation, ends[1]])
        C_W = (*(1.0,) * self.hidden, 0.3)
        return neft.MLP((2, *(n,) * self.hidden, O), self.activation, C_b=0.05, C_W=C_W, lambda_b=0.7, lambda_W=0.8)

    def schedule(self) -> dict[str, Any]:
        """The arguments of training."""
        if self.moment.steps is not None:
            return {"steps": self.moment.steps, "learning_rate": self.moment.eta}
        return {} if self.moment.over else {"time": self.moment.time}


class Measured(NamedTuple):
    """n(E[z*] - m₀) (O,) or n(cov - C₀) (O, O): theory, and the simulation's limit with its standard error.

    And what stands at each width with its own, and how far all widths are from the fit, for one degree of freedom.
    """

    theory: np.ndarray
    simulation: np.ndarray
    stderr: np.ndarray
    by_width: np.ndarray
    errors: np.ndarray
    chi_squared: np.ndarray

    @property
    def z(self) -> np.ndarray:
        """Distances in standard errors."""
        return (self.simulation - self.theory) / self.stderr

    @property
    def resolved(self) -> np.ndarray:
        """How many standard errors the theory's value is away from zero."""
        return np.abs(self.theory) / self.stderr


def compare(case: Case, trained: int, cheap: int, key: jax.Array) -> tuple[Measured, Measured]:
    """Mean and covariance of the two outputs at the test input."""
    stats = neft.width.statistics(case.net(case.widths[0]), np.concatenate([X, XT]))
    tensors = {name: np.asarray(getattr(stats, name))[-1] for name in TENSORS}
    theory = corrections(tensors, Y, case.moment)
    w, _, v = weights(case.moment, tensors["Theta"], A)
    mean_known, cov_known = _known(tensors, w, v)
    means, covs = [], []
    for n in case.widths:
        mean, cov = _at_width(case, n, tensors["Theta"], theory, w, v, trained, cheap, jax.random.fold_in(key, n))
        mean = (mean[0] + mean_known, mean[1])
        covs.append((cov[0] + cov_known - np.outer(mean[0], mean[0]) / n, cov[1]))
        means.append(mean)
        print(case, n, mean, covs[-1], file=sys.stderr)
    return (
        _fitted(theory.mean_correction[A], means, case.widths),
        _fitted(theory.cov_correction[A, :, A], covs, case.widths),
    )


def _known(tensors: dict[str, np.ndarray], w: Weights, v: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    # n E[c₁], and n E[Πz Πzᵀ + Πz c₁ᵀ + c₁ Πzᵀ] beyond infinite width: exact averages of the control variates.
    Pi, eye, Theta1 = w.initial, np.eye(O), tensors["Theta1"] @ v
    mean = np.einsum("dbm,bm,mB->dB", w.H1, Theta1, v[:A].T @ Y)[A]
    zzH = projected(correlators(tensors).zzH, None, v, None, v)
    half = -contract(zzH, "emxm", Pi, "ie", w.H1, "jxm", out="iEjX", outputs=O)[A, :, A]
    half -= np.einsum("m,xm,xm->", (Pi @ tensors["K"] @ v)[A], w.H1[A], Theta1) * eye
    return mean, half + half.T + (Pi @ tensors["K1"] @ Pi.T)[A, A] * eye


_THIRD = ("Y", "Y0", "Z", "I")


def _at_width(
    case: Case, n: int, Theta: np.ndarray, theory: Corrections, w: Weights, v: np.ndarray, trained: int, cheap: int, key
) -> tuple[tuple[np.ndarray, np.ndarray], tuple[np.ndarray, np.ndarray]]:
    net, m0 = case.net(n), theory.mean[A]
    real = neft.training.ensemble(net, X, Y, XT, draws=trained, key=key, **case.schedule())
    with jax.enable_x64(True):
        # Of the test input alone; those of three eigenvectors are given by κ.
        whole = {name: part for name, part in w._asdict().items() if part is not None}
        third = {name: np.einsum("kb,kmnr->bmnr", w.G[:, A], part) for name, part in whole.items() if name in _THIRD}
        rest: Any = {name: part[A] for name, part in whole.items() if name not in ("G", *_THIRD)}
        parts: Any = Weights(**{name: (rest | third).get(name) for name in Weights._fields})  # type: ignore[arg-type]
        index = jnp.arange(max(trained, cheap))
        order = 3 if cheap else 1
        z, first, second = map(
            np.asarray, _responses(net, order, parts, jnp.asarray(v), jnp.asarray(Theta), key, index)
        )
    assert np.abs(real.start[:, 0] - z[:trained, 0]).max() < 1e-10, "not the same draws"
    z = z[:, 1]
    two = z + first + second
    square = np.einsum("si,sj->sij", two, two) - np.einsum("si,sj->sij", z, z)
    cross = np.einsum("si,sj->sij", z, first)
    low = (n * second, n * (square - cross - cross.swapaxes(1, 2)))
    good = real.good
    d, two = real.test[good, 0] - m0, two[:trained][good]
    high = (n * (d - two), n * (np.einsum("si,sj->sij", d, d) - np.einsum("si,sj->sij", two, two)))
    if not cheap:
        # The same draws: what is subtracted from one is added to the other.
        high = tuple(a + b[good] for a, b in zip(high, low))
        low = tuple(np.zeros_like(b) for b in low)
    sums = [
        (a.mean(0) + b.mean(0), np.sqrt(a.var(0, ddof=1) / len(a) + b.var(0, ddof=1) / len(b)))
        for a, b in zip(low, high)
    ]
    return sums[0], sums[1]


@functools.partial(jax.jit, static_argnums=(0, 1))
def _responses(net: neft.Network, order: int, w: Any, v: jax.Array, Theta: jax.Array, key: jax.Array, index: jax.Array):
    """z(0) at the test input and Πz stacked, c₁ and c₂ (0 at order 1) there, each (draws, O), of every draw."""
    x, y = jnp.asarray(np.concatenate([X, XT])), jnp.asarray(Y)
    N = len(x)

    def one(i):
        h: Any = drawn(net, net.init(jax.random.fold_in(key, i), dtype=x.dtype), x, A, order, net.rates())
        z = h.z.reshape(N, O)
        e = v[:A].T @ (z[:A] - y)
        # Axes b, its output, and pairs (eigenvector, output).
        D = h.H.reshape(N, O, N, O) - jnp.einsum("ab,ij->aibj", Theta, jnp.eye(O))
        D = jnp.einsum("bBaM,am->bBmM", D, v)
        Dmn = jnp.einsum("aMnN,am->mMnN", D, v)
        first = -jnp.einsum("bm,bBmM,mM->B", w.H1, D, e)
        if order == 1:
            return jnp.stack([z[A], w.initial @ z]), first, jnp.zeros_like(first)
        second = jnp.einsum("bmn,bBmM,mMnN,nN->B", w.HH, D, Dmn, e)

        def two(T, weight):
            T = T.reshape(N, O, N, O, A, O)
            return jnp.einsum("bmn,bBaMcN,am,cn,mM,nN->B", weight, T, v, v[:A], e, e, optimize="greedy")

        def three(T, weight):
            T = T.reshape(N, O, N, O, A, O, A, O)
            return jnp.einsum(
                "bmnr,bBaMcNfR,am,cn,fr,mM,nN,rR->B", weight, T, v, v[:A], v[:A], e, e, e, optimize="greedy"
            )

        def both(T):
            return T + T.swapaxes(0, 1)

        Y4, Z4 = h.I + h.II + h.III, h.I + h.II
        second += two(both(h.dH), w.d) - three(both(Y4), w.Y)
        if w.dH is not None:
            second += two(h.dH, w.dH) - three(Y4, w.Y0) - three(both(Z4), w.Z) - three(h.I, w.I)
        return jnp.stack([z[A], w.initial @ z]), first, second

    return jax.lax.map(one, index, batch_size=256)


def _fitted(theory: np.ndarray, found: list[tuple[np.ndarray, np.ndarray]], widths: tuple[int, ...]) -> Measured:
    values, errors = (np.stack(column) for column in zip(*found))
    powers = np.stack([np.array(widths, float) ** -k for k in range(3)], axis=1)
    limit, stderr, chi_squared = (np.empty_like(theory) for _ in range(3))
    for at in np.ndindex(theory.shape):
        e = errors[(slice(None), *at)]
        covariance = np.linalg.inv((powers / e[:, None]).T @ (powers / e[:, None]))
        fit = covariance @ (powers / e[:, None]).T @ (values[(slice(None), *at)] / e)
        limit[at], stderr[at] = fit[0], np.sqrt(covariance[0, 0])
        chi_squared[at] = (((powers @ fit - values[(slice(None), *at)]) / e) ** 2).sum()
    return Measured(theory, limit, stderr, values, errors, chi_squared)


CASES = (
    Case("tanh"),
    Case("gelu"),
    Case("tanh", 2),
    Case("tanh", 1, Moment(0.8)),
    Case("tanh", 1, Moment(np.inf, 6, 0.25)),
    # In two residual blocks a neuron keeps its past.
    Case("tanh", 3, Moment(np.inf, 6, 0.1), skip=0.8),
    Case("gelu", 3, Moment(np.inf, 6, 0.1), skip=1.0),
    Case("tanh", 3, Moment(np.inf, 6, 0.1), skip=1.0, matrices=2),
)


def run(trained: int = 8192, cheap: int = 65536) -> list[Ratio]:
    """Five standard errors over the largest distance (promised: at least 1), and how well effects are resolved."""
    ratios = []
    for case in CASES:
        if case.skip is not None:
            cheap = 0
        for name, found in zip(("mean", "covariance"), compare(case, trained, cheap, jax.random.key(5))):
            where = case.moment.steps or case.moment.time
            what = f"{name} of trained {case.activation}, {case.hidden} hidden, time or steps {where}"
            worst = float(np.abs(found.z).max())
            shown = f"|z| ≤ {worst:.1f}, resolved to {found.resolved.max():.0f}"
            ratios.append(Ratio(what, "trained ensemble", shown, "|z| < 5", 5 / worst, 1))
    return ratios


_KEPT = ("by_width", "errors", "chi_squared")


def keep(case: Case, trained: int, cheap: int, found: tuple[Measured, Measured], command: str) -> None:
    """Put what was measured into `tests/training/streams.json`, by what it was measured of."""
    kept = json.loads(FILE.read_text()) if FILE.exists() else {}
    steps, eta = case.moment.steps, case.moment.eta
    matrices = ("one matrix", "two matrices")[case.matrices - 1]
    kept[f"{matrices}, {case.activation}, skip {case.skip:g}"] = {
        "network": case.net(case.widths[0]).to_dict(),
        "x_train": X.tolist(),
        "y_train": Y.tolist(),
        "x_test": XT.tolist(),
        "steps": steps,
        "learning_rate": eta,
        "widths": case.widths,
        "networks trained and followed": [trained, cheap],
        "seed": 5,
        "command": command,
    } | {
        name: {field: getattr(one, field).tolist() for field in ("simulation", "stderr", *_KEPT)}
        for name, one in zip(("mean", "covariance"), found)
    }
    FILE.write_text(json.dumps(kept, indent=1) + "\n")


if __name__ == "__main__":
    for chosen in sys.argv[3:]:
        many, more, case = int(sys.argv[1]), int(sys.argv[2]), CASES[int(chosen)]
        both = compare(case, many, more, jax.random.key(5))
        for measured in both:
            print(case, measured, measured.z, measured.resolved, flush=True)
        if case.skip is not None:
            keep(case, many, more, both, f"benchmarks/finite_width.py {many} {more} {chosen}")
