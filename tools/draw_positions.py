"""Draw networks on images and sequences, and keep what K and Θ tend to for tests/width/test_positions.py.

    python tools/draw_positions.py [--only NAME …]

That takes a few minutes of one core and changes tests/width/drawn_positions.json, an entry for each name.

At each of three widths n networks are drawn whose numbers of channels, of channels in a head and of heads all grow with
n, K and Θ are averaged over outputs and draws, and a polynomial in 1/n through the three means gives the limit.
"""

import argparse
import json
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from neft import Attention, AvgPool, Conv, Dense, Flatten, GlobalAvgPool, LayerNorm, Network, Residual, RMSNorm

FILE = Path(__file__).parent.parent / "tests" / "width" / "drawn_positions.json"
WIDTHS = (16, 32, 64)
DRAWS = 1_024_000  # times 1/width, at each width
BATCH = 64
SEED = 20
H: dict[str, Any] = {"C_W": 1.7, "C_b": 0.3, "lambda_W": 0.7, "lambda_b": 0.4}
A: dict[str, Any] = H | {"C_V": 0.8, "C_K": 1.2, "lambda_V": 1.1, "lambda_K": 0.6}
IMAGE, SEQUENCE = (4, 4, 2), (5, 3)


def networks(n: int) -> dict[str, Network]:
    """One of each kind, n wide, with n outputs."""

    def conv(shape=(3, 3), **options):
        return Conv(n, shape, **H, **options)

    def attention(**options: Any):
        tied = options.get("tied", True)
        return Attention(2 if tied else n // 4, n, head_channels=n // 2 if tied else n // 4, **A | options)

    end, dense, pool = Dense(n, **H), Dense(n, **H), GlobalAvgPool()
    circular = [conv(padding="CIRCULAR"), "relu", conv((2, 3), padding="CIRCULAR", strides=(1, 2))]
    inner = [conv(), "relu", AvgPool((2, 2), strides=1), conv((2, 2)), "erf", AvgPool((2, 1)), Flatten(), end]
    shortcut = Residual("relu", conv(strides=2), "relu", conv(), skip=conv((1, 1), strides=2))
    images = {
        "flatten": [conv(), "relu", conv((3, 2)), "relu", Flatten(), end],
        "pool of all": [conv(), "relu", conv(), "relu", pool, end],
        "strides": [conv((3, 2), strides=(2, 1)), "relu", conv((2, 2), strides=2), "relu", pool, end],
        "VALID": [conv((2, 2), padding="VALID"), "relu", conv((2, 3), padding="VALID"), "relu", pool, end],
        "CIRCULAR": [*circular, "relu", Flatten(), end],
        "pools inside": inner,
        "residual, strided shortcut": [conv(), Residual("relu", conv(), skip=0.7), shortcut, "relu", pool, end],
        "attention on images": [
            conv((2, 2), strides=2, padding="VALID"),
            attention(encoding="gaussian", length=0.8, C_e=2.0, encode_values=True),
            "relu",
            Flatten(),
            end,
        ],
    }
    encoded = {"encoding": "sinusoidal", "C_e": 2.0}
    block = [Residual(LayerNorm(), attention(C_K=3.0), skip=0.5), Residual(RMSNorm(), dense, "relu", dense)]
    sequences = {
        "attention, softmax": [dense, attention(), "relu", pool, end],
        "attention, linear": [dense, attention(weights="linear", C_K=0.3), "relu", pool, end],
        "attention, not tied": [dense, attention(weights="linear", tied=False, C_K=0.5), "relu", pool, end],
        "attention, encoded keys": [dense, attention(encoding="sinusoidal"), "relu", pool, end],
        "attention, not tied, encoded": [
            dense,
            attention(weights="linear", tied=False, C_K=0.4, **encoded),
            "relu",
            Flatten(),
            end,
        ],
        "attention after norms": [dense, *block, "relu", Flatten(), end],
    }
    found = {name: Network(IMAGE, blocks) for name, blocks in images.items()}
    return found | {name: Network(SEQUENCE, blocks) for name, blocks in sequences.items()}


def inputs(shape: tuple[int, ...]) -> np.ndarray:
    """Two inputs that have something in common."""
    x = np.random.default_rng(SEED).normal(size=(2, *shape))
    x[1] = 0.6 * x[0] + 0.8 * x[1]
    return x.round(3)


def drawn(net: Network, x: np.ndarray, draws: int, key: jax.Array) -> tuple[np.ndarray, np.ndarray]:
    """Means (2, 2, 2) of K and Θ over outputs and draws, and their standard errors."""
    x32, rates = jnp.asarray(x, jnp.float32), jax.tree.leaves(net.rates())

    def one(key):
        begin, signs = jax.random.split(key)
        params = net.init(begin, dtype=jnp.float32)
        # A vector of signs makes a trace over outputs of one gradient.
        v = jax.random.rademacher(signs, (net.outputs,), jnp.float32)
        z = net.apply(params, x32)
        gradients = jax.vmap(jax.grad(lambda p, a: net.apply(p, a) @ v), (None, 0))(params, x32)
        rows = [leaf.reshape(len(x32), -1) for leaf in jax.tree.leaves(gradients)]
        return jnp.stack([z @ z.T, sum(rate * row @ row.T for rate, row in zip(rates, rows))]) / net.outputs

    keys = jax.random.split(key, draws)
    values = np.asarray(jax.jit(lambda keys: jax.lax.map(one, keys, batch_size=BATCH))(keys), float)
    return values.mean(0), values.std(0) / np.sqrt(draws)


def limit(name: str, draws: int = DRAWS) -> dict:
    """What the means tend to, with standard errors, and the network and inputs that they are of."""
    means, errors = [], []
    x = inputs(networks(WIDTHS[0])[name].input_shape)
    for width in WIDTHS:
        net = networks(width)[name]
        key = jax.random.fold_in(jax.random.key(SEED, impl="rbg"), width)
        found = drawn(net, x, _number(draws, width), key)
        means.append(found[0])
        errors.append(found[1])
    weights = np.linalg.inv(np.vander(1 / np.array(WIDTHS), increasing=True))[0]
    mean = sum(w * m for w, m in zip(weights, means))
    error = np.sqrt(sum((w * e) ** 2 for w, e in zip(weights, errors)))
    return {
        "network": networks(WIDTHS[0])[name].to_dict(),
        "x": x.tolist(),
        "seed": SEED,
        "widths": WIDTHS,
        "draws": [_number(draws, width) for width in WIDTHS],
        "mean": np.asarray(mean).tolist(),
        "error": error.tolist(),
    }


def _number(draws: int, width: int) -> int:
    return -(-draws // (width * BATCH)) * BATCH


def main() -> None:
    """Draw what was asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", choices=list(networks(WIDTHS[0])))
    parser.add_argument("--draws", type=int, default=DRAWS)
    options = parser.parse_args()
    kept = json.loads(FILE.read_text()) if FILE.exists() else {}
    for name in options.only or networks(WIDTHS[0]):
        kept[name] = limit(name, options.draws)
        text = json.dumps(kept, indent=1)
        FILE.write_text(text + "\n")
        print(name, "done", flush=True)


if __name__ == "__main__":
    main()
