"""IDX files, the format of MNIST: two zero bytes, a type code, the number of axes, the lengths, the values."""

import gzip
import io
import math
import struct
import zlib
from pathlib import Path

import numpy as np
from jaxtyping import UInt8

UNSIGNED_BYTE = 0x08
_CHUNK = 2**20


def read(path: Path, ndim: int) -> UInt8[np.ndarray, "..."]:
    """The unsigned bytes of an IDX file (gzip-compressed if its name ends in .gz), an array with `ndim` axes.

    >>> import tempfile
    >>> file = Path(tempfile.mkdtemp()) / "labels-idx1-ubyte"
    >>> _ = file.write_bytes(bytes([0, 0, 8, 1, 0, 0, 0, 3]) + bytes([7, 0, 9]))
    >>> read(file, 1)
    array([7, 0, 9], dtype=uint8)
    """
    try:
        with gzip.open(path, "rb") if path.suffix == ".gz" else path.open("rb") as file:
            shape = _shape(path, file, ndim)
            # One byte more than declared is asked for: it shows what is too long, and at the end of a compressed
            # file it makes gzip compare its checksum.
            values = _at_most(file, math.prod(shape) + 1)
    except (EOFError, zlib.error, gzip.BadGzipFile):
        raise ValueError(f"{str(path)!r} is truncated or damaged: its gzip compression cannot be undone.") from None
    except OSError as error:
        raise ValueError(f"cannot read {str(path)!r}: {error.strerror or error}.") from None
    if len(values) < math.prod(shape):
        raise ValueError(
            f"{str(path)!r} is truncated: it declares shape {shape}, which is {math.prod(shape)} bytes, "
            f"but holds {len(values)}."
        )
    if len(values) > math.prod(shape):
        raise ValueError(f"{str(path)!r} is damaged: bytes follow the {math.prod(shape)} of its shape {shape}.")
    return np.frombuffer(values, np.uint8).reshape(shape)


def _shape(path: Path, file: gzip.GzipFile | io.BufferedReader, ndim: int) -> tuple[int, ...]:
    magic, expected = bytes(_at_most(file, 4)), bytes([0, 0, UNSIGNED_BYTE, ndim])
    if len(magic) < 4:
        raise ValueError(f"{str(path)!r} is truncated: it ends inside the header of an IDX file.")
    if magic != expected:
        raise ValueError(
            f"{str(path)!r} starts with the bytes {magic.hex(' ')}, but an IDX file of unsigned bytes with {ndim} "
            f"{'axis' if ndim == 1 else 'axes'} starts with {expected.hex(' ')}."
        )
    lengths = _at_most(file, 4 * ndim)
    if len(lengths) < 4 * ndim:
        raise ValueError(f"{str(path)!r} is truncated: it ends inside the header of an IDX file.")
    shape = struct.unpack(f">{ndim}I", lengths)
    if 0 in shape:
        raise ValueError(f"{str(path)!r} declares shape {shape}, but must hold at least one value.")
    return shape


def _at_most(file: gzip.GzipFile | io.BufferedReader, count: int) -> bytearray:
    # By chunks: a damaged header may declare more bytes than any machine has, and a single read would reserve them.
    values = bytearray()
    while len(values) < count:
        chunk = file.read(min(_CHUNK, count - len(values)))
        if not chunk:
            break
        values += chunk
    return values
