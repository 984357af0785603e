"""torch.amp.autocast_mode: the context, and what it is in a graph."""
import functools

from cfx import _cfx

from .. import _basics


class autocast:
    """A context, and a decorator: products and convolutions inside compute in `dtype`."""

    def __init__(self, device_type, dtype=None, enabled=True, cache_enabled=None):
        self.device, self.fast_dtype, self._enabled = device_type, dtype, enabled

    def __enter__(self):
        _cfx.autocast_begin(self.device, self.fast_dtype, self._enabled)
        _basics.autocast_regions.append((self.device, self._enabled))
        return self

    def __exit__(self, *error):
        _basics.autocast_regions.pop()
        _cfx.autocast_end()

    def __call__(self, f):
        @functools.wraps(f)
        def inner(*args, **kwargs):
            with autocast(self.device, self.fast_dtype, self._enabled):
                return f(*args, **kwargs)

        return inner


def _enter_autocast(*vals):
    """Begins a region; what _exit_autocast is given."""
    if _cfx.is_overridden(*vals):
        return _cfx.override(_enter_autocast, vals, {})
    return autocast(*vals).__enter__()


def _exit_autocast(mode):
    if _cfx.is_overridden(mode):
        return _cfx.override(_exit_autocast, (mode,), {})
    mode.__exit__()


def is_autocast_available(device_type):
    return device_type == "cpu"
