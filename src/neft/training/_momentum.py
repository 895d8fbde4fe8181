"""Steps with momentum: how far each eigenvector of a frozen kernel is learned (docs/theory/training, eqs. 37-43).

With the gradient g_t at θ_t, the velocity is v_t = βv_{t-1} + g_t, and a step is θ_{t+1} = θ_t - ηv_t (heavy ball) or
θ_{t+1} = θ_t - η(g_t + βv_t) (Nesterov). For β = 0 both are gradient descent.
"""

from typing import Any, NamedTuple

import numpy as np

from .. import _check


class Momentum(NamedTuple):
    """β in [0, 1), and whether the step looks ahead as Nesterov's does."""

    beta: float = 0.0
    nesterov: bool = False

    @property
    def here(self) -> float:
        """The part of a step that the gradient of now has: 1, or 1 + β."""
        return 1.0 + self.beta * self.nesterov

    @property
    def before(self) -> float:
        """The part of a step that the velocity of before has: β, or β²."""
        return self.beta**2 if self.nesterov else self.beta

    @property
    def parts(self) -> tuple[float, float, float]:
        """`here`, `before` and β: all that a step needs to know."""
        return self.here, self.before, self.beta

    @property
    def reach(self) -> float:
        """ηl up to which an eigenvalue l is learned and not blown up: 2(1+β), and Nesterov's 2(1+β)/(1+2β)."""
        return 2 * (1 + self.beta) / (1 + 2 * self.beta * self.nesterov)

    def to_dict(self) -> dict[str, Any]:
        """What made a result; nothing where there is no momentum."""
        return {"momentum": self.beta, "nesterov": self.nesterov} if self.beta else {}


NONE = Momentum()


def momentum(beta: Any = 0.0, nesterov: Any = False) -> Momentum:
    """The momentum that a user's arguments describe.

    >>> momentum(0.9).reach, round(momentum(0.9, True).reach, 3)
    (3.8, 1.357)
    """
    if isinstance(beta, str) or hasattr(beta, "update"):
        # The name of an optimizer, or one of optax.
        given = repr(beta) if isinstance(beta, str) else "an optimizer"
        raise ValueError(
            f"momentum is {given}, but must be a number: steps of the heavy ball and of Nesterov are predicted, those "
            "of Adam and others that divide by past gradients are not."
        )
    beta = _check.real("momentum", beta, at_least=0.0)
    if beta >= 1:
        raise ValueError(f"momentum is {beta:g}, but must be below 1.")
    if not isinstance(nesterov, bool | np.bool_):
        raise ValueError(f"nesterov is {_check.brief(nesterov)}, but must be True or False.")
    if nesterov and not beta:
        raise ValueError("nesterov is True, but goes with a momentum, which is 0.")
    return Momentum(beta, bool(nesterov))


def updates(step: np.ndarray, steps: int, m: Momentum) -> np.ndarray:
    """c_T/η, with c_T the sum of updates per initial residual, for step = ηl ≥ 0: 1 - lc_T of the residual is left.

    c and v obey a linear recursion, so c_T is an entry of the T-th power of its matrix. Written by its roots the answer
    divides by their difference, which vanishes where an eigenvalue is critically damped.

    >>> updates(np.array([0.0, 1.0]), 3, Momentum()).tolist()
    [3.0, 1.0]
    """
    step = np.asarray(step, float)
    matrix = np.zeros((*step.shape, 3, 3))
    # Of (c/η, v, 1): the residual is 1 - ηl·c/η.
    matrix[..., 0, 0], matrix[..., 0, 1], matrix[..., 0, 2] = 1 - m.here * step, m.before, m.here
    matrix[..., 1, 0], matrix[..., 1, 1], matrix[..., 1, 2] = -step, m.beta, 1.0
    matrix[..., 2, 2] = 1.0
    return np.linalg.matrix_power(matrix, steps)[..., 0, 2]
