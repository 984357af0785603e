"""torch.jit: there is no TorchScript. What marks functions for it leaves them as they are."""


def _refused(name):
    def refuse(*args, **kwargs):
        raise NotImplementedError(f"torch.jit.{name}: cfx has no TorchScript; torch.fx and "
                                  "torch.export capture programs")

    refuse.__name__ = name
    return refuse


script, trace, load, save, freeze = map(_refused, ("script", "trace", "load", "save", "freeze"))


def is_scripting():
    return False


def is_tracing():
    return False


def annotate(the_type, the_value):
    return the_value


def ignore(drop=False, **kwargs):
    """A decorator, with or without arguments."""
    return drop if callable(drop) else lambda f: f


def unused(f):
    return f


export = script_if_tracing = unused
Final = __import__("typing").Final


class ScriptModule:
    """Nothing is of this class."""


class ScriptFunction:
    """Nothing is of this class."""
