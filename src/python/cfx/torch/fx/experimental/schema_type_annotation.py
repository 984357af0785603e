"""Types of results, from the annotations of what is called."""
import inspect

import cfx

from ... import nn
from ..interpreter import Transformer


class AnnotateTypesWithSchema(Transformer):
    """Annotates calls of functions and modules, and attributes."""

    def __init__(self, module, annotate_functionals=True, annotate_modules=True,
                 annotate_get_attrs=True):
        super().__init__(module)
        self.annotate_functionals = annotate_functionals
        self.annotate_modules = annotate_modules
        self.annotate_get_attrs = annotate_get_attrs

    def _annotate(self, proxy, kind):
        if not proxy.node.type and kind is not None:
            proxy.node.type = kind
        return proxy

    def call_function(self, target, args, kwargs):
        kind = None
        name = getattr(target, "__module__", None) or ""
        if self.annotate_functionals and name.endswith("torch.nn.functional"):
            kind = self._extract_python_return_type(target) or cfx.Tensor
        return self._annotate(super().call_function(target, args, kwargs), kind)

    def call_module(self, target, args, kwargs):
        kind, m = None, self.fetch_attr(target)
        if self.annotate_modules and getattr(nn, type(m).__name__, None) is type(m):
            kind = self._extract_python_return_type(m.forward) or cfx.Tensor
        return self._annotate(super().call_module(target, args, kwargs), kind)

    def get_attr(self, target, args, kwargs):
        proxy = super().get_attr(target, args, kwargs)
        if self.annotate_get_attrs:
            value = self.fetch_attr(target)
            kind = cfx.Tensor if isinstance(value, cfx.Tensor) else type(value) \
                if isinstance(value, (int, float, bool, str)) else None
            self._annotate(proxy, kind)
        return proxy

    def _extract_python_return_type(self, target):
        try:
            annotation = inspect.signature(target).return_annotation
        except (ValueError, TypeError):
            return None
        return None if annotation is inspect.Signature.empty else annotation
