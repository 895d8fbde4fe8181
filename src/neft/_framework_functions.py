"""Functions that frameworks have under a name of their own, as expressions of z."""

GELU_BY_TANH = "z*sigmoid(sqrt(8/pi)*(z+0.044715*z^3))"
"""GELU as JAX has it by default: (1 + tanh u)/2 is the sigmoid of 2u, which does not cancel where it is small."""
RELU6 = "min(relu(z),6)"
HARD_SWISH = "z*min(relu(z+3),6)/6"

EXPRESSIONS = (GELU_BY_TANH, RELU6, HARD_SWISH)
"""All of them."""
