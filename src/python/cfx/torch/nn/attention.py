"""torch.nn.attention: which kernel computes attention. cfx chooses it by the shapes; asking for one
changes no number beyond rounding."""
import contextlib
import enum


class SDPBackend(enum.IntEnum):
    ERROR = -1
    MATH = 0
    FLASH_ATTENTION = 1
    EFFICIENT_ATTENTION = 2
    CUDNN_ATTENTION = 3
    OVERRIDEABLE = 4


@contextlib.contextmanager
def sdpa_kernel(backends, set_priority=False):
    """A context in which attention is computed as cfx always does."""
    for b in [backends] if isinstance(backends, SDPBackend) else backends:
        if not isinstance(b, SDPBackend):
            raise AssertionError(f"Backend must be an instance of SDPBackend or a list of "
                                 f"SDPBackend instances, got {type(b)}")
    yield
