import xml.etree.ElementTree as ET

import pytest

from neft.report._math import math


@pytest.mark.parametrize(
    ("formula", "inside"),
    [
        ("x", "<mi>x</mi>"),
        ("12.5", "<mn>12.5</mn>"),
        ("a<b", "<mi>a</mi><mo>&lt;</mo><mi>b</mi>"),
        ("-1", "<mo>−</mo><mn>1</mn>"),
        ("K_1", "<msub><mi>K</mi><mn>1</mn></msub>"),
        ("z_i^l", "<msubsup><mi>z</mi><mi>i</mi><mi>l</mi></msubsup>"),
        ("z^l_i", "<msubsup><mi>z</mi><mi>i</mi><mi>l</mi></msubsup>"),
        ("e^{-x}", "<msup><mi>e</mi><mrow><mo>−</mo><mi>x</mi></mrow></msup>"),
        (r"\frac{1}{2}", "<mfrac><mrow><mn>1</mn></mrow><mrow><mn>2</mn></mrow></mfrac>"),
        (r"\sqrt{π}", "<msqrt><mrow><mi>π</mi></mrow></msqrt>"),
        ("'Var' b", "<mtext>Var</mtext><mi>b</mi>"),
        # An index at the end of a pair of brackets belongs to the pair, and both brackets to one row.
        ("(a)_b", "<msub><mrow><mo>(</mo><mi>a</mi><mo>)</mo></mrow><mi>b</mi></msub>"),
        ("⟨(a)⟩", "<mrow><mo>⟨</mo><mrow><mo>(</mo><mi>a</mi><mo>)</mo></mrow><mo>⟩</mo></mrow>"),
        ("(a", "<mo>(</mo><mi>a</mi>"),
    ],
)
def test_formulas_become_mathml(formula, inside):
    assert math(formula) == f"<math><mrow>{inside}</mrow></math>"
    ET.fromstring(math(formula, block=True))


@pytest.mark.parametrize("formula", ["{x", "x}", "_1", "x^", r"\frac{1}"])
def test_an_unfinished_formula_is_refused(formula):
    with pytest.raises(ValueError, match="formula"):
        math(formula)
