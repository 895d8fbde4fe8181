"""Why a part of the page does not apply to a network, each in one sentence; None where it applies.

What becomes known for more networks loses its sentence here and nowhere else.
"""

from ._subject import Subject

_ALONE = "dense blocks with one activation between them"


def no_phases(of: Subject) -> str | None:
    """Of the phase diagram and of critical points."""
    return _repeated(of, "Phases and critical points are known only for one repeated block, but {this}.")


def no_advice(of: Subject) -> str | None:
    """Of advised variances, depth and width."""
    return _repeated(of, "Advice is known only for networks that repeat one block, but {this}.")


def no_order_one(of: Subject) -> str | None:
    """Of predictions after training with terms of order 1/width."""
    if of.chain is not None:
        return None
    more = ": neft predict --order 1 takes it" if of.others == ("Residual",) else ""
    return _alone(of, "This page predicts at order 1/width only for {alone}, but {this}" + more + ".")


def no_orders(of: Subject) -> str | None:
    """Of errors of the hierarchy of tangent kernels against the width."""
    return _alone(of, "Errors at orders 1, 2 and 3 against the width are measured only for {alone}, but {this}.")


def no_rivals(of: Subject) -> str | None:
    """Of learning curves of RNGD beside other optimizers."""
    return _alone(of, "RNGD is compared with its rivals only for {alone}, but {this}.")


def no_terms(of: Subject) -> str | None:
    """Of the terms of the action, named by the letters of its parameters."""
    return _alone(
        of, "Terms named by the letters U, W, b and c are those of f = Uσ(Wz+b)+c with one hidden layer, but {this}."
    )


def no_series(of: Subject) -> str | None:
    """Of power series of the loss along a line."""
    if of.jumps:
        return no_gradient(of)
    kinked = next((act.name for act in of.net.activations if act.kinks), None)
    if kinked is None:
        return None
    return f"{kinked} has a kink, so along a line the loss is a power series only until a preactivation changes sign."


def no_gradient(of: Subject) -> str | None:
    """Of training."""
    return f"{of.jumping} jumps, so it has no gradient to be trained by." if of.jumps else None


def no_finite_width(of: Subject) -> str | None:
    """Of the tensors of order 1/width: what they say when they are asked for."""
    if of.unknown:
        return of.unknown
    absent = [name for name, value in of.stats.tensors.items() if value is None]
    if "V" not in absent:
        return None
    try:
        return str(of.stats.V)
    except ValueError as error:
        return str(error)


def _repeated(of: Subject, sentence: str) -> str | None:
    if of.step is not None or of.chain is not None:
        return None
    return _alone(of, sentence.format(this="this network repeats none") if of.others else sentence)


def _alone(of: Subject, sentence: str) -> str | None:
    return None if of.chain is not None else sentence.format(alone=_ALONE, this=_this(of))


def _this(of: Subject) -> str:
    if of.others:
        *most, last = of.others
        return f"this network holds {', '.join(most)} and {last}" if most else f"this network holds {last}"
    if len(of.net.activations) > 1:
        return f"this network has {len(of.net.activations)} activations"
    return "in this network they do not alternate"
