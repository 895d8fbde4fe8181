"""IDX files and fake sets, for the tests of neft.data."""

import gzip
from pathlib import Path

import numpy as np

KINDS = {"images": "images-idx3-ubyte", "labels": "labels-idx1-ubyte"}


def idx(values: np.ndarray) -> bytes:
    """The bytes of an IDX file, written out by hand and not as the library does it."""
    lengths = b"".join(int(n).to_bytes(4, "big") for n in values.shape)
    return b"\x00\x00\x08" + bytes([values.ndim]) + lengths + values.astype(np.uint8).tobytes()


def write_split(folder: Path, prefix: str, x: np.ndarray, y: np.ndarray, *, compressed: bool = True) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for kind, values in (("images", x), ("labels", y)):
        content = idx(values)
        name = f"{prefix}-{KINDS[kind]}"
        if compressed:
            (folder / f"{name}.gz").write_bytes(gzip.compress(content))
        else:
            (folder / name).write_bytes(content)


def fake_set(folder: Path, *, classes: int = 10, shape: tuple[int, int] = (28, 28), seed: int = 0, **options) -> Path:
    """A folder with three training and two test images of each class, of random pixels."""
    rng = np.random.default_rng(seed)
    for prefix, each in (("train", 3), ("t10k", 2)):
        y = rng.permutation(np.repeat(np.arange(classes), each))
        write_split(folder, prefix, rng.integers(0, 256, (len(y), *shape)), y, **options)
    return folder
