"""What kinks add, against theory that integrates the deltas (docs/theory/width, section Kinks)."""

import jax
import numpy as np
import pytest

from neft import MLP
from neft.ensemble import estimate
from neft.width import statistics

X = np.array([1.0, -0.5, 0.8])
HYPER = {"C_b": 0.2, "C_W": 1.3, "lambda_b": 0.3, "lambda_W": 0.7}


def _slow(*values):
    return pytest.param(*values, marks=pytest.mark.slow)


@pytest.mark.parametrize(
    "name, tensors", [_slow("elu(1)", "R"), _slow("hard_tanh", "PQ"), _slow("leaky_relu(0.3)", "PQ")]
)
def test_two_layers_agree_with_theory_at_any_width(name, tensors):
    net = MLP((3, 5, 2), name, **HYPER)
    known = statistics(net, X)
    found = estimate(net, X, draws=30_000, key=jax.random.key(0), only=tuple(tensors), dtype=np.float32)
    for tensor in tensors:
        theory, estimated = getattr(known, tensor)[1], found.tensors[tensor]
        assert abs(estimated.mean[1] - theory) < 5 * estimated.stderr[1] + 1e-12, tensor
        # A kink at 0 of a function that is 0 there adds nothing to P of one input.
        assert abs(theory) > 10 * estimated.stderr[1] or (name[0] == "l" and theory == estimated.mean[1] == 0), tensor


@pytest.mark.slow
def test_p_of_two_inputs_counts_coincident_samples_as_it_should():
    # P = C_W²Θ01Θ02⟨δ(z0) s1' s2' s3⟩ for relu: half where 1 or 2 is the pinned sample, a third where both are.
    net = MLP((3, 6, 2), "relu", **HYPER)
    x = np.stack([X, [0.3, 0.9, -0.4]])
    found = estimate(net, x, draws=30_000, key=jax.random.key(1), only=("P",), dtype=np.float32).P
    K = HYPER["C_b"] + HYPER["C_W"] * x @ x.T / 3
    Theta = HYPER["lambda_b"] + HYPER["lambda_W"] * x @ x.T / 3
    spread = np.sqrt(K[1, 1] - K[0, 1] ** 2 / K[0, 0])
    half_mean = spread / np.sqrt(2 * np.pi) / np.sqrt(2 * np.pi * K[0, 0])  # ⟨δ(z0) s1⟩
    for (a, b), share in {(0, 0): 1 / 3, (0, 1): 1 / 2, (1, 0): 1 / 2, (1, 1): 1.0}.items():
        theory = HYPER["C_W"] ** 2 * Theta[0, a] * Theta[0, b] * share * half_mean
        mean, stderr = found.mean[1, 0, a, b, 1], found.stderr[1, 0, a, b, 1]
        assert abs(mean - theory) < 5 * stderr and theory > 10 * stderr, (a, b, mean, theory, stderr)
        # The last factor is relu at its kink.
        assert abs(found.mean[1, 0, a, b, 0]) < 1e-6


@pytest.mark.slow
def test_a_softened_kink_agrees_in_deeper_layers():
    """Smoothing the kink over a short distance shows the delta to autodiff, which is another way to the same number."""
    import jax.numpy as jnp

    from neft import activation

    width = 0.05
    soft = activation(lambda z: width * jnp.logaddexp(z / width, 0.0) + 0.2 * z, name="soft")
    hard = activation(lambda z: jnp.maximum(z, 0.0) + 0.2 * z, name="hard", kinks=((0.0, 1, 1.0),))
    x = np.stack([X, [0.3, 0.9, -0.4]])
    both = [
        estimate(
            MLP((3, 6, 5, 2), act, **HYPER), x, draws=5_000, key=jax.random.key(3), only=("P", "Q"), dtype=np.float32
        )
        for act in (soft, hard)
    ]
    for name in "PQ":
        one, other = (found.tensors[name] for found in both)
        for index in ((2, 0, 0, 0, 1), (2, 0, 1, 0, 1), (2, 0, 1, 1, 1)):
            error = np.hypot(one.stderr[index], other.stderr[index])
            scale = abs(other.mean[index])
            # Softening moves the number by the order of its width.
            assert abs(one.mean[index] - other.mean[index]) < 5 * error + width * scale, (name, index)
            assert scale > 10 * error, (name, index)
