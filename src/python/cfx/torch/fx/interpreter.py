"""Interpreters: a graph is run node by node, and every step can be overridden."""
import contextlib
import inspect

from . import traceback as fx_traceback
from ._compatibility import compatibility
from ._lazy_graph_module import _make_graph_module
from ._symbolic_trace import Tracer
from .graph import Graph
from .node import map_aggregate, map_arg
from .proxy import Proxy

__all__ = ["Interpreter", "Transformer"]

_ADVICE = ("\nUse tlparse to see full graph. (https://github.com/pytorch/tlparse?tab=readme-ov-file"
           "#tlparse-parse-structured-pt2-logs)")


@compatibility(is_backward_compatible=True)
class Interpreter:
    """Runs a GraphModule node by node."""

    @compatibility(is_backward_compatible=True)
    def __init__(self, module, garbage_collect_values=True, graph=None):
        self.module = module
        self.submodules = dict(self.module.named_modules())
        self.graph = self.module.graph if graph is None else graph
        self.env = {}
        self.name = "Interpreter"
        self.garbage_collect_values = garbage_collect_values
        self.extra_traceback = True
        if garbage_collect_values:
            self.user_to_last_uses = {}
            seen = set()
            for node in reversed(self.graph.nodes):
                for n in node.all_input_nodes:
                    if n not in seen:
                        seen.add(n)
                        self.user_to_last_uses.setdefault(node, []).append(n)

    @compatibility(is_backward_compatible=True)
    def run(self, *args, initial_env=None, enable_io_processing=True):
        """The result of the graph for these arguments."""
        self.env = initial_env if initial_env is not None else {}
        if enable_io_processing:
            args = self.graph.process_inputs(*args)
        self.args_iter = iter(args)
        for node in self.graph.nodes:
            if node in self.env:
                continue
            try:
                self.env[node] = self.run_node(node)
            except Exception as e:
                if self.extra_traceback:
                    self._explain(e, node)
                raise
            if self.garbage_collect_values:
                for n in self.user_to_last_uses.get(node, ()):
                    del self.env[n]
            if node.op == "output":
                result = self.env[node]
                return self.graph.process_outputs(result) if enable_io_processing else result

    def _explain(self, e, node):
        """Adds to an error which node was run."""
        text = f"While executing {node.format_node()}"
        text = f"{e.args[0]}\n\n{text}" if e.args else text
        text += f"\nOriginal traceback:\n{node.stack_trace}" + _ADVICE
        e.args = (text,) + e.args[1:]
        if isinstance(e, KeyError):
            raise RuntimeError(*e.args) from e

    @compatibility(is_backward_compatible=True)
    def boxed_run(self, args_list):
        """Runs on the items of a list, which is emptied, so that they can be freed on the way."""
        placeholders = [n for n in self.graph.nodes if n.op == "placeholder"]
        if len(args_list) != len(placeholders):
            detail = ("extra arguments" if len(args_list) > len(placeholders)
                      else "missing arguments")
            raise RuntimeError(f"Interpreter.boxed_run expected {len(placeholders)} arguments for "
                               f"placeholders but received {len(args_list)} ({detail})")
        env = dict(zip(placeholders, args_list))
        args_list.clear()
        return self.run(initial_env=env)

    @contextlib.contextmanager
    def _set_current_node(self, node):
        with fx_traceback.set_current_meta(node, f"Interpreter_{self.__class__.__name__}"):
            yield

    @compatibility(is_backward_compatible=True)
    def run_node(self, n):
        """Runs one node: the method called after its op."""
        with self._set_current_node(n):
            args, kwargs = self.fetch_args_kwargs_from_env(n)
            return getattr(self, n.op)(n.target, args, kwargs)

    @compatibility(is_backward_compatible=True)
    def placeholder(self, target, args, kwargs):
        """The next argument, its default, or for *args all that are left."""
        if target.startswith("*"):
            return list(self.args_iter)
        try:
            return next(self.args_iter)
        except StopIteration as e:
            if len(args) > 0:
                return args[0]
            raise RuntimeError(f"Expected positional argument for parameter {target}, but one was "
                               "not passed in!") from e

    @compatibility(is_backward_compatible=True)
    def get_attr(self, target, args, kwargs):
        return self.fetch_attr(target)

    @compatibility(is_backward_compatible=True)
    def call_function(self, target, args, kwargs):
        return target(*args, **kwargs)

    @compatibility(is_backward_compatible=True)
    def call_method(self, target, args, kwargs):
        self_obj, *rest = args
        return getattr(self_obj, target)(*rest, **kwargs)

    @compatibility(is_backward_compatible=True)
    def call_module(self, target, args, kwargs):
        return self.fetch_attr(target)(*args, **kwargs)

    @compatibility(is_backward_compatible=True)
    def output(self, target, args, kwargs):
        return args[0]

    @compatibility(is_backward_compatible=True)
    def fetch_attr(self, target):
        """What the module has at a path."""
        atoms = target.split(".")
        found = self.module
        for i, atom in enumerate(atoms):
            if not hasattr(found, atom):
                raise RuntimeError("Node referenced nonexistent target "
                                   f"{'.'.join(atoms[:i + 1])}")
            found = getattr(found, atom)
        return found

    @compatibility(is_backward_compatible=True)
    def fetch_args_kwargs_from_env(self, n):
        """The arguments of a node with the values of nodes in them."""
        if type(self).map_nodes_to_values is Interpreter.map_nodes_to_values:
            try:
                return n._load(self.env)
            except KeyError:
                pass
        return self.map_nodes_to_values(n.args, n), self.map_nodes_to_values(n.kwargs, n)

    @compatibility(is_backward_compatible=True)
    def map_nodes_to_values(self, args, n):
        def load(node):
            if node not in self.env:
                raise RuntimeError(f"Node {n} referenced nonexistent value {node}! Run "
                                   "Graph.lint() to diagnose such issues")
            return self.env[node]

        return map_arg(args, load)


class _TransformerTracer(Tracer):
    def __init__(self, graph):
        super().__init__()
        self.graph = graph
        self.tensor_attrs = {}

    def is_leaf_module(self, m, path):
        return True


@compatibility(is_backward_compatible=True)
class Transformer(Interpreter):
    """Runs a graph on proxies: what the steps do becomes a new graph."""

    @compatibility(is_backward_compatible=True)
    def __init__(self, module):
        super().__init__(module)
        self.new_graph = Graph()
        self.new_graph.set_codegen(module.graph._codegen)
        self.tracer = _TransformerTracer(self.new_graph)
        self.tracer.root = module

    @compatibility(is_backward_compatible=True)
    def placeholder(self, target, args, kwargs):
        default = next(iter(args)) if args else inspect.Signature.empty
        return Proxy(self.new_graph.placeholder(target, default_value=default), self.tracer)

    @compatibility(is_backward_compatible=True)
    def get_attr(self, target, args, kwargs):
        return self.tracer.create_proxy("get_attr", target, args, kwargs)

    @compatibility(is_backward_compatible=True)
    def call_module(self, target, args, kwargs):
        m = self.fetch_attr(target)
        return self.tracer.call_module(m, m.forward, args, kwargs)

    @compatibility(is_backward_compatible=True)
    def call_function(self, target, args, kwargs):
        return self.tracer.create_proxy("call_function", target, args, kwargs)

    @compatibility(is_backward_compatible=True)
    def transform(self):
        """The GraphModule of the new graph."""
        with fx_traceback.preserve_node_meta():
            result = super().run(enable_io_processing=False)
        if result is not None:
            new = self.new_graph.output(
                map_aggregate(result, lambda a: a.node if isinstance(a, Proxy) else a))
            old = self.graph.output_node()
            new.meta.update(old.meta)
        return _make_graph_module(self.module, self.new_graph)
