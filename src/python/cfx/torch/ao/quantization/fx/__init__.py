"""torch.ao.quantization.fx: what the steps on traced models are told beside a mapping."""
from . import custom_config

__all__ = ["custom_config"]
