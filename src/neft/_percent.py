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


def two_digits(value: float) -> str:
    """A number to two digits, but whole rather than as a power of ten where it is below a million.

    >>> two_digits(0.266), two_digits(99.7), two_digits(317.5), two_digits(2.2e12)
    ('0.27', '100', '318', '2.2e+12')
    """
    return f"{value:.0f}" if 99.5 <= value < 1e6 else f"{value:.2g}"
