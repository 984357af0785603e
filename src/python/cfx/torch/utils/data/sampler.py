"""torch.utils.data.sampler: which samples."""
from . import (BatchSampler, RandomSampler, Sampler, SequentialSampler,  # noqa: F401
               SubsetRandomSampler, WeightedRandomSampler)
