"""QConfigMapping: which parts of a model are observed how."""
from collections import OrderedDict

from cfx import _cfx

from . import qconfig as _qconfig

__all__ = ["QConfigMapping", "get_default_qconfig_mapping", "get_default_qat_qconfig_mapping"]

_GLOBAL, _TYPE, _NAME, _REGEX, _ORDER = range(5)  # C's kinds of rules


class QConfigMapping:
    """Rules, the most particular first: by place, by name, by expression, by type, for all."""

    def __init__(self):
        self.global_qconfig = None
        self.object_type_qconfigs = OrderedDict()
        self.module_name_regex_qconfigs = OrderedDict()
        self.module_name_qconfigs = OrderedDict()
        self.module_name_object_type_order_qconfigs = OrderedDict()

    def set_global(self, global_qconfig):
        self.global_qconfig = global_qconfig
        return self

    def set_object_type(self, object_type, qconfig):
        self.object_type_qconfigs[object_type] = qconfig
        return self

    def set_module_name_regex(self, module_name_regex, qconfig):
        self.module_name_regex_qconfigs[module_name_regex] = qconfig
        return self

    def set_module_name(self, module_name, qconfig):
        self.module_name_qconfigs[module_name] = qconfig
        return self

    def set_module_name_object_type_order(self, module_name, object_type, index, qconfig):
        self.module_name_object_type_order_qconfigs[module_name, object_type, index] = qconfig
        return self

    def __repr__(self):
        out = [type(self).__name__ + " ("]
        for name, value in self._parts():
            if not isinstance(value, dict):
                out.append(f" {name}\n  {value}")
            else:
                out.append(f" {name}")
                out += [f"  {key}: {q}" for key, q in value.items()] or [f"  {OrderedDict()!r}"]
        return "\n".join(out) + "\n)"

    def _parts(self):
        return [(name, getattr(self, name)) for name in
                ("global_qconfig", "object_type_qconfigs", "module_name_regex_qconfigs",
                 "module_name_qconfigs", "module_name_object_type_order_qconfigs")]

    def to_dict(self):
        """The form that was there before this class."""
        return {"": self.global_qconfig,
                "object_type": list(self.object_type_qconfigs.items()),
                "module_name_regex": list(self.module_name_regex_qconfigs.items()),
                "module_name": list(self.module_name_qconfigs.items()),
                "module_name_object_type_order":
                    [(*k, q) for k, q in self.module_name_object_type_order_qconfigs.items()]}

    @classmethod
    def from_dict(cls, d):
        m = cls()
        if "" in d:
            m.set_global(d[""])
        for name in ("object_type", "module_name_regex", "module_name"):
            for key, q in d.get(name, ()):
                getattr(m, f"set_{name}")(key, q)
        for row in d.get("module_name_object_type_order", ()):
            m.set_module_name_object_type_order(*row)
        return m

    def _rules(self):
        """What C is told."""
        to_c = _qconfig.to_c
        out = [(_GLOBAL, None, None, 0, to_c(self.global_qconfig))]
        for by, rules in ((_TYPE, self.object_type_qconfigs), (_NAME, self.module_name_qconfigs),
                          (_REGEX, self.module_name_regex_qconfigs)):
            out += [(by, _text(key), None, 0, to_c(q)) for key, q in rules.items()]
        out += [(_ORDER, path, _text(kind), index, to_c(q)) for (path, kind, index), q
                in self.module_name_object_type_order_qconfigs.items()]
        return out


def _text(kind):
    """A class, function or name as C writes it."""
    if isinstance(kind, str):
        return kind
    if isinstance(kind, type):
        own = kind.__module__.startswith(("torch.", "cfx.torch."))
        return f"torch.nn.{kind.__name__}" if own else kind.__name__
    from ...fx.node import _get_qualified_name

    return _get_qualified_name(kind)


def _kind(text):
    """And back."""
    from ... import nn

    if "." not in text:
        return getattr(nn, text) if text[0].isupper() else text
    import cfx.torch as found

    for part in text.split(".")[1:]:
        found = getattr(found, part)
    return found


def _default(backend):
    m = QConfigMapping()
    for by, text, _, _, q in _cfx.qconfig_mapping(backend):
        q = _qconfig.from_c(q)
        m.set_global(q) if by == _GLOBAL else m.set_object_type(_kind(text), q)
    return m


def get_default_qconfig_mapping(backend="x86", version=0):
    """The mapping that is usual for quantization after training."""
    _qconfig.get_default_qconfig(backend, version)
    return _default(backend)


def get_default_qat_qconfig_mapping(backend="x86", version=1):
    """And for training."""
    _qconfig.get_default_qat_qconfig(backend, version)
    return _default(f"{backend} qat" if version else f"{backend} qat v0")
