"""The errors that Python has no class for."""
from . import _cfx


class LimitError(RuntimeError):
    """More time, memory or nodes were asked for than a limit allows."""


class FileError(OSError):
    """A file that cannot be read or written as what it should be."""


_cfx.adopt("LimitError", LimitError)
_cfx.adopt("FileError", FileError)
