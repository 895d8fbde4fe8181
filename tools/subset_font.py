"""The font of formulas, STIX Two Math cut down to what the pages of neft use.

`.venv/bin/python tools/subset_font.py stix-two-math-latin-400-normal.woff` takes the file of the npm package
@fontsource/stix-two-math (version 5.3.0; the font's own version is 2.12 b168a) and writes
src/neft/report/font/math.woff, which the report holds inside itself and the documentation links to. It keeps the table
MATH, from which browsers take the places of subscripts and the sizes of brackets. The licence, SIL OFL 1.1, stands
beside the file.
"""

import sys
from pathlib import Path

from fontTools import subset

TARGET = Path(__file__).parents[1] / "src" / "neft" / "report" / "font" / "math.woff"

RANGES = (
    (0x20, 0x7E),
    (0x391, 0x3F5),  # Greek
    (0x1D434, 0x1D467),  # italic letters, which a browser takes for variables
    (0x1D6E2, 0x1D71B),  # italic Greek ones
)
SINGLE = (
    "\u00a0\u00ac\u00b1\u00b7\u00d7\u00f7\u02d9\u00a8\u02c6\u02dc\u00af\u0302\u0303\u0304\u0305\u0307\u0308\u20d7"
    "\u2016\u2020\u2026\u2032\u2033\u2034\u2061\u2062\u2063\u2113\u210e\u211d\u2102\u2115\u2124"
    "\u2190\u2192\u2194\u21a6\u21d2\u21d4\u2200\u2202\u2203\u2205\u2206\u2207\u2208\u2209\u220f\u2211\u2212\u2213\u2218\u221a\u221d"
    "\u221e\u2225\u2227\u2228\u2229\u222a\u222b\u222e\u223c\u2243\u2245\u2248\u2260\u2261\u2264\u2265\u226a\u226b\u2282\u2286"
    "\u2297\u2295\u22a5\u22c5\u22ee\u22ef\u2308\u2309\u230a\u230b\u23de\u23df\u27e8\u27e9\u2a7d\u2a7e\u2111\u211c"
    "\u02d8\u2015\u2223\u22c6\u27c2\u27fa\u2a02"
    "\U0001d49c\U0001d4a9\U0001d4aa\U0001d4b5\u2112\u210b\u2131\U0001d53c\U0001d7d9"  # script and blackboard letters
)


def main(source: str) -> None:
    """Write the subset."""
    options = subset.Options(
        flavor="woff", layout_features=["ssty", "dtls", "flac", "kern"], hinting=False, name_IDs=[0, 1, 2, 4, 5, 13, 14]
    )
    font = subset.load_font(source, options)
    wanted = [code for first, last in RANGES for code in range(first, last + 1)] + [ord(letter) for letter in SINGLE]
    missing = sorted(set(map(ord, SINGLE)) - font.getBestCmap().keys())
    if missing:
        print("not in the font:", " ".join(f"U+{code:04X}" for code in missing), file=sys.stderr)
    chosen = subset.Subsetter(options)
    chosen.populate(unicodes=wanted)
    chosen.subset(font)
    TARGET.parent.mkdir(exist_ok=True)
    subset.save_font(font, str(TARGET), options)
    print(f"{TARGET.name}: {TARGET.stat().st_size:,} bytes")


if __name__ == "__main__":
    main(sys.argv[1])
