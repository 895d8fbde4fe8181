import math

import pytest

from neft.claims import VERDICTS, Claim, Measurement


def measured(**changes):
    return Measurement(**{"verdict": "holds", "summary": "Agrees.", **changes})


def stated(**changes):
    fields = {"id": "a-1", "source": "lecture", "equation": "5", "statement": "a = b", "test": lambda level: measured()}
    return Claim(**{**fields, **changes})


@pytest.mark.parametrize("verdict", VERDICTS)
def test_the_four_verdicts_are_accepted(verdict):
    correction = "a = 2b" if verdict == "corrected" else None
    assert measured(verdict=verdict, correction=correction).verdict == verdict


@pytest.mark.parametrize("verdict", ["true", "failed", ""])
def test_another_verdict_is_refused(verdict):
    with pytest.raises(ValueError, match="verdict is"):
        measured(verdict=verdict)


@pytest.mark.parametrize("changes", [{"verdict": "corrected"}, {"correction": "a = 2b"}])
def test_a_correction_goes_with_corrected_only(changes):
    with pytest.raises(ValueError, match="correction"):
        measured(**changes)


def test_a_measurement_needs_a_sentence_and_numbers():
    with pytest.raises(ValueError, match="summary is empty"):
        measured(summary=" ")
    with pytest.raises(ValueError, match="NaN for error"):
        measured(values={"error": math.nan})


@pytest.mark.parametrize("id", ["", "A", "a/b", "../a", "a b", "-a", ".a"])
def test_an_id_must_be_able_to_name_a_file(id):
    with pytest.raises(ValueError, match="id is"):
        stated(id=id)


@pytest.mark.parametrize("field", ["source", "equation", "statement"])
def test_a_claim_says_what_and_where(field):
    with pytest.raises(ValueError, match=f"{field} of the claim 'a-1' is empty"):
        stated(**{field: ""})
