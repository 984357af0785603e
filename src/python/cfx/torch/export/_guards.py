"""What a program's module asks of its inputs: a module that is called after the placeholders, with
an assertion for each size that is fixed, bounded or equal to another."""
import ast
import inspect
import math
import re

import cfx

from .._basics import _assert
from ..nn.modules.module import Module
from ..utils import _pytree as pytree


class GuardsFn(Module):
    """Calls to it are kept though nothing is made of what it gives."""

    _is_impure = True

    def __init__(self, code):
        super().__init__()
        self._code = code
        self._make()

    def _make(self):
        names = {"torch": _Asserts, "math": math, "Min": min, "Max": max}
        exec(self._code, names)
        self.__dict__["forward"] = names["_"]

    def __getstate__(self):
        return {k: v for k, v in self.__dict__.items() if k != "forward"}

    def __setstate__(self, state):
        self.__dict__.update(state)
        self._make()

    def __deepcopy__(self, memo):
        return GuardsFn(self._code)


class _Asserts:
    """The torch of the code of guards."""

    _assert = staticmethod(_assert)
    sym_float = staticmethod(float)


def add_guards(gm, example_inputs, ranges, recorded):
    """Lets a module that a program became check what it is called with."""
    placeholders = gm.graph.find_nodes(op="placeholder")
    if not placeholders or not example_inputs:
        return
    paths = _paths(gm, example_inputs)
    if len(paths) != len(placeholders):
        return
    lines = _conditions(placeholders, paths, ranges)
    for line in recorded:
        for i, path in enumerate(paths):
            line = line.replace(f"L['flat_args'][{i}]", f"L{pytree.keystr(path)}")
        if not any(f"L{pytree.keystr(p)}" in line for p in paths):
            continue
        lines.append(line)
    gm.add_submodule("_guards_fn", GuardsFn(_code(lines, paths)))
    with gm.graph.inserting_after(placeholders[-1]):
        gm.graph.call_module("_guards_fn", tuple(placeholders))
    gm.recompile()


def _paths(gm, example_inputs):
    """Where each placeholder comes from in the arguments of forward."""
    args, kwargs = example_inputs
    try:
        bound = inspect.signature(gm.forward).bind(*args, **(kwargs or {}))
    except TypeError:
        return []
    bound.apply_defaults()
    return [path for path, _ in pytree.tree_leaves_with_path(bound.arguments)]


_SYMBOL = re.compile(r"\b[a-z]+\d+\b")


def _of(expr, sources):
    """An expression of sources, its number first: 1 + 2*x.size()[0]."""
    last = re.fullmatch(r"(.*) ([+-]) (\d+)", expr)
    if last:
        expr = f"{'-' if last[2] == '-' else ''}{last[3]} + {last[1]}"
    return _SYMBOL.sub(lambda symbol: sources[symbol[0]], expr)


def _root(expr, source, sources):
    """Where only sizes of the form 2*s + 1 have a symbol: the condition on them, None where they
    may be all. The symbol has a source from then on."""
    (symbol,) = set(_SYMBOL.findall(expr))
    past, first, second = (eval(_SYMBOL.sub(str(i), expr), {"Min": min, "Max": max})
                           for i in range(3))
    by = first - past
    if second - first != by or by < 1:
        return None
    moved = f"{-past} + {source}" if past else source
    sources[symbol] = f"(({moved}) // {by})"
    return f"({moved}) % {by} == 0" if by > 1 else None


def _derived(sizes, sources):
    """Sizes that are made of the symbols of others are what these say."""
    lines = []
    for expr, source in sizes:
        unknown = {s for s in _SYMBOL.findall(expr) if s not in sources}
        if not unknown:
            lines.append(f"{source} == {_of(expr, sources)}")
        elif len(set(_SYMBOL.findall(expr))) == 1:
            line = _root(expr, source, sources)
            lines += [line] if line else []
    return lines


def _conditions(placeholders, paths, ranges):
    lines, seen, derived = [], {}, []

    def bounded(expr, source):
        if expr in seen:
            lines.append(f"{source} == {seen[expr]}")
            return
        seen[expr] = source
        if not _SYMBOL.fullmatch(expr):
            derived.append((expr, source))
        if expr not in ranges:
            return
        least, most = ranges[expr]
        if least > 2:
            lines.append(f"{source} >= {least}")
        if most != math.inf:
            lines.append(f"{source} <= {most}")

    for placeholder, path in zip(placeholders, paths):
        value, source = placeholder.meta.get("val"), f"L{pytree.keystr(path)}"
        if isinstance(value, cfx.Tensor):
            for i, size in enumerate(value.shape):
                if type(size) is int:
                    lines.append(f"{source}.size()[{i}] == {size}")
                else:
                    bounded(str(size), f"{source}.size()[{i}]")
        elif isinstance(value, float) and math.isinf(value):
            lines.append(f"{source} == {'-' if value < 0 else ''}math.inf")
        elif isinstance(value, (int, float)):
            lines.append(f"{source} == {value}")
        elif isinstance(value, str):
            lines.append(f"{source} == {value!r}")
        elif value is not None and str(value) in ranges:
            bounded(str(value), source)
    return lines + _derived(derived, {s: at for s, at in seen.items() if _SYMBOL.fullmatch(s)})


def _code(lines, paths):
    """The source of a function of the flat arguments."""
    out = ["def _(*args):"]
    for line in lines:
        actual, shown = line, line
        for i, path in enumerate(paths):
            source = f"L{pytree.keystr(path)}"
            actual = actual.replace(source, f"args[{i}]")
            shown = shown.replace(source, path[0].key + pytree.keystr(path[1:]))
        shown = ast.unparse(ast.parse(shown.replace("\n", ""), mode="eval"))
        out.append(f"    torch._assert({actual}, {f'Guard failed: {shown}'!r})")
    return "\n".join(out + ["    return"]) + "\n"
