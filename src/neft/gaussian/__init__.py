"""Averages over one, two and up to four correlated Gaussian variables (docs/theory/width, eqs. 60-61, 75)."""

from ._accuracy import AccuracyWarning as AccuracyWarning
from ._derivatives import pair_derivatives as pair_derivatives
from ._many import almost_everywhere as almost_everywhere
from ._many import products as products
from ._one import Powers as Powers
from ._one import deltas as deltas
from ._one import expect as expect
from ._one import moment as moment
from ._one import moments as moments
from ._pair import pair as pair
from ._pinned import pinned_products as pinned_products
from ._quadrature import rule as rule
