"""Classifiers at finite width: what `training.sample` says to order 1/n, and networks trained by simulation.

The part of order 1/n of a mean is n times what width n changes, for n → ∞. Theory takes it from mirrored draws at
n = 10⁶ (docs/theory/training, eq. 62), all of it and what V alone does. Simulation trains networks of many widths and
fits a + b/n + c/n² to n times their difference from infinite width, in two levels: a network against the frozen kernel
from the same initial outputs and by the same batches, and initial outputs of networks against Gaussian ones. Given the
last hidden layer those are Gaussian as well, and have the normal numbers in common. `python benchmarks/classifiers.py
DRAWS LAYERS` prints both, with standard errors, for full batches and for mini-batches with momentum.
"""

import sys

import jax
import numpy as np

import neft
from neft.training._finite import output_tensors
from neft.training._fluctuations import Law, draw, law
from neft.training._function_space import draw_batches, moved
from neft.training._loss import cross_entropy
from neft.training._response import TENSORS
from neft.training._sample import trained
from neft.training._schedule import Schedule, schedule

X = np.array([[1.0, 0.2], [-0.3, 1.0]])
XT = np.array([[2.0, 0.3]])
Y = np.eye(2)
WIDTHS = (24, 48, 96, 192)
WIDE = 1e6
KEY = jax.random.key(17)
CASES = {
    "full batch": {"steps": 10, "learning_rate": 0.5},
    "batches of 1, momentum 0.8": {"steps": 20, "learning_rate": 0.03, "momentum": 0.8, "batch": 1},
}
OBSERVED = ("mean z1", "mean z2", "mean z1²", "mean p1", "mean p1²")


def network(n: int, layers: int) -> neft.MLP:
    """A classifier with outputs of size one and more, so that the cross-entropy is far from quadratic."""
    return neft.MLP((2, *(n,) * layers, 2), "tanh", C_b=0.1, C_W=(1.2,) * layers + (3.0,), lambda_b=0.5, lambda_W=1.0)


def observed(z: np.ndarray) -> np.ndarray:
    """Of test logits (draws, 2): the logits, the first one's square, its probability and that one's square."""
    p = 1 / (1 + np.exp(z[:, 1] - z[:, 0]))
    return np.stack([z[:, 0], z[:, 1], z[:, 0] ** 2, p, p**2], axis=1)


def schedule_of(case: dict) -> Schedule:
    """The plan of a case."""
    return schedule(None, case["steps"], case["learning_rate"], case.get("momentum", 0.0), False, case.get("batch"), 2)


def batches_of(plan: Schedule, key: jax.Array, index: np.ndarray) -> np.ndarray | None:
    """The batches of the draws of an index."""
    if plan.batch is None or plan.steps is None:
        return None
    return np.asarray(draw_batches(key, index, steps=int(plan.steps), count=2, batch=plan.batch))


def theory(own: Law, Theta: np.ndarray, plan: Schedule, draws: int) -> tuple[np.ndarray, np.ndarray]:
    """The part of order 1/n of each mean, and its standard error."""
    values = []
    for part in np.array_split(np.arange(draws), max(1, draws // 1024)):
        batches, pair = batches_of(plan, KEY, part), [draw(own, KEY, part, sign=sign) for sign in (1.0, -1.0)]
        both = sum(observed(trained(own, one, Y, plan, cross_entropy, batches)[0][:, 0, 2]) for one in pair) / 2
        # The same draws at infinite width, whose kernel has no Θ₁.
        values.append(WIDE * (both - frozen(Theta, pair[0].infinite, plan, batches)))
    every = np.concatenate(values)
    return every.mean(0), every.std(0, ddof=1) / np.sqrt(draws)


def frozen(Theta: np.ndarray, z: np.ndarray, plan: Schedule, batches: np.ndarray | None) -> np.ndarray:
    """What is observed at infinite width, from initial outputs z over all samples (draws, 3, 2)."""
    c = moved(cross_entropy, Theta[:2, :2], z[:, :2], Y, plan, batches)[:, 0]
    return observed(z[:, 2] - np.einsum("a,sao->so", Theta[2, :2], c))


def initial(layers: int, n: int, K: np.ndarray, draws: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Initial outputs of networks and Gaussian ones with the same normal numbers, (draws, 3, 2) each."""
    signal = np.broadcast_to(np.concatenate([X, XT]), (draws, 3, 2))
    for _ in range(layers):
        W = rng.normal(size=(draws, n, signal.shape[2])) * np.sqrt(1.2 / signal.shape[2])
        b = rng.normal(size=(draws, 1, n)) * np.sqrt(0.1)
        signal = np.tanh(signal @ W.mT + b)
    kernel, root, xi = 0.1 + 3.0 * signal @ signal.mT / n, np.linalg.cholesky(K), rng.normal(size=(draws, 3, 2))
    inverse = np.linalg.inv(root)
    l, v = np.linalg.eigh(inverse @ kernel @ inverse.T)
    return root @ (v * np.sqrt(np.maximum(l, 0))[:, None, :]) @ v.mT @ xi, root @ xi


def simulation(
    layers: int, case: dict, plan: Schedule, K: np.ndarray, Theta: np.ndarray, draws: int
) -> tuple[np.ndarray, np.ndarray]:
    """a of a + b/n + c/n² fitted to n times the difference from infinite width, and its standard error."""
    values, errors, every = [], [], np.concatenate([X, XT])
    for n in WIDTHS:
        key, index = jax.random.fold_in(KEY, n), np.arange(draws)
        options = {"draws": draws, "key": key, "loss": "cross_entropy", "dtype": np.float32}
        found = neft.training.ensemble(network(n, layers), X, Y, every, **options, **case)
        batches = batches_of(plan, key, index)
        first = observed(found.test[:, 2]) - frozen(Theta, found.start, plan, batches)
        ours, gaussian = initial(layers, n, K, draws, np.random.default_rng(n))
        second = frozen(Theta, ours, plan, batches) - frozen(Theta, gaussian, plan, batches)
        values.append(n * (first.mean(0) + second.mean(0)))
        errors.append(n * np.sqrt((first.var(0) + second.var(0)) / draws))
    A, found, spread = np.array([[1, 1 / n, 1 / n**2] for n in WIDTHS]), [], []
    for j in range(len(OBSERVED)):
        weight = 1 / np.array([e[j] for e in errors])
        gains = np.linalg.pinv(A * weight[:, None])[0] * weight
        found.append(gains @ [v[j] for v in values])
        spread.append(np.linalg.norm(gains / weight))
    return np.array(found), np.array(spread)


def run(draws: int, layers: int) -> None:
    """Print theory and simulation."""
    tensors = output_tensors(network(16, layers), np.concatenate([X, XT]), (*TENSORS, "V"))
    own = law(tensors, WIDE, 2, 2)
    # What is of first order in 1/n adds up: V's part alone.
    only = law({k: v if k in ("K", "Theta", "V") else 0 * v for k, v in tensors.items()}, WIDE, 2, 2)
    for name, case in CASES.items():
        plan = schedule_of(case)
        one, error = theory(own, tensors["Theta"], plan, draws // 2)
        of_V, error_V = theory(only, tensors["Theta"], plan, draws // 2)
        a, spread = simulation(layers, case, plan, tensors["K"], tensors["Theta"], draws)
        print(f"{layers} hidden layers, {name}, {draws} networks at each of widths {WIDTHS}")
        for j, what in enumerate(OBSERVED):
            z, without = (a - one)[j] / np.hypot(error, spread)[j], (a - one + of_V)[j]
            without /= np.sqrt(error**2 + spread**2 + error_V**2)[j]
            print(
                f"  {what:9} theory {one[j]:+.4f} ± {error[j]:.4f}  simulation {a[j]:+.4f} ± {spread[j]:.4f}"
                f"  z {z:+.1f}  of it V {of_V[j]:+.4f} ± {error_V[j]:.4f}, without V z {without:+.1f}",
                flush=True,
            )


if __name__ == "__main__":
    run(int(sys.argv[1]), int(sys.argv[2]))
