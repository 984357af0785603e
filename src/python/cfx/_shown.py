"""Methods and attributes of tensors that Python has: overrides see them as they see C's."""
import functools
import re

from . import _cfx


def _method_words(said):
    """What is said of a method's arguments, without the tensor that it is called of."""
    text = str(said)
    text = re.sub(r"\(position (\d+)\)", lambda m: f"(position {int(m[1]) - 1})", text)
    text = re.sub(r"(element \d+ in argument) (\d+)", lambda m: f"{m[1]} {int(m[2]) - 1}", text)
    text = re.sub(r"\((!?Tensor!?( input)?)(, |(?=\)))", "(", text)
    return re.sub(r"takes (\d+) (positional arguments?) but (\d+) (were|was) given",
                  lambda m: f"takes {int(m[1]) - 1} positional argument{'s' * (m[1] != '2')} but "
                            f"{int(m[3]) - 1} {'was' if m[3] == '2' else 'were'} given", text)


_cfx.adopt("method_words", _method_words)


def _shown(method, module="torch"):
    """A method that overrides see; PyTorch has those in `torch` in C."""
    @functools.wraps(method)
    def called(self, *args, **kwargs):
        if _cfx.is_overridden(self):
            return _cfx.override(called, (self, *args), kwargs)
        return method(self, *args, **kwargs)

    called.__module__ = module
    return called


def _alone(method):
    """The same of a method without arguments: it is shown with its tensor's type."""
    return _shown(method, "torch._tensor")


def _attribute(get):
    """An attribute that overrides see, as Tensor.T.__get__."""
    def read(self):
        if _cfx.is_overridden(self):
            return _cfx.override(made.__get__, (self,), {})
        return get(self)

    made = property(read, doc=get.__doc__)
    return made
