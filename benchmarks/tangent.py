"""The empirical NTK against neural-tangents' best implementation, and against contracting full Jacobians.

neural-tangents runs in an environment of its own, as `kernels.py` says.
"""

import jax
import jax.numpy as jnp
import numpy as np
from measure import Ratio, in_turns, one_core, peer, timed

import neft

WIDTHS, INPUTS = (784, 512, 512, 10), 64


def case() -> tuple[neft.MLP, tuple[neft.Layer, ...], np.ndarray]:
    """The network, its parameters and its inputs, in float32."""
    net = neft.MLP(WIDTHS, "tanh", C_b=0.1, C_W=1.5)
    x = np.random.default_rng(0).normal(size=(INPUTS, WIDTHS[0])).astype(np.float32)
    return net, net.init(jax.random.key(0)), x


@jax.jit
def full_jacobians(params, x):
    """The textbook's way at its best: each input's derivatives by itself, contracted by one product a leaf."""

    def plain(p, one):
        z = p[0].W @ one + p[0].b
        for W, b in p[1:]:
            z = W @ jnp.tanh(z) + b
        return z

    leaves = jax.tree.leaves(jax.vmap(jax.jacrev(plain), (None, 0))(params, x))
    rows = [leaf.reshape(len(x) * WIDTHS[-1], -1) for leaf in leaves]
    total = jnp.stack([J @ J.T for J in rows]).sum(axis=0)
    return total.reshape(len(x), WIDTHS[-1], len(x), WIDTHS[-1]).transpose(0, 2, 1, 3)


@one_core()
def run() -> list[Ratio]:
    """Through layers, and of a function about which nothing is known."""
    net, params, x = case()
    what = f"NTK of {'-'.join(map(str, WIDTHS))}, {INPUTS}×{INPUTS}×10×10, float32"
    layers = np.asarray(neft.tangent.ntk(net, params, x, rates=1.0))
    ratios = []
    data = {"x": x} | {f"{name}{l}": np.asarray(v) for l, layer in enumerate(params) for name, v in zip("Wb", layer)}
    job = {"what": "ntk", "implementation": "STRUCTURED_DERIVATIVES", "dtype": "float32", "vmap_axes": 0}
    with peer("neural_tangents_training.py", job, data) as theirs:
        if theirs is not None:
            assert np.abs(theirs.answer["ntk"] - layers).max() < 1e-4 * np.abs(layers).max()
            through = timed(lambda: neft.tangent.ntk(net, params, x, rates=1.0).block_until_ready())
            label = "neural-tangents, STRUCTURED_DERIVATIVES"
            ratios.append(Ratio.of(f"{what}: through layers", label, 1, *in_turns(through, theirs.seconds)))
    plain = lambda p, x: net.apply(p, x)  # noqa: E731
    found = np.asarray(neft.tangent.ntk(plain, params, x))
    assert np.abs(found - layers).max() < 1e-4 * np.abs(layers).max()
    device = jnp.asarray(x)
    assert np.abs(np.asarray(full_jacobians(params, device)) - layers).max() < 1e-4 * np.abs(layers).max()
    seconds = in_turns(
        timed(lambda: neft.tangent.ntk(plain, params, x).block_until_ready()),
        timed(lambda: full_jacobians(params, device).block_until_ready()),
        repeat=5,
    )
    ratios.append(Ratio.of(f"{what}: any function", "full Jacobians, contracted", 3, *seconds))
    return ratios
