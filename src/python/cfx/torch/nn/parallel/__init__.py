"""torch.nn.parallel: on one CPU a model runs as it is."""
from ..modules import Module

__all__ = ["DataParallel"]


class DataParallel(Module):
    """A model, and nothing to spread it over."""

    def __init__(self, module, device_ids=None, output_device=None, dim=0):
        super().__init__()
        self.module = module
        self.device_ids, self.output_device, self.dim = [], output_device, dim

    def forward(self, *inputs, **kwargs):
        return self.module(*inputs, **kwargs)
