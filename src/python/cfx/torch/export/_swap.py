"""Other modules in the place of those that a program was exported from."""
from ..nn.modules.module import Module
from ._modules import swapped
from .exported_program import ExportedProgram

__all__ = ["_swap_modules"]


def _swap_modules(ep, modules_to_swap):
    """A GraphModule like ep.module() that calls modules_to_swap, a dict of paths and modules, where
    those at these paths were. Their signatures have to be preserved by
    export(..., preserve_module_call_signature=(path, ...))."""
    if not isinstance(ep, ExportedProgram):
        raise TypeError(f"_swap_modules takes an ExportedProgram, got {type(ep).__name__}")
    for path, module in modules_to_swap.items():
        if not isinstance(module, Module):
            raise TypeError(f"the module for {path!r} is no torch.nn.Module but a "
                            f"{type(module).__name__}")
    return swapped(ep._program, modules_to_swap)
