"""Which class a module is swapped for."""
from ... import nn
from ..nn import classes
from ..nn.quantized import DeQuantize, FloatFunctional, QFunctional, Quantize
from . import fake_quantize as _fake
from .stubs import DeQuantStub, QuantStub

__all__ = ["DEFAULT_DYNAMIC_QUANT_MODULE_MAPPINGS", "DEFAULT_MODULE_TO_ACT_POST_PROCESS",
           "DEFAULT_QAT_MODULE_MAPPINGS", "DEFAULT_STATIC_QUANT_MODULE_MAPPINGS",
           "get_default_dynamic_quant_module_mappings", "get_default_qat_module_mappings",
           "get_default_qconfig_propagation_list", "get_default_static_quant_module_mappings",
           "get_dynamic_quant_module_class", "get_embedding_qat_module_mappings",
           "get_embedding_static_quant_module_mappings", "get_static_quant_module_class",
           "no_observer_set"]


def _classes(section, *names):
    return {name: classes.named(section, name) for name in names or classes.NAMES[section]}


_fused, _trained = _classes("intrinsic"), {**_classes("intrinsic.qat"), **_classes("qat")}
_static = _classes("quantized")

DEFAULT_STATIC_QUANT_MODULE_MAPPINGS = {
    QuantStub: Quantize, DeQuantStub: DeQuantize, FloatFunctional: QFunctional,
    **{getattr(nn, name): cls for name, cls in _static.items()},
    **{_fused[name]: cls for name, cls in _classes("intrinsic.quantized").items()},
}
for _name, _cls in _trained.items():  # a normalisation that was trained is folded
    _plain = _name.replace("Bn", "") if _name != "LinearBn1d" else "Linear"
    DEFAULT_STATIC_QUANT_MODULE_MAPPINGS[_cls] = classes.named(
        "intrinsic.quantized" if "ReLU" in _plain else "quantized", _plain)

DEFAULT_QAT_MODULE_MAPPINGS = {
    **{getattr(nn, name): cls for name, cls in _classes("qat").items()
       if not name.startswith("Embedding") and name != "Conv1d"},
    **{_fused[name]: cls for name, cls in _classes("intrinsic.qat").items()},
}

DEFAULT_DYNAMIC_QUANT_MODULE_MAPPINGS = {
    **{getattr(nn, name): cls for name, cls in _classes("quantized.dynamic").items()},
    **{getattr(nn, name): _static[name] for name in ("Embedding", "EmbeddingBag")},
    _fused["LinearReLU"]: classes.named("intrinsic.quantized.dynamic", "LinearReLU"),
}

# Functions whose range is known, while they are trained.
DEFAULT_MODULE_TO_ACT_POST_PROCESS = {
    nn.Hardsigmoid: _fake.default_fixed_qparams_range_0to1_fake_quant,
    nn.Sigmoid: _fake.default_fixed_qparams_range_0to1_fake_quant,
    nn.Softmax: _fake.default_fixed_qparams_range_0to1_fake_quant,
    nn.Tanh: _fake.default_fixed_qparams_range_neg1to1_fake_quant,
}


def get_default_static_quant_module_mappings():
    return dict(DEFAULT_STATIC_QUANT_MODULE_MAPPINGS)


def get_default_qat_module_mappings():
    return dict(DEFAULT_QAT_MODULE_MAPPINGS)


def get_default_dynamic_quant_module_mappings():
    return dict(DEFAULT_DYNAMIC_QUANT_MODULE_MAPPINGS)


def get_embedding_qat_module_mappings():
    return {**DEFAULT_QAT_MODULE_MAPPINGS,
            **{getattr(nn, n): _trained[n] for n in ("Embedding", "EmbeddingBag")}}


def get_embedding_static_quant_module_mappings():
    return {**DEFAULT_STATIC_QUANT_MODULE_MAPPINGS,
            **{_trained[n]: _static[n] for n in ("Embedding", "EmbeddingBag")}}


def _class_of(mapping, key, additional, where):
    found = {**mapping, **(additional or {})}.get(key)
    if found is None:
        raise AssertionError(f"Floating point module class {key} does not have a corresponding "
                             f"{where}quantized module class")
    return found


def get_static_quant_module_class(float_module_class, additional_static_quant_mapping=None,
                                  is_reference=False):
    return _class_of(DEFAULT_STATIC_QUANT_MODULE_MAPPINGS, float_module_class,
                     additional_static_quant_mapping, "")


def get_dynamic_quant_module_class(float_module_class, additional_dynamic_quant_mapping=None):
    return _class_of(DEFAULT_DYNAMIC_QUANT_MODULE_MAPPINGS, float_module_class,
                     additional_dynamic_quant_mapping, "")


def get_default_qconfig_propagation_list():
    """The classes whose results are observed."""
    return {*DEFAULT_STATIC_QUANT_MODULE_MAPPINGS, *DEFAULT_QAT_MODULE_MAPPINGS,
            *DEFAULT_DYNAMIC_QUANT_MODULE_MAPPINGS, nn.Sequential}


def no_observer_set():
    """Those that are not, whatever they are converted to."""
    return {getattr(nn, n) for n in ("EmbeddingBag", "LSTM", "Embedding")}
