"""Graphs: a program at rest. The nodes, their order, names, arguments and texts are the C
library's; this class has torch.fx's ways of making and changing them."""
import contextlib
import dataclasses
import keyword
import math
import re
import typing
import warnings

from cfx import _cfx

from . import _pytree as fx_pytree
from ._codegen import CodeGen, PythonCode, _BoxedCodeGen, _ExportCodeGen, _PyTreeCodeGen
from ._codegen import _PyTreeInfo, codegen_of, globals_of
from ._compatibility import compatibility
from .node import Node, Target, _type_repr, map_arg

__all__ = ["PythonCode", "CodeGen", "Graph"]
for _class in (PythonCode, CodeGen, _BoxedCodeGen, _ExportCodeGen, _PyTreeCodeGen, _PyTreeInfo):
    _class.__module__ = __name__  # where PyTorch has them


def _snake_case(s):
    """"MaxPool" to "max_pool"."""
    return re.sub(r"(?<=[a-z])([A-Z])", r"_\1", s).lower()


def _is_from_torch(obj):
    module = getattr(obj, "__module__", None)
    if module is not None:
        return module.partition(".")[0] == "torch" or module.startswith("cfx.torch")
    return isinstance(obj, (_cfx.Function, _cfx.Method))


class _Namespace:
    """Names that are unique: "add", "add_1", ..."""

    def __init__(self):
        self._obj_to_name = {}
        self._used_names = {}

    def create_name(self, candidate, obj):
        if obj is not None and obj in self._obj_to_name:
            return self._obj_to_name[obj]
        base, number = re.fullmatch(r"(.*?)(?:_(\d+))?",
                                    re.sub(r"[^0-9a-zA-Z_]+", "_", candidate)).groups()
        base = base or "_unnamed"
        if base[0].isdigit():
            base = f"_{base}"
        name = base if number is None else f"{base}_{number}"
        count = self._used_names.get(base, 0) if number is None else int(number)
        while name in self._used_names or keyword.iskeyword(name):
            count += 1
            name = f"{base}_{count}"
        self._used_names[base] = max(count, self._used_names.get(base, 0))
        self._used_names.setdefault(name, 0)
        if obj is not None:
            self._obj_to_name[obj] = name
        return name


class _InsertPoint:
    """Where new nodes go, until the end of a with block."""

    def __init__(self, graph, how, node):
        self.graph = graph
        self.was = graph._set_insert(how, node)

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self.graph._set_insert(*self.was)


class _node_list:
    """The nodes of a graph, in order; going over them stays valid whatever is done to the graph."""

    __slots__ = ("graph", "direction")

    def __init__(self, graph, direction="_next"):
        if direction not in ("_next", "_prev"):
            raise AssertionError(f"direction must be '_next' or '_prev', got {direction}")
        self.graph = graph
        self.direction = direction

    def __len__(self):
        return len(self.graph)

    def __iter__(self):
        return self.graph._iterate(self.direction == "_prev")

    def __reversed__(self):
        return _node_list(self.graph, "_next" if self.direction == "_prev" else "_prev")


AT_END, AT_START, BEFORE, AFTER = range(4)


@compatibility(is_backward_compatible=True)
class Graph(_cfx.GraphBase):
    """Nodes of six kinds in a list."""

    @compatibility(is_backward_compatible=True)
    def __init__(self, owning_module=None, tracer_cls=None, tracer_extras=None):
        self._owning_module = owning_module
        self._tracer_cls = tracer_cls
        self._tracer_extras = tracer_extras
        self._codegen = CodeGen()
        self._co_fields = {}

    @classmethod
    def _of(cls, capsule):
        graph = super()._of(capsule)
        graph.__init__()
        tree = graph._tree()
        if tree is not None:
            graph._codegen = codegen_of(tree)
        return graph

    def __new__(cls, *args, **kwargs):
        return super().__new__(cls)

    owning_module = property(lambda self: self._owning_module,
                             lambda self, module: setattr(self, "_owning_module", module))
    _len = property(lambda self: len(self))
    _root = property(lambda self: self._make_root())

    def __bool__(self):
        return True

    # ---- looking ----

    @property
    def nodes(self):
        """All nodes, in the order in which they run."""
        return _node_list(self)

    @compatibility(is_backward_compatible=False)
    def output_node(self):
        """The output node."""
        node = next(iter(reversed(self.nodes)))
        if node.op != "output":
            raise AssertionError(f"Expected output node, got {node.op}")
        return node

    @compatibility(is_backward_compatible=False)
    def find_nodes(self, *, op, target=None, sort=True):
        """The nodes of a kind, and those of a target."""
        if op == "call_function":
            if target is None:
                raise AssertionError("target must not be None for call_function")
        elif target is None:
            return self._find_nodes(op)
        if isinstance(target, str):
            return self._find_nodes(op, target)
        return [n for n in self._find_nodes(op) if n.target == target]

    # ---- making ----

    @compatibility(is_backward_compatible=True)
    def create_node(self, op, target, args=None, kwargs=None, name=None, type_expr=None):
        """A node at the insert point."""
        args = () if args is None else args
        kwargs = {} if kwargs is None else kwargs
        if not isinstance(args, tuple):
            raise AssertionError("args must be a tuple")
        if not isinstance(kwargs, dict):
            raise AssertionError("kwargs must be a dict")
        if op == "call_function" and not callable(target):
            raise ValueError(f"Node [graph = {self}, name = '{name or target}'] target {target} "
                             f"has type {type(target).__name__} but a Callable is expected")
        node = self._create(op, target, args, kwargs, name, None)
        if type_expr is not None:
            node.type = type_expr
        for hook in getattr(self._owning_module, "_create_node_hooks", None) or ():
            hook(node)
        return node

    @compatibility(is_backward_compatible=True)
    def placeholder(self, name, type_expr=None, default_value=...):
        """An input. `default_value` is left out by an ellipsis, or by inspect.Parameter.empty."""
        import inspect

        missing = default_value is ... or default_value is inspect.Signature.empty
        return self.create_node("placeholder", name, () if missing else (default_value,),
                                type_expr=type_expr)

    @compatibility(is_backward_compatible=True)
    def get_attr(self, qualified_name, type_expr=None):
        """Reads an attribute of the module that has the graph."""
        if self._owning_module is not None and not _reaches(self._owning_module, qualified_name):
            warnings.warn("Attempted to insert a get_attr Node with no underlying reference in the "
                          "owning GraphModule! Call GraphModule.add_submodule to add the necessary "
                          "submodule, GraphModule.add_parameter to add the necessary Parameter, or "
                          "nn.Module.register_buffer to add the necessary buffer", stacklevel=2)
        return self.create_node("get_attr", qualified_name, type_expr=type_expr)

    @compatibility(is_backward_compatible=True)
    def call_module(self, module_name, args=None, kwargs=None, type_expr=None):
        """Calls a module below the one that has the graph."""
        owner = self._owning_module
        if owner is not None and owner.get_submodule(module_name) is None:
            warnings.warn("Attempted to insert a call_module Node with no underlying reference in "
                          "the owning GraphModule! Call GraphModule.add_submodule to add the "
                          "necessary submodule", stacklevel=2)
        return self.create_node("call_module", module_name, args, kwargs, type_expr=type_expr)

    @compatibility(is_backward_compatible=True)
    def call_method(self, method_name, args=None, kwargs=None, type_expr=None):
        """Calls a method of the first argument."""
        return self.create_node("call_method", method_name, args, kwargs, type_expr=type_expr)

    @compatibility(is_backward_compatible=True)
    def call_function(self, the_function, args=None, kwargs=None, type_expr=None, name=None):
        """Calls a function."""
        return self.create_node("call_function", the_function, args, kwargs, name=name,
                                type_expr=type_expr)

    @compatibility(is_backward_compatible=True)
    def output(self, result, type_expr=None):
        """What the graph gives."""
        return self.create_node("output", "output", (result,), type_expr=type_expr)

    # ---- copying ----

    @compatibility(is_backward_compatible=True)
    def node_copy(self, node, arg_transform=lambda x: x):
        """A copy of a node, of this graph or another, at the insert point."""
        args = map_arg(node.args, arg_transform)
        kwargs = map_arg(node.kwargs, arg_transform)
        if not isinstance(args, tuple):
            raise AssertionError(f"Expected args to be tuple, got {type(args)}")
        copy_ = self.create_node(node.op, node.target, args, kwargs, node.name, node.type)
        copy_.meta = dict(node.meta)
        return copy_

    @compatibility(is_backward_compatible=True)
    def graph_copy(self, g, val_map, return_output_node=False):
        """Copies the nodes of g that val_map does not have yet; what g's output was given."""
        for node in g.nodes:
            if node in val_map:
                continue
            if node.op == "output":
                value = map_arg(node.args[0], lambda n: val_map[n])
                return value if not return_output_node else (value, node)
            val_map[node] = self.node_copy(node, lambda n: val_map[n])
        return None

    def __deepcopy__(self, memo=None):
        memo = {} if memo is None else memo
        g = Graph(tracer_cls=self._tracer_cls)
        copied = g.graph_copy(self, val_map=memo, return_output_node=True)
        g._codegen = _copy_codegen(self._codegen, memo)
        if copied is not None:
            value, old = copied
            new = g.output(value, type_expr=getattr(old, "type", None))
            new.meta = dict(old.meta)
        return g

    def __reduce__(self):
        from ._pickle import reduce_graph

        return reduce_graph(self)

    # ---- changing ----

    @compatibility(is_backward_compatible=True)
    def erase_node(self, to_erase):
        """Takes a node out; an error where it is used."""
        if len(to_erase.users) > 0:
            raise RuntimeError(f"Tried to erase Node {to_erase} but it still had "
                               f"{len(to_erase.users)} users in the graph: {to_erase.users}!")
        if to_erase.graph is not self:
            raise RuntimeError(f"Attempting to remove {to_erase} from wrong graph!")
        if to_erase._erased:
            warnings.warn(f"erase_node({to_erase}) on an already erased node", stacklevel=2)
            return
        for hook in getattr(self._owning_module, "_erase_node_hooks", None) or ():
            hook(to_erase)
        self._erase(to_erase)

    @compatibility(is_backward_compatible=True)
    def inserting_before(self, n=None):
        """New nodes go before n; without one, to the start of the graph."""
        if n is None:
            return _InsertPoint(self, AT_START, None)
        if n.graph is not self:
            raise AssertionError("Node to insert before is not in graph.")
        if n.op == "root":
            return _InsertPoint(self, AT_END, None)
        return _InsertPoint(self, BEFORE, n)

    @compatibility(is_backward_compatible=True)
    def inserting_after(self, n=None):
        """Each new node goes right behind n; without one, to the end of the graph."""
        if n is None:
            return _InsertPoint(self, AT_END, None)
        if n.graph is not self:
            raise AssertionError("Node to insert after is not in graph.")
        if n.op == "root":
            return _InsertPoint(self, AT_START, None)
        return _InsertPoint(self, AFTER, n)

    @compatibility(is_backward_compatible=True)
    def eliminate_dead_code(self, is_impure_node=None):
        """Erases nodes that nobody uses and that do nothing else; whether there were any."""
        from .graph_module import GraphModule

        self.lint()
        impure = is_impure_node or (lambda n: n.is_impure())
        changed = False
        for node in reversed(self.nodes):
            if not node._num_users and not impure(node):
                self.erase_node(node)
                changed = True
        if self._owning_module is not None:
            read = {n.target for n in self.find_nodes(op="get_attr")}
            for child in (c for n, c in self._owning_module.named_children() if n in read):
                if isinstance(child, GraphModule):
                    changed |= child.graph.eliminate_dead_code()
        return changed

    def _clear_nodes(self):
        for node in reversed(self.nodes):
            node.meta.clear()
            self.erase_node(node)

    # ---- checking ----

    @compatibility(is_backward_compatible=True)
    def lint(self):
        """An error where the graph is not well-formed."""
        from ._lint import lint

        lint(self)

    # ---- text ----

    def __str__(self):
        return self._str()

    def __repr__(self):
        return object.__repr__(self) if type(self) is not Graph else \
            f"<torch.fx.graph.Graph object at {id(self):#x}>"

    @compatibility(is_backward_compatible=True)
    def print_tabular(self):
        """The nodes as a table."""
        from ._tabular import table

        rows = [[n.op, n.name, n.target, n.args, n.kwargs] for n in self.nodes]
        print(table(rows, ["opcode", "name", "target", "args", "kwargs"]))

    @compatibility(is_backward_compatible=True)
    def python_code(self, root_module, *, verbose=False, include_stride=False,
                    include_device=False, colored=False, expanded_def=False, record_func=False,
                    additional_meta=None):
        """The Python that the graph stands for, with its globals."""
        return self._codegen._python_code(self, root_module, verbose=verbose,
                                          include_stride=include_stride,
                                          include_device=include_device, colored=colored,
                                          expanded_def=expanded_def,
                                          additional_meta=additional_meta)

    # ---- code of one's own ----

    @compatibility(is_backward_compatible=False)
    def set_codegen(self, codegen):
        self._codegen = codegen

    @compatibility(is_backward_compatible=False)
    def _target_to_str(self, target):
        """What a node that calls it is named after, if nobody names it."""
        name = target.__name__ if callable(target) else target
        if name.startswith("__") and name.endswith("__"):
            name = name[2:-2]
        return _snake_case(name)

    @compatibility(is_backward_compatible=False)
    def on_generate_code(self, make_transformer):
        """Lets make_transformer(the one there is) change the lines of the body."""
        was = self._codegen._body_transformer
        self._codegen._body_transformer = make_transformer(was)

        @contextlib.contextmanager
        def back():
            try:
                yield
            finally:
                self._codegen._body_transformer = was

        return back()

    def process_inputs(self, *args):
        """What callers pass, as the placeholders take it."""
        return self._codegen.process_inputs(*args)

    def process_outputs(self, out):
        return self._codegen.process_outputs(out)

    @property
    def _pytree_info(self):
        return self._codegen.pytree_info

    @property
    def _graph_namespace(self):
        return _GraphNames(self)

    # ---- in a notebook ----

    def _repr_svg_(self):
        from ._meta import push

        push(self)
        return _cfx.draw_graph(self, {"form": "svg"})


class _GraphNames:
    """The names of a graph's nodes, for those who want more of them."""

    def __init__(self, graph):
        self.graph = graph

    def create_name(self, candidate, obj):
        names = _Namespace()
        for node in self.graph.nodes:
            names.create_name(node.name, None)
        return names.create_name(candidate, obj)


def _copy_codegen(codegen, memo):
    import copy

    return copy.deepcopy(codegen, memo)


def _reaches(module, path):
    """Whether a module has something at a dotted path."""
    for name in path.split("."):
        if not hasattr(module, name):
            return False
        module = getattr(module, name)
    return True


def _parse_stack_trace(stack_trace):
    """The innermost line of a stack trace that is the user's own, or None."""
    if stack_trace is None:
        return None
    lines = stack_trace.strip().split("\n")
    for i in range(len(lines) - 2, -1, -1):
        found = re.match(r'^\s*File "(.+)", line (\d+), in (.+)$', lines[i].strip())
        if found:
            return _ParsedStackTrace(*found.groups(), code=lines[i + 1].strip())
    return None


@dataclasses.dataclass
class _ParsedStackTrace:
    file: str
    lineno: str
    name: str
    code: str

    def get_summary_str(self):
        return f"File: {self.file}:{self.lineno} in {self.name}, code: {self.code}"


_cfx.adopt("graph_class", Graph)

reflectable_magic_methods = {
    "add": "{} + {}", "sub": "{} - {}", "mul": "{} * {}", "floordiv": "{} // {}",
    "truediv": "{} / {}", "div": "{} / {}", "mod": "{} % {}", "pow": "{} ** {}",
    "lshift": "{} << {}", "rshift": "{} >> {}", "and_": "{} & {}", "or_": "{} | {}",
    "xor": "{} ^ {}", "getitem": "{}[{}]", "matmul": "{} @ {}"}
magic_methods = {"eq": "{} == {}", "ne": "{} != {}", "lt": "{} < {}", "gt": "{} > {}",
                 "le": "{} <= {}", "ge": "{} >= {}", "pos": "+{}", "neg": "-{}", "invert": "~{}",
                 **reflectable_magic_methods}
inplace_methods = {"iadd": "{} += {}", "iand": "{} &= {}", "ifloordiv": "{} //= {}",
                   "ilshift": "{} <<= {}", "imod": "{} %= {}", "imul": "{} *= {}",
                   "imatmul": "{} @= {}", "ior": "{} |= {}", "ipow": "{} **= {}",
                   "irshift": "{} >>= {}", "isub": "{} -= {}", "itruediv": "{} /= {}",
                   "ixor": "{} ^= {}", "setitem": "{}[{}] = {}"}
