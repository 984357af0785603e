"""torch.compiler: there is none."""


def is_compiling():
    return False


def is_dynamo_compiling():
    return False


def is_exporting():
    return False


def disable(fn=None, recursive=True, *, reason=None):
    """A decorator that changes nothing."""
    return fn if fn is not None else lambda f: f


def allow_in_graph(fn):
    return fn


def reset():
    """There is nothing to forget."""
