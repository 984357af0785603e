"""GraphModules: a graph that is called like any module, by the code that is generated from it."""
import contextlib
import copy
import itertools
import re
import sys
import traceback

import cfx

from ..nn.modules.module import Module, Parameter, _addindent, global_hooks
from ._codegen import _BoxedCodeGen, _PyTreeCodeGen
from ._compatibility import compatibility
from ._eval import LazyForward, _error_message, _forward_from_src, import_block
from .graph import Graph

__all__ = ["reduce_graph_module", "reduce_package_graph_module", "GraphModule"]

_USER_PRESERVED_ATTRIBUTES_KEY = "_user_preserved_attributes"


# ---- attributes by path --------------------------------------------------------------------------


def _put(module, name, value):
    """Sets an attribute; a tensor that is no parameter becomes a buffer."""
    if _is_new_child(module, name, value):
        module._modules[name] = value
    elif isinstance(value, cfx.Tensor) and not isinstance(value, Parameter):
        module.register_buffer(name, value)
    else:
        setattr(module, name, value)


def _is_new_child(module, name, value):
    """Whether setting a module as an attribute would do nothing but add it to the children."""
    d = module.__dict__
    return isinstance(value, Module) and type(module).__setattr__ is Module.__setattr__ \
        and not global_hooks.module_registration \
        and not (name in d or name in d["_parameters"] or name in d["_buffers"])


def _copy_attr(from_module, to_module, target):
    """What one module has at a path becomes the same at that path of another."""
    *prefix, field = target.split(".")
    for item in prefix:
        f, t = getattr(from_module, item), getattr(to_module, item, None)
        if f is t:
            return
        if t is None:
            t = Module()
            setattr(to_module, item, t)
        from_module, to_module = f, t
    child = getattr(from_module, "_modules", {}).get(field)
    _put(to_module, field, getattr(from_module, field) if child is None else child)


def _assign_attr(from_obj, to_module, target):
    """Puts an object at a path, whose parents are made where missing."""
    *prefix, field = target.split(".")
    for item in prefix:
        t = getattr(to_module, item, None)
        if t is None:
            t = Module()
            setattr(to_module, item, t)
        to_module = t
    _put(to_module, field, from_obj)


def _get_attr(model, attr_name):
    for name in attr_name.split(".") if attr_name else ():
        model = getattr(model, name)
    return model


def _del_attr(model, attr_name):
    prefix, _, field = attr_name.rpartition(".")
    delattr(_get_attr(model, prefix), field)


def _has_attr(model, attr_name):
    try:
        _get_attr(model, attr_name)
    except AttributeError:
        return False
    return True


# ---- from code to a module again -----------------------------------------------------------------


@compatibility(is_backward_compatible=True)
def reduce_graph_module(body, import_block):
    """What pickle calls: the code runs on proxies, which gives the graph again."""
    forward = _forward_from_src(import_block + (body.get("_code") or body["code"]), {})
    return _deserialize_graph_module(forward, body)


@compatibility(is_backward_compatible=True)
def reduce_package_graph_module(importer, body, generated_module_name):
    forward = importer.import_module(generated_module_name).forward
    return _deserialize_graph_module(forward, body)


class _CodeOnlyModule(Module):
    def __init__(self, body):
        super().__init__()
        self.__dict__ = body


def _deserialize_graph_module(forward, body, graph_module_cls=None):
    from ._lazy_graph_module import _make_graph_module
    from ._symbolic_trace import Tracer

    _CodeOnlyModule.forward = forward
    tracer_cls = body.get("_tracer_cls") or Tracer

    class KeepModules(tracer_cls):
        def is_leaf_module(self, m, path):
            return True

    com = _CodeOnlyModule(body)
    graph = KeepModules().trace(com, **body.get("_tracer_extras", {}))
    traces = body.pop("_graphmodule_graph_node_meta_stack_trace", None) or {}
    for node in graph.nodes:
        if traces.get(node.name) is not None:
            node.meta["stack_trace"] = traces[node.name]
    graph._tracer_cls = tracer_cls
    gm = _make_graph_module(com, graph,
                            class_name=body.get("_graphmodule_cls_name", "GraphModule"),
                            graph_module_cls=graph_module_cls)
    for k, v in body.items():
        if not hasattr(gm, k):
            setattr(gm, k, v)
    return gm


# ---- the class -----------------------------------------------------------------------------------


# Calls of what is Python's in PyTorch: an error is not one of the generated code's there.
_IN_PYTHON = re.compile(r"\s*\w+(: .*)? = torch\.(ops|nn\.functional|functional)\.")


class _WrappedCall:
    """Calls a GraphModule; an error of the generated code itself is shown with its lines."""

    def __init__(self, cls, cls_call):
        self.cls = cls
        self.cls_call = cls_call

    def __call__(self, obj, *args, **kwargs):
        try:
            if self.cls_call is not None:
                return self.cls_call(obj, *args, **kwargs)
            return super(self.cls, obj).__call__(*args, **kwargs)
        except Exception as e:
            last = traceback.StackSummary.extract(traceback.walk_tb(e.__traceback__))[-1]
            if "eval_with_key" in last.filename and not _IN_PYTHON.match(last.line or ""):
                print(_error_message(last), file=sys.stderr)
                raise e.with_traceback(None)
            raise e


def _call_wrapped(self, *args, **kwargs):
    return self._wrapped_call(self, *args, **kwargs)


@compatibility(is_backward_compatible=True)
class GraphModule(Module):
    """A module made of a graph: `graph`, and `code` and `forward` that follow from it."""

    def __new__(cls, *args, **kwargs):
        # Each has a class of its own, for forward is one of the class.
        for t in cls.__mro__:
            if t.__qualname__.split(".")[-1] != "GraphModuleImpl":
                cls = t
                break

        class GraphModuleImpl(cls):
            pass

        return super().__new__(GraphModuleImpl)

    @compatibility(is_backward_compatible=True)
    def __init__(self, root, graph, class_name="GraphModule"):
        super().__init__()
        self.__class__.__name__ = class_name
        if isinstance(root, Module):
            self._take_from_module(root, graph)
        elif isinstance(root, dict):
            self._take_from_dict(root, graph)
        else:
            raise RuntimeError("Unsupported type " + str(root) + " passed for root!")
        self.graph = graph
        cls = graph._tracer_cls
        self._tracer_cls = cls if cls and "<locals>" not in cls.__qualname__ else None
        self._tracer_extras = graph._tracer_extras or {}
        self.meta = {}
        self._replace_hooks = []
        self._create_node_hooks = []
        self._erase_node_hooks = []
        self._deepcopy_hooks = []
        self.shape_env = None

    def _take_from_module(self, root, graph):
        if hasattr(root, "training"):
            self.training = root.training
        if isinstance(root, _CodeOnlyModule):
            for named in (root.named_children, root.named_buffers, root.named_parameters):
                for name, _ in named():
                    _copy_attr(root, self, name)
        for node in graph.nodes:
            if node.op in ("get_attr", "call_module"):
                _copy_attr(root, self, node.target)

    def _take_from_dict(self, root, graph):
        targets = []
        for node in graph.nodes:
            if node.op in ("get_attr", "call_module"):
                if node.target not in root:
                    raise RuntimeError("Node " + str(node) + " referenced target " + node.target
                                       + " but that target was not provided in ``root``!")
                targets.append(node.target)
        for target in sorted(targets, key=lambda t: t.count(".")):
            _assign_attr(root[target], self, target)

    __jit_unused_properties__ = ["graph", "_boxed_call"]
    _boxed_call = property(lambda self: isinstance(self._graph._codegen, _BoxedCodeGen))

    @property
    def graph(self):
        return self._graph

    @graph.setter
    def graph(self, g):
        if not isinstance(g, Graph):
            raise AssertionError(f"Expected a Graph instance, but got {type(g)}")
        self._graph = g
        g.owning_module = self
        self.recompile()

    # ---- modules below it ----

    @compatibility(is_backward_compatible=True)
    def add_submodule(self, target, m):
        """Adds a module at a path; False where something that is no module is in the way."""
        *prefix, field = target.split(".")
        mod = self
        for item in prefix:
            below = getattr(mod, item, None)
            if below is None:
                below = Module()
                setattr(mod, item, below)
            if not isinstance(below, Module):
                return False
            mod = below
        mod.add_module(field, m)
        return True

    @compatibility(is_backward_compatible=True)
    def delete_submodule(self, target):
        """Removes the module at a path; whether there was one."""
        *prefix, field = target.split(".")
        mod = self
        for item in prefix:
            mod = getattr(mod, item, None)
            if not isinstance(mod, Module):
                return False
        if not isinstance(getattr(mod, field, None), Module):
            return False
        delattr(mod, field)
        return True

    @compatibility(is_backward_compatible=True)
    def delete_all_unused_submodules(self):
        """Removes modules that no node calls or reads from."""
        used = set()
        for node in self.graph.nodes:
            if node.op not in ("call_module", "get_attr"):
                continue
            used.update(itertools.accumulate(node.target.split("."), lambda x, y: f"{x}.{y}"))
            if node.op == "call_module":
                try:
                    below = self.get_submodule(node.target).named_modules()
                except AttributeError:
                    continue
                used.update(f"{node.target}.{name}" for name, _ in below if name)
        for name in [n for n, _ in self.named_modules() if n not in used]:
            self.delete_submodule(name)

    # ---- code ----

    @property
    def code(self):
        """The Python that the graph stands for."""
        if not hasattr(self, "_code"):
            raise RuntimeError("Code has not been generated! Please report a bug to PyTorch")
        return self._code

    @compatibility(is_backward_compatible=True)
    def recompile(self):
        """Makes code and forward follow the graph again."""
        codegen = self._graph._codegen
        if isinstance(codegen, _PyTreeCodeGen):
            self._in_spec = codegen.pytree_info.in_spec
            self._out_spec = codegen.pytree_info.out_spec
        made = self._graph.python_code(root_module="self")
        self._code = made.src
        self._lineno_map = made._lineno_map
        self._prologue_start = made._prologue_start
        cls = type(self)
        cls.forward = LazyForward(self._code, made.globals, getattr(self._graph, "_co_fields", {}))
        if "_wrapped_call" not in vars(cls):
            cls._wrapped_call = _WrappedCall(cls, vars(cls).get("__call__"))
        self._recompile_submodules()
        cls.__call__ = _call_wrapped
        return made

    def _recompile_submodules(self):
        return [(name, m.recompile()) for name, m in self.named_children()
                if isinstance(m, GraphModule)]

    @compatibility(is_backward_compatible=False)
    def to_folder(self, folder, module_name="FxModule"):
        """Writes the module as a package that can be imported."""
        from ._to_folder import to_folder

        to_folder(self, folder, module_name)

    @compatibility(is_backward_compatible=False)
    def print_readable(self, print_output=True, include_stride=False, include_device=False,
                       colored=False, *, fast_sympy_print=False, expanded_def=False,
                       additional_meta=None):
        """The code with shapes and source lines, children too."""
        from ._readable import readable

        text = readable(self, self._get_name(), include_stride=include_stride,
                        include_device=include_device, colored=colored,
                        expanded_def=expanded_def, additional_meta=additional_meta)
        if print_output:
            print(text)
        return text

    def __str__(self):
        return "\n".join([super().__str__(), self._code, "# To see more debug info, please use "
                          "`graph_module.print_readable()`"])

    def _repr_svg_(self):
        return self.graph._repr_svg_()

    # ---- copies ----

    def __reduce__(self):
        body = self.__dict__.copy()
        block = import_block(self.recompile().globals)
        del body["_graph"]
        return (reduce_graph_module, (body, block))

    def __reduce_package__(self, exporter):
        body = self.__dict__.copy()
        body["_graphmodule_cls_name"] = self.__class__.__name__
        del body["_graph"]
        name = f"fx-generated._{exporter.get_unique_id()}"
        exporter.save_source_string(name, import_block(self.recompile().globals) + self.code)
        return (reduce_package_graph_module, (body, name))

    def _deepcopy_init(self):
        return GraphModule.__init__

    def __deepcopy__(self, memo):
        other = type(self).__new__(type(self))
        memo[id(self)] = other
        inner = _CodeOnlyModule(copy.deepcopy(self.__dict__, memo))
        self._deepcopy_init()(other, inner, inner.__dict__["_graph"])
        for name in ("_state_dict_hooks", "_load_state_dict_pre_hooks",
                     "_load_state_dict_post_hooks", "_replace_hooks", "_create_node_hooks",
                     "_erase_node_hooks", "_deepcopy_hooks"):
            if name in self.__dict__:
                setattr(other, name, copy.deepcopy(self.__dict__[name], memo))
        other.meta = copy.deepcopy(getattr(self, "meta", {}), memo)
        for name, value in other.meta.get(_USER_PRESERVED_ATTRIBUTES_KEY, {}).items():
            setattr(other, name, value)
        for hook in getattr(self, "_deepcopy_hooks", ()):
            hook(other)
        return other

    def __copy__(self):
        from ._lazy_graph_module import _make_graph_module

        other = _make_graph_module(self, self.graph)
        other.meta = getattr(self, "meta", {})
        return other

    def _replicate_for_data_parallel(self):
        other = self.__copy__()
        other._is_replica = True
        return other

    # ---- hooks ----

    @contextlib.contextmanager
    def _set_replace_hook(self, f):
        if not callable(f):
            raise AssertionError("Replace hook must be a callable.")
        self._replace_hooks.append(f)
        try:
            yield
        finally:
            self._replace_hooks.remove(f)


def _hook_methods(kind, name):
    def register(self, f):
        if not callable(f):
            raise AssertionError(f"{name} hook must be a callable.")
        getattr(self, kind).append(f)

    def unregister(self, f):
        if not callable(f):
            raise AssertionError(f"{name} hook must be a callable.")
        getattr(self, kind).remove(f)

    return register, unregister


for _kind, _word in (("replace", "replace_node"), ("create_node", "create_node"),
                     ("erase_node", "erase_node"), ("deepcopy", "deepcopy")):
    _register, _unregister = _hook_methods(f"_{_kind}_hooks", _word)
    setattr(GraphModule, f"_register_{_word}_hook", _register)
    setattr(GraphModule, f"_unregister_{_word}_hook", _unregister)


def _make_graph_module(*args, **kwargs):
    from . import _lazy_graph_module

    return _lazy_graph_module._make_graph_module(*args, **kwargs)


__all__ += ["_addindent"]
