"""What a user says of an activation of his own, held against the function itself."""

import jax
import jax.numpy as jnp
import numpy as np

from . import _check
from ._activation import Activation
from ._closed import Pair, form_of
from ._moments import Powers
from ._of_own import own_moments

_CLOSE = 1e-7
_K = np.array([0.3, 1.7])


def checked(act: Activation) -> Activation:
    """The activation, if its closed form and its series are those of its function."""
    if act.pair is not None:
        _check_pair(act)
    if act.series is not None:
        _check_series(act)
    return act


def _check_pair(act: Activation) -> None:
    # At ρ = 1 and ρ = 0 averages over two variables are averages over one.
    wanted = [Powers(s=1), Powers(s=2), Powers(s1=1), Powers(s1=2)]
    bare = Activation(act.name, act.function, kinks=act.kinks, length=act.length, cuts=act.cuts, named=False)
    s, ss, d, dd = own_moments(bare, wanted, _K, rtol=1e-10, what=f"an average of {act.name}", spiky=False)
    form = form_of(act)
    assert form is not None
    for rho, value, slope in ((1.0, ss, dd), (0.0, s * s[::-1], d * d[::-1])):
        K2 = _K if rho else _K[::-1]
        with jax.ensure_compile_time_eval(), jax.enable_x64(True):
            both = Pair.of(*(jnp.asarray(part) for part in (_K, K2, np.full(2, rho))))
            try:
                found = np.asarray(form.value(both)), np.asarray(form.derivative(both))
            except (TypeError, ValueError) as error:
                raise ValueError(f"pair cannot be evaluated at K1, K2 and c: {_check.reason(error)}.") from None
        # A kink leaves the derivative at ρ = 1 a root of rounding.
        for what, one, two in (("pair", found[0], value), ("the derivative of pair in c", found[1], slope)):
            off = np.abs(one - two).max() / max(np.abs(ss).max(), np.abs(dd).max())
            if not off <= _CLOSE:
                raise ValueError(
                    f"{what} is {np.ravel(one)[0]:.8g} at K1 = {_K[0]:g}, K2 = {K2[0]:g} and ρ = {rho:g}, where the "
                    f"function's own average is {two[0]:.8g}."
                )


def _check_series(act: Activation) -> None:
    from ._series import Series

    start, order = 0.4, 4
    with jax.ensure_compile_time_eval(), jax.enable_x64(True):
        try:
            found = np.asarray(act.series(Series.line(start, 1.0, order=order)).coefficients())  # type: ignore[misc]
        except (TypeError, ValueError, AttributeError) as error:
            raise ValueError(f"series cannot be applied to a neft.Series: {_check.reason(error)}.") from None
        wanted, derivative, factorial = [], act.function, 1.0
        for k in range(order + 1):
            wanted.append(float(derivative(jnp.asarray(start))) / factorial)
            derivative, factorial = jax.grad(derivative), factorial * (k + 1)
    if found.shape != (order + 1,) or np.abs(found - wanted).max() > _CLOSE * np.abs(wanted).max():
        raise ValueError(
            f"series gives the coefficients {found.round(6).tolist()} about {start:g}, where those of the function are "
            f"{np.round(wanted, 6).tolist()}."
        )
