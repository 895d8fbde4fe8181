"""zσ'(z), whose averages over pairs are what a trained gain before an activation adds to the NTK."""

import dataclasses
import functools

from ._activation import Activation


@functools.lru_cache(maxsize=64)
def tilt_of(activation: Activation) -> Activation:
    """zσ'(z) as an activation; σ itself where that is scale invariant.

    >>> import neft
    >>> tilt_of(neft.activation("relu")).name
    'relu'
    """
    if activation.scale_invariant:
        return activation
    slope = activation.derivative(1)
    kinks = tuple(kink._replace(order=kink.order - 1, jump=kink.jump * kink.position) for kink in activation.kinks)
    return dataclasses.replace(
        activation,
        name=f"z {activation.name}'(z)",
        function=lambda z: z * slope(z),
        kinks=tuple(kink for kink in kinks if kink.position or kink.order),
        named=False,
        fourier=None,
        maclaurin=None,
    )
