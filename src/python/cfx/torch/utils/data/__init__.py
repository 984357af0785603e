"""torch.utils.data: samples, and batches of them. Everything is loaded in the thread that asks."""
import bisect
import itertools

from cfx._tensor import Tensor

from .._pytree import tree_map
from ... import _basics

__all__ = ["Dataset", "IterableDataset", "TensorDataset", "Subset", "ConcatDataset",
           "random_split", "Sampler", "SequentialSampler", "RandomSampler", "BatchSampler",
           "DataLoader", "default_collate", "default_convert", "ChainDataset", "StackDataset",
           "SubsetRandomSampler", "WeightedRandomSampler", "get_worker_info"]


class Dataset:
    """Samples by their number."""

    def __getitem__(self, index):
        raise NotImplementedError("Subclasses of Dataset should implement __getitem__.")

    def __add__(self, other):
        return ConcatDataset([self, other])

    def __class_getitem__(cls, item):
        return cls


class IterableDataset(Dataset):
    """Samples one after the other."""

    def __iter__(self):
        raise NotImplementedError


class TensorDataset(Dataset):
    """The rows of tensors."""

    def __init__(self, *tensors):
        if any(t.size(0) != tensors[0].size(0) for t in tensors):
            raise AssertionError("Size mismatch between tensors")
        self.tensors = tensors

    def __getitem__(self, index):
        return tuple(t[index] for t in self.tensors)

    def __len__(self):
        return self.tensors[0].size(0)


class Subset(Dataset):
    """Some samples of another dataset."""

    def __init__(self, dataset, indices):
        self.dataset, self.indices = dataset, indices

    def __getitem__(self, index):
        return self.dataset[self.indices[index]]

    def __len__(self):
        return len(self.indices)


class ConcatDataset(Dataset):
    """Datasets one behind the other."""

    def __init__(self, datasets):
        self.datasets = list(datasets)
        if not self.datasets:
            raise AssertionError("datasets should not be an empty iterable")
        self.cumulative_sizes = list(itertools.accumulate(map(len, self.datasets)))

    def __len__(self):
        return self.cumulative_sizes[-1]

    def __getitem__(self, index):
        if index < 0:
            if -index > len(self):
                raise ValueError("absolute value of index should not exceed dataset length")
            index += len(self)
        i = bisect.bisect_right(self.cumulative_sizes, index)
        return self.datasets[i][index - (self.cumulative_sizes[i - 1] if i else 0)]


class ChainDataset(IterableDataset):
    """Streams one behind the other."""

    def __init__(self, datasets):
        super().__init__()
        self.datasets = datasets

    def __iter__(self):
        return itertools.chain.from_iterable(self.datasets)

    def __len__(self):
        return sum(map(len, self.datasets))


class StackDataset(Dataset):
    """Samples of several datasets side by side, as tuples, or as dicts by name."""

    def __init__(self, *args, **kwargs):
        if bool(args) == bool(kwargs):
            raise ValueError("At least one dataset should be passed" if not args else
                             "Supported either ``tuple``- (via ``args``) or ``dict``- (via "
                             "``kwargs``) like input/output, but both types are given.")
        self.datasets = args or kwargs
        self._length = len(args[0] if args else next(iter(kwargs.values())))
        if any(len(d) != self._length for d in (args or kwargs.values())):
            raise ValueError("Size mismatch between datasets")

    def __getitem__(self, index):
        if isinstance(self.datasets, dict):
            return {k: d[index] for k, d in self.datasets.items()}
        return tuple(d[index] for d in self.datasets)

    def __len__(self):
        return self._length


def random_split(dataset, lengths, generator=None):
    """Parts of so many samples, or of such shares, drawn at random."""
    if all(isinstance(n, float) for n in lengths) and sum(lengths) <= 1 + 1e-9:
        sizes = [int(len(dataset) * share) for share in lengths]
        for i in range(len(dataset) - sum(sizes)):
            sizes[i % len(sizes)] += 1
        lengths = sizes
    if sum(lengths) != len(dataset):
        raise ValueError("Sum of input lengths does not equal the length of the input dataset!")
    order = _permutation(len(dataset), generator)
    ends = list(itertools.accumulate(lengths))
    return [Subset(dataset, order[end - n:end]) for end, n in zip(ends, lengths)]


def _permutation(n, generator):
    from ... import randperm

    with _basics.drawing_from(generator):
        return randperm(n).tolist()


# ---- which samples -------------------------------------------------------------------------------


class Sampler:
    """Numbers of samples."""

    def __init__(self, data_source=None):
        pass

    def __iter__(self):
        raise NotImplementedError

    def __class_getitem__(cls, item):
        return cls


class SequentialSampler(Sampler):
    def __init__(self, data_source):
        self.data_source = data_source

    def __iter__(self):
        return iter(range(len(self.data_source)))

    def __len__(self):
        return len(self.data_source)


class RandomSampler(Sampler):
    """All samples in an order drawn at random."""

    def __init__(self, data_source, replacement=False, num_samples=None, generator=None):
        self.data_source, self.replacement, self.generator = data_source, replacement, generator
        self._num_samples = num_samples

    @property
    def num_samples(self):
        return len(self.data_source) if self._num_samples is None else self._num_samples

    def __iter__(self):
        from ... import randint

        n, count = len(self.data_source), self.num_samples
        generator = self.generator or _basics.Generator().manual_seed(_base_seed())
        if self.replacement:
            with _basics.drawing_from(generator):
                numbers = randint(0, n, (count,)).tolist()
            yield from numbers
            return
        for _ in range(count // n):
            yield from _permutation(n, generator)
        # PyTorch draws for what is left, if that is nothing too: the next epoch depends on it.
        yield from _permutation(n, generator)[:count % n]

    def __len__(self):
        return self.num_samples


class SubsetRandomSampler(Sampler):
    """Some samples, in an order drawn at random."""

    def __init__(self, indices, generator=None):
        self.indices, self.generator = indices, generator

    def __iter__(self):
        return (self.indices[i] for i in _permutation(len(self.indices), self.generator))

    def __len__(self):
        return len(self.indices)


class WeightedRandomSampler(Sampler):
    """Samples drawn by their weights."""

    def __init__(self, weights, num_samples, replacement=True, generator=None):
        from ... import as_tensor, float64

        if not isinstance(num_samples, int) or isinstance(num_samples, bool) or num_samples <= 0:
            raise ValueError("num_samples should be a positive integer value, but got "
                             f"num_samples={num_samples}")
        self.weights = as_tensor(weights, dtype=float64)
        self.num_samples, self.replacement, self.generator = num_samples, replacement, generator

    def __iter__(self):
        from ... import multinomial

        with _basics.drawing_from(self.generator):
            return iter(multinomial(self.weights, self.num_samples, self.replacement).tolist())

    def __len__(self):
        return self.num_samples


def get_worker_info():
    """None: there are no workers."""
    return None


def _base_seed():
    from ... import empty, int64

    return empty((), dtype=int64).random_().item()


class BatchSampler(Sampler):
    """The numbers of another sampler, batch_size at a time."""

    def __init__(self, sampler, batch_size, drop_last):
        if not isinstance(batch_size, int) or isinstance(batch_size, bool) or batch_size <= 0:
            raise ValueError("batch_size should be a positive integer value, but got "
                             f"batch_size={batch_size}")
        self.sampler, self.batch_size, self.drop_last = sampler, batch_size, drop_last

    def __iter__(self):
        numbers = iter(self.sampler)
        while batch := list(itertools.islice(numbers, self.batch_size)):
            if len(batch) == self.batch_size or not self.drop_last:
                yield batch

    def __len__(self):
        n = len(self.sampler)
        return n // self.batch_size if self.drop_last else -(-n // self.batch_size)


# ---- batches -------------------------------------------------------------------------------------


def default_collate(batch):
    """Samples as one batch: tensors stacked, numbers as a tensor, containers item by item."""
    from ... import float64, stack, tensor

    first = batch[0]
    if isinstance(first, Tensor):
        return stack(list(batch))
    if isinstance(first, float):
        return tensor(batch, dtype=float64)
    if isinstance(first, int):
        return tensor(batch)
    if isinstance(first, (str, bytes)):
        return list(batch)
    if isinstance(first, dict):
        return {key: default_collate([sample[key] for sample in batch]) for key in first}
    if isinstance(first, tuple) and hasattr(first, "_fields"):
        return type(first)(*(default_collate(s) for s in zip(*batch)))
    if isinstance(first, (tuple, list)):
        if any(len(sample) != len(first) for sample in batch):
            raise RuntimeError("each element in list of batch should be of equal size")
        return [default_collate(s) for s in zip(*batch)]
    if hasattr(first, "__array_interface__"):
        from ... import as_tensor

        return default_collate([as_tensor(sample) for sample in batch])
    raise TypeError("default_collate: batch must contain tensors, numpy arrays, numbers, dicts or "
                    f"lists; found {type(first)}")


class DataLoader:
    """Batches of a dataset. num_workers, pin_memory and the like ask for nothing here."""

    def __init__(self, dataset, batch_size=1, shuffle=None, sampler=None, batch_sampler=None,
                 num_workers=0, collate_fn=None, pin_memory=False, drop_last=False, timeout=0,
                 worker_init_fn=None, multiprocessing_context=None, generator=None, **kwargs):
        if sampler is not None and shuffle:
            raise ValueError("sampler option is mutually exclusive with shuffle")
        self.dataset, self.batch_size, self.drop_last = dataset, batch_size, drop_last
        self.generator, self.num_workers = generator, num_workers
        self.pin_memory, self.timeout, self.worker_init_fn = pin_memory, timeout, worker_init_fn
        self.multiprocessing_context = multiprocessing_context
        self.prefetch_factor = kwargs.get("prefetch_factor", 2 if num_workers else None)
        self.persistent_workers = kwargs.get("persistent_workers", False)
        self._streams = isinstance(dataset, IterableDataset)
        if sampler is None and not self._streams:
            sampler = RandomSampler(dataset, generator=generator) if shuffle \
                else SequentialSampler(dataset)
        if batch_sampler is None and batch_size is not None and not self._streams:
            batch_sampler = BatchSampler(sampler, batch_size, drop_last)
        self.sampler, self.batch_sampler = sampler, batch_sampler
        batched = batch_sampler is not None or self._streams and batch_size is not None
        self.collate_fn = collate_fn or (default_collate if batched else default_convert)

    def __iter__(self):
        with _basics.drawing_from(self.generator):
            _base_seed()  # PyTorch's own loader draws one for its workers
        return self._batches()

    def _batches(self):
        if self._streams:
            samples = iter(self.dataset)
            if self.batch_size is None:
                yield from map(self.collate_fn, samples)
            while self.batch_size and (b := list(itertools.islice(samples, self.batch_size))):
                if len(b) == self.batch_size or not self.drop_last:
                    yield self.collate_fn(b)
        elif self.batch_sampler is None:
            for i in self.sampler:
                yield self.collate_fn(self.dataset[i])
        else:
            for numbers in self.batch_sampler:
                yield self.collate_fn([self.dataset[i] for i in numbers])

    def __len__(self):
        if self._streams:
            raise TypeError("a DataLoader of an IterableDataset has no length")
        return len(self.sampler if self.batch_sampler is None else self.batch_sampler)


def default_convert(sample):
    """A sample with tensors for arrays."""
    from ... import as_tensor

    return tree_map(lambda x: as_tensor(x) if hasattr(x, "__array_interface__") else x, sample)
