import re
from html import unescape
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest

from neft import MLP, claims, data, report
from neft.report._section_action import stopping
from neft.report._section_training import after, as_trained, orders

pytestmark = [pytest.mark.xdist_group("whole page"), pytest.mark.slow]

TITLES = ("In short", "Width", "Training", "Loss as a series", "Optimizers", "Glossary", "How it was made")


class Strict(HTMLParser):
    """Fails where an element is closed that is not the one open; collects names and addresses."""

    VOID = frozenset({"meta", "link", "br", "img", "input", "hr"})

    def __init__(self):
        super().__init__()
        self.open, self.ids, self.addresses, self.tags, self.pictures = [], [], [], set(), []

    def handle_starttag(self, tag, attrs):
        self.tags.add(tag)
        for name, value in attrs:
            if name == "id":
                self.ids.append(value)
            if name in ("href", "src", "xlink:href"):
                self.addresses.append(value)
        if tag == "svg":
            self.pictures.append(dict(attrs))
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.handle_starttag(tag, attrs)
        if tag not in self.VOID:
            self.open.pop()

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


@pytest.fixture(scope="module")
def text(whole):
    return whole[1].read_text()


@pytest.fixture(scope="module")
def parsed(text):
    parser = Strict()
    parser.feed(text)
    parser.close()
    return parser


def test_no_section_fails(whole):
    assert {section.title: section.failure for section in whole[0].sections} == dict.fromkeys(TITLES)


def test_it_is_well_formed(parsed):
    assert parsed.open == []
    assert len(set(parsed.ids)) == len(parsed.ids)
    assert {"nav", "main", "section", "table", "caption", "figure", "svg", "math"} <= parsed.tags


def test_every_picture_is_described_and_made_of_lines(parsed):
    assert len(parsed.pictures) >= 15
    assert all(len(picture["aria-label"]) > 20 and picture["role"] == "img" for picture in parsed.pictures)
    assert not {"img", "image"} & parsed.tags


def test_it_asks_nothing_of_anyone(text, parsed):
    # The ledger of claims is a page beside this one.
    assert [address for address in parsed.addresses if not address.startswith("#")] == ["claims.html"]
    assert "default-src 'none'" in text
    assert "script" not in parsed.tags
    assert not re.search(r"@import|url\((?!#|data:font/)", text) and text.count("url(data:font/woff;base64,") == 1


def test_it_serves_both_colour_schemes_small_screens_and_paper(text):
    assert "prefers-color-scheme: dark" in text and "@media print" in text
    assert '<meta name="viewport"' in text


def test_it_tells_the_story_of_the_network(text):
    assert "<h1>gelu 49-32-32-10 on fashion-mnist (bundled subset)</h1>" in text
    first = text[text.index('class="first"') : text.index('<h2 id="h2"')]
    assert "Finite width matters: at width 32" in first and "It is critical: signals" in first
    assert first.count("<dt>") == 3 and "neft advise gelu --depth 3 --width" in first and first.count("<svg") == 1
    assert "L/n = 3/32 = 0.094" in text and "θ* lies outside" in text and "rngd" in text


def words_of(text):
    """What a reader sees, folded or not, in words: whatever has a letter in it, outside of pictures."""
    body = re.sub(r"<head>.*?</head>|<svg.*?</svg>", " ", text, flags=re.DOTALL)
    return [word for word in unescape(re.sub(r"<[^>]+>", " ", body)).split() if re.search(r"[^\W\d_]", word)]


def test_it_is_short(text):
    # The page in full has a table and two figures more, about 400 words.
    assert 1000 < len(words_of(text)) < 2100


def test_every_picture_has_a_sentence_and_its_numbers(text):
    figures = re.findall(r"<figure.*?</figure>", text, flags=re.DOTALL)
    assert len(figures) >= 15
    for one in figures:
        (caption,) = re.findall(r"<figcaption>(.*?)</figcaption>", one)
        assert caption.endswith(".") and len(caption.split()) >= 4, caption
        assert "<summary>Numbers</summary>" in one and one.count("<td") >= 2, caption


def test_tensors_beyond_the_first_three_are_folded(text):
    shown = re.sub(r"<details>(?:(?!<details>).)*?</details>", "", text, flags=re.DOTALL)
    shown = re.sub(r"<details>.*?</details>", "", shown, flags=re.DOTALL)
    names = set(re.findall(r'aria-label="(\w+), the ', text))
    assert {"K", "Theta", "V"} == set(re.findall(r'aria-label="(\w+), the ', shown)) < names and len(names) == 15


def test_it_says_how_it_was_made(text):
    assert "neft report --quick --seed 1" in text and "jax" in text
    # Claims are one line with a link.
    assert f"{len(claims.full_outcomes())} claims" in text and not any(c.id in text for c in claims.full_outcomes())


def test_it_names_no_place_on_the_machine(text):
    assert str(Path.home()) not in text and str(Path(report.__file__).parent) not in text


def three_clouds():
    rng = np.random.default_rng(0)
    y = np.arange(120) % 3
    return data.load((rng.normal(size=(120, 2)) + np.eye(3, 2)[y], y))


@pytest.mark.parametrize(
    ("net", "says"),
    [
        (MLP((2, 6, 3), "relu", C_b=0.3, C_W=1.0), ("it is ordered and forgets", "do not exist for relu")),
        (MLP((2, 200, 40, 3), "elu", C_W=2.0), ("it is", "has no series at 0", "at most 128 wide")),
        (MLP((2, 3), "tanh"), ("one layer is exactly Gaussian", "One layer is linear")),
    ],
    ids=["kink", "no series", "one layer"],
)
def test_what_does_not_exist_for_a_network_is_said_and_is_no_failure(tmp_path, net, says):
    written = report.write(tmp_path / "page.html", net, three_clouds(), quick=True)
    assert [section.failure for section in written.sections] == [None] * len(TITLES)
    text = (tmp_path / "page.html").read_text()
    assert all(words in text for words in says)


# Order 1/width of a classifier takes half as long for erf as for tanh: its averages are cheaper.
CHEAP = MLP((2, 128, 3), "erf")


def test_what_a_quick_page_leaves_out_stands_in_a_whole_one(tmp_path):
    parts = [("Training", after, orders), ("Loss as a series", stopping)]
    written = report.write(tmp_path / "page.html", CHEAP, three_clouds(), sections=parts)
    assert [section.failure for section in written.sections] == [None, None]
    text = (tmp_path / "page.html").read_text()
    rows = re.findall(r'data-label="order \d">([0-9.e-]+) ± ', text)
    # The numbers of the figure stand before the table.
    first, _, third = np.array(rows[-9:], float).reshape(-1, 3).T
    # A network of width 256 is near to its linear model, and nearer to its hierarchy.
    assert first[-1] < 0.2 and third[-1] < first[-1] and len(first) == 3
    assert "Prediction with corrections of order 1/width" in text
    assert "∇S<sub>T</sub>·∇S<sub>E</sub> turns negative" in text and "--quick" not in re.sub(
        "<code>.*?</code>", "", text
    )


def test_classifiers_by_batches_with_momentum_have_a_part(tmp_path):
    options = {"sections": [("Training", as_trained)], "loss": "cross_entropy", "momentum": 0.5}
    too_many = "each by a batch of 6, which are all there are here, where 64 were asked for, with momentum 0.5"
    cases = (
        (True, 64, "at infinite width", too_many),
        (False, 2, "order 1/width", "by a batch of 2, with momentum 0.5"),
    )
    for quick, batch, *says in cases:
        options |= {"quick": quick, "batch": batch}
        written = report.write(tmp_path / "page.html", CHEAP, three_clouds(), **options)
        assert [section.failure for section in written.sections] == [None]
        text = (tmp_path / "page.html").read_text()
        assert all(said in text for said in says)
        assert "share of right answers" in text and "calibration error" in text
        assert not re.search(r"± [0-9.]+e-1\d", text)
    plain = report.write(tmp_path / "page.html", MLP((2, 8, 3)), three_clouds(), sections=options["sections"])
    assert plain.failed == () and "As it is trained" not in (tmp_path / "page.html").read_text()
