import itertools
import math

import jax
import numpy as np
import pytest
from helpers import one_sentence
from scipy import integrate, stats

from neft import MLP, Layer, load
from neft.width import density, statistics
from neft.width._edgeworth import edgeworth

X = np.array([1.0, -0.5, 0.8])


def net(n, name="relu", depth=2, **more):
    return MLP((3, *(n,) * (depth - 1), 1), name, **{"C_W": 2.0} | more)


@pytest.mark.parametrize(("variance", "fourth"), [(1.0, 0.0), (0.7, 0.2), (3.0, -1.5)])
def test_its_moments_are_exact(variance, fourth):
    def power(k):
        return integrate.quad(lambda z: z**k * edgeworth(z, variance, fourth), -60, 60, epsabs=1e-13, limit=400)[0]

    assert power(0) == pytest.approx(1, abs=1e-11)
    assert power(2) == pytest.approx(variance, rel=1e-10)
    assert power(4) - 3 * power(2) ** 2 == pytest.approx(fourth, abs=1e-9)
    assert power(1) == power(3) == pytest.approx(0, abs=1e-10)


def test_it_takes_the_cumulants_of_the_statistics():
    found = statistics(net(16, "tanh", 4, C_b=0.2), X)
    for layer in (2, 3, 4):
        of = density(found, layer=layer)
        assert of.variance == pytest.approx(found.K[layer - 1] + found.K1[layer - 1] / 16)
        assert of.fourth == pytest.approx(3 * found.V[layer - 1] / 16)
    assert density(found).layer == 4 and np.abs(found.K1[3]) > 1e-3


@pytest.mark.slow
def test_a_histogram_of_real_networks_follows_it_and_not_the_gaussian():
    n, draws = 64, 200_000
    spec = MLP((1, n, 1), "relu", C_W=2.0)
    of = density(statistics(spec, np.ones(1)))
    rng = np.random.default_rng(7)
    outputs = jax.jit(jax.vmap(lambda W, w: spec.apply((Layer(W, np.zeros(n)), Layer(w, np.zeros(1))), np.ones(1))[0]))
    shapes = (draws, n, 1), (draws, 1, n)
    scales = math.sqrt(2), math.sqrt(2 / n)
    z = np.asarray(outputs(*(scale * rng.normal(size=shape) for scale, shape in zip(scales, shapes))), float)
    spread = math.sqrt(of.variance)
    edges = spread * np.linspace(-3, 3, 25)
    assert edges[-1] < of.reach
    seen = np.histogram(z, edges)[0]
    predicted = draws * np.array(
        [integrate.quad(lambda v: edgeworth(v, of.variance, of.fourth), a, b)[0] for a, b in itertools.pairwise(edges)]
    )
    plain = draws * np.diff(stats.norm.cdf(edges / spread))
    assert (np.abs(seen - predicted) / np.sqrt(predicted)).max() < 5
    # The strength of the predicted change in what was seen, in its own standard errors: 1 would be full agreement.
    change = (predicted - plain) / plain
    effect, error = change @ (seen - plain), math.sqrt(change**2 @ plain)
    assert effect > 10 * error
    assert effect / (change @ (predicted - plain)) == pytest.approx(1, abs=5 * error / (change @ (predicted - plain)))


def test_it_is_trusted_where_the_correction_is_small():
    for n, limit in ((20, 0.3), (200, 0.5), (8, 0.5)):
        of = density(statistics(net(n), X), limit=limit)
        change = lambda z, of=of: edgeworth(z, of.variance, of.fourth) / edgeworth(z, of.variance, 0.0) - 1  # noqa: E731
        inside = np.linspace(0, of.reach, 2000)
        assert np.abs(change(inside[:-1])).max() < limit
        assert abs(change(of.reach)) == pytest.approx(limit) and abs(change(1.001 * of.reach)) > limit


def test_it_says_where_it_is_negative():
    # V/nK² = 5/n is 4/3 at n = 3.75.
    wide, narrow = (density(statistics(net(n), X)) for n in (4, 3))
    assert wide.positive and wide.density.min() > 0
    assert not narrow.positive and narrow.density.min() < 0 and narrow.reach == 0


def test_one_layer_is_gaussian_everywhere():
    of = density(statistics(MLP((3, 1), "relu"), X))
    assert of.reach == math.inf and of.fourth == 0
    np.testing.assert_array_equal(of.density, of.gaussian)


def test_it_goes_to_a_file_and_back(tmp_path):
    for of in (density(statistics(net(9), X), [-1.0, 0.0, 1.0]), density(statistics(MLP((3, 1), "relu"), X))):
        of.save(tmp_path / "a.json")
        assert load(tmp_path / "a.json") == of


def test_bad_input_gets_one_clear_sentence():
    found = statistics(net(9), X)
    with one_sentence("layer is 3", "at most 2"):
        density(found, layer=3)
    with one_sentence("limit is 1", "less than 1"):
        density(found, limit=1.0)
    with one_sentence("limit is 0"):
        density(found, limit=0.0)
    with one_sentence("z holds nan"):
        density(found, [np.nan])
    with one_sentence("K + K1/n is", "width 2 is too small"):
        density(statistics(MLP((3, *(2,) * 40, 1), "tanh"), X))
    with one_sentence("K is 0 at layer 2"):
        density(statistics(MLP((3, 4, 1), "tanh", C_W=(1.0, 0.0)), X))
