import pytest

from neft.claims import Measurement
from neft.claims._registry import Registry


@pytest.fixture
def registry():
    return Registry()


@pytest.fixture
def add(registry):
    """Registers a claim under an id whose test returns (or raises) what is given."""

    def register(id, outcome=None, source="lecture"):
        @registry.claim(id=id, source=source, equation="NTK forward equation", statement="a = b")
        def test(level):
            if isinstance(outcome, Exception):
                raise outcome
            return outcome or Measurement(verdict="holds", summary=f"Measured at {level}.", values={"error": 1e-9})

        return test

    return register
