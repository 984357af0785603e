"""torch.ao: quantization."""
import importlib


def __getattr__(name):
    if name in ("nn", "quantization"):
        return importlib.import_module(f"{__name__}.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
