"""The errors that Python has no class for."""
from . import _cfx


class LimitError(RuntimeError):
    """More time, memory or nodes were asked for than a limit allows."""


class FileError(OSError):
    """A file that cannot be read or written as what it should be."""


class _LinAlgError(RuntimeError):
    """A matrix that cannot be inverted or factored; torch.linalg.LinAlgError."""

    __module__ = "torch._C"


_cfx.adopt("_LinAlgError", _LinAlgError)
_cfx.adopt("LimitError", LimitError)
_cfx.adopt("FileError", FileError)
