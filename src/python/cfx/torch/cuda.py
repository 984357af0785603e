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
