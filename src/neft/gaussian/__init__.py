"""Averages over one, two and up to four correlated Gaussian variables (docs/theory/width, eqs. 60-61, 75)."""

from .._accuracy import AccuracyWarning as AccuracyWarning
from .._moments import Powers as Powers
from ._many import products as products
from ._one import expect as expect
from ._one import moment as moment
from ._pair import pair as pair
