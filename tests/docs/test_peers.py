"""The table for people who come from neural-tangents has every layer of its stax."""

import re
from pathlib import Path

# What `neural_tangents.stax` 0.6.5 exports and calls a layer.
LAYERS = re.findall(
    r"\w+",
    """
    ABRelu Abs Aggregate AvgPool Conv ConvLocal ConvTranspose Cos Dense DotGeneral Dropout Elementwise
    ElementwiseNumerical Erf Exp ExpNormalized FanInConcat FanInProd FanInSum FanOut Flatten Gabor Gaussian Gelu
    GlobalAvgPool GlobalSelfAttention GlobalSumPool Hermite Identity ImageResize Index LayerNorm LeakyRelu Monomial
    Polynomial Rbf RectifiedMonomial Relu Sigmoid_like Sign Sin Slice SumPool parallel repeat serial
    """,
)


def test_every_layer_of_stax_has_a_row():
    text = (Path(__file__).parents[2] / "docs" / "peers.md").read_text()
    table = text.partition("Every layer of its `stax`")[2].partition("\n\n")[2].partition("\n\n")[0]
    rows = [line.split("|")[1:3] for line in table.splitlines()[2:]]
    named = {name for there, here in rows if here.strip() for name in re.findall(r"\b[A-Za-z_]+\b", there)}
    assert len(LAYERS) == 46 and not set(LAYERS) - named
