"""How the code of a graph is written and what its callers pass. The C library writes it; what a
subclass of CodeGen overrides it asks for."""
import collections.abc
import dataclasses
import inspect
import math
import re
import types
import typing

from cfx import _cfx
from cfx._functions import find, torch

from ..utils import _pytree as pytree
from . import tensor_type
from . import _pytree as fx_pytree
from ._compatibility import compatibility


@compatibility(is_backward_compatible=True)
@dataclasses.dataclass
class PythonCode:
    """The text of forward, and what the names in it stand for."""

    src: str
    globals: typing.Dict[str, typing.Any]
    _lineno_map: typing.Optional[typing.Dict[int, typing.Optional[int]]] = None
    _prologue_start: int = 0


class _PyTreeInfo(typing.NamedTuple):
    """The arguments that callers pass, and how they are nested."""

    orig_args: typing.List[str]
    in_spec: typing.Any
    out_spec: typing.Any


# The module at the start of what a line computes.
_SELF = re.compile(r"^( +\w+(?: : [^=]+)? = (?:getattr\()*)self\b(?=[.,])", re.M)


def _takes(f, name):
    try:
        parameters = inspect.signature(f).parameters
    except (TypeError, ValueError):
        return False
    return name in parameters or any(p.kind is p.VAR_KEYWORD for p in parameters.values())


@compatibility(is_backward_compatible=False)
class CodeGen:
    """The usual code: placeholders are parameters."""

    def __init__(self):
        self._body_transformer = None
        self._func_name = "forward"

    # ---- what may be overridden ----

    def gen_fn_def(self, free_vars, maybe_return_annotation, *, expanded_def=False):
        """The lines before the body."""
        if not free_vars or free_vars[0] != "self":
            free_vars.insert(0, "self")
        return f"def {self._func_name}({', '.join(free_vars)}){maybe_return_annotation}:"

    def generate_output(self, output_args, *, descs=None):
        """The last line."""
        return f"return {repr(output_args)}"

    def process_inputs(self, *args):
        """What callers pass, as the placeholders take it."""
        return args

    def process_outputs(self, outputs):
        """What the graph gives, as callers see it."""
        return outputs

    def additional_globals(self):
        """Names that the code uses beside those of the graph: a list of (name, object)."""
        return []

    # ---- what C asks ----

    def _hooks(self, graph):
        """An object with those of the methods _body, _head, _result that differ from the usual."""
        hooks = types.SimpleNamespace()
        cls = type(self)
        if self._body_transformer is not None:
            hooks._body = lambda lines: self._body_transformer(lines)
        if self._writes_head():
            hooks._head = lambda found: self.gen_fn_def(list(found[0]), found[1])
        if cls.generate_output not in _USUAL_OUTPUTS:
            hooks._result = lambda text: self.generate_output(graph.output_node().args[0])
        return hooks if vars(hooks) else None

    def _writes_head(self):
        return type(self).gen_fn_def not in _USUAL_HEADS or self._func_name != "forward"

    def _tree(self):
        """(names, spec of the arguments, spec of the result) for C; None where nothing is
        nested."""
        return None

    def _python_code(self, graph, root_module, *, verbose=False, **options):
        tree = self._tree()
        if tree is not None or graph._tree() is not None:
            graph._set_tree(*(tree or (None, None, None)))
        graph._push_marks()
        src, names, lines, start = graph._python_code(self._hooks(graph))
        if verbose:
            from ._readable import verbose_code

            src = f"\n\n\n{verbose_code(graph, options)}    "
        if root_module != "self":
            src = _SELF.sub(rf"\1{root_module}", src)
        return PythonCode(src, globals_of(graph, names, self), lines, start)


class _BoxedCodeGen(CodeGen):
    """forward takes one list, which it empties."""

    def gen_fn_def(self, free_vars, maybe_return_annotation, *, expanded_def=False):
        names = [v.split(":")[0].split("=")[0].strip() for v in free_vars if v != "self"]
        lines = [f"def {self._func_name}(self, args_list){maybe_return_annotation}:"]
        if names:
            lines.append("    args_iter = iter(args_list)")
            lines += [f"    {name} = next(args_iter)" for name in names]
            lines.append("    args_list.clear()")
        return "\n".join(lines)


@compatibility(is_backward_compatible=False)
class _PyTreeCodeGen(CodeGen):
    """Arguments are nested: forward takes them apart into the placeholders."""

    def __init__(self, pytree_info):
        super().__init__()
        self.pytree_info = pytree_info

    def process_inputs(self, *inputs):
        return pytree.arg_tree_leaves(*inputs)

    def process_outputs(self, out):
        if self.pytree_info is None or self.pytree_info.out_spec is None:
            return out
        if not isinstance(out, (list, tuple)):
            out = [out]
        return pytree.tree_unflatten(out, self.pytree_info.out_spec)

    def _writes_head(self):
        info = self.pytree_info  # of a function's arguments self is none
        return super()._writes_head() or info.in_spec is not None and not self._by_name() and \
            info.orig_args[:1] != ["self"]

    def _by_name(self):
        spec = self.pytree_info.in_spec
        return (spec.type is tuple and spec.num_children == 2 and spec.child(0).type is tuple
                and spec.child(1).type is dict)

    def _tree(self):
        info = self.pytree_info
        names = list(info.orig_args)
        out = None if info.out_spec is None else c_spec(info.out_spec)
        if info.in_spec is None:
            return None
        inner = c_spec(info.in_spec)
        if not self._by_name() and names and names[0] == "self":
            names, inner = names[1:], tuple(inner[1:]) if isinstance(inner, tuple) else inner
        return names, tuple(inner) if isinstance(inner, (list, tuple)) else inner, out

    def gen_fn_def(self, free_vars, maybe_return_annotation, *, expanded_def=False):
        info = self.pytree_info
        args = list(info.orig_args)
        has_self = args and args[0] == "self"
        head = CodeGen.gen_fn_def(self, args if has_self else ["self"] + args,
                                  maybe_return_annotation)
        if not free_vars:
            return head
        typed = [v.split("=")[0].strip() for v in free_vars if ":" in v]
        plain = [v.split(":")[0].split("=")[0].strip() for v in free_vars]
        lines = [head]
        if typed:
            lines.append("    " + "".join(f"{v}; " for v in typed) + "\n")
        lines.append(f"    {', '.join(plain)}, = fx_pytree.tree_flatten_spec("
                     f"{self._flattened(info)}, self._in_spec)")
        return "\n".join(lines)

    def _flattened(self, info):
        if not self._by_name():
            return f"[{', '.join(info.orig_args)}]"
        n = info.in_spec.child(0).num_children
        named = zip(info.in_spec.child(1).context, info.orig_args[n:])
        return (f"([{', '.join(info.orig_args[:n])}], "
                f"{{{', '.join(f'{k!r}:{v}' for k, v in named)}}})")

    def generate_output(self, output_args, *, descs=None):
        if self.pytree_info and self.pytree_info.out_spec is not None:
            return f"return pytree.tree_unflatten({repr(output_args)}, self._out_spec)"
        return super().generate_output(output_args)


class _ExportCodeGen(_PyTreeCodeGen):
    """That of exported programs: arguments are checked and taken apart before forward."""

    def __init__(self, pytree_info, in_shuffle_graph=None, out_shuffle_graph=None):
        super().__init__(pytree_info)


_USUAL_HEADS = {CodeGen.gen_fn_def, _PyTreeCodeGen.gen_fn_def}
_USUAL_OUTPUTS = {CodeGen.generate_output, _PyTreeCodeGen.generate_output}


def c_spec(spec):
    """A TreeSpec as C has it: containers with an ellipsis for each leaf. A node of the user's is a
    tuple of what it holds."""
    if spec.is_leaf():
        return ...
    children = [c_spec(c) for c in spec.children()]
    if spec.type is dict or spec.type is collections.OrderedDict:
        return dict(zip(spec.context, children))
    if spec.type is collections.defaultdict:
        return dict(zip(spec.context[1], children))
    return children if spec.type is list else tuple(children)


def codegen_of(tree):
    """The code generator of a graph that C gave a tree of arguments."""
    from ..export._modules import spec_from_c

    names, in_spec, out_spec = tree
    call = len(in_spec) == 2 and isinstance(in_spec[0], tuple) and isinstance(in_spec[1], dict)
    if not call:
        names, in_spec = ["self", *names], (..., *in_spec)
    return _PyTreeCodeGen(_PyTreeInfo(list(names), spec_from_c(in_spec), spec_from_c(out_spec)))


# ---- globals -------------------------------------------------------------------------------------


def globals_of(graph, names, codegen):
    """What the names in a graph's code stand for."""
    t = torch()
    found = {"inf": math.inf, "nan": math.nan, "NoneType": type(None), "torch": t,
             "device": t.device, "fx_pytree": fx_pytree, "pytree": pytree}
    for name, what in names.items():
        found[name] = find(what) if isinstance(what, str) else what
    for node in graph.nodes:
        if node.type is not None:
            type_globals(node.type, found)
    found.update(codegen.additional_globals())
    return found


def _spelled(name):
    """A name that code can have, as C's emitter makes it."""
    return re.sub(r"[^0-9a-zA-Z_]+", "_", name.replace(".", "_"))


def type_globals(annotation, found):
    """Adds the names by which code spells an annotation."""
    if annotation is ...:
        found["_"] = ...
    elif isinstance(annotation, type) and not isinstance(annotation, types.GenericAlias):
        module = annotation.__module__
        if module != "builtins" and module.partition(".")[0] not in ("torch", "cfx"):
            found[_spelled(f"{module}.{annotation.__qualname__}")] = annotation
    elif isinstance(annotation, tensor_type.TensorType):
        found["TensorType"] = tensor_type.TensorType
        found[_spelled(repr(annotation.__args__))] = annotation.__args__
    elif typing.get_origin(annotation) is not None:
        head = repr(annotation).split("[")[0]
        name = head.rpartition(".")[2]
        if head in ("typing.Optional", "typing.Union"):
            found["typing_Union"] = typing.Union
        elif head.startswith("typing.") and hasattr(collections.abc, name):
            found[f"collections_abc_{name}"] = getattr(collections.abc, name)
        elif head.startswith("typing."):
            found[head.replace(".", "_")] = getattr(typing, name)
        for argument in typing.get_args(annotation):
            for part in argument if isinstance(argument, list) else [argument]:
                type_globals(part, found)
    elif isinstance(annotation, (str, typing.ForwardRef)):
        found[_spelled(repr(annotation))] = annotation
    elif hasattr(typing, getattr(annotation, "_name", None) or ""):
        found[f"typing_{annotation._name}"] = annotation
    elif isinstance(annotation, typing.TypeVar) or hasattr(annotation, "__name__"):
        name = repr(annotation)
        if name.isidentifier():
            found[name] = annotation


def code_of(obj):
    """How generated code writes an object: a text, or (path of a global, the global, a text behind
    it)."""
    import enum

    if isinstance(obj, enum.Enum):
        cls = type(obj)
        return f"{cls.__module__}.{cls.__name__}", cls, f".{obj.name}"
    if callable(obj) and hasattr(obj, "__name__") and not isinstance(obj, type):
        path, known = _path_of(obj)
        if path:
            return path, obj, ""
    return repr(obj)


def _path_of(f):
    from cfx._functions import target_of

    try:
        return target_of(f)
    except Exception:
        return None, False


_cfx.adopt("code_of", code_of)
