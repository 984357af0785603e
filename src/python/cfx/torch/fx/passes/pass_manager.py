"""The pass manager of older programs: functions of a module, and constraints on their order."""
import functools
import inspect

from .._compatibility import compatibility
from .infra.pass_manager import this_before_that_pass_constraint  # noqa: F401

__all__ = ["inplace_wrapper", "log_hook", "loop_pass", "PassManager",
           "these_before_those_pass_constraint", "this_before_that_pass_constraint"]


@compatibility(is_backward_compatible=False)
def inplace_wrapper(fn):
    """A pass that changes a module as one that gives it."""

    @functools.wraps(fn)
    def wrapped(gm):
        fn(gm)
        return gm

    return wrapped


@compatibility(is_backward_compatible=False)
def log_hook(fn, level=0):
    @functools.wraps(fn)
    def wrapped(gm):
        return fn(gm)

    return wrapped


@compatibility(is_backward_compatible=False)
def loop_pass(base_pass, n_iter=None, predicate=None):
    """A pass so many times, or while a predicate holds."""
    if not (n_iter is not None) ^ (predicate is not None):
        raise AssertionError("Exactly one of `n_iter`or `predicate` must be specified.")

    @functools.wraps(base_pass)
    def looped(source):
        output = source
        if n_iter is not None and n_iter > 0:
            for _ in range(n_iter):
                output = base_pass(output)
        elif predicate is not None:
            while predicate(output):
                output = base_pass(output)
        else:
            raise RuntimeError(f"loop_pass must be given positive int n_iter (given {n_iter}) xor "
                               f"predicate (given {predicate})")
        return output

    return looped


def _check(constraint, passes):
    for i, a in enumerate(passes):
        for j, b in enumerate(passes[i + 1:]):
            if not constraint(a, b):
                raise RuntimeError(f"pass schedule constraint violated. Expected {a} before {b} "
                                   f"but found {a} at index {i} and {b} at index{j} in pass list.")


@compatibility(is_backward_compatible=False)
def these_before_those_pass_constraint(these, those):
    return lambda a, b: not (a in those and b in these)


@compatibility(is_backward_compatible=False)
class PassManager:
    """Runs passes in their order."""

    def __init__(self, passes=None, constraints=None):
        self.passes = passes or []
        self.constraints = constraints or []
        self._validated = False

    @classmethod
    def build_from_passlist(cls, passes):
        return cls(passes)

    def add_pass(self, _pass):
        self.passes.append(_pass)
        self._validated = False

    def add_constraint(self, constraint):
        self.constraints.append(constraint)
        self._validated = False

    def _index(self, name):
        return next(i for i, p in enumerate(self.passes) if p.__name__ == name)

    def remove_pass(self, _passes):
        self.passes = [p for p in self.passes if p.__name__ not in _passes]
        self._validated = False

    def replace_pass(self, _target, _replacement):
        self.passes = [_replacement if p.__name__ == _target.__name__ else p for p in self.passes]
        self._validated = False

    def validate(self):
        if not self._validated:
            for c in self.constraints:
                _check(c, self.passes)
            self._validated = True

    def __call__(self, source):
        self.validate()
        out = source
        for p in self.passes:
            out = p(out)
        return out


_ = inspect
