"""Decompositions: which operators are taken apart, and how a program is."""
import collections.abc
import functools

from cfx import _cfx

from .. import library


def _all_decomposed():
    """The overloads that Core ATen does not have, and those of torch.library that are made of
    others."""
    return [op for op in _cfx.overloads("") if str(op).startswith("aten.") and op._decomposes] + \
        library.composite()


def _is_marked_view(op):
    """Whether it is a composite that its schema marks as a view: functional programs have none."""
    composite = isinstance(op, _cfx.OpOverload) and op._effects & 2
    return bool(composite) and any(a.alias_info for a in op._schema.arguments)


class CustomDecompTable(collections.abc.MutableMapping):
    """{overload: function}. The functions of cfx's own are its columns in C; one that is put in
    is called in their place."""

    def __init__(self, ops=None):
        self._own = dict.fromkeys(_all_decomposed() if ops is None else ops)
        self._given = {}
        self._removed = []

    has_materialized = True

    def __getitem__(self, op):
        if op in self._given:
            return self._given[op]
        if op in self._own:
            return op.decompose
        raise KeyError(str(op))

    def __setitem__(self, op, f):
        self._given[op] = f
        self._own.setdefault(op)

    def __delitem__(self, op):
        self.pop(op)

    def pop(self, op, *default):
        """The operator stays whole; one of PyTorch's that always does here has nothing to lose."""
        if op not in self._own:
            if default:
                return default[0]
            if op in self._removed or not isinstance(op, _cfx.OpOverload) or op._effects & 2:
                raise KeyError(str(op))
            return op.decompose
        del self._own[op]
        self._removed.append(op)
        return self._given.pop(op, op.decompose)

    def __contains__(self, op):
        return op in self._own

    def __iter__(self):
        return iter(self._own)

    def __len__(self):
        return len(self._own)

    def keys(self):
        return self._own.keys()

    def update(self, other):
        for op, f in other.items():
            self[op] = f

    def copy(self):
        other = CustomDecompTable(list(self._own))
        other._given = dict(self._given)
        other._removed = list(self._removed)
        return other

    def materialize(self):
        return {op: self[op] for op in self}


def decompose(program, table):
    """A program in Core ATen (None), functional (an empty table), or with a table's operators taken
    apart."""
    if table is None:
        return program.decompose()
    if len(table) == 0:
        return program.functionalize()
    if isinstance(table, CustomDecompTable):
        given, keep = table._given, table._removed
    else:
        keep = [op for op in _all_decomposed() if op not in table and not _is_marked_view(op)]
        given = {op: f for op, f in table.items() if not _is_own(op, f)}
    return program._decompose_by(given, [str(op) for op in keep], False)


def _is_own(op, f):
    """Whether it is what op.decompose gives."""
    return isinstance(f, functools.partial) and f.args[:1] == (op,)
