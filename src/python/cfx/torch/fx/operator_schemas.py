"""Signatures of operators, and arguments matched to them."""
import collections
import enum
import inspect
import numbers
import types
import typing

import cfx
from cfx import _cfx
from cfx._functions import find, torch

from ._compatibility import compatibility

__all__ = ["ArgsKwargsPair", "check_for_mutable_operation", "get_signature_for_torch_op",
           "create_type_hint", "type_matches", "normalize_function", "normalize_module"]


@compatibility(is_backward_compatible=False)
class ArgsKwargsPair(typing.NamedTuple):
    """Arguments by position and by name."""

    args: tuple
    kwargs: dict


_manual_overrides = {}
_TYPES = {"Tensor": cfx.Tensor, "Scalar": numbers.Number, "number": numbers.Number, "int": int,
          "SymInt": int, "float": float, "bool": bool, "str": str, "complex": complex,
          "ScalarType": _cfx.dtype, "Layout": _cfx.layout, "Device": _cfx.device,
          "MemoryFormat": _cfx.memory_format}


class _FakeGlobals(dict):
    pass


def _python_type(kind):
    text = str(kind)
    t = kind._text if hasattr(kind, "_text") else text
    if t.endswith("?"):
        return typing.Optional[_python_type(type(kind)(t[:-1]))]
    if t.endswith("]"):
        return typing.List[_python_type(type(kind)(t[:t.rindex("[")]))]
    return _TYPES.get(t, typing.Any)


def _signature(schema):
    """A schema as a signature of Python's."""
    from inspect import Parameter

    parameters = []
    for a in schema.arguments:
        kind = Parameter.KEYWORD_ONLY if a.kwarg_only else Parameter.POSITIONAL_OR_KEYWORD
        default = a.default_value if a.has_default_value() else Parameter.empty
        name = a.name
        if name == "self" and parameters == [] or name == "from":
            kind = Parameter.POSITIONAL_ONLY if name == "from" else kind
            name = "input" if name == "self" else "from_"
        parameters.append(Parameter(name, kind, default=default,
                                    annotation=_python_type(a.type)))
    rets = [_python_type(r.type) for r in schema.returns]
    result = None if not rets else rets[0] if len(rets) == 1 else typing.Tuple[tuple(rets)]
    parameters.sort(key=lambda p: p.kind)
    return inspect.Signature(parameters, return_annotation=result)


def _schemas(op):
    """The schemas of a callable, or None."""
    from .._ops import FunctionSchema, OpOverloadPacket

    if isinstance(op, _cfx.OpOverload):
        return [op._schema]
    if isinstance(op, OpOverloadPacket):
        return [o._schema for o in op._all]
    if isinstance(op, (_cfx.Function, _cfx.Method)):
        return [FunctionSchema(s) for s in op._schemas]
    return None


@compatibility(is_backward_compatible=False)
def get_signature_for_torch_op(op, return_schemas=False):
    """The signatures of an operator's overloads; None where it is none."""
    if isinstance(op, types.FunctionType) or op in _manual_overrides:
        found = None
    else:
        found = _schemas(op)
    if found is None:
        return (None, None) if return_schemas else None
    signatures = [_signature(s) for s in found]
    return (signatures, found) if return_schemas else signatures


@compatibility(is_backward_compatible=False)
def check_for_mutable_operation(target, args, kwargs):
    """A RuntimeError where a call writes to an operand."""
    if kwargs.get("out") is not None:
        path = getattr(target, "_path", "").rpartition(".")[2]
        op = _cfx.overload(f"aten.{path}.out")
        _refuse(op._schema if op is not None else f"{path}.out")
    signatures, schemas = get_signature_for_torch_op(target, return_schemas=True)
    if not signatures or not schemas:
        return
    for signature, schema in zip(signatures, schemas):
        try:
            signature.bind(*args, **kwargs)
        except TypeError:
            continue
        if schema.is_mutable:
            _refuse(schema)
        return


def _refuse(schema):
    raise RuntimeError(f"Tried to trace mutable operation {schema}. FX only supports functional "
                       "code, so operations that mutate operands in-place (e.g. via `out` "
                       "arguments) are not supported")


@compatibility(is_backward_compatible=False)
def create_type_hint(x):
    """A type hint for a list or tuple of types: the union of what is in it."""
    try:
        if isinstance(x, (list, tuple)):
            def hint(inner):
                return typing.List[inner] if isinstance(x, list) else typing.Tuple[inner, ...]

            if len(x) == 0:
                return hint(typing.Any)
            base = x[0]
            for t in x:
                if issubclass(t, base):
                    continue
                if issubclass(base, t):
                    base = t
                else:
                    return hint(typing.Any)
            return hint(base)
    except Exception:
        import warnings

        warnings.warn(f"We were not able to successfully create type hint from the type {x}",
                      stacklevel=2)
    return x


@compatibility(is_backward_compatible=False)
def type_matches(signature_type, argument_type):
    """Whether an argument of one type may be given for a parameter of another."""
    origin = getattr(signature_type, "__origin__", signature_type)
    if signature_type is argument_type or signature_type is typing.Any:
        return True
    if origin is typing.Union and signature_type != argument_type:
        return any(type_matches(c, argument_type) for c in signature_type.__args__)
    if signature_type == typing.List[int] and argument_type is int:
        return True
    if getattr(signature_type, "__origin__", None) in (list, typing.List):
        inner = signature_type.__args__[0]
        if not inspect.isclass(inner) and inner not in (typing.Any,):
            return False
        return getattr(argument_type, "__origin__", None) in (list, typing.List) and \
            _within(argument_type.__args__[0], inner) or \
            getattr(argument_type, "__origin__", None) is tuple and \
            all(_within(a, inner) for a in argument_type.__args__ if a is not ...)
    if signature_type is int and argument_type is _cfx.dtype:
        return True
    if signature_type is numbers.Number and argument_type in (int, float):
        return True
    if inspect.isclass(argument_type) and inspect.isclass(signature_type):
        return issubclass(argument_type, signature_type)
    return False


def _within(a, b):
    return b is typing.Any or a is typing.Any or inspect.isclass(a) and inspect.isclass(b) and \
        issubclass(a, b)


@compatibility(is_backward_compatible=False)
def normalize_function(target, args, kwargs=None, arg_types=None, kwarg_types=None,
                       normalize_to_only_use_kwargs=False):
    """The arguments of a call matched to the signature of what it calls; None where that cannot be
    told."""
    kwargs = kwargs or {}
    if isinstance(target, types.FunctionType) or inspect.isclass(target):
        return _normalize_python(target, args, kwargs, normalize_to_only_use_kwargs)
    if not callable(target):
        raise AssertionError(f"Expected callable target, got {type(target)}")
    signatures = get_signature_for_torch_op(target)
    if not signatures:
        return None
    matched = [s for s in signatures if _binds(s, args, kwargs)]
    if len(matched) > 1 and (arg_types is not None or kwarg_types is not None):
        matched = [s for s in signatures if _fits(s, arg_types or (), kwarg_types or {})]
    elif len(matched) > 1 and not all(_names(s) == _names(matched[0]) for s in matched):
        _ambiguous(target, matched)
    if not matched:
        return None
    return _args_kwargs_to_normalized_args_kwargs(matched[0], args, kwargs,
                                                  normalize_to_only_use_kwargs)


def _ambiguous(target, matched):
    raise RuntimeError(f"Tried to normalize arguments to {torch_name(target)} but the schema match "
                       f"was ambiguous! Please provide argument types to the normalize_arguments() "
                       f"call. Available schemas:\n" + "\n".join(map(str, matched)))


@compatibility(is_backward_compatible=False)
def torch_name(target):
    from .node import _get_qualified_name

    return _get_qualified_name(target)


def _names(s):
    return list(s.parameters)


def _binds(signature, args, kwargs):
    try:
        signature.bind(*args, **kwargs)
    except TypeError:
        return False
    return True


def _fits(signature, arg_types, kwarg_types):
    try:
        bound = signature.bind(*arg_types, **kwarg_types)
    except TypeError:
        return False
    return all(type_matches(signature.parameters[n].annotation, t)
               for n, t in bound.arguments.items())


def _normalize_python(target, args, kwargs, only_kwargs):
    inner = getattr(target, "_dispatched", target)  # of a function that decides between two
    try:
        signature = inspect.signature(inspect.unwrap(inner))
    except (TypeError, ValueError):
        return None
    return _args_kwargs_to_normalized_args_kwargs(signature, args, kwargs, only_kwargs)


@compatibility(is_backward_compatible=False)
def normalize_module(root, target, args, kwargs=None, normalize_to_only_use_kwargs=False):
    """The same for the call of a module."""
    try:
        module = root.get_submodule(target)
    except AttributeError as e:
        raise RuntimeError(f"Tried to normalize node with target {target} but root did not have "
                           "that target!") from e
    nn = torch().nn
    if getattr(nn, type(module).__name__, None) is not type(module):
        return None
    return _args_kwargs_to_normalized_args_kwargs(inspect.signature(module.forward), args,
                                                  kwargs or {}, normalize_to_only_use_kwargs)


def _args_kwargs_to_normalized_args_kwargs(sig, args, kwargs, normalize_to_only_use_kwargs):
    """Binds arguments to a signature, defaults filled in; None for *args and the like."""
    supported = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    if any(p.kind not in supported for p in sig.parameters.values()):
        return None
    try:
        bound = sig.bind(*args, **kwargs)
    except TypeError:
        return None
    bound.apply_defaults()
    new_kwargs, new_args = {}, []
    for i, name in enumerate(sig.parameters):
        if not normalize_to_only_use_kwargs and i < len(args):
            new_args.append(bound.arguments[name])
        else:
            new_kwargs[name] = bound.arguments[name]
    return ArgsKwargsPair(tuple(new_args), new_kwargs)


_ = (collections, enum, find, _FakeGlobals)
