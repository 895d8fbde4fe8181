"""What each tensor of the width expansion is, in a few words."""

MEANINGS = {
    "K": "variance of a preactivation",
    "Theta": "mean of the NTK",
    "V": "fluctuation of the kernel",
    "A": "fluctuation of the NTK's diagonal",
    "B": "fluctuation of the NTK between neurons",
    "D": "NTK and kernel together",
    "F": "NTK and outputs together",
    "P": "dNTK, first pairing",
    "Q": "dNTK, second pairing",
    "R": "ddNTK of the first kind",
    "S": "ddNTK of the second kind",
    "T": "ddNTK, second kind, crossed",
    "U": "ddNTK, second kind, crossed again",
    "K1": "next order of K",
    "Theta1": "next order of the NTK",
}
