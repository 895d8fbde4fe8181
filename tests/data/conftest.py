import pytest

from neft.data import _named


@pytest.fixture
def nowhere(monkeypatch, tmp_path):
    """A machine without any full set."""
    monkeypatch.delenv("NEFT_DATA", raising=False)
    monkeypatch.setattr(_named, "SYSTEM", tmp_path / "system")
