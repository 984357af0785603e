"""torch.compiler: there is none; models that are exported can ask whether they are."""
import contextlib

_exports = 0  # under way


@contextlib.contextmanager
def exporting():
    """While a model is exported."""
    global _exports
    _exports += 1
    try:
        yield
    finally:
        _exports -= 1


def is_compiling():
    return _exports > 0


def is_dynamo_compiling():
    return False


def is_exporting():
    return _exports > 0


def disable(fn=None, recursive=True, *, reason=None):
    """A decorator that changes nothing."""
    return fn if fn is not None else lambda f: f


def allow_in_graph(fn):
    return fn


def reset():
    """There is nothing to forget."""
