import re
from html.parser import HTMLParser
from pathlib import Path

import pytest

from neft import claims, report

pytestmark = [pytest.mark.xdist_group("whole page"), pytest.mark.slow]


class Strict(HTMLParser):
    """Fails where an element is closed that is not the one open; collects names and addresses."""

    VOID = frozenset({"meta", "link", "br", "img", "input", "hr"})

    def __init__(self):
        super().__init__()
        self.open, self.ids, self.addresses, self.tags = [], [], [], set()

    def handle_starttag(self, tag, attrs):
        self.tags.add(tag)
        for name, value in attrs:
            if name == "id":
                self.ids.append(value)
            if name in ("href", "src", "xlink:href"):
                self.addresses.append(value)
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.handle_starttag(tag, attrs)
        if tag not in self.VOID:
            self.open.pop()

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    path = tmp_path_factory.mktemp("report") / "report.html"
    return report.write(path, seed=1), path.read_text()


@pytest.fixture(scope="module")
def parsed(written):
    parser = Strict()
    parser.feed(written[1])
    parser.close()
    return parser


def test_no_section_fails(written):
    assert [section.failure for section in written[0].sections] == [None] * 8


def test_it_is_well_formed(parsed):
    assert parsed.open == []
    assert len(set(parsed.ids)) == len(parsed.ids)
    assert {"nav", "main", "section", "table", "caption", "figure", "svg", "math"} <= parsed.tags


def test_it_asks_nothing_of_anyone(written, parsed):
    assert all(address.startswith(("#", "data:image/")) for address in parsed.addresses)
    assert "default-src 'none'" in written[1]
    assert "script" not in parsed.tags
    assert not re.search(r"@import|url\((?!#)", written[1])


def test_it_serves_both_colour_schemes_and_small_screens(written):
    assert "prefers-color-scheme: dark" in written[1]
    assert '<meta name="viewport"' in written[1]


def test_it_says_how_it_was_made(written):
    assert "neft report --seed 1" in written[1] and "jax" in written[1]
    assert all(claim.id in written[1] for claim in claims.ledger())


def test_it_names_no_place_on_the_machine(written):
    assert str(Path.home()) not in written[1] and str(Path(report.__file__).parent) not in written[1]
