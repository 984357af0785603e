"""The schema that the annotations of a function stand for."""
import inspect
import typing

import cfx
from cfx import _cfx

from ..types import Number

__all__ = ["infer_schema"]


def _scalars():
    return {cfx.Tensor: "Tensor", int: "SymInt", float: "float", bool: "bool", str: "str",
            typing.Union[int, float, bool]: "Scalar", Number: "Scalar", _cfx.dtype: "ScalarType",
            _cfx.device: "Device"}


def _kinds():
    """Annotation to the type of a schema."""
    table = {}
    for kind, name in _scalars().items():
        table[kind] = name
        table[typing.Optional[kind]] = name + "?"
        if kind is str:
            continue
        for items, text in ((kind, name), (typing.Optional[kind], name + "?")):
            if text.endswith("?") and kind is not cfx.Tensor:
                continue
            for listed in (typing.Sequence[items], typing.List[items], list[items]):
                table[listed] = f"{text}[]"
                table[typing.Optional[listed]] = f"{text}[]?"
    return table


def _returned(annotation, error):
    table = {**_scalars(), typing.List[cfx.Tensor]: "Tensor[]", list[cfx.Tensor]: "Tensor[]"}
    del table[str]
    if annotation is None or annotation is type(None):
        return "()"
    if annotation is inspect.Signature.empty:
        error("No return type annotation was provided. Please add one.")
    if annotation in table:
        return table[annotation]
    if typing.get_origin(annotation) is tuple:
        items = typing.get_args(annotation)
        if all(i in table for i in items):
            texts = [table[i] for i in items]
            return texts[0] if len(texts) == 1 else f"({', '.join(texts)})"
    error(f"Return has unsupported type {annotation}. The valid types are: {table}.")


def _default(value, kind, error, name):
    if value is None or isinstance(value, (bool, int, float)):
        return str(value)
    if isinstance(value, str):
        return f'"{value}"'
    if type(value).__name__ == "dtype":
        return str(value).removeprefix("torch.")
    if type(value).__name__ == "device":
        return f'"{value}"'
    error(f"Parameter {name} has an unsupported default value type {type(value)}.")


def infer_schema(prototype_function, /, *, mutates_args, op_name=None):
    """infer_schema(f, mutates_args=()): "(Tensor x) -> Tensor"; mutates_args may be "unknown"."""
    signature = inspect.signature(prototype_function)
    hints = typing.get_type_hints(prototype_function)
    kinds = _kinds()

    def error(what):
        raise ValueError(f"infer_schema(func): {what} Got func with signature {signature})")

    params, seen_only, said = [], False, []
    for i, (name, p) in enumerate(signature.parameters.items()):
        if p.kind not in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY):
            error("We do not support positional-only args, varargs, or varkwargs.")
        if p.kind is p.KEYWORD_ONLY and not seen_only:
            params.append("*")
            seen_only = True
        if name not in hints:
            error(f"Parameter {name} must have a type annotation.")
        if hints[name] not in kinds:
            error(f"Parameter {name} has unsupported type {hints[name]}. The valid types are: "
                  f"{list(kinds)}.")
        kind = kinds[hints[name]]
        if mutates_args == "unknown" and kind.startswith("Tensor") or name in mutates_args:
            if not kind.startswith("Tensor"):
                error(f"Parameter {name} is in mutable_args but only Tensors or collections of "
                      "Tensors can be mutated")
            kind = f"Tensor(a{i}!){kind[len('Tensor'):]}"
            said.append(name)
        default = "" if p.default is p.empty else f"={_default(p.default, kind, error, name)}"
        params.append(f"{kind} {name}{default}")
    if mutates_args != "unknown" and set(mutates_args) - set(said):
        error(f"{sorted(set(mutates_args) - set(said))} in mutates_args were not found in the "
              "parameters.")
    result = _returned(hints.get("return", signature.return_annotation), error)
    return f"{op_name or ''}({', '.join(params)}) -> {result}"
