"""What differs between example inputs: the sizes and numbers that an export should let vary."""
import re

import cfx

from ...nn import Module
from ...utils._pytree import tree_flatten_with_path, keystr

__all__ = ["normalize_source_name", "module_to_nested_dict", "track_dynamism_across_examples"]
_PLAIN = (int, float, bool, cfx.Tensor)


def normalize_source_name(name):
    """L['x'].a as L['x']['a']."""
    return re.sub(r"\.([A-Za-z_]\w*)", r"['\1']", name)


def _told(value):
    """What there is to tell of an attribute's value; None where there is nothing."""
    if isinstance(value, Module):
        return module_to_nested_dict(value)
    if isinstance(value, dict):
        inner = {k: _told(v) for k, v in value.items()}
        return {k: v for k, v in inner.items() if v is not None} or None
    return value if isinstance(value, _PLAIN) and type(value) is not bool else None


def module_to_nested_dict(module):
    """The numbers and tensors of a module by the names of its attributes, with those of the
    modules in it."""
    out = {}
    for name in dir(module):
        if name.startswith("_") and name not in ("_parameters", "_modules"):
            continue
        try:
            value = getattr(module, name)
        except Exception:  # a property may raise what it likes
            continue
        told = None if isinstance(value, Module) else _told(value)  # which _modules has
        if told is not None:
            out[name] = told
    return out


def _leaves(example):
    """Source to value of all numbers and tensors of an argument."""
    if isinstance(example, Module):
        example = module_to_nested_dict(example)
    return {keystr(path): v for path, v in tree_flatten_with_path(example)[0]
            if isinstance(v, _PLAIN)}


def track_dynamism_across_examples(example_inputs):
    """{argument: {source: (whether it varies, for each dimension)}} of a list of dicts of
    arguments."""
    out = {}
    for name in example_inputs[0] if example_inputs else ():
        examples = [_leaves(e[name]) for e in example_inputs]
        out[name] = {}
        for path in examples[0]:
            values = [e[path] for e in examples if path in e]
            shapes = [tuple(v.shape) if isinstance(v, cfx.Tensor) else (v,) for v in values]
            source = normalize_source_name(f"L[{name!r}]{path}")
            if len({len(s) for s in shapes}) == 1:
                out[name][source] = tuple(len(set(sizes)) > 1 for sizes in zip(*shapes))
    return out
