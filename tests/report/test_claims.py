"""The ledger of claims as a page of its own."""

import re

import pytest
from helpers import one_sentence

from neft import claims, report
from neft.claims import Measurement
from neft.claims._registry import Registry


@pytest.fixture
def registry(monkeypatch):
    """Three claims: one without a kept full test, and two with; the quick test of the last one contradicts it."""
    registry = Registry()
    for name, source in (("new", "lecture"), ("old", "note <A>"), ("other", "lecture")):
        registry.claim(id=f"a-{name}", source=source, equation="(5)", statement=f"<{name}> is so")(
            lambda level, name=name: Measurement(
                verdict="refuted" if name == "other" and level == "quick" else "holds",
                summary=f"{level} test of {name}.",
            )
        )
    kept = registry.check(["a-old", "a-other"], level="full").outcomes
    monkeypatch.setattr(claims, "full_outcomes", lambda: kept)
    monkeypatch.setattr(claims, "ledger", registry.ledger)
    return registry


def written(tmp_path, ledger=None):
    count = report.write_claims(tmp_path / "claims.html", ledger)
    text = (tmp_path / "claims.html").read_text()
    assert text.count("<article") == count
    return text


def test_full_tests_come_from_their_files_and_quick_ones_stand_beside_them(registry, tmp_path):
    text = written(tmp_path, registry.check())
    assert "3 claims" in text and "3 were measured again for this page" in text
    assert "Measured now, quick: quick test of new." in text and "full test of old." in text
    assert "neft claims a-old --level full" in text
    assert "&lt;new&gt; is so" in text and "<new>" not in text and "note &lt;A&gt;" in text


def test_without_a_ledger_kept_tests_stand_alone(registry, tmp_path):
    text = written(tmp_path)
    assert "full test of old." in text and "Measured now" not in text and "measured again" not in text
    assert '<span class="verdict not">not tested</span>' in text and "<code>neft claims a-new</code>" in text


def test_a_test_that_contradicts_its_full_one_is_named(registry, tmp_path):
    text = written(tmp_path, registry.check(["a-other"]))
    assert "The quick test of a-other gave another verdict than its full test." in text
    assert "Measured now, quick: refuted. quick test of other." in text


def test_the_page_asks_nothing_of_anyone_and_runs_its_own_script_only(registry, tmp_path):
    text = written(tmp_path)
    assert re.search(r"default-src 'none';.*script-src 'sha256-[A-Za-z0-9+/=]{44}'", text)
    assert not re.search(r"https?://|@import|url\(|\son\w+=", text) and text.count("<script") == 1


def test_a_page_that_cannot_be_written_is_refused(registry, tmp_path):
    with one_sentence("cannot write", "claims.html"):
        report.write_claims(tmp_path / "no" / "claims.html")


def test_every_claim_of_the_ledger_is_on_the_page(tmp_path):
    every = {claim.id for claim in claims.ledger()}
    text = written(tmp_path)
    assert set(re.findall(r'<article class="[^"]*" id="([^"]+)"', text)) == every
