"""A share in words."""

_SMALL = 1e-4


def percent(part: float) -> str:
    """A part of one as percent, to two digits and never as a power of ten.

    >>> percent(0.0123), percent(1.13), percent(1.6e-7)
    ('1.2 %', '113 %', 'less than 0.01 %')
    """
    if 0 <= part < _SMALL:
        return f"less than {100 * _SMALL:g} %"
    return f"{100 * part:.0f} %" if part >= 0.1 else f"{100 * part:.2g} %"
