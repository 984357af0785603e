"""torch.ao.nn: the layers that quantization makes."""
from . import intrinsic, qat, quantized

__all__ = ["intrinsic", "qat", "quantized"]
