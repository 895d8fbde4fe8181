"""zσ'(z), whose averages over pairs are what a trained gain before an activation adds to the NTK."""

import dataclasses
import functools

from .._activation import Activation


@functools.lru_cache(maxsize=64)
def tilt_of(act: Activation) -> Activation:
    """zσ'(z) as an activation; σ itself where that is scale invariant.

    >>> from neft import activation
    >>> tilt_of(activation("relu")).name
    'relu'
    """
    if act.scale_invariant:
        return act
    slope = act.derivative(1)
    kinks = tuple(kink._replace(order=kink.order - 1, jump=kink.jump * kink.position) for kink in act.kinks)
    return dataclasses.replace(
        act,
        name=f"z {act.name}'(z)",
        function=lambda z: z * slope(z),
        kinks=tuple(kink for kink in kinks if kink.position or kink.order),
        parity={"even": "even", "odd": "odd", None: None}[act.parity],
        named=False,
        maclaurin=None,
    )
