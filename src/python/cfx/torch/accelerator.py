"""torch.accelerator: the card, where there is one, without a word of what it is."""
from cfx import _cfx

from . import cuda


def device_count():
    return _cfx.cuda_count()


def is_available():
    return cuda.is_available()


def current_accelerator(check_available=False):
    """The device of the accelerators that there are; None where there are none."""
    return _cfx.device("cuda") if is_available() else None


def current_device_index():
    return cuda.current_device()


current_device_idx = current_device_index


def set_device_index(device):
    cuda.set_device(device)


set_device_idx = set_device_index


def synchronize(device=None):
    cuda.synchronize(device)
