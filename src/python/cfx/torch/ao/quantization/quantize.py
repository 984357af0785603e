"""Quantization of models as they are, module by module: prepare, run it on data, convert."""
import copy
import itertools
import warnings

import cfx

from ... import nn
from ..nn.classes import FusedModule
from ..nn.quantized import FloatFunctional, QFunctional
from . import quantization_mappings as _mappings
from .observer import is_activation_post_process
from .qconfig import QConfig, default_dynamic_qconfig, float16_dynamic_qconfig, \
    float_qparams_weight_only_qconfig
from .stubs import DeQuantStub, QuantWrapper

__all__ = ["add_quant_dequant", "convert", "default_eval_fn", "get_default_custom_config_dict",
           "get_observer_state_dict", "load_observer_state_dict", "prepare", "prepare_qat",
           "propagate_qconfig_", "quantize", "quantize_dynamic", "quantize_qat", "swap_module"]

_WATCHED = "activation_post_process"


def get_default_custom_config_dict():
    return {"float_to_observed_custom_module_class": {},
            "observed_to_quantized_custom_module_class": {}}


def default_eval_fn(model, calib_data):
    """Runs the model on data."""
    for data, _ in calib_data:
        model(data)


# ---- qconfigs ------------------------------------------------------------------------------------

def propagate_qconfig_(module, qconfig_dict=None, prepare_custom_config_dict=None):
    """Every module gets the qconfig of its name, of its type, or of the module that it is in."""
    _propagate(module, qconfig_dict or {}, None, "")


def _propagate(module, said, outer, prefix):
    qconfig = said.get(prefix, said.get(type(module), outer))
    qconfig = getattr(module, "qconfig", qconfig)
    if qconfig is not None and not isinstance(qconfig, QConfig):
        raise TypeError(f"the qconfig of {prefix or 'the model'} must be a QConfig or None, not "
                        f"{type(qconfig).__name__}")
    module.qconfig = qconfig
    for name, child in module.named_children():
        _propagate(child, said, qconfig, f"{prefix}.{name}" if prefix else name)


def _observes(module):
    return getattr(module, "qconfig", None) is not None


# ---- observing -----------------------------------------------------------------------------------

def _observer_forward_hook(self, input, output):
    return self.activation_post_process(output)


def _observer_forward_pre_hook(self, input):
    return self.activation_post_process(input[0])


_HOOKS = (_observer_forward_hook, _observer_forward_pre_hook)


def _watch(module, special=None):
    if not _observes(module) or isinstance(module, DeQuantStub):
        return
    module.add_module(_WATCHED, special() if special else module.qconfig.activation())
    if getattr(module.activation_post_process, "is_dynamic", False):  # looks at the input
        module.register_forward_pre_hook(_observer_forward_pre_hook, prepend=True)
    else:
        module.register_forward_hook(_observer_forward_hook, prepend=True)


def _add_observers(module, kinds, whole, custom):
    for child in list(module.children()):
        if type(child) is nn.Dropout:
            continue
        special = _mappings.DEFAULT_MODULE_TO_ACT_POST_PROCESS.get(type(child)) \
            if child.training else None
        if isinstance(child, (FloatFunctional, QFunctional)):
            if _observes(child):
                child.activation_post_process = child.qconfig.activation()
        elif isinstance(child, FusedModule) or type(child) in whole:
            _watch(child)
        elif special is not None:
            _watch(child, special)
        elif _observes(child) and type(child) in custom:
            name = next(n for n, m in module.named_children() if m is child)
            observed = custom[type(child)].from_float(child)
            setattr(module, name, observed)
            _watch(observed)
        else:
            _add_observers(child, kinds, whole, custom)
    if not module._modules and not isinstance(module, nn.Sequential) and type(module) in kinds:
        _watch(module)


def prepare(model, inplace=False, allow_list=None, observer_non_leaf_module_list=None,
            prepare_custom_config_dict=None):
    """The model with an observer behind every module that has a qconfig: run it on data."""
    config = prepare_custom_config_dict or get_default_custom_config_dict()
    if not inplace:
        model = copy.deepcopy(model)
    kinds = allow_list
    if kinds is None:
        kinds = _mappings.get_default_qconfig_propagation_list()
    propagate_qconfig_(model)
    if not any(_observes(m) for m in model.modules()):
        warnings.warn("None of the submodule got qconfig applied. Make sure you passed correct "
                      "configuration through `qconfig_dict` or by assigning the `.qconfig` "
                      "attribute directly on submodules", stacklevel=2)
    _add_observers(model, kinds, observer_non_leaf_module_list or (),
                   config.get("float_to_observed_custom_module_class", {}))
    return model


def add_quant_dequant(module):
    """Leaves with a qconfig stand between a QuantStub and a DeQuantStub."""
    if not module._modules and getattr(module, "qconfig", None):
        return QuantWrapper(module)
    for name, child in module.named_children():
        module._modules[name] = add_quant_dequant(child)
    return module


# ---- swapping ------------------------------------------------------------------------------------

def swap_module(mod, mapping, custom_module_class_mapping=None, use_precomputed_fake_quant=False):
    """What stands for a module with a qconfig; the module itself where nothing does."""
    if not _observes(mod):
        return mod
    custom = (custom_module_class_mapping or {}).get(type(mod))
    if custom is not None:
        new = custom.from_observed(mod)
    elif type(mod) in mapping:
        new = mapping[type(mod)].from_float(mod)
    else:
        return mod
    for hook in mod._forward_pre_hooks.values():
        if hook not in _HOOKS:
            new.register_forward_pre_hook(hook)
    for hook in mod._forward_hooks.values():
        if hook not in _HOOKS:
            new.register_forward_hook(hook)
    return new


def _swap_all(module, mapping, custom):
    for name, child in list(module.named_children()):
        if not isinstance(child, FusedModule) and type(child) not in custom:
            _swap_all(child, mapping, custom)
        module._modules[name] = swap_module(child, mapping, custom)


def _forget(module):
    for child in module.children():
        _forget(child)
    module.__dict__.pop("qconfig", None)
    if is_activation_post_process(module._modules.get(_WATCHED)):
        del module._modules[_WATCHED]
    for hooks in (module._forward_hooks, module._forward_pre_hooks):
        for key in [k for k, hook in hooks.items() if hook in _HOOKS]:
            del hooks[key]


def convert(module, mapping=None, inplace=False, remove_qconfig=True, is_reference=False,
            convert_custom_config_dict=None, use_precomputed_fake_quant=False):
    """Quantized modules in the place of those that were observed."""
    if is_reference:
        raise NotImplementedError("reference modules are made of traced models: "
                                  "quantize_fx.convert_to_reference_fx")
    config = convert_custom_config_dict or get_default_custom_config_dict()
    if not inplace:
        module = copy.deepcopy(module)
    if mapping is None:
        mapping = _mappings.get_default_static_quant_module_mappings()
    _swap_all(module, mapping, config.get("observed_to_quantized_custom_module_class", {}))
    if remove_qconfig:
        _forget(module)
    return module


# ---- all at once ---------------------------------------------------------------------------------

def quantize(model, run_fn, run_args, mapping=None, inplace=False):
    """prepare, run_fn(model, *run_args), convert."""
    if not inplace:
        model = copy.deepcopy(model)
    model.eval()
    prepare(model, inplace=True)
    run_fn(model, *run_args)
    return convert(model, mapping, inplace=True)


_DYNAMIC = (nn.Linear, nn.LSTM, nn.GRU, nn.LSTMCell, nn.RNNCell, nn.GRUCell)
_TABLES = (nn.EmbeddingBag, nn.Embedding)
_BY_DTYPE = {cfx.qint8: (default_dynamic_qconfig, _DYNAMIC),
             cfx.float16: (float16_dynamic_qconfig, _DYNAMIC),
             cfx.quint8: (float_qparams_weight_only_qconfig, _TABLES)}


def _spec(given, dtype):
    """What is said, as a dict of types and names to qconfigs."""
    if isinstance(given, dict):
        return given
    if given is not None and not isinstance(given, set):
        raise TypeError("qconfig_spec must be a dict of types or names to qconfigs, or a set of "
                        f"them, not {type(given).__name__}")
    if dtype not in _BY_DTYPE:
        if given is None:
            raise ValueError(f"Don't know how to quantize with default settings for {dtype}. "
                             "Provide full qconfig please")
        raise RuntimeError("Unknown dtype specified for quantize_dynamic: ", str(dtype))
    qconfig, kinds = _BY_DTYPE[dtype]
    return dict(zip(kinds if given is None else given, itertools.repeat(qconfig)))


def quantize_dynamic(model, qconfig_spec=None, dtype=cfx.qint8, mapping=None, inplace=False):
    """Small weights, and inputs that are rounded by the range that they have in each call."""
    spec = _spec(qconfig_spec, dtype)
    if not inplace:
        model = copy.deepcopy(model)
    model.eval()
    propagate_qconfig_(model, spec)
    if mapping is None:
        mapping = _mappings.get_default_dynamic_quant_module_mappings()
    return convert(model, mapping, inplace=True)


def prepare_qat(model, mapping=None, inplace=False):
    """The model with modules that round: train it."""
    if not model.training:
        raise AssertionError("prepare_qat only works on models in training mode")
    if mapping is None:
        mapping = _mappings.get_default_qat_module_mappings()
    if not inplace:
        model = copy.deepcopy(model)
    propagate_qconfig_(model)
    convert(model, mapping, inplace=True, remove_qconfig=False)
    return prepare(model, inplace=True, observer_non_leaf_module_list=set(mapping.values()))


def quantize_qat(model, run_fn, run_args, inplace=False):
    """prepare_qat, run_fn(model, *run_args), convert."""
    if not inplace:
        model = copy.deepcopy(model)
    model.train()
    prepare_qat(model, inplace=True)
    run_fn(model, *run_args)
    return convert(model, inplace=True)


# ---- what observers have seen --------------------------------------------------------------------

def get_observer_state_dict(mod):
    """The part of the state dict that observers have."""
    return type(mod.state_dict())((k, v) for k, v in mod.state_dict().items() if _WATCHED in k)


def load_observer_state_dict(mod, obs_dict):
    """Gives it to the observers of a model that was prepared alike."""
    missing, unexpected = mod.load_state_dict(
        {k: v for k, v in obs_dict.items() if _WATCHED in k}, strict=False)
    missing = [k for k in missing if _WATCHED in k]
    if missing or unexpected:
        raise AssertionError(f"the observers of the model lack {missing}, and have no place for "
                             f"{list(unexpected)}")
