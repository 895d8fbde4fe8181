"""What the page may ask for: each limit is told in a sentence beside its field."""

DEEPEST = 128
WIDEST = 4096
MOST_VARIANCE = 100.0
MOST_RATE = 1e6
MOST_SKIP = 10.0
MOST_DRAWS = 20_000
MOST_NUMBERS = 4e9
"""Random numbers that one simulation may draw: some minutes of one core."""

MOST_TRAINED = 2e6
"""Weights of a network that is trained by simulation."""

MOST_POINTS = 12
FARTHEST, HIGHEST = 3.0, 10.0
"""Positions of training points of the regression, and their targets."""

DEEPEST_FINITE = 10
"""Layers of networks whose trained functions are corrected to order 1/width: more take longer than ten seconds."""

LARGEST = 1000
"""Number in a typed activation."""

MOST_CHANGES, FINEST = 200, 0.03
"""Changes of sign of a typed activation or of its derivatives in |z| ≤ 10, and the distance over which it changes."""

MOST_MEMORY = 4 << 30
"""Bytes that a process of a long job may take beyond what it starts with."""

MOST_BYTES = 32_768
"""Of a request's body."""

MOST_JOBS = 4
"""Simulations and long computations at once, each in a process of its own."""
