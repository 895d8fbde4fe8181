"""The types of what `neft.report` returns."""

from ._page import Written as Written
