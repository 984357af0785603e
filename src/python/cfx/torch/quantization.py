"""torch.quantization: the older name of torch.ao.quantization."""
from .ao.quantization import *  # noqa: F401,F403
from .ao.quantization import quantize_fx  # noqa: F401
