"""The same loss with 64 bits on and off, in any order of calls."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from neft import action
from neft.action._stopping import largest_curvature

from . import exact

CALLS = {
    "recover": lambda loss, params: action.recover(loss, params, order=4).truth,
    "ray": lambda loss, params: action.ray(loss, params, 1, start=params)[0],
    "call": lambda loss, params: loss(params),
    "compiled": lambda loss, params: jax.jit(loss)(params),
    "taylor": lambda loss, params: action.taylor(loss, 1)(params, params)[0],
    "curvature": lambda loss, params: largest_curvature(loss, params, steps=3) and loss(params),
}
QUICK = {("compiled", "call")}
PAIRS = [
    pair if pair in QUICK else pytest.param(*pair, marks=pytest.mark.slow)
    for pair in itertools.product(CALLS, repeat=2)
]


@pytest.mark.slow
@pytest.mark.parametrize(("first", "second"), PAIRS)
def test_calls_with_sixty_four_bits_on_and_off_do_not_disturb_each_other(first, second):
    params, (z, m) = exact.problem(False)
    wanted = action.expand(params, (z, m), 0).loss
    single = {name: value.astype(np.float32) for name, value in params.items()}
    for on, kind in itertools.product((True, False), (np.float64, np.float32)):
        loss = action.loss_of((z.astype(kind), m))
        with jax.enable_x64(on):
            one = CALLS[first](loss, single)
        with jax.enable_x64(not on):
            two = CALLS[second](loss, single)
        assert float(one) == pytest.approx(wanted, rel=1e-5) and float(two) == pytest.approx(wanted, rel=1e-5)


@pytest.mark.slow
def test_a_trained_loss_is_recovered_and_called_after():
    _, (z, m) = exact.problem(False)
    data = (np.repeat(z, 4, axis=0), np.repeat(m, 4))
    for on in (False, True):
        with jax.enable_x64(on):
            fit = action.fit(data, data, hidden=3, epochs=1)
        loss = action.loss_of(data)
        found = action.recover(loss, fit.params)
        assert found.value == pytest.approx(found.truth, abs=1e-4)
        assert float(loss(fit.params)) == pytest.approx(found.truth, rel=1e-5)


@pytest.mark.slow
def test_a_loss_that_closes_over_numpy_labels_is_left_as_it_was():
    params, (z, m) = exact.problem(True)

    def loss(q):
        f = jax.nn.silu(z @ q["W"].T + q["b"][None, :]) @ q["U"].T + q["c"][None, :]
        return -jax.nn.log_softmax(f)[jnp.arange(len(m)), m].mean()

    found = action.ray(loss, params, 2)
    single = {name: jnp.asarray(value, jnp.float32) for name, value in params.items()}
    after = loss(single)
    assert after.dtype == jnp.float32 and float(after) == pytest.approx(action.expand(params, (z, m), 0).loss, rel=1e-5)
    np.testing.assert_allclose(action.ray(loss, params, 2), found)
