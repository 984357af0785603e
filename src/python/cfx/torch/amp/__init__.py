"""torch.amp: regions in which some operators compute in a lower precision."""
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
            with self:
                return f(*args, **kwargs)

        return inner
