"""Settings that PyTorch keeps under this name."""
from . import config  # noqa: F401
