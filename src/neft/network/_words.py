"""Networks in words, for pages and tables."""

from collections.abc import Sequence
from typing import Any

from ._block import Block

_USUAL = {"C_b": 0.0, "C_W": 1.0, "lambda_b": 1.0, "lambda_W": 1.0, "epsilon": 1e-6}
_USUAL |= dict.fromkeys(("C_V", "C_K", "lambda_V", "lambda_K"), 1.0)
_LETTERS = {"epsilon": "ε"} | {f"lambda_{name}": f"λ_{name}" for name in "bWVK"}


def in_words(blocks: Sequence[Block]) -> str:
    """What the blocks are; hyperparameters are named where they are not the usual ones."""
    return ", ".join(_words(block.to_dict()) for block in blocks)


def _words(record: Any) -> str:
    if isinstance(record, str):
        return record
    kind = record["type"]
    if kind == "Nonlinearity":
        return ", ".join(record["activations"])
    if kind == "Residual":
        skip = record["skip"]
        along = f"{_words(skip)} as a skip" if isinstance(skip, dict) else f"skip {skip:g}"
        return f"{along} around [{', '.join(map(_words, record['branch']))}]"
    if kind == "Dense":
        return f"dense to {record['width']}{_numbers(record)}"
    if kind == "Conv":
        return f"{_by(record['shape'])} convolution to {record['channels']}{_moved(record)}{_numbers(record)}"
    if kind == "Attention":
        return _attention(record)
    if kind == "AvgPool":
        return f"mean over {_by(record['shape'])}{_moved(record)}"
    if kind in ("Flatten", "GlobalAvgPool"):
        return {"Flatten": "flattened", "GlobalAvgPool": "mean over all positions"}[kind]
    trained = [name for name in ("gain", "bias") if record.get(f"lambda_{name}") is not None]
    rates = ", ".join(f"{name} trained at {record[f'lambda_{name}']:g}" for name in trained)
    return f"{kind}{_numbers(record)}" + (f" with {rates}" if rates else "")


def _numbers(record: Any) -> str:
    unusual = {k: v for k, v in record.items() if k in _USUAL and v != _USUAL[k]}
    return f" ({', '.join(f'{_LETTERS.get(k, k)} = {v:g}' for k, v in unusual.items())})" if unusual else ""


def _attention(record: Any) -> str:
    heads = f"{record['heads']} heads of {record['head_channels']}"
    what = f"{record['weights']} attention to {record['channels']} by {heads}"
    if not record["tied"]:
        what += ", queries apart from keys"
    if record["encoding"] is not None:
        length = f" of length {record['length']:g}" if record["encoding"] == "gaussian" else ""
        where = "keys and values" if record["encode_values"] else "keys"
        what += f", {record['encoding']} encodings{length} in {where} (C_e = {record['C_e']:g})"
    return what + _numbers(record)


def _by(numbers: Sequence[int]) -> str:
    return "×".join(map(str, numbers))


def _moved(record: Any) -> str:
    # What is not as usual about where windows stand: convolutions at every position, pools side by side.
    usual = [1] * len(record["shape"]) if record["type"] == "Conv" else record["shape"]
    words = [f"strides {_by(record['strides'])}"] if record["strides"] != usual else []
    words += [record["padding"]] if record.get("padding", "SAME") != "SAME" else []
    return f", {', '.join(words)}" if words else ""
