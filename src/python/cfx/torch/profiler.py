"""torch.profiler: names of stretches of code. cfx's own profile of a program is `cfx profile` and
p.cost(); nothing is measured here."""
import functools


class record_function:
    """A stretch of code under a name: a context, or a decorator. Not part of what is traced."""

    def __init__(self, name, args=None):
        self.name, self.args = name, args

    def __enter__(self):
        return self

    def __exit__(self, *error):
        return None

    def __call__(self, f):
        @functools.wraps(f)
        def inner(*args, **kwargs):
            with type(self)(self.name, self.args):
                return f(*args, **kwargs)

        return inner


def __getattr__(name):
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}: cfx measures programs by "
                         "`cfx profile`")
