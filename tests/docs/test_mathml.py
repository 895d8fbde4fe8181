"""Formulas of the documentation as MathML, and the font that sets them."""

import importlib.util
import re
import sys
import xml.etree.ElementTree as ET
from html import unescape
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
pytest.importorskip("latex2mathml", reason="latex2mathml of the group docs is not installed")
pytest.importorskip("sphinx", reason="sphinx of the group docs is not installed")


@pytest.fixture(scope="module")
def mathml():
    specification = importlib.util.spec_from_file_location("docs_mathml", ROOT / "docs" / "_ext" / "mathml.py")
    module = importlib.util.module_from_spec(specification)
    sys.modules[specification.name] = module
    specification.loader.exec_module(module)
    return module.mathml


@pytest.mark.parametrize(
    "formula", [r"(a + b)^2", r"\left(a + b\right)^2", r"\langle a + b\rangle^2", r"x + (a + b)_i^2 y"]
)
def test_a_pair_of_brackets_is_one_row_below_its_exponent(mathml, formula):
    root = ET.fromstring(mathml(formula, display="inline"))
    (scripted,) = [e for e in root.iter() if re.sub(r".*}", "", e.tag) in ("msup", "msub", "msubsup")]
    assert "".join(scripted[0].itertext()) in ("(a+b)", "⟨a+b⟩")


def test_inner_pairs_and_lonely_brackets_are_left_alone(mathml):
    def base(formula):
        root = ET.fromstring(mathml(formula, display="inline"))
        return ["".join(e[0].itertext()) for e in root.iter() if e.tag.endswith("}msup")]

    assert base("((a) + (b)^2)^3") == ["((a)+(b)2)", "(b)"] and base("[0, 1)^2") == [")"]
    assert "&#x0003C;" in mathml("a < b", display="inline") or "&lt;" in mathml("a < b", display="inline")


def test_the_font_has_every_character_of_the_formulas(mathml):
    ttLib = pytest.importorskip("fontTools.ttLib")
    font = ttLib.TTFont(ROOT / "src" / "neft" / "report" / "font" / "math.woff")
    assert "MATH" in font and "SIL OPEN FONT LICENSE" in (ROOT / "src/neft/report/font/LICENSE").read_text()
    known, absent = font.getBestCmap(), {}
    for page in (ROOT / "docs").rglob("*.md"):
        text = re.sub(r"```.*?```|`[^`]*`", "", page.read_text(), flags=re.DOTALL)
        for display, inline in re.findall(r"\$\$(.+?)\$\$|\$([^$\n]+?)\$", text, flags=re.DOTALL):
            formula = re.sub(r"\s*\\tag\{\w+\}\s*$", "", display or inline)
            letters = unescape(re.sub(r"<[^>]*>", "", mathml(formula, display="inline")))
            absent |= {letter: page.name for letter in letters if ord(letter) not in known}
    assert absent == {}
