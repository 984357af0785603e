"""torch.cuda: there is none."""


def is_available():
    return False


def is_initialized():
    return False


def device_count():
    return 0


def manual_seed(seed):
    """Nothing is drawn there."""


manual_seed_all = manual_seed


def synchronize(device=None):
    raise AssertionError("Torch not compiled with CUDA enabled")


def empty_cache():
    """There is nothing to give back."""


def _absent(*args, **kwargs):
    raise AssertionError("Torch not compiled with CUDA enabled")


current_device = current_stream = get_device_name = get_device_properties = set_device = _absent


def memory_allocated(device=None):
    return 0


max_memory_allocated = memory_reserved = max_memory_reserved = memory_allocated
