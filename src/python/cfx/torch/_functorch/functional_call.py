"""functional_call, under the name of the module that has it in PyTorch."""
from ..func import functional_call
from .transforms import stack_module_state

__all__ = ["functional_call", "stack_module_state"]
