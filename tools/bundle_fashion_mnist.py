"""Make the subset of Fashion-MNIST that neft brings along, from a folder with the four files of the full set.

Usage: python tools/bundle_fashion_mnist.py FOLDER

The subset is the first 600 training and the first 100 test images of each class. The same folder gives the same bytes.
"""

import gzip
import struct
import sys
from pathlib import Path

import numpy as np

from neft._files import writing
from neft._samples import first_of_each_class
from neft.data import _idx

PER_CLASS = {"train": 600, "t10k": 100}
TARGET = Path(__file__).parents[1] / "src" / "neft" / "data" / "fashion-mnist"


def write_idx(path: Path, values: np.ndarray) -> None:
    """Write unsigned bytes as a compressed IDX file, without the time and the name that gzip would record."""
    header = struct.pack(f">BBBB{values.ndim}I", 0, 0, _idx.UNSIGNED_BYTE, values.ndim, *values.shape)
    with (
        writing(path, binary=True) as file,
        gzip.GzipFile(filename="", mode="wb", compresslevel=9, fileobj=file, mtime=0) as compressed,
    ):
        compressed.write(header + values.tobytes())


def main(folder: Path) -> None:
    """Cut both splits and write them."""
    for prefix, per_class in PER_CLASS.items():
        images, labels = f"{prefix}-images-idx3-ubyte.gz", f"{prefix}-labels-idx1-ubyte.gz"
        y = _idx.read(folder / labels, 1)
        index = first_of_each_class(y, per_class)
        write_idx(TARGET / images, _idx.read(folder / images, 3)[index])
        write_idx(TARGET / labels, y[index])
        size = sum((TARGET / name).stat().st_size for name in (images, labels))
        print(f"{prefix}: {len(index)} images, {size} bytes")


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    main(Path(sys.argv[1]))
