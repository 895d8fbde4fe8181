import re
import xml.etree.ElementTree as ET

import pytest

from neft import describe, plot, report
from neft.cli import app
from neft.report import Table
from neft.report._figure import figure
from neft.report._html import paragraph, table

SECTIONS = [("First", lambda context: "<p>one</p>"), ("Second", lambda context: f"<p>{context.seed}</p>")]


def broken(context):
    raise RuntimeError("<lost>")


@pytest.fixture
def page(tmp_path):
    def write(sections=SECTIONS, **options):
        written = report.write(tmp_path / "page.html", sections=sections, **options)
        return written, (tmp_path / "page.html").read_text()

    return write


def test_each_section_has_a_heading_and_a_link(page):
    _, text = page(seed=7)
    assert re.findall(r'<a href="#s(\d)">(\w+)</a>', text) == [("1", "First"), ("2", "Second")]
    assert re.findall(r'<section id="s(\d)"', text) == ["1", "2"]
    assert "<p>one</p>" in text and "<p>7</p>" in text


def test_a_section_that_fails_says_so_and_the_others_stand(page):
    written, text = page([("Broken", broken), *SECTIONS])
    assert [section.title for section in written.failed] == ["Broken"]
    assert "RuntimeError: &lt;lost&gt;" in text and "<p>one</p>" in text


def test_a_section_sees_those_before_it(page):
    seen = []
    page([*SECTIONS, ("Third", lambda context: seen.extend(context.before) or "")])
    assert [section.title for section in seen] == ["First", "Second"]


def test_an_interrupted_page_leaves_the_old_one(page, tmp_path):
    def interrupted(context):
        raise KeyboardInterrupt

    page()
    before = (tmp_path / "page.html").read_text()
    with pytest.raises(KeyboardInterrupt):
        page([("Slow", interrupted)])
    assert (tmp_path / "page.html").read_text() == before
    assert [path.name for path in tmp_path.iterdir()] == ["page.html"]


def test_a_folder_that_is_not_there_is_refused_before_the_work(tmp_path):
    with pytest.raises(ValueError, match="cannot write"):
        report.write(tmp_path / "no" / "page.html", sections=[("Never", broken)])


def test_text_from_outside_is_escaped():
    sly = '<script>"&'
    assert "<script>" not in paragraph(sly)
    assert "<script>" not in table(Table(title=sly, columns=(sly,), rows=((sly,),), notes=(sly,)))
    drawn = figure(plot.draw(describe.activation("tanh")), name="a", alt=sly, caption=sly)
    assert "<script>" not in drawn
    ET.fromstring(drawn)


def test_pictures_do_not_share_names():
    card = describe.activation("tanh")
    drawn = [figure(plot.activation(card), name=name, alt="tanh") for name in ("a", "b")]
    first, second = (set(re.findall(r'\bid="([^"]+)"', text)) for text in drawn)
    assert first and second and not first & second
    for text, names in zip(drawn, (first, second), strict=True):
        assert set(re.findall(r'(?:url\(|href=")#([^)"]+)', text)) <= names


def test_a_picture_is_described_and_takes_the_colour_of_text():
    text = figure(plot.activation(describe.activation("tanh")), name="a", alt="The shape of tanh")
    assert 'role="img" aria-label="The shape of tanh"' in text
    assert "currentColor" in text and plot.INK not in text
    assert not re.search(r"<svg[^>]* (width|height)=", text)


def test_the_command_tells_of_failed_sections(tmp_path, monkeypatch):
    from typer.testing import CliRunner

    from neft.report import _sections

    monkeypatch.setattr(_sections, "SECTIONS", [("Broken", broken), *SECTIONS])
    result = CliRunner().invoke(app, ["report", "--out", str(tmp_path / "page.html")])
    assert result.exit_code == 1
    assert result.stderr == "neft: the section 'Broken' failed: RuntimeError: <lost>\n"
    assert "This section failed" in (tmp_path / "page.html").read_text()
