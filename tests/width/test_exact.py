"""The recursions of docs/theory/width, eqs. 20-38, in 50 digits, written again from the page with mpmath."""

import importlib.util
import sys
from pathlib import Path

import numpy as np
import pytest

from neft import MLP
from neft.width import statistics

X = np.array([0.9, -1.3, 0.5])
HYPER = {
    "C_b": (0.2, 0.1, 0.3, 0.05),
    "C_W": (1.1, 1.4, 0.9, 1.2),
    "lambda_b": (0.5, 0.3, 0.7, 0.2),
    "lambda_W": (0.8, 1.1, 0.6, 0.9),
}
WIDTHS = (3, 7, 12, 9, 2)


def _tool():
    path = Path(__file__).parents[2] / "tools" / "make_gold.py"
    spec = importlib.util.spec_from_file_location("make_gold", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["make_gold"] = module
    spec.loader.exec_module(module)
    return module


def _flow(tool, name):
    """Every tensor of every layer by name, as mpf; those that do not exist are left out."""
    mpf, exists = tool.mpf, [p for p in tool.POWERS if tool.exists(name, p)]
    q = sum(mpf(float(x)) ** 2 for x in X) / 3
    smooth = (0, 0, 0, 2, 0) in exists
    zero = dict.fromkeys(["V", "A", "B", "D", "F", "P", "Q", "R", "S", "T", "U", "K1", "Theta1"], mpf(0))
    C_b, C_W, l_b, l_W = (mpf(HYPER[key][0]) for key in ("C_b", "C_W", "lambda_b", "lambda_W"))
    layers = [{"K": C_b + C_W * q, "Theta": l_b + l_W * q, **zero}]
    for l in range(1, len(WIDTHS) - 1):
        C_b, C, l_b, w = (mpf(HYPER[key][l]) for key in ("C_b", "C_W", "lambda_b", "lambda_W"))
        r = mpf(WIDTHS[l]) / WIDTHS[l - 1] if l > 1 else mpf(0)
        old = layers[-1]
        K, H = old["K"], old["Theta"]
        values = dict(zip(exists, tool.generic_moments(name, K, exists)[0]))

        def e(*powers, values=values):
            return values[(*powers, *(0,) * (5 - len(powers)))]

        ss, a, ssss, mixed, slopes = e(0, 2), e(0, 0, 2), e(0, 4), e(0, 2, 2), e(0, 0, 4)
        g, dadK = (e(2, 2) - K * ss) / (2 * K**2), (e(2, 0, 2) - K * a) / (2 * K**2)
        p, m = e(1, 1, 1) / K, e(1, 0, 1, 1) / K
        g2, a2 = ((e(4, *s) - 6 * K * e(2, *s) + 3 * K**2 * e(0, *s)) / (4 * K**4) for s in ((2,), (0, 2)))
        omega, gO = w * ss + C * H * a, w * g + C * H * dadK
        gamma = C * H * m + w * p
        curved = e(0, 1, 2, 1)
        new = {"K": C_b + C * ss, "Theta": l_b + omega}
        new["V"] = C**2 * (ssss - ss**2) + r * C**2 * old["V"] * g**2
        new["D"] = C * (w * ssss + C * H * mixed - omega * ss)
        new["D"] += r * (C * old["V"] * g * gO + C**2 * old["D"] * a * g)
        new["A"] = w**2 * ssss + 2 * w * C * H * mixed + C**2 * H**2 * slopes - omega**2
        new["A"] += r * (old["V"] * gO**2 + 2 * C * old["D"] * a * gO + C**2 * old["A"] * a**2)
        new["F"] = C**2 * H * mixed + r * C**2 * old["F"] * p**2
        new["B"] = C**2 * H**2 * slopes + r * C**2 * old["B"] * a**2
        new["P"] = C**2 * H**2 * curved + r * C**2 * a * (old["B"] * e(0, 1, 0, 1) + old["P"] * p)
        new["Q"] = w * C * H * mixed + C**2 * H**2 * curved + r * (C * old["F"] * p * gamma + C**2 * old["Q"] * a * p)
        new["K1"] = r * C * (old["K1"] * g + old["V"] / 2 * g2)
        moved = w * (old["K1"] * g + old["V"] / 2 * g2) + C * H * (old["K1"] * m + old["V"] / 2 * a2)
        new["Theta1"] = r * (moved + C * ((old["D"] + 2 * old["F"]) * m + old["Theta1"] * a))
        if smooth:
            both = e(0, 0, 2, 2)
            new["R"] = C**2 * H**3 * e(0, 0, 3, 0, 1) + w / C * new["P"]
            new["R"] += r * C**2 * a * (H * old["B"] * e(0, 0, 1, 0, 1) + H * old["P"] * m + old["R"] * a)
            new["S"] = C**2 * H**3 * both + w / C * new["B"]
            new["S"] += r * C**2 * a * (H * old["B"] * e(0, 0, 0, 2) + old["S"] * a)
            new["T"] = C**2 * H**3 * both + 2 * w * C * H**2 * curved + w**2 * H * mixed
            new["T"] += r * (old["F"] * gamma**2 + 2 * C * a * old["Q"] * gamma + C**2 * old["T"] * a**2)
            new["U"] = C**2 * H**3 * both + r * C**2 * old["U"] * a**2
        layers.append(new)
    return layers


@pytest.mark.slow
@pytest.mark.parametrize("name", ["tanh", "silu", "gelu", "sin", "elu(1)", "hard_tanh", "relu"])
def test_every_tensor_of_every_layer_agrees_with_50_digits(name):
    layers = _flow(_tool(), name)
    found = statistics(MLP(widths=WIDTHS, activation=name, **HYPER), X)
    for tensor in layers[-1]:
        exact = np.array([float(layer[tensor]) for layer in layers])
        np.testing.assert_allclose(getattr(found, tensor), exact, rtol=1e-10, atol=1e-13)
        # A scale-invariant network has no next-order means, and one input no P.
        assert np.abs(exact[1:]).max() > 1e-6 or (name == "relu" and tensor in ("P", "K1", "Theta1"))
