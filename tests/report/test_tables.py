import pytest

import neft
from neft import describe
from neft.claims import Measurement
from neft.claims._registry import Registry
from neft.report import Table, tables


def test_text_is_aligned_and_never_wrapped():
    wide = "x" * 300
    table = Table(title="T", columns=("name", "n"), rows=((wide, "1"), ("b", "-20")), notes=("note",))
    assert table.text().splitlines() == ["T", f"{'name':<300}    n", f"{wide}    1", f"{'b':<300}  -20", "note"]


def test_columns_of_numbers_are_flush_right():
    rows = (("a", "1", "1e-3", "0.1 ± 0.02", "inf"), ("b", "-2.5", "+4", "2", "-"))
    assert Table(title="", columns=tuple("abcde"), rows=rows).numeric == (False, True, True, True, True)


def test_a_table_without_rows_is_its_notes():
    assert Table(title="T", notes=("nothing",)).text() == "T\nnothing"


def test_a_type_without_tables_has_none():
    assert tables(neft.Made.by("test")) == ()


def test_an_activation_without_a_series_says_so():
    card = describe.activation("tanh")
    fields = {name: getattr(card, name) for name in card.to_dict() if name != "type"}
    assert "not known" in tables(type(card)(**{**fields, "taylor": None}))[1].text()


@pytest.fixture
def outcome():
    registry = Registry()
    registry.claim(id="a", source="lecture", equation="(5)", statement="a = b")(
        lambda level: Measurement(verdict="corrected", summary="Off.", correction="a = 2b", values={"ratio": 2.0})
    )
    return registry.check().outcomes[0]


def test_an_outcome_shows_what_was_measured(outcome):
    (table,) = tables(outcome)
    assert {"a = b", "a = 2b", "corrected", "2", "neft claims a --level quick"} <= {row[1] for row in table.rows}
