import jax
import jax.numpy as jnp
import numpy as np
import pytest
from helpers import one_sentence

from neft.fisher import scale_by_soap, soap

RNG = np.random.default_rng(8)
SHAPES = {"W": (4, 3), "b": (4,), "c": (), "wide": (2, 7)}
B1, B2, EPS = 0.9, 0.8, 1e-8


def gradients(steps):
    scale = {name: np.exp(RNG.normal(size=shape)) for name, shape in SHAPES.items()}
    return [{name: RNG.normal(size=shape) * scale[name] for name, shape in SHAPES.items()} for _ in range(steps)]


class Adam:
    # A leaf that is no matrix, or one side's rotation left out: Kingma, Ba 2015.
    def __init__(self, shape):
        self.M, self.V, self.t = np.zeros(shape), np.zeros(shape), 0

    def step(self, G, rotate=lambda g: g, back=lambda g: g):
        self.t += 1
        self.M = B1 * self.M + (1 - B1) * G
        self.V = B2 * self.V + (1 - B2) * rotate(G) ** 2
        return back(rotate(self.M) / (1 - B1**self.t) / (np.sqrt(self.V / (1 - B2**self.t)) + EPS))


class Soap(Adam):
    # Vyas et al. 2024, algorithm 3, with the turns of the two bases within the period.
    def __init__(self, shape, turns, period):
        super().__init__(shape)
        self.A, self.Q = [np.zeros((n, n)) for n in shape], [np.eye(n) for n in shape]
        self.turns, self.period = turns, period

    def step(self, G):
        Q, P = self.Q
        update = super().step(G, lambda g: Q.T @ g @ P, lambda g: Q @ g @ P.T)
        for i, product in enumerate((G @ G.T, G.T @ G)):
            self.A[i] = B2 * self.A[i] + (1 - B2) * product
            if self.turns[i] is not None and (self.t - 1) % self.period == self.turns[i] % self.period:
                first = self.t <= self.period
                self.Q[i] = np.linalg.eigh(self.A[i])[1][:, ::-1] if first else np.linalg.qr(self.A[i] @ self.Q[i])[0]
        return update


@pytest.mark.parametrize("period", [1, 5])
def test_steps_are_those_of_the_paper(period):
    # Four bases: W's two, and of the second matrix the left one alone, whose other side is too large.
    with jax.enable_x64(True):
        opt = scale_by_soap(b1=B1, b2=B2, eps=EPS, refresh_every=period, largest=5)
        state = opt.init({name: jnp.zeros(shape) for name, shape in SHAPES.items()})
        theirs = {
            "W": Soap((4, 3), (0, 1), period),
            "b": Adam((4,)),
            "c": Adam(()),
            "wide": Soap((2, 7), (2, None), period),
        }
        step = jax.jit(opt.update)
        for G in gradients(13):
            updates, state = step(G, state)
            for name, one in theirs.items():
                np.testing.assert_allclose(updates[name], one.step(G[name]), rtol=1e-9, atol=1e-10)
        assert np.abs(np.asarray(state.bases[0][0]) - np.eye(4)).max() > 0.1
        assert state.bases[3][1] is None


def test_in_a_diagonal_problem_it_is_adam():
    # Factors that stay diagonal have the unit vectors as bases.
    with jax.enable_x64(True):
        opt, adam = scale_by_soap(b1=B1, b2=B2, refresh_every=1), Adam((3, 3))
        state, step = opt.init(jnp.zeros((3, 3))), jax.jit(opt.update)
        for k in range(6):
            G = np.diag(np.array([3.0, 2.0, 1.0]) * (1 + k % 3))
            updates, state = step(G, state)
            np.testing.assert_allclose(updates, adam.step(G), rtol=1e-10, atol=1e-12)


def test_weight_decay_is_outside_of_the_gradient():
    opt, params = soap(0.1, weight_decay=0.5), jnp.array([[2.0, -1.0]])
    updates, _ = opt.update(jnp.zeros((1, 2)), opt.init(params), params)
    np.testing.assert_allclose(updates, -0.05 * params, rtol=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize(("dtype", "unit"), [("bfloat16", 2.0**-8), ("float16", 2.0**-11)])
def test_matrices_of_16_bits_take_the_steps_of_those_of_32(dtype, unit):
    each = np.random.default_rng(0).normal(size=(4, 3, 2))

    def last(kind):
        opt, given = scale_by_soap(refresh_every=1), [jnp.asarray(G, dtype).astype(kind) for G in each]
        state = opt.init(given[0])
        for G in given:
            updates, state = opt.update(G, state)
        assert updates.dtype == state.bases[0][0].dtype == kind
        return np.asarray(updates, float)

    # Four steps, of which each has two products into the basis and two out of it, each rounded.
    np.testing.assert_allclose(last(dtype), last("float32"), atol=16 * unit)
    assert np.abs(last("float32")).max() > 0.5


@pytest.mark.parametrize(
    ("words", "call"),
    [
        (("b1 is 1", "below 1"), lambda: soap(0.1, b1=1.0)),
        (("b2 is -0.1",), lambda: scale_by_soap(b2=-0.1)),
        (("eps is -1",), lambda: soap(0.1, eps=-1.0)),
        (("weight_decay is -1",), lambda: soap(0.1, weight_decay=-1.0)),
        (("refresh_every is 0",), lambda: soap(0.1, refresh_every=0)),
        (("largest is 0",), lambda: scale_by_soap(largest=0)),
    ],
)
def test_bad_input_is_told_in_one_sentence(words, call):
    with one_sentence(*words):
        call()
