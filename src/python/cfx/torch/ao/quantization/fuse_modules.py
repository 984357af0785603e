"""Fusing modules of a model that is not traced, by their names."""
import copy

from ...nn import Identity, Module
from . import eager

__all__ = ["fuse_known_modules", "fuse_modules", "fuse_modules_qat"]


def fuse_known_modules(mod_list, is_qat, additional_fuser_method_mapping=None):
    """The modules that stand for those in a list: the first is all of them, the others do
    nothing."""
    types = tuple(type(m) for m in mod_list)
    method = (additional_fuser_method_mapping or {}).get(types)
    if method is not None:
        fused = method(is_qat, *mod_list)
    else:
        if any(m.training != mod_list[0].training for m in mod_list):
            raise AssertionError("Conv and BN both must be in the same mode (train or eval).")
        fused = eager.fuse(mod_list, is_qat and mod_list[0].training)
    if fused is None:
        raise AssertionError(f"did not find fuser method for: {types} ")
    for hook in mod_list[0]._forward_pre_hooks.values():
        fused.register_forward_pre_hook(hook)
    mod_list[0]._forward_pre_hooks.clear()
    for hook in mod_list[-1]._forward_hooks.values():
        fused.register_forward_hook(hook)
    mod_list[-1]._forward_hooks.clear()
    return [fused, *(_nothing(mod_list[0].training) for _ in mod_list[1:])]


def _nothing(training):
    return Identity().train(training)


def _fuse(model, names, is_qat, fuser, custom):
    modules = [model.get_submodule(name) for name in names]
    mapping = (custom or {}).get("additional_fuser_method_mapping", {})
    for name, new in zip(names, fuser(modules, is_qat, mapping)):
        parent, _, last = name.rpartition(".")
        setattr(model.get_submodule(parent), last, new)


def _fuse_modules(model, modules_to_fuse, is_qat, inplace, fuser_func, custom):
    if not isinstance(model, Module):
        raise TypeError(f"expected a torch.nn.Module, got {type(model).__name__}")
    if not inplace:
        model = copy.deepcopy(model)
    if all(isinstance(name, str) for name in modules_to_fuse):
        modules_to_fuse = [modules_to_fuse]
    for names in modules_to_fuse:
        _fuse(model, names, is_qat, fuser_func, custom)
    return model


def fuse_modules(model, modules_to_fuse, inplace=False, fuser_func=fuse_known_modules,
                 fuse_custom_config_dict=None):
    """The model with the modules of each list of names as one, at the place of the first."""
    return _fuse_modules(model, modules_to_fuse, False, inplace, fuser_func,
                         fuse_custom_config_dict)


def fuse_modules_qat(model, modules_to_fuse, inplace=False, fuser_func=fuse_known_modules,
                     fuse_custom_config_dict=None):
    """The same for training: normalisations stay, inside the fused module."""
    return _fuse_modules(model, modules_to_fuse, True, inplace, fuser_func,
                         fuse_custom_config_dict)
