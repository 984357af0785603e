"""torch.library.opcheck: whether an operator of the user's does what its schema and its fake
function say, and whether programs with it compute what it computes."""
from cfx import _cfx
from cfx._tensor import no_grad

from ..autograd import grad
from ..nn import Module
from ..utils import _pytree as pytree
from . import _ops

NAMES = ("test_schema", "test_autograd_registration", "test_faketensor",
         "test_aot_dispatch_dynamic")


class OpCheckError(Exception):
    pass


def _is_tensor(x):
    return isinstance(x, _cfx.TensorBase)


def _copies(args, kwargs):
    def copy(x):
        return x.detach().clone().requires_grad_(x.requires_grad) if _is_tensor(x) else x

    return pytree.tree_map(copy, (args, kwargs))


def _same(a, b):
    from .. import allclose

    return a.shape == b.shape and a.dtype == b.dtype and \
        bool(allclose(a.double(), b.double(), equal_nan=True) if not a.is_complex() else
             allclose(a, b, equal_nan=True))


def _check_schema(op, args, kwargs):
    """What is not marked as written to stays, and no result lies unmarked in an argument's
    memory."""
    given = dict(zip((a.name for a in op._schema.arguments), args), **kwargs)
    before = {name: _copies((value,), {})[0][0] for name, value in given.items()}
    with no_grad():
        outputs = [o for o in pytree.tree_leaves(op(*args, **kwargs)) if _is_tensor(o)]
    for argument in op._schema.arguments:
        now = [t for t in pytree.tree_leaves(given.get(argument.name)) if _is_tensor(t)]
        was = [t for t in pytree.tree_leaves(before.get(argument.name)) if _is_tensor(t)]
        if argument.alias_info is not None:
            continue
        if not all(map(_same, now, was)):
            raise RuntimeError(f"Argument {argument.name} is not defined as mutable but was "
                               "mutated")
        if any(o is t or (t.numel() and o._shares(t)) for o in outputs for t in now):
            raise RuntimeError(f"Argument {argument.name} is not defined to alias output but was "
                               "aliasing")


def _check_autograd(op, args, kwargs):
    """A gradient that was registered can be computed."""
    outputs = [o for o in pytree.tree_leaves(op(*args, **kwargs)) if _is_tensor(o)]
    wanted = [t for t in pytree.tree_leaves((args, kwargs)) if _is_tensor(t) and t.requires_grad]
    known = any(d.overload() is op and "Backward" in d.functions for d in _ops.definitions())
    live = [o.sum() for o in outputs if o.requires_grad]
    if known and wanted and live:
        grad(sum(live), wanted, allow_unused=True)


def _check_fake(op, args, kwargs):
    """The fake function gives the sizes, strides and dtypes of the real results."""
    real = pytree.tree_leaves(op(*args, **kwargs))
    fakes = pytree.tree_map(lambda x: _cfx.fake_like(x) if _is_tensor(x) else x, (args, kwargs))
    fake = pytree.tree_leaves(op(*fakes[0], **fakes[1]))
    if len(real) != len(fake):
        raise AssertionError(f"the fake function gives {len(fake)} results, the operator "
                             f"{len(real)}")
    for r, f in zip(real, fake):
        for what in ("shape", "dtype", "stride") if _is_tensor(r) else ():
            a, b = ((x.stride() if what == "stride" else getattr(x, what)) for x in (f, r))
            if a != b:
                raise AssertionError(f"{'Dtype' if what == 'dtype' else what.capitalize()}s "
                                     f"{a} and {b} are not equal!")


def _check_program(op, args, kwargs):
    """A program of one such call computes what the call does."""
    from ..export import export

    leaves, spec = pytree.tree_flatten((args, kwargs))
    tensors = [t.detach() for t in leaves if _is_tensor(t)]

    class Call(Module):
        def forward(self, *given):
            rest = iter(given)
            a, kw = pytree.tree_unflatten([next(rest) if _is_tensor(x) else x for x in leaves],
                                          spec)
            result = op(*a, **kw)
            return result, given

    program = export(Call(), tuple(tensors)).run_decompositions({}).module()
    wanted = pytree.tree_leaves(Call()(*(t.clone() for t in tensors)))
    got = pytree.tree_leaves(program(*(t.clone() for t in tensors)))
    for a, b in zip(got, wanted):
        if not (_same(a, b) if _is_tensor(a) else a == b):
            raise AssertionError(f"a program with {op} computes {a}, the operator {b}")


_CHECKS = dict(zip(NAMES, (_check_schema, _check_autograd, _check_fake, _check_program)))


def opcheck(op, args, kwargs=None, *, test_utils=NAMES, raise_exception=True, atol=None,
            rtol=None):
    """{name of a check: "SUCCESS", or the error}"""
    if hasattr(op, "_opoverload"):
        op = op._opoverload
    if not isinstance(op, _cfx.OpOverload):
        names = op.overloads()
        if len(names) != 1:
            raise ValueError(f"opcheck(op, ...): {op} has the overloads {names}: give one of them")
        op = getattr(op, names[0])
    asked = (test_utils,) if isinstance(test_utils, str) else tuple(test_utils)
    unknown = [name for name in asked if name not in _CHECKS]
    if unknown:
        raise ValueError(f"opcheck(op, ..., test_utils={test_utils}), expected test_utils to be "
                         f"subset of {NAMES} but it was not")
    results = {}
    for name in asked:
        copy, kwcopy = _copies(tuple(args), kwargs or {})
        try:
            _CHECKS[name](op, copy, kwcopy)
            results[name] = "SUCCESS"
        except Exception as e:
            if raise_exception:
                raise OpCheckError(f"opcheck(op, ...): {name} failed with {e} (scroll up for "
                                   "stack trace)") from e
            results[name] = e
    return results
