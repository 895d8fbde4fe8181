import jax.numpy as jnp
import numpy as np
import optax
import optax.contrib
import pytest
from helpers import one_sentence

from neft.fisher import average_weights, averaged


def test_the_average_is_a_mean_and_then_forgets():
    opt = optax.chain(optax.sgd(0.1), average_weights(0.75))
    params = {"w": jnp.array([1.0, 2.0])}
    state, seen, expected = opt.init(params), [], np.zeros(2)
    assert averaged(state, params)["w"].tolist() == [1.0, 2.0]
    for k in range(8):
        updates, state = opt.update({"w": jnp.array([1.0, -0.5 * k])}, state, params)
        params = optax.apply_updates(params, updates)
        seen.append(np.asarray(params["w"], float))
        expected = np.mean(seen, 0) if k < 4 else 0.75 * expected + 0.25 * seen[-1]
        np.testing.assert_allclose(averaged(state, params)["w"], expected, rtol=1e-5)


def test_schedule_free_optimizers_predict_with_their_own_average():
    opt = optax.contrib.schedule_free_sgd(0.1)
    params = jnp.array([1.0, 2.0])
    state = opt.init(params)
    z = iterates = np.array([[1.0, 2.0]])
    for _ in range(3):
        # Schedule-free: z is plain descent, and predictions are the mean of its iterates.
        updates, state = opt.update(jnp.array([1.0, -1.0]), state, params)
        params = optax.apply_updates(params, updates)
        z = z - 0.1 * np.array([[1.0, -1.0]])
        iterates = np.concatenate([iterates, z])
    np.testing.assert_allclose(averaged(state, params), iterates[1:].mean(0), rtol=1e-4)


def test_an_average_of_a_part_of_the_weights_is_refused():
    params = {"a": jnp.ones(2), "b": jnp.ones(3)}
    opt = optax.masked(average_weights(), {"a": True, "b": False})
    with one_sentence("params do not have the shapes"):
        averaged(opt.init(params), params)


@pytest.mark.parametrize(
    ("words", "call"),
    [
        (("decay is 1", "below 1"), lambda: average_weights(1.0)),
        (("params is missing",), lambda: average_weights().update(1.0, average_weights().init(jnp.ones(2)))),
    ],
)
def test_bad_input_is_told_in_one_sentence(words, call):
    with one_sentence(*words):
        call()
