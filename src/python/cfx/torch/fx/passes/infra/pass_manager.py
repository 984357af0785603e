"""Pipelines of passes, in an order that constraints allow."""
import functools
import inspect
import logging
import queue

from ....nn import Module
from ..._compatibility import compatibility
from .pass_base import PassResult

logger = logging.getLogger(__name__)
__all__ = ["pass_result_wrapper", "this_before_that_pass_constraint", "PassManager"]


@compatibility(is_backward_compatible=False)
def pass_result_wrapper(fn):
    """A pass that gives nothing as one that gives a PassResult."""
    if fn is None:
        return None

    @functools.wraps(fn)
    def wrapped(gm):
        result = fn(gm)
        if result is None:
            return PassResult(gm, True)
        if isinstance(result, PassResult):
            return result
        if isinstance(result, Module):
            return PassResult(result, True)
        return result

    if not inspect.isfunction(fn):
        wrapped.__name__ = type(fn).__name__
    return wrapped


def _validate_pass_schedule_constraint(constraint, passes):
    for i, a in enumerate(passes):
        for j, b in enumerate(passes[i + 1:]):
            if not constraint(a, b):  # PyTorch counts the second from behind the first
                raise RuntimeError(f"pass schedule constraint violated. Expected {a} before {b} "
                                   f"but found {a} at index {i} and {b} at index{j} in pass list.")


def _topological_sort_passes(passes, constraints):
    """The passes in an order that every constraint agrees to."""
    if not constraints:
        return passes
    waits = {p: [] for p in passes}
    count = dict.fromkeys(passes, 0)
    ready = queue.Queue()
    for a in passes:
        for b in passes:
            if a is not b and not all(c(a, b) for c in constraints):
                # a may not come before b
                waits[b].append(a)
                count[a] += 1
    for p in passes:
        if not count[p]:
            ready.put(p)
    done = set()
    order = []
    while not ready.empty():
        p = ready.get()
        if p in done:
            continue
        done.add(p)
        order.append(p)
        for q in waits[p]:
            count[q] -= 1
            if not count[q]:
                ready.put(q)
    stuck = [p for p in passes if p not in done]
    if stuck:
        raise RuntimeError("Circular dependency detected within the following passes: "
                           f"{stuck}")
    return order


@compatibility(is_backward_compatible=False)
def this_before_that_pass_constraint(this, that):
    """A constraint: this comes before that."""
    return lambda a, b: not (a == that and b == this)


@compatibility(is_backward_compatible=False)
class PassManager:
    """Runs passes, `steps` times the whole pipeline."""

    def __init__(self, passes=None, constraints=None, steps=None,
                 run_checks_after_each_pass=False, suppress_check_failures=False):
        self.passes = passes or []
        self.constraints = constraints or []
        self.steps = steps or 1
        self._validated = False
        self.run_checks_after_each_pass = run_checks_after_each_pass
        self.suppress_check_failures = suppress_check_failures

    def add_pass(self, _pass):
        self.passes.append(_pass)
        self._validated = False

    def add_constraint(self, constraint):
        self.constraints.append(constraint)
        self._validated = False

    def validate_constraints(self):
        if self._validated:
            return
        for c in self.constraints:
            _validate_pass_schedule_constraint(c, self.passes)
        self._validated = True

    def solve_constraints(self):
        self.passes = _topological_sort_passes(self.passes, self.constraints)
        self._validated = True

    def add_checks(self, check):
        """A function of the module that is called after each pass."""
        parameters = inspect.signature(check).parameters
        if len(parameters) != 1:
            raise TypeError("PassManager check function should only take in one variable, a module")
        self.check = check

    def check(self, module):
        pass

    def __call__(self, module):
        if not self._validated:
            self.solve_constraints()
        self.check(module)
        changed = False
        for _ in range(self.steps):
            modified = False
            for i, fn in enumerate(self.passes):
                name = fn.__name__ if inspect.isfunction(fn) else type(fn).__name__
                try:
                    result = fn(module)
                    if not isinstance(result, PassResult) and not hasattr(result, "graph_module"):
                        raise TypeError(f"The result of the pass {name} should be type "
                                        "PassResult.Please wrap it with pass_result_wrapper()")
                    module = result.graph_module
                    modified = modified or result.modified
                    module.recompile()
                    if self.run_checks_after_each_pass:
                        self.check(module)
                except Exception as e:
                    before = [p.__name__ if inspect.isfunction(p) else type(p).__name__
                              for p in self.passes[:i]]
                    raise Exception(f"An error occurred when running the '{name}' pass after the "
                                    f"following passes: {before}") from e
            changed = changed or modified
            if not modified:
                break
        return PassResult(module, changed)
