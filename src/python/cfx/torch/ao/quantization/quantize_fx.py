"""Quantization of traced modules: fuse, observe, run it on data, convert. The steps are C's."""
import cfx
from cfx import _cfx

from ...export import _modules
from ...fx import _meta
from ...fx._symbolic_trace import Tracer
from ...fx.graph_module import GraphModule
from ...nn import Module
from ...nn.modules._backed import Backed
from . import backend_config as _backend
from . import fx, observer  # noqa: F401
from .qconfig_mapping import QConfigMapping
from ..nn import classes  # noqa: F401

__all__ = ["QuantizationTracer", "fuse_fx", "prepare_fx", "prepare_qat_fx", "convert_fx",
           "convert_to_reference_fx"]


class QuantizationTracer(Tracer):
    """Leaves are those of torch.nn, and what the caller says."""

    def __init__(self, skipped_module_names=(), skipped_module_classes=()):
        super().__init__()
        self.skipped_module_names = list(skipped_module_names)
        self.skipped_module_classes = tuple(skipped_module_classes)

    def is_leaf_module(self, m, module_qualified_name):
        return isinstance(m, (Backed, *self.skipped_module_classes)) \
            or module_qualified_name in self.skipped_module_names \
            or super().is_leaf_module(m, module_qualified_name)


def _traced(model, config):
    if isinstance(model, GraphModule):
        return model
    if not isinstance(model, Module):
        raise AssertionError(f"expected a torch.nn.Module, got {type(model).__name__}")
    config = config or {}
    get = config.get if isinstance(config, dict) else lambda name, _: getattr(config, name, ())
    tracer = QuantizationTracer(get("non_traceable_module_name", ())
                                or get("non_traceable_module_names", ()),
                                get("non_traceable_module_class", ())
                                or get("non_traceable_module_classes", ()))
    return GraphModule(model, tracer.trace(model))


def _to_c(gm):
    """A GraphModule as C has them: its graph, with what nodes say of themselves."""
    _meta.push(gm.graph)
    for node in gm.graph.nodes:
        for key in ("qconfig", "observed"):
            if isinstance(node.meta.get(key), (str, bool)):
                node._put_meta(key, node.meta[key])
    return _cfx.graph_module(_cfx.mirror(gm), gm.graph)


def _from_c(made, like):
    gm = _modules.from_c(made, class_name="GraphModule")
    gm.meta = dict(getattr(like, "meta", {}))
    gm.__dict__.pop("_observed", None)
    for name in made.attrs():  # scales and zero points that the graph reads are buffers
        value = gm.__dict__.get(name)
        if isinstance(value, (int, float, cfx.Tensor)) and not isinstance(value, bool):
            del gm.__dict__[name]
            gm.register_buffer(name, value if isinstance(value, cfx.Tensor) else cfx.tensor(value))
    return gm


_KEPT = "_user_preserved_attributes"  # copies of a GraphModule have them too


def _preserved(model, config):
    names = (config.get("preserved_attributes", ()) if isinstance(config, dict)
             else getattr(config, "preserved_attributes", ())) if config else ()
    return {**getattr(model, "meta", {}).get(_KEPT, {}),
            **{name: getattr(model, name) for name in names if hasattr(model, name)}}


def _with(gm, kept):
    gm.meta[_KEPT] = dict(kept)
    for name, value in kept.items():
        setattr(gm, name, value)
    return gm


def fuse_fx(model, fuse_custom_config=None, backend_config=None):
    """The traced model with Conv+BN(+ReLU), Linear+ReLU and the like as one module each."""
    _backend.check(backend_config)
    kept = _preserved(model, fuse_custom_config)
    gm = _traced(model, None)
    return _with(_from_c(_cfx.fuse_fx(_to_c(gm)), gm), kept)


def _prepare(model, qconfig_mapping, config):
    if isinstance(qconfig_mapping, dict):
        qconfig_mapping = QConfigMapping.from_dict(qconfig_mapping)
    if not isinstance(qconfig_mapping, QConfigMapping):
        raise TypeError("expected a QConfigMapping or a dict, got "
                        f"{type(qconfig_mapping).__name__}")
    kept = _preserved(model, config)
    rules = qconfig_mapping._rules()
    gm = _traced(model, config)
    prepared = _from_c(_cfx.prepare_fx(_to_c(gm), rules), gm)
    prepared.meta["_observed_graph_module_attrs"] = qconfig_mapping
    return _with(prepared, kept)


def prepare_fx(model, qconfig_mapping, example_inputs=None, prepare_custom_config=None,
               _equalization_config=None, backend_config=None):
    """The model traced and fused, with observers: run it on data."""
    _backend.check(backend_config)
    return _prepare(model, qconfig_mapping, prepare_custom_config)


def prepare_qat_fx(model, qconfig_mapping, example_inputs=None, prepare_custom_config=None,
                   backend_config=None):
    """The same with modules that round: train it."""
    _backend.check(backend_config)
    return _prepare(model, qconfig_mapping, prepare_custom_config)


def _convert(graph_module, reference, config):
    if not isinstance(graph_module, GraphModule):
        raise ValueError(f"input model must be a GraphModule, Got type:{type(graph_module)} Please "
                         "make sure to follow the tutorials.")
    if "_observed_graph_module_attrs" not in graph_module.meta:
        raise AssertionError("incoming model must be produced by prepare_fx")
    kept = _preserved(graph_module, config)
    made = _from_c(_cfx.convert_fx(_to_c(graph_module), reference), graph_module)
    made.meta.pop("_observed_graph_module_attrs")
    return _with(made, kept)


def convert_fx(graph_module, convert_custom_config=None, _remove_qconfig=True,
               qconfig_mapping=None, backend_config=None, keep_original_weights=False):
    """Quantized modules and operators, by what the observers saw."""
    _backend.check(backend_config)
    return _convert(graph_module, False, convert_custom_config)


def convert_to_reference_fx(graph_module, convert_custom_config=None, _remove_qconfig=True,
                            qconfig_mapping=None, backend_config=None):
    """The same in floats between quantize and dequantize."""
    _backend.check(backend_config)
    return _convert(graph_module, True, convert_custom_config)
