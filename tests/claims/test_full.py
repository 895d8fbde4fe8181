import json

import pytest

from neft.claims import Measurement, contradictions, full_outcomes, save_full


@pytest.fixture
def outcome(registry, add):
    add("a", Measurement(verdict="holds", summary="Agrees.", data="ab12"))
    return lambda level="full": registry.check(level=level).outcomes[0]


def test_a_full_outcome_is_kept_with_what_made_it(outcome, tmp_path):
    path = save_full(outcome(), folder=tmp_path)
    record = json.loads(path.read_text())
    assert path.name == "a.json"
    assert record["command"] == "neft claims a --level full"
    assert record["data"] == "ab12"
    assert {"neft", "python", "jax", "numpy"} <= record["made"]["versions"].keys()


def test_kept_outcomes_are_read_back_in_order(registry, add, tmp_path):
    for id in "ba":
        add(id)
    outcomes = registry.check(level="full").outcomes
    for one in reversed(outcomes):
        save_full(one, folder=tmp_path)
    assert full_outcomes(folder=tmp_path) == outcomes


def test_a_quick_outcome_is_not_kept(outcome, tmp_path):
    with pytest.raises(ValueError, match="only a verdict at level 'full'"):
        save_full(outcome("quick"), folder=tmp_path)


def test_a_failed_outcome_is_not_kept(registry, add, tmp_path):
    add("a", ValueError("no"))
    with pytest.raises(ValueError, match="'failed'"):
        save_full(registry.check(level="full").outcomes[0], folder=tmp_path)


def test_the_folder_is_made_when_the_first_outcome_comes(outcome, tmp_path):
    assert full_outcomes(folder=tmp_path / "results") == ()
    save_full(outcome(), folder=tmp_path / "results")
    assert len(full_outcomes(folder=tmp_path / "results")) == 1


def test_a_file_under_another_name_is_refused(outcome, tmp_path):
    save_full(outcome(), folder=tmp_path).rename(tmp_path / "b.json")
    with pytest.raises(ValueError, match="not the outcome of the claim 'b'"):
        full_outcomes(folder=tmp_path)


def test_another_verdict_than_the_kept_one_is_a_contradiction(registry, add, outcome, tmp_path):
    save_full(outcome(), folder=tmp_path)
    assert contradictions(registry.check(), folder=tmp_path) == ()
    other = type(registry)()
    other.claim(id="a", source="lecture", equation="1", statement="a = b")(
        lambda level: Measurement(verdict="refuted", summary="Differs.")
    )
    assert [o.id for o in contradictions(other.check(), folder=tmp_path)] == ["a"]


def test_what_is_shipped_can_be_read():
    assert all(outcome.level == "full" for outcome in full_outcomes())
