"""torch.nn.functional: functions of the registry by their names there."""
import sys

from cfx import _cfx
from cfx._functions import function as _function


def __getattr__(name):
    if name.startswith("__"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    for path in (f"torch.nn.functional.{name}", f"torch.{name}"):
        try:
            value = _function(path, __name__)
        except AttributeError:
            continue
        setattr(sys.modules[__name__], name, value)
        return value
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__():
    start = "torch.nn.functional."
    return sorted({*globals(), *(s[len(start):] for s in _cfx.spellings() if s.startswith(start))})
