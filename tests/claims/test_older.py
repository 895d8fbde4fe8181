"""What was written when a number stood for a claim's source is still understood."""

import json

import pytest

import neft
from neft import claims
from neft.claims._registry import Registry


@pytest.mark.parametrize(
    ("before", "now"),
    [
        ("000-s0", "action-a-s0"),
        ("001-counts", "action-b-counts"),
        ("002-s1", "action-c-s1"),
        ("003-linear-layer", "sun-nielsen-linear-layer"),
        ("004-first-layer-dntk", "lecture-first-layer-dntk"),
    ],
)
def test_an_id_of_before_finds_its_claim(before, now):
    assert [claim.id for claim in claims._ledger._filled()._named([before, now])] == [now]


def test_an_id_of_before_is_tested():
    (outcome,) = claims.check(["000-s0"]).outcomes
    assert (outcome.id, outcome.source, outcome.verdict) == ("action-a-s0", "action note A", "holds")


def test_every_claim_that_has_a_kept_result_is_in_the_ledger():
    assert {outcome.id for outcome in claims.full_outcomes()} <= {claim.id for claim in claims.ledger()}


def test_a_file_of_before_is_read_with_the_names_of_today(registry, add, tmp_path):
    add("lecture-recursions")
    ledger = registry.check()
    record = {"neft": 1, **ledger.to_dict()}
    (outcome,) = record["outcomes"]
    outcome |= {"id": "004-recursions", "seed": "004"}
    del outcome["source"]
    path = tmp_path / "ledger.json"
    path.write_text(json.dumps(record))
    found = neft.load(path)
    assert found == ledger
    path.write_text(json.dumps({"neft": 1, **outcome}))
    assert neft.load(path) == ledger.outcomes[0]


def test_an_id_that_looks_like_one_of_before_is_taken_as_it_is_when_it_is_there():
    registry = Registry()
    registry.claim(id="004-a", source="a book", equation="1", statement="a = b")(lambda level: None)
    assert [claim.id for claim in registry._named(["004-a"])] == ["004-a"]
