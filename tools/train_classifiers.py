"""Trains classifiers of many widths on the cross-entropy and keeps what is of order 1/n, `classifiers.json`.

    .venv/bin/python tools/train_classifiers.py "one hidden layer, full batch" …
    .venv/bin/python tools/train_classifiers.py --theory DRAWS "one hidden layer, full batch" …

Without names all cases are trained; a case replaces its entry. The second line keeps beside it what mirrored draws of
`training.sample` say (docs/theory/training, eq. 62), and which part of that is V's. The simulation knows no tensor of
finite width. What width n changes in a mean is measured in two levels. Networks are drawn and moved with the tangent
kernel that they have before training, beside the frozen kernel of infinite width: given the last hidden layer the first
outputs are Tξ with normal numbers ξ and T the root of a covariance k, and those of infinite width are the same ξ times
the root of K. Other networks are trained, each beside the model with its own first kernel, from which it differs by
order 1/n. Batches are the same within a draw.

What is linear in k - K and in the kernel's fluctuation would be most of the noise. It is taken out with its mean: ξ is
independent of the hidden layers, and the kernel of one draw, less what of it depends on ξ on average (E[WW | ξ], W the
last weights), has a mean that does not depend on ξ. So the mean of the product is the product of means, over a block of
draws, and of one hidden layer it is 0. n times the sum is fitted as a + b/n + c/n² over four widths.
"""

import functools
import json
import sys
import time
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import neft
from neft.training._finite import output_tensors
from neft.training._fluctuations import draw, law
from neft.training._function_space import draw_batches, moved
from neft.training._loss import cross_entropy
from neft.training._response import TENSORS
from neft.training._schedule import schedule
from neft.training._trained import trained

FILE = Path(__file__).parents[1] / "tests" / "training" / "classifiers.json"
X = np.array([[1.0, 0.2], [-0.3, 1.0], [1.0, -1.2]])
TRAIN = 2
HYPER = {"C_b": 0.05, "lambda_b": 0.5, "lambda_W": 1.0}
FULL = {"steps": 10, "learning_rate": 0.2}
BATCHES = {"steps": 20, "learning_rate": 0.03, "momentum": 0.8, "batch": 1}
LARGE = {"steps": 10, "learning_rate": 0.2, "momentum": 0.8, "batch": 1}
SEED = 29
WIDEST, FIRST = 1e6, 512
# Widths, and how many networks of each are moved and how many trained.
NARROW, WIDE, WIDER = (24, 48, 96, 192), (16, 32, 64, 128), (128, 256, 512, 1024)
MANY, FEW, DEEP, DEEP_FEW = (120_000, 80_000), (48_000, 32_000), (200_000, 80_000), (160_000, 80_000)
# By name: activation, C_W of each layer, training, widths and numbers.
CASES = {
    "one hidden layer, full batch": ("gelu", (1.7, 2.0), FULL, NARROW, MANY),
    "one hidden layer, batches and momentum": ("gelu", (1.7, 2.0), BATCHES, NARROW, FEW),
    "one hidden layer, large steps": ("gelu", (1.7, 2.0), LARGE, WIDER, FEW),
    "two hidden layers, full batch": ("gelu", (1.7, 1.7, 2.0), FULL, WIDE, DEEP),
    "two hidden layers, batches and momentum": ("gelu", (1.7, 1.7, 2.0), BATCHES, WIDE, DEEP_FEW),
}
OBSERVED = ("mean of z1", "mean of p1", "variance of z1", "variance of p1")


def network(name, n):
    """The network of a case at a width."""
    act, C_W, *_ = CASES[name]
    return neft.MLP((2, *(n,) * (len(C_W) - 1), 2), act, C_W=C_W, **HYPER)


def observed(z, centre):
    """Of test logits (2,): the first one, its probability, and their squared distances from two numbers."""
    p = jax.nn.sigmoid(z[0] - z[1])
    return jnp.stack([z[0], p, (z[0] - centre[0]) ** 2, (p - centre[1]) ** 2])


def gradient(z, t, taken):
    """dL/dz (N, 2) of the cross-entropy of two classes, with a batch's weights."""
    g = jax.nn.softmax(z) - jnp.eye(2, dtype=z.dtype)
    if taken is None:
        return g
    return g * TRAIN * (jnp.arange(TRAIN) == taken[t])[:, None]


def steps(training, move, start, first):
    """A loop of steps with momentum: `first` (state) gives a gradient of any shape, `move` applies its velocity."""
    eta, beta = training["learning_rate"], training.get("momentum", 0.0)

    def step(t, now):
        state, velocity = now
        velocity = jax.tree.map(lambda v, g: beta * v + g, velocity, first(state, t))
        return move(state, velocity, eta), velocity

    zeros = jax.tree.map(jnp.zeros_like, first(start, 0))
    return jax.lax.fori_loop(0, training["steps"], step, (start, zeros))[0]


def with_kernel(training, z, H, taken):
    """Outputs (S, 2) after training with a kernel H (S, 2, S, 2) that stays as it is."""
    return steps(
        training,
        lambda z, v, eta: z - eta * jnp.einsum("aibj,bj->ai", H[:, :, :TRAIN], v),
        z,
        lambda z, t: gradient(z[:TRAIN], t, taken),
    )


def functions(name, n):
    """Compiled, of many draws: what `one` below gives, and the linear response of what is observed to (k, H)."""
    act, C_W, training, *_ = CASES[name]
    sigma = {"tanh": jnp.tanh, "gelu": lambda z: jax.nn.gelu(z, approximate=False)}[act]
    slope = jax.vmap(jax.vmap(jax.grad(sigma)))
    sizes = network(name, n).widths
    x = jnp.asarray(X, jnp.float32)
    C_b, l_b, l_W = HYPER["C_b"], HYPER["lambda_b"], HYPER["lambda_W"]

    def apply(params, x):
        for layer, (b, W) in enumerate(params):
            x = (x if layer == 0 else sigma(x)) @ W.T + b
        return x

    def after(xi, taken, centre, k, H):
        return observed(with_kernel(training, cholesky(k) @ xi, H, taken)[TRAIN], centre)

    def one(key, kernel, centre, whole):
        keys = jax.random.split(key, 2 * len(C_W) + 1)
        params = [
            (
                jnp.sqrt(C_b) * jax.random.normal(keys[2 * l], (sizes[l + 1],)),
                jnp.sqrt(C / sizes[l]) * jax.random.normal(keys[2 * l + 1], (sizes[l + 1], sizes[l])),
            )
            for l, C in enumerate(C_W)
        ]
        taken = jax.random.randint(keys[-1], (training["steps"],), 0, TRAIN) if "batch" in training else None
        signals, before = [x], []
        for b, W in params:
            before.append(signals[-1] @ W.T + b)
            signals.append(sigma(before[-1]))
        z, features = before[-1], signals[-2]

        def pulled(rows):
            # Σ_l ∂z_l/∂θ_l contracted over hidden layers, for any last weights (R, n): (S, R, S, R).
            back, total = jnp.broadcast_to(rows, (len(X), *rows.shape)) * slope(before[-2])[:, None, :], 0.0
            for l in reversed(range(len(C_W) - 1)):
                both = jnp.einsum("aiu,bju->aibj", back, back)
                total = total + both * (l_b + l_W * signals[l] @ signals[l].T / sizes[l])[:, None, :, None]
                if l:
                    back = jnp.einsum("aiu,uv->aiv", back, params[l][1]) * slope(before[l - 1])[:, None, :]
            return total

        last = l_b + l_W * features @ features.T / n
        H = jnp.einsum("ab,ij->aibj", last, jnp.eye(2)) + pulled(params[-1][1])
        moved = observed(with_kernel(training, z, H, taken)[TRAIN], centre)
        if whole:
            rates = [(l_b, l_W / sizes[l]) for l in range(len(C_W))]

            def slope_of(params, t):
                z, back = jax.vjp(lambda p: apply(p, x[:TRAIN]), params)
                return back(gradient(z, t, taken))[0]

            def move(p, v, eta):
                return jax.tree.map(lambda a, r, v: a - eta * r * v, p, rates, v)

            return observed(apply(steps(training, move, params, slope_of), x)[TRAIN], centre) - moved
        k = C_b + C_W[-1] * features @ features.T / n
        T = cholesky(k)
        xi, q = solve(T, z), jnp.sqrt(C_W[-1] / n) * solve(T, features)
        # E[W_i W_j | ξ] - E[W_i W_j] = C_W/n qᵀ(ξ_i ξ_jᵀ - δ_ij)q.
        known = jnp.einsum("ci,dj->cdij", xi, xi) - jnp.einsum("cd,ij->cdij", jnp.eye(len(X)), jnp.eye(2))
        known = C_W[-1] / n * jnp.einsum("acbd,cdij->aibj", pulled(q), known)
        frozen = jnp.einsum("ab,ij->aibj", kernel[1], jnp.eye(2))
        change = (k - kernel[0], H - known - frozen)
        still, linear = jax.jvp(lambda *now: after(xi, taken, centre, *now), (kernel[0], frozen), change)
        return moved - still - linear, change, xi, taken

    @functools.partial(jax.jit, static_argnums=4)
    def many(key, index, kernel, centre, whole):
        return jax.vmap(lambda i: one(jax.random.fold_in(key, i), kernel, centre, whole))(index)

    @jax.jit
    def response(xi, taken, kernel, centre, k, h):
        frozen, along = (jnp.einsum("ab,ij->aibj", part, jnp.eye(2)) for part in (kernel[1], h))

        def of(xi, taken):
            return jax.jvp(lambda *now: after(xi, taken, centre, *now), (kernel[0], frozen), (k, along))[1]

        return jax.vmap(of, in_axes=(0, None if taken is None else 0))(xi, taken).mean(0)

    return many, response


def cholesky(C):
    """The lower root of a small matrix, entry by entry."""
    size, L = len(C), {}
    for i in range(size):
        for j in range(i + 1):
            left = C[i, j] - sum(L[i, k] * L[j, k] for k in range(j))
            L[i, j] = jnp.sqrt(left) if i == j else left / L[j, j]
    return jnp.stack([jnp.stack([L.get((i, j), jnp.zeros(())) for j in range(size)]) for i in range(size)])


def solve(T, z):
    """T⁻¹z for a lower triangular T, row by row."""
    rows = []
    for i in range(len(z)):
        rows.append((z[i] - sum(T[i, k] * rows[k] for k in range(i))) / T[i, i])
    return jnp.stack(rows)


def measured(name, n, counts, kernel, centre, block=4000):
    """n times what width n changes in each mean, and its standard error."""
    (many, response), total, error = functions(name, n), 0.0, 0.0
    kernel, centre = (tuple(jnp.asarray(part, jnp.float32) for part in given) for given in (kernel, centre))
    for level, count in enumerate(counts):
        key = jax.random.fold_in(jax.random.fold_in(jax.random.key(SEED), n), level)
        blocks = []
        for begin in range(0, count, block):
            found = many(key, jnp.arange(begin, begin + block), kernel, centre, level == 1)
            if level == 1:
                blocks.append(np.asarray(found, float).mean(0))
                continue
            rest, (k, H), xi, taken = found
            value = np.asarray(rest, float).mean(0)
            if len(CASES[name][1]) > 2:
                mean = (k.mean(0), jnp.einsum("aibi->ab", H.mean(0)) / 2)
                value = value + np.asarray(response(xi, taken, kernel, centre, *mean), float)
            blocks.append(value)
        total = total + n * np.mean(blocks, axis=0)
        error = error + n**2 * np.var(blocks, axis=0, ddof=1) / len(blocks)
    return total, np.sqrt(error)


def fitted(values, errors, widths):
    """a of a + b/n + c/n², its standard error, and χ² of the one degree of freedom that is left."""
    A = np.array([[1, 1 / n, 1 / n**2] for n in widths])
    found = []
    for v, e in zip(np.transpose(values), np.transpose(errors)):
        gain = np.linalg.pinv(A / e[:, None]) / e
        left = (v - A @ (gain @ v)) / e
        found.append((gain[0] @ v, np.linalg.norm(gain[0] * e), left @ left))
    return np.transpose(found)


def infinite(name):
    """K and Θ, and the means of logit and probability at infinite width."""
    kernel = neft.width.kernel(network(name, 16), X, dtype="float64")
    training = CASES[name][2]
    found = neft.training.sample(
        network(name, 16), X[:TRAIN], [0, 1], X[TRAIN:], draws=200_000, key=jax.random.key(SEED), **training
    )
    z = found.outputs[:, 0]
    return (np.asarray(kernel.K), np.asarray(kernel.Theta)), (z[:, 0].mean(), found.probabilities[0, 0])


def run(name):
    """One case: a and its error, with what made it."""
    kernel, centre = infinite(name)
    widths: dict[int, Any] = dict.fromkeys(CASES[name][3], CASES[name][4])
    values, errors, begin = [], [], time.process_time()
    for n, counts in widths.items():
        found: Any = measured(name, n, counts, kernel, centre)
        value, error = found
        print(
            name,
            n,
            *(f"{v:+.4f}±{e:.4f}" for v, e in zip(value, error)),
            f"{time.process_time() - begin:.0f} s",
            flush=True,
        )
        values.append(value), errors.append(error)
    a, error, chi = fitted(values, errors, list(widths))
    for row in zip(OBSERVED, a, error, chi):
        print("  {:16} {:+.4f} ± {:.4f}  χ² {:.2f}".format(*row), flush=True)
    return {
        "command": f'python tools/train_classifiers.py "{name}"',
        "seed": SEED,
        "centre": list(map(float, centre)),
        "networks": {str(n): list(counts) for n, counts in widths.items()},
        "changes": {str(n): v.tolist() for n, v in zip(widths, values)},
        "errors": {str(n): e.tolist() for n, e in zip(widths, errors)},
        "found": {what: [float(v), float(e)] for what, v, e in zip(OBSERVED, a, error)},
        "chi_squared": chi.tolist(),
        "cpu_seconds": round(time.process_time() - begin),
    }


def laws(name):
    """The law of what is drawn at a width so large that only order 1/n is left, that of V's part alone, and Θ."""
    tensors = output_tensors(network(name, 16), X, (*TENSORS, "V"))
    only = {k: v if k in ("K", "Theta", "V") else 0 * v for k, v in tensors.items()}
    return {"all": law(tensors, WIDEST, TRAIN, 2), "V": law(only, WIDEST, TRAIN, 2)}, tensors["Theta"]


def theory(name, own, Theta, centre, index):
    """n times what width n changes in what is observed, for each draw of an index, (draws, 4)."""
    training, y, key = CASES[name][2], np.eye(2), jax.random.key(SEED)
    steps, rate, momentum = (training.get(part) for part in ("steps", "learning_rate", "momentum"))
    plan = schedule(None, steps, rate, momentum or 0.0, False, training.get("batch"), TRAIN)
    batches = None
    if plan.batch is not None:
        batches = np.asarray(draw_batches(key, index, steps=training["steps"], count=TRAIN, batch=plan.batch))
    pair = [draw(own, key, index, sign=sign) for sign in (1.0, -1.0)]
    both = [trained(own, one, y, plan, cross_entropy, batches)[0][:, 0, TRAIN] for one in pair]
    z = pair[0].infinite
    c = moved(cross_entropy, Theta[:TRAIN, :TRAIN], z[:, :TRAIN], y, plan, batches)[:, 0]
    still = z[:, TRAIN] - np.einsum("a,sao->so", Theta[TRAIN, :TRAIN], c)
    with jax.enable_x64(True):
        first, second, third = (np.asarray(jax.vmap(lambda z: observed(z, centre))(z)) for z in (*both, still))
    return WIDEST * ((first + second) / 2 - third)


def kept_theory(name, draws, centre):
    """The mean over draws and its standard error, of all and of V's part."""
    parts, Theta = laws(name)
    found = {"draws": draws, "command": f'python tools/train_classifiers.py --theory {draws} "{name}"'}
    for part, own in parts.items():
        blocks = np.split(np.arange(draws), range(FIRST, draws, FIRST))
        values = np.concatenate([theory(name, own, Theta, centre, index) for index in blocks])
        found[part] = {
            "mean": values.mean(0).tolist(),
            "error": (values.std(0, ddof=1) / np.sqrt(draws)).tolist(),
        }
        print(name, part, *(f"{v:+.4f}±{e:.4f}" for v, e in zip(found[part]["mean"], found[part]["error"])), flush=True)
    return found


def keep(name, **entries):
    """Put what was found into the file."""
    kept = json.loads(FILE.read_text()) if FILE.exists() else {}
    kept[name] = kept.get(name, {}) | entries
    FILE.write_text(json.dumps(kept, indent=1, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    names, count = sys.argv[1:], None
    if names[:1] == ["--theory"]:
        count, names = int(names[1]), names[2:]
    for name in names or CASES:
        if count is None:
            keep(name, **run(name))
        else:
            keep(name, theory=kept_theory(name, count, json.loads(FILE.read_text())[name]["centre"]))
