"""torch.compiler: there is none; models that are exported can ask whether they are."""
from cfx import _cfx


def is_compiling():
    return _cfx.is_exporting()


def is_dynamo_compiling():
    return False


def is_exporting():
    return _cfx.is_exporting()


def disable(fn=None, recursive=True, *, reason=None):
    """A decorator that changes nothing."""
    return fn if fn is not None else lambda f: f


def allow_in_graph(fn):
    return fn


def reset():
    """There is nothing to forget."""
