"""torch.utils.data.dataset: samples."""
from . import (ChainDataset, ConcatDataset, Dataset, IterableDataset, StackDataset,  # noqa: F401
               Subset, TensorDataset, random_split)
