"""Which kernel tells clothes apart: perceptrons, residual ones, convolutions and pools on the bundled Fashion-MNIST.

    python tools/classify_images.py FOLDER choose     settings by cross-validation on 1,000 training images, 28×28
    python tools/classify_images.py FOLDER all        the chosen ones on 6,000 + 1,000 images, 28×28, or --train fewer
    python tools/classify_images.py FOLDER small      four kinds on 400 + 500 images, 14×14, with settings of their own

Kernels go to FOLDER and are resumed there; so are the numbers, FOLDER/choose.json and so on. Convolutions on all images
take a quarter of an hour of one core, the pooled ones five minutes.
"""

import argparse
import json
import time
from pathlib import Path
from typing import Any

import numpy as np
from scipy.linalg import cho_factor, cho_solve

import neft
from neft import Conv, Dense, Flatten, GlobalAvgPool, Network, Residual

RIDGES = (1e-5, 1e-4, 1e-3, 1e-2, 1e-1)  # of the mean of the kernel's diagonal
FOLDS = 5
BIASES = (0.0, 0.1)


def networks(side: int) -> dict[str, dict[str, Network]]:
    """The kinds, and for each what there is to choose from."""
    end = Dense(10)
    found: dict[str, dict[str, Network]] = {"perceptron": {}, "residual": {}, "convolution": {}}

    def relus(*blocks):
        return [part for block in blocks for part in (block, "relu")]

    for C_b in BIASES:
        h = {"C_W": 2.0, "C_b": C_b}
        dense = Dense(8, **h)
        for depth in (1, 2, 3, 5):
            name = f"{depth} hidden layers, C_b = {C_b}"
            found["perceptron"][name] = Network(side**2, [*relus(*[dense] * depth), end])
        for count in (2, 4, 8):
            blocks = [Residual("relu", dense)] * count
            found["residual"][f"{count} blocks, C_b = {C_b}"] = Network(side**2, [dense, *blocks, "relu", end])
    for depth, size, C_b in ((2, 3, 0.0), (2, 3, 0.1), (2, 5, 0.0), (4, 3, 0.0)):
        blocks = relus(*[Conv(8, (size, size), C_W=2.0, C_b=C_b)] * depth)
        name = f"{depth} layers of {size}×{size}, C_b = {C_b}"
        found["convolution"][name] = Network((side, side, 1), [*blocks, Flatten(), end])
    return found


def pooled(side: int) -> dict[str, Network]:
    """Convolutions that halve the image first, and a mean over all positions."""
    found = {}
    for depth in (2, 3):
        first, *rest = (Conv(8, (3, 3), strides=2 - bool(n), C_W=2.0) for n in range(depth))
        blocks = [part for conv in (first, *rest) for part in (conv, "relu")]
        found[f"{depth} layers of 3×3, the first of strides 2"] = Network(
            (side, side, 1), [*blocks, GlobalAvgPool(), Dense(10)]
        )
    return found


def clothes(train: int, test: int, side: int) -> tuple[np.ndarray, ...]:
    """Inputs (N, side²) of mean square one in float32, and labels: of training and of test images."""
    parts = [neft.data.load("fashion-mnist", split=split, full=False) for split in ("train", "test")]
    scale = np.sqrt((parts[0].x.astype(float) ** 2).mean())
    found = []
    for part, count in zip(parts, (train, test)):
        by = 28 // side
        x = part.x[:count].astype(float).reshape(-1, side, by, side, by).mean((2, 4)).reshape(-1, side * side)
        found += [(x / scale).astype(np.float32), part.y[:count]]
    return tuple(found)


class Kernels:
    """Kernels in a folder."""

    def __init__(self, folder: Path, side: int) -> None:
        self.folder, self.side = folder, side

    def __call__(self, name: str, net: Network, x1: np.ndarray, x2: np.ndarray | None = None):
        """K and Θ, and the CPU seconds they took now."""
        short = "".join(letter if letter.isalnum() else "_" for letter in name)
        other = "itself" if x2 is None else str(len(x2))
        path = self.folder / f"{short}-{self.side}-{len(x1)}-{other}.npy"
        started = time.process_time()
        if path.exists():
            return np.load(path, mmap_mode="r"), 0.0
        found = neft.width.kernel(net, x1, x2, dtype="float32", out=path)
        return np.stack(found), time.process_time() - started


def regression(kernel: np.ndarray, y: np.ndarray, ridge: float, new: np.ndarray) -> np.ndarray:
    """Labels at new inputs, from their kernel (M, N) with the training ones."""
    kernel = np.asarray(kernel, np.float64)
    lower = cho_factor(kernel + ridge * kernel.diagonal().mean() * np.eye(len(kernel)), lower=True)
    return (np.asarray(new, np.float64) @ cho_solve(lower, np.eye(10)[y] - 0.1)).argmax(1)


def validated(kernel: np.ndarray, y: np.ndarray, ridge: float) -> float:
    """The accuracy on each of the folds from the others."""
    right = 0
    for fold in range(FOLDS):
        held = np.arange(len(y)) % FOLDS == fold
        rest = kernel[np.ix_(~held, ~held)]
        right += (regression(rest, y[~held], ridge, kernel[np.ix_(held, ~held)]) == y[held]).sum()
    return right / len(y)


def choose(kernels: Kernels, offered: dict[str, Network], x: np.ndarray, y: np.ndarray) -> list[dict]:
    """What was tried, the best first."""
    found = []
    for name, net in offered.items():
        both, seconds = kernels(name, net, x)
        for which, kernel in zip(("K", "Theta"), both):
            for ridge in RIDGES:
                row = {"network": name, "kernel": which, "ridge": ridge, "validation": validated(kernel, y, ridge)}
                found.append(row | {"CPU seconds": round(seconds)})
        print(name, max(row["validation"] for row in found[-2 * len(RIDGES) :]), round(seconds), "CPU s", flush=True)
    return sorted(found, key=lambda row: -row["validation"])


def tested(kernels: Kernels, chosen: dict, net: Network, x, y, x_test, y_test) -> dict:
    """The accuracy at test images."""
    which = ("K", "Theta").index(chosen["kernel"])
    (own, first), (other, second) = (
        kernels(chosen["network"], net, x),
        kernels(chosen["network"], net, x_test, x),
    )
    found = regression(own[which], y, chosen["ridge"], other[which]) == y_test
    accuracy = float(found.mean())
    error = float(np.sqrt(accuracy * (1 - accuracy) / len(found)))
    return chosen | {
        "train": len(y),
        "test": len(y_test),
        "accuracy": accuracy,
        "error": error,
        "CPU seconds": round(first + second),
        "right": found.astype(int).tolist(),
    }


def main() -> None:
    """Read the command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("part", choices=("choose", "all", "small"))
    parser.add_argument("--train", type=int, default=6000)
    options = parser.parse_args()
    folder: Path = options.folder
    folder.mkdir(parents=True, exist_ok=True)
    run(folder, options.part, options.train)


def run(folder: Path, part: str, train: int = 6000) -> None:
    """One of the three parts; its numbers go to a file."""
    side = 14 if part == "small" else 28
    kinds, kernels = networks(side), Kernels(folder, side)
    found: dict[str, Any]
    if part == "choose":
        x, y, *_ = clothes(1000, 0, side)
        found = {kind: choose(kernels, offered, x, y) for kind, offered in kinds.items()}
    elif part == "all":
        best = {kind: rows[0] for kind, rows in json.loads((folder / "choose.json").read_text()).items()}
        data = clothes(train, 1000, side)
        found = {kind: tested(kernels, row, kinds[kind][row["network"]], *data) for kind, row in best.items()}
    else:
        data = clothes(400, 500, side)
        kinds["pool"] = pooled(side)
        found = {}
        for kind, offered in kinds.items():
            best = choose(kernels, offered, *data[:2])[0]
            found[kind] = tested(kernels, best, offered[best["network"]], *data)
    name = f"{part}-{train}" if part == "all" else part
    (folder / f"{name}.json").write_text(json.dumps(found, indent=1))
    for kind, rows in found.items():
        first = rows[0] if isinstance(rows, list) else rows
        print(kind, {key: value for key, value in first.items() if key != "right"}, flush=True)
    if part != "choose":
        for kind in [kind for kind in found if kind != "perceptron"]:
            one, two = (np.array(found[name]["right"]) for name in (kind, "perceptron"))
            apart, error = (one - two).mean(), (one - two).std() / np.sqrt(len(one))
            print(f"{kind} - perceptron: {apart:+.3f} ± {error:.3f}", flush=True)


if __name__ == "__main__":
    main()
