"""torch.cuda: the cards that there are."""
import contextlib
import random
import time
import types

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
    """What is kept for the next tensors and operators is given back."""
    _cfx.cuda_empty_cache()


# ---- random numbers ------------------------------------------------------------------------------


def manual_seed(seed):
    """Seeds the card's generator alone; torch.manual_seed seeds cards too."""
    _cfx.cuda_manual_seed(0, int(seed))


def manual_seed_all(seed):
    for n in range(device_count()):
        _cfx.cuda_manual_seed(n, int(seed))


def seed():
    manual_seed(random.getrandbits(63))


def seed_all():
    manual_seed_all(random.getrandbits(63))


def get_rng_state(device="cuda"):
    """16 bytes: the seed and how many numbers were drawn."""
    return _cfx.cuda_get_rng_state(_number(device))


def get_rng_state_all():
    return [get_rng_state(n) for n in range(device_count())]


def set_rng_state(new_state, device="cuda"):
    _cfx.cuda_set_rng_state(_number(device), new_state)


def set_rng_state_all(new_states):
    for n, state in enumerate(new_states):
        set_rng_state(state, n)


def initial_seed():
    return int.from_bytes(bytes(get_rng_state().tolist()[:8]), "little")


# ---- what a card is ------------------------------------------------------------------------------


def get_device_properties(device=None):
    n = _number(device)
    major, minor = get_device_capability(n)
    return types.SimpleNamespace(name=get_device_name(n), major=major, minor=minor)


def is_bf16_supported(including_emulation=True):
    return is_available() and (including_emulation or get_device_capability()[0] >= 8)


# ---- streams and events --------------------------------------------------------------------------


class Stream:
    """The order in which a card works. There is one for each card, and operators wait for it, so
    that whatever was called before is done."""

    def __init__(self, device=None, priority=0, **kwargs):
        self.device = _cfx.device("cuda", _number(device))
        self.priority = priority

    def synchronize(self):
        pass

    def query(self):
        return True

    def wait_event(self, event):
        pass

    def wait_stream(self, stream):
        pass

    def record_event(self, event=None):
        event = Event() if event is None else event
        event.record(self)
        return event

    def __eq__(self, other):
        return isinstance(other, Stream) and self.device == other.device

    def __hash__(self):
        return hash(self.device)


def current_stream(device=None):
    return Stream(device)


default_stream = current_stream


@contextlib.contextmanager
def stream(stream):
    """All work goes to the one stream of a card, whichever is named."""
    yield stream


class Event:
    """A point in time, by the host's clock: whatever was called before it is done then."""

    def __init__(self, enable_timing=False, blocking=False, interprocess=False):
        _lazy_init()
        self._timed, self._at = enable_timing, None

    def record(self, stream=None):
        self._at = time.perf_counter()

    def synchronize(self):
        pass

    def wait(self, stream=None):
        pass

    def query(self):
        return True

    def elapsed_time(self, end_event):
        if not (self._timed and end_event._timed):
            raise ValueError("Both events must be created with argument 'enable_timing=True'.")
        if self._at is None or end_event._at is None:
            raise ValueError("Both events must be recorded before calculating elapsed time.")
        return 1e3 * (end_event._at - self._at)


# ---- memory --------------------------------------------------------------------------------------


def memory_allocated(device=None):
    """Bytes that are held on a card: by tensors, by plans, and for the next of both."""
    return _cfx.cuda_held(_number(device)) if is_available() else 0


memory_reserved = memory_allocated


def max_memory_allocated(device=None):
    """The most of them at once, since the process began or reset_peak_memory_stats."""
    return _cfx.cuda_most_held(_number(device)) if is_available() else 0


def reset_peak_memory_stats(device=None):
    _cfx.cuda_count_most_anew(_number(device))


reset_max_memory_allocated = reset_peak_memory_stats


max_memory_reserved = max_memory_allocated
