"""Metadata of nodes both ways: as the C library notes it, and as torch.fx has it."""
import cfx
from cfx import _cfx

KEYS = ("val", "tensor_meta", "nn_module_stack", "stack_trace", "torch_fn", "custom", "tag",
        "is_wrapped", "source_fn_stack")


def from_c(meta):
    """A dict of C's as torch.fx has it."""
    out = dict(meta)
    if "val" in out:
        out["val"] = value_from_c(out["val"])
    if "tensor_meta" in out:
        out["tensor_meta"] = tensor_meta_from_c(out["tensor_meta"])
    return out


def value_from_c(v):
    """What a node computes: a tensor without numbers, a size, or several of such."""
    if isinstance(v, dict) and "shape" in v:
        from .._subclasses.fake_tensor import symbolic

        return symbolic(v)
    if isinstance(v, (tuple, list)):
        return type(v)(value_from_c(item) for item in v)
    if isinstance(v, cfx.Tensor) and v._is_fake:
        from .._subclasses.fake_tensor import faked

        return faked(v)
    return v


def tensor_meta_from_c(v):
    from .passes.shape_prop import TensorMetadata

    if isinstance(v, dict):
        names = ("shape", "dtype", "requires_grad", "stride", "memory_format", "is_quantized",
                 "qparams")
        shape = cfx.Size(v["shape"]) if "shape" in v else None
        return TensorMetadata(*[shape if n == "shape" else v.get(n) for n in names])
    return type(v)(tensor_meta_from_c(i) for i in v) if isinstance(v, (list, tuple)) else v


def push(graph):
    """Writes down in C what Python's nodes say of themselves, for those in C who look at it."""
    for node in graph.nodes:
        meta = node.meta
        for key in KEYS:
            if key in meta:
                value = to_c(key, meta[key])
                if value is not None:
                    node._put_meta(key, value)


def to_c(key, value):
    if key == "nn_module_stack":
        return {k: (path, _type_text(t)) for k, (path, t) in value.items()}
    if key == "tensor_meta":
        if hasattr(value, "_asdict"):
            return {k: v for k, v in value._asdict().items() if v is not None and v != {}}
        return None
    if key in ("torch_fn", "source_fn_stack", "custom"):
        return value if key == "custom" else None
    if key == "val":
        return val_to_c(value)
    return value


def val_to_c(value):
    if isinstance(value, cfx.Tensor):
        return _cfx.fake_like(value) if not hasattr(value, "_to_c") else value._to_c()
    if isinstance(value, (tuple, list)):
        items = [val_to_c(v) for v in value]
        return None if any(i is None for i in items) else type(value)(items)
    return value if isinstance(value, (int, float, bool, _cfx.Sym)) else None


def _type_text(t):
    from .node import _type_repr

    return t if isinstance(t, str) else _type_repr(t)
