"""A function as a module, for exports."""
from ..nn.modules.module import Module


class _WrapperModule(Module):
    """Calls a function."""

    def __init__(self, f):
        super().__init__()
        self.f = f

    def forward(self, *args, **kwargs):
        return self.f(*args, **kwargs)
