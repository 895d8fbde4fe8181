"""Data: a bundled subset of Fashion-MNIST, full sets where they are found, a user's own arrays, and preprocessing."""

from ._dataset import Dataset as Dataset
from ._load import load as load
from ._load import load_splits as load_splits
from ._named import available as available
