"""The statements of the lecture about trained networks: linear dynamics, z*, its mean, and infinite width."""

import jax
import numpy as np

from .. import MLP, training, width
from ._claim import Level, Measurement
from ._ledger import claim

_C_B, _C_W, _LAMBDA_B, _LAMBDA_W = 0.1, 1.3, 0.5, 0.8
_ETA = 0.3


def _inputs() -> tuple[np.ndarray, np.ndarray]:
    # Three training inputs, then two test inputs; targets of two outputs.
    rng = np.random.default_rng(5)
    return rng.normal(size=(5, 4)), rng.normal(size=(3, 2))


def _kernels(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    # Of one layer: G and H of the lecture.
    gram = x @ x.T / x.shape[1]
    return _C_B + _C_W * gram, _LAMBDA_B + _LAMBDA_W * gram


def _one_layer(draws: int, steps: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    # Outputs (draws, inputs, outputs) of one-layer networks before and after gradient descent on W and b, by NumPy.
    x, y = _inputs()
    rng, n_0 = np.random.default_rng(seed), x.shape[1]
    W = rng.normal(size=(draws, 2, n_0)) * np.sqrt(_C_W / n_0)
    b = rng.normal(size=(draws, 2)) * np.sqrt(_C_B)

    def outputs(x):
        return x @ W.swapaxes(1, 2) + b[:, None, :]

    start = outputs(x)
    for _ in range(steps):
        residual = outputs(x[:3]) - y
        W = W - _ETA * _LAMBDA_W / n_0 * residual.swapaxes(1, 2) @ x[:3]
        b = b - _ETA * _LAMBDA_B * residual.sum(1)
    return start, outputs(x)


@claim(
    id="lecture-one-layer-dynamics",
    source="lecture",
    equation="2. One-Layer Neural Networks, linear dynamics",
    statement="A step moves the outputs of one layer by -ηH(z - y) exactly, so T steps leave (1-ηH)^T of z - y.",
)
def one_layer_dynamics(level: Level) -> Measurement:
    x, y = _inputs()
    K, H = _kernels(x)
    apart, changed, counts = {}, 0.0, (1, 7, 50) if level == "quick" else (1, 7, 50, 2000)
    for steps in counts:
        start, found = _one_layer(4, steps, seed=0)
        # The linear map from y - z_A to outputs is what the mean of a prediction is made of.
        moved = [training.predict_from_kernels(K, H, y - z[:3], steps=steps, learning_rate=_ETA).mean for z in start]
        apart[f"difference after {steps} steps"] = float(np.abs(start[:, 3:] + np.stack(moved) - found[:, 3:]).max())
        changed = max(changed, float(np.abs(found - start).max()))
    worst = max(apart.values())
    return Measurement(
        verdict="holds" if worst < 1e-10 and changed > 0.1 else "refuted",
        summary=f"Outputs of four networks after up to {counts[-1]} steps agree with the formula to {worst:.0e}.",
        values={**apart, "outputs moved by": changed},
    )


@claim(
    id="lecture-one-layer-statistics",
    source="lecture",
    equation="2. One-Layer Neural Networks, p(z, H) → p(z*)",
    statement="Over the ensemble of one-layer networks E[z*] = H H⁻¹ y on test inputs, and z* is Gaussian around it.",
)
def one_layer_statistics(level: Level) -> Measurement:
    x, y = _inputs()
    K, H = _kernels(x)
    draws = 2_000 if level == "quick" else 100_000
    theory = training.predict_from_kernels(K, H, y)
    trained = _one_layer(draws, 600, seed=1)[1]
    left, found = float(np.abs(trained[:, :3] - y).max()), trained[:, 3:]
    error = found.std(axis=0, ddof=1) / np.sqrt(draws)
    mean = float(np.abs((found.mean(0) - theory.mean) / error).max())
    size = float(np.abs(theory.mean / error).max())
    centred = found - theory.mean
    # Each product of two deviations is a draw of the covariance; distinct outputs have none.
    products = np.einsum("dai,dbj->dabij", centred, centred)
    assert theory.cov is not None
    exact = theory.cov[:, :, None, None] * np.eye(2)
    scores = (products.mean(0) - exact) / (products.std(axis=0, ddof=1) / np.sqrt(draws))
    unit = centred / theory.std
    fourth = (unit**4 - 6 * unit**2 + 3).mean((1, 2))
    hermite = float(fourth.mean() / (fourth.std(ddof=1) / np.sqrt(draws)))
    worst = max(mean, float(np.abs(scores).max()), abs(hermite))
    return Measurement(
        verdict="holds" if worst < 5 and size > 10 and left < 1e-8 else "refuted",
        summary=f"{draws} trained networks have the predicted mean within {mean:.1f} standard errors (it is {size:.0f} "
        f"of them large), the covariance within {np.abs(scores).max():.1f} and no fourth cumulant within "
        f"{abs(hermite):.1f}.",
        values={
            "z of the mean": mean,
            "mean in standard errors": size,
            "z of the covariance": float(np.abs(scores).max()),
            "z of He4": hermite,
            "residual on training inputs": left,
        },
    )


@claim(
    id="lecture-infinite-width-training",
    source="lecture",
    equation="2. One-Layer Neural Networks, 'same trivial statistics for infinite width at any fixed depth'",
    statement="As the width n grows, trained deep networks approach z - H H⁻¹(z - y) with a frozen kernel, like 1/√n.",
)
def infinite_width_training(level: Level) -> Measurement:
    sizes, draws = ((16, 64), 64) if level == "quick" else ((32, 64, 128, 256, 512), 256)
    rng = np.random.default_rng(3)
    x = np.concatenate([2 * np.linalg.qr(rng.normal(size=(4, 4)))[0][:3], rng.normal(size=(2, 4))])
    y = np.array([[0.8], [-0.5], [0.3]])
    scaled = {}
    for n in sizes:
        net = MLP((4, n, n, 1), "tanh", C_b=0.05, C_W=1.0, lambda_b=0.1, lambda_W=1.0)
        options = {"draws": draws, "key": jax.random.key(0), "steps": 80, "learning_rate": 0.9, "dtype": np.float32}
        found = training.ensemble(net, x[:3], y, x, **options)
        H = width.kernel(net, x)[1]
        predicted = found.start - H[:, :3] @ np.linalg.solve(H[:3, :3], found.start[:, :3] - y)
        distance = np.sqrt(((found.test - predicted)[:, 3:] ** 2).mean())
        scaled[f"rms distance times √n, n = {n}"] = float(distance * np.sqrt(n))
    values = list(scaled.values())
    spread = max(values) / min(values)
    return Measurement(
        verdict="holds" if spread < 1.3 and min(values) > 0.01 else "refuted",
        summary=f"√n times the distance of trained tanh networks of three layers from the frozen kernel's answer stays "
        f"between {min(values):.2f} and {max(values):.2f} for n = {sizes[0]}..{sizes[-1]}.",
        values=scaled,
    )
