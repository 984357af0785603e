"""The operators that Python has defined: what stands behind each, and how C gets to know it."""
import types

from cfx import _cfx
from cfx._functions import _schema, split_schema

from .._functorch import config
from .._subclasses.fake_tensor import MetadataMismatchError
from ..utils import _pytree as pytree
from . import fake_impl

_defined = {}  # "ns::name.overload" to Definition

# The functions that a call asks for, by what runs it; the first that is there.
_ORDER = {
    "kernel": ("CPU", "CompositeExplicitAutograd", "CompositeImplicitAutograd",
               "CompositeExplicitAutogradNonFunctional"),
    "fake": ("Fake", "Meta", "CompositeExplicitAutograd", "CompositeImplicitAutograd"),
    "composite": ("CompositeImplicitAutograd",),
}
_KEYS = {k for row in _ORDER.values() for k in row} | {"Backward", "Autograd", "AutogradCPU"}


class Definition:
    """One operator, which C knows too. One that is made of others is another operator there than
    one that has a kernel: it is registered anew when somebody says so."""

    def __init__(self, schema, tags):
        match = _schema.match(schema)
        if match is None:
            raise RuntimeError(f"'{schema}' is no schema, as \"sin(Tensor x) -> Tensor\"")
        self.schema, self.tags = schema, tags
        ns, name, overload, _, returns = match.groups()
        self.gives_list = returns.strip().endswith("]")
        self.ns, self.base = ns, name
        self.name = f"{ns}::{name}" + (f".{overload}" if overload else "")
        args = list(split_schema(schema))
        self.names = [name for _, name, _, _ in args]
        self.only = [name for _, name, _, only in args if only]
        self.functions = {}
        self._overload = None
        self._was_composite = False
        self._seen = None  # what it gave last, where exports look at the example
        self.replaceable = False  # another may have its name: custom_op made it

    @property
    def is_composite(self):
        """Whether it is made of other operators, and has no kernel of its own."""
        return "CompositeImplicitAutograd" in self.functions and \
            not any(k in self.functions for k in ("CPU", "CompositeExplicitAutograd", "Fake"))

    def overload(self):
        """torch.ops.ns.name.overload"""
        if self._overload is not None and self.is_composite != self._was_composite:
            self.forget()
        if self._overload is None:
            self._was_composite = self.is_composite
            self._overload = _cfx.define_op(self.schema, self, self.is_composite)
        return self._overload

    def forget(self):
        """C does not know it any more."""
        if self._overload is not None:
            _cfx.undefine_op(self._overload)
            self._overload = None
        _drop_packet(self.ns, self.base)

    def set(self, key, function):
        """Says what it does; a function that takes that back."""
        if key not in _KEYS:
            if key.lower().startswith(("cuda", "xpu", "mps", "hpu", "autogradcuda")):
                return lambda: None  # a device that is not there
            raise NotImplementedError(f"cfx does not ask for the dispatch key {key}")
        before = self.functions.get(key)
        self.functions[key] = function
        self.overload()

        def undo():
            if before is None:
                self.functions.pop(key, None)
            else:
                self.functions[key] = before

        return undo

    # ---- what C calls ----

    def __call__(self, kind, args):
        if kind == "grad":
            return self._grad(*args)
        for key in ("AutogradCPU", "Autograd", *_ORDER[kind]):
            if key in self.functions:
                break
        else:
            if kind == "fake" and self.schema.endswith("-> ()"):
                return None  # it writes, and what it writes has the shape that it had
            if kind == "fake" and self._seen is not None:
                return pytree.tree_map(_like, self._seen)
            raise self._missing(kind)
        n = len(args) - len(self.only)
        kwargs = dict(zip(self.only, args[n:]))
        if kind == "kernel" and config.fake_tensor_propagate_real_tensors:
            return self._watched(self.functions[key], args[:n], kwargs)
        if kind != "fake":
            return self.functions[key](*args[:n], **kwargs)
        with fake_impl.running(self.name):
            return _apart(self.functions[key](*args[:n], **kwargs), args)

    def _watched(self, function, args, kwargs):
        """Runs it, and holds what it wrote to against the schema."""
        named = dict(zip(self.names, (*args, *kwargs.values())))
        before = {n: [t.clone() for t in _tensors(v)] for n, v in named.items()}
        result = function(*args, **kwargs)
        for a in self.overload()._schema.arguments:
            same = all(_equal(x, y) for x, y in zip(before[a.name], _tensors(named[a.name])))
            if same == a.is_write and before[a.name]:
                raise RuntimeError(
                    f"{self.name}: for argument '{a.name}': the operator's schema {self.schema} "
                    f"specified that the operator {'mutates' if a.is_write else 'does not mutate'} "
                    "the argument, but this seems to be empirically wrong. Please make the schema "
                    "and operator behavior consistent.")
        if "Fake" in self.functions:
            self._hold_fake_against(result, args, kwargs)
        self._seen = result
        return result

    def _hold_fake_against(self, result, args, kwargs):
        """An error where the fake gives other sizes or another dtype than the operator."""
        def faked(t):
            return _cfx.fake_like(t) if isinstance(t, _cfx.TensorBase) else t

        with fake_impl.running(self.name):
            made = self.functions["Fake"](*pytree.tree_map(faked, args),
                                          **pytree.tree_map(faked, kwargs))
        found, real = _tensors(made), _tensors(result)
        for i, (f, r) in enumerate(zip(found, real)):
            place = "output" if len(real) == 1 else f"output[{i}]"
            for k, (a, b) in enumerate(zip(f.shape, r.shape)):
                if a != b:
                    raise MetadataMismatchError(
                        "Real tensor propagation found an output size mismatch between fake shape "
                        f"{a} and real shape {b}, at {place}.size({k}), for func: {self._overload}")
            if f.dtype is not r.dtype or f.dim() != r.dim():
                raise MetadataMismatchError(
                    f"Real tensor propagation found a metadata mismatch between fake tensor {f} "
                    f"and real tensor {r},  at {place}, for func: {self._overload}")

    def _missing(self, kind):
        if kind == "fake":
            where, what = "torch.library", self._overload
            if self.replaceable:  # made by custom_op
                where, what = self.name.partition("::")[2], f"<CustomOpDef({self.name})>"
            return RuntimeError(
                f"There was no fake impl registered for {what}. This is necessary for "
                f"torch.compile/export/fx tracing to work. Please use `{where}.register_fake` "
                "to add an fake impl.")
        return NotImplementedError(
            f"Could not run '{self.name}' with arguments from the 'CPU' backend: nobody has said "
            "what it does there (torch.library.impl)")

    def _grad(self, args, results, gradients):
        """A gradient for each argument, from what register_autograd was given."""
        if "Backward" not in self.functions:
            raise RuntimeError(
                f"Trying to backward through {self._overload} but no autograd formula was "
                "registered. Please use register_autograd to add one.")
        backward, setup = self.functions["Backward"]
        ctx = Context([isinstance(a, _cfx.TensorBase) and a.requires_grad for a in args])
        n = len(args) - len(self.only)
        output = list(results) if self.gives_list else results[0] if len(results) == 1 \
            else tuple(results)
        if setup is not None and self.only:
            setup(ctx=ctx, inputs=args[:n], keyword_only_inputs=dict(zip(self.only, args[n:])),
                  output=output)
        elif setup is not None:
            setup(ctx=ctx, inputs=args, output=output)
        filled = [g if g is not None or not isinstance(r, _cfx.TensorBase) else r.new_zeros(r.shape)
                  for g, r in zip(gradients, results)]
        given = filled if ctx.materialize else list(gradients)
        made = backward(ctx, given) if self.gives_list else backward(ctx, *given)
        made = made if isinstance(made, tuple) else (made,)
        if len(made) != n:
            raise RuntimeError(f"the backward of {self._overload} returned {len(made)} gradients, "
                               f"and it has {n} arguments")
        return (*made, *[None] * len(self.only))


class Context(types.SimpleNamespace):
    """What setup_context keeps for backward."""

    materialize = True

    def __init__(self, needs):
        super().__init__(needs_input_grad=tuple(needs), saved_tensors=())

    def save_for_backward(self, *tensors):
        self.saved_tensors = tensors

    def set_materialize_grads(self, value):
        self.materialize = value

    def mark_non_differentiable(self, *tensors):
        pass


def _tensors(x):
    return [t for t in pytree.tree_leaves(x) if isinstance(t, _cfx.TensorBase)]


def _equal(x, y):
    """Whether two tensors have the same numbers; NaN is the same as NaN."""
    return bool(((x == y) | ((x != x) & (y != y))).all())


def _like(t):
    """A tensor like one that an operator without a fake gave, whose layout says all about it."""
    if not isinstance(t, _cfx.TensorBase):
        return t
    if t.storage_offset() != 0:
        raise RuntimeError("a fake cannot be inferred from a result with non-zero storage offset")
    if not t.is_contiguous() and not t.transpose(0, -1).is_contiguous():
        raise RuntimeError("a fake cannot be inferred from a result that is not dense in memory")
    return t.new_empty_strided(t.shape, t.stride())


def _apart(result, args):
    """The results of a fake, none of which is an argument: the schema says that they are new."""
    given = {id(t) for t in pytree.tree_leaves(args)}
    return pytree.tree_map(lambda t: t.new_empty_strided(t.shape, t.stride())
                           if isinstance(t, _cfx.TensorBase) and id(t) in given else t, result)


def _drop_packet(ns, base):
    """torch.ops.ns.base is made anew when it is next asked for."""
    from .._ops import ops

    namespace = vars(ops).get(ns)
    if namespace is not None:
        vars(namespace).pop(base, None)


def define(schema, tags=()):
    """Adds an operator."""
    made = Definition(schema, tags)
    if made.name in _defined and _defined[made.name].replaceable:
        remove(_defined[made.name])
    if made.name in _defined or _cfx.overload(made.name) is not None:
        raise RuntimeError(f"Tried to register an operator ({schema}) with the same name and "
                           f"overload name multiple times. '{made.name}' is there already")
    made.overload()
    _defined[made.name] = made
    _drop_packet(made.ns, made.base)
    return made


def find(name):
    """The definition of "ns::name"."""
    made = _defined.get(name.removesuffix(".default"))
    if made is None:
        there = _cfx.overload(name) is not None
        raise (NotImplementedError if there else RuntimeError)(
            f"operator {name} " + ("is one of cfx's own, whose kernels stay as they are" if there
                                   else "does not exist"))
    return made


def remove(made):
    if _defined.get(made.name) is made:
        del _defined[made.name]
    made.forget()


def definitions():
    return list(_defined.values())
