import re
import xml.etree.ElementTree as ET

import numpy as np
import pytest
from helpers import one_sentence
from matplotlib.figure import Figure

import neft
from neft import describe, plot, report
from neft.cli import app
from neft.plot._style import INK
from neft.report import Table
from neft.report._figure import figure
from neft.report._html import paragraph, table
from neft.report._numbers import numbers

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


def test_letters_with_an_index_have_it_below_the_line():
    assert paragraph("C_W<1, -∇S_T, χ_⊥, mean_x and K_star") == (
        "<p>C<sub>W</sub>&lt;1, -∇S<sub>T</sub>, χ<sub>⊥</sub>, mean_x and K_star</p>"
    )


def test_the_numbers_of_a_picture_are_those_it_shows():
    figure = Figure()
    left, right = figure.add_subplot(1, 2, 1, xlabel="n"), figure.add_subplot(1, 2, 2)
    left.plot([0, 10], [0, 5], label="theory")
    left.plot([0, 10], [1, 1])
    left.errorbar([2, 4], [1.5, 2.5], [0.2, 0.4], label="seen")
    (table,) = numbers(figure)
    assert table.columns == ("n", "theory", "seen")
    assert table.rows == (("2", "1", "1.5 ± 0.1"), ("4", "2", "2.5 ± 0.2"))
    right.plot(np.arange(100), np.arange(100) ** 2, label="squares", gid="x")
    second = numbers(figure)[1]
    assert len(second.rows) == 9 and second.rows[-1] == ("99", "9.8e+03")


def test_pictures_do_not_share_names():
    card = describe.activation("tanh")
    drawn = [figure(plot.draw(card), name=name, alt="tanh") for name in ("a", "b")]
    first, second = (set(re.findall(r'\bid="([^"]+)"', text)) for text in drawn)
    assert first and second and not first & second
    for text, names in zip(drawn, (first, second), strict=True):
        assert set(re.findall(r'(?:url\(|href=")#([^)"]+)', text)) <= names


def test_a_picture_is_described_and_takes_the_colour_of_text():
    text = figure(plot.draw(describe.activation("tanh")), name="a", alt="The shape of tanh")
    assert 'role="img" aria-label="The shape of tanh"' in text
    assert "currentColor" in text and INK not in text
    assert not re.search(r"<svg[^>]* (width|height)=", text)


@pytest.mark.slow
def test_the_command_tells_of_failed_sections(tmp_path, monkeypatch):
    from typer.testing import CliRunner

    from neft.report import _sections

    monkeypatch.setattr(_sections, "SECTIONS", [("Broken", broken), *SECTIONS])
    result = CliRunner().invoke(app, ["report", "--out", str(tmp_path / "page.html")])
    assert result.exit_code == 1
    assert result.stderr == "neft: the section 'Broken' failed: RuntimeError: <lost>\n"
    assert "This section failed" in (tmp_path / "page.html").read_text()


def test_a_part_that_fails_leaves_the_other_parts(page):
    written, text = page([("Both", lambda context: "<p>good</p>", broken, lambda context: "<p>last</p>")])
    assert "<p>good</p>" in text and "<p>last</p>" in text and "This part of the section failed" in text
    assert written.failed[0].failure == "RuntimeError: <lost>"


def test_a_warning_stands_in_the_page(page, recwarn):
    import warnings

    def warned(context):
        warnings.warn("only <six> digits.", stacklevel=1)
        return "<p>good</p>"

    _, text = page([("Warned", warned)])
    assert "<p>good</p>" in text and "Warning: only &lt;six&gt; digits." in text
    assert not recwarn.list


def test_a_page_without_a_network_says_that_a_section_needs_one(page):
    written, _ = page([("Needs one", lambda context: context.of.title)])
    assert "was given none" in written.failed[0].failure


def test_a_folder_is_not_a_page(tmp_path):
    with one_sentence("cannot write", "it is a folder"):
        report.write(tmp_path, sections=SECTIONS)


def test_a_network_that_does_not_fit_the_data_is_refused(tmp_path):
    data = neft.data.load(([[0.0, 1.0], [2.0, 3.0]], [0, 1]))
    with one_sentence("3 inputs", "needs 2"):
        report.write(tmp_path / "page.html", neft.MLP((3, 4, 2)), data)
    with one_sentence("5 outputs", "needs 2"):
        report.write(tmp_path / "page.html", neft.MLP((2, 4, 5)), data)
    assert not list(tmp_path.iterdir())


def test_the_name_of_the_data_is_escaped(tmp_path):
    import dataclasses

    data = dataclasses.replace(neft.data.load(([[0.0, 1.0], [2.0, 3.0]], [0, 1])), name="<b>mine</b>")
    report.write(tmp_path / "page.html", neft.MLP((2, 4, 2)), data, sections=SECTIONS)
    text = (tmp_path / "page.html").read_text()
    assert "&lt;b&gt;mine" in text and "<b>mine" not in text


def test_bars_are_one_for_each_section_and_silence_those_inside(monkeypatch):
    import io
    import sys

    from neft import _progress
    from neft.report._bars import Bars

    class Terminal(io.StringIO):
        def isatty(self):
            return True

    monkeypatch.setattr(sys, "stderr", terminal := Terminal())
    with Bars([("Width", 2), ("Claims", 1)]) as bars:
        assert list(_progress.track(range(3), "inside")) == [0, 1, 2] and _progress._quiet
        for title in ("Width", "Width", "Claims"):
            bars.advance(title)
    assert "Width" in terminal.getvalue() and "2/2" in terminal.getvalue() and "Claims" in terminal.getvalue()
    assert not _progress._quiet
