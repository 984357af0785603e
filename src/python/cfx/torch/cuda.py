"""torch.cuda: the cards that there are."""
import contextlib

from cfx import _cfx


def is_available():
    return _cfx.cuda_count() > 0


def is_initialized():
    return is_available()


def device_count():
    return _cfx.cuda_count()


def _lazy_init():
    if not is_available():
        raise AssertionError("Torch not compiled with CUDA enabled")


init = _lazy_init


def _number(device=None):
    """The number of a card that is named somehow; the first one where it is not."""
    _lazy_init()
    if device is None:
        return 0
    n = device if isinstance(device, int) else _cfx.device(device).index or 0
    if not 0 <= n < device_count():
        raise AssertionError("Invalid device id")
    return n


def current_device():
    return _number()


def set_device(device):
    """There is one card for everything that names none."""
    if _number(device) != 0:
        raise NotImplementedError("tensors that name no card are on cuda:0")


def get_device_name(device=None):
    return _cfx.cuda_name(_number(device)).rpartition(",")[0]


def get_device_capability(device=None):
    major, _, minor = _cfx.cuda_name(_number(device)).rpartition(",")[2].strip().partition(".")
    return int(major), int(minor)


def synchronize(device=None):
    """Operators wait for their kernels themselves."""
    _number(device)


@contextlib.contextmanager
def device(device):
    set_device(device)
    yield


def empty_cache():
    """Nothing is kept that an operator in need would not give back itself."""


def manual_seed(seed):
    """torch.manual_seed seeds cards too."""


manual_seed_all = manual_seed


def _absent(*args, **kwargs):
    _lazy_init()
    raise NotImplementedError("cfx has one stream for each card, and no handle of it")


current_stream = get_device_properties = Stream = Event = _absent


def memory_allocated(device=None):
    return 0


max_memory_allocated = memory_reserved = max_memory_reserved = memory_allocated
