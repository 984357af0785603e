"""Drawings of graphs, in the form of torch.fx's FxGraphDrawer; the C library makes them."""
import importlib.util
import re

from cfx import _cfx

from .._compatibility import compatibility
from .._meta import push
from ..graph_module import GraphModule

__all__ = ["FxGraphDrawer"]
HAS_PYDOT = importlib.util.find_spec("pydot") is not None


class Dot:
    """A drawing. SVG and DOT files are written without another program; the methods that turn DOT
    into other forms are pydot's."""

    def __init__(self, module, options):
        self._module, self._options = module, options
        self._marked = None

    def _text(self, form):
        graph = self._module.graph
        push(graph)
        style = None
        if self._marked is not None:
            def style(node):
                return {"fill": "yellow" if node.name in self._marked else "#bebebe"}
        return _cfx.draw_graph(graph, {**self._options, "form": form, "style": style})

    def mark(self, names):
        """Paints the nodes of these names, and the others grey."""
        self._marked = set(names)

    def _pydot(self):
        if not HAS_PYDOT:
            raise RuntimeError("FXGraphDrawer requires the pydot package to be installed. Please "
                               "install pydot through your favorite Python package manager.")
        import pydot

        return pydot.graph_from_dot_data(self._text("dot"))[0]

    def to_string(self):
        return self._pydot().to_string()

    def create_svg(self, *args, **kwargs):
        return self._text("svg").encode()

    create = create_svg

    def _write(self, path, form):
        with open(path, "w", encoding="utf-8") as f:
            f.write(self._text(form))
        return True

    def write_svg(self, path, prog=None, encoding=None):
        return self._write(path, "svg")

    def write_html(self, path):
        return self._write(path, "html")

    def write_dot(self, path, prog=None, encoding=None):
        return self._write(path, "dot")

    write_raw = write_dot

    def write(self, path, prog=None, format="raw", encoding=None):
        return self._write(path, "svg" if format == "svg" else "dot")

    def _repr_svg_(self):
        return self._text("svg")

    def __getattr__(self, name):
        if name.startswith("_"):
            raise AttributeError(name)
        return getattr(self._pydot(), name)


@compatibility(is_backward_compatible=False)
class FxGraphDrawer:
    """FxGraphDrawer(graph_module, name).get_dot_graph().write_svg("a.svg")"""

    def __init__(self, graph_module, name, ignore_getattr=False,
                 ignore_parameters_and_buffers=False, skip_node_names_in_args=True,
                 parse_stack_trace=False, dot_graph_shape=None, normalize_args=False):
        self._name = name
        self._options = {"name": name, "ignore_getattr": ignore_getattr,
                         "ignore_parameters_and_buffers": ignore_parameters_and_buffers,
                         "node_names_in_args": not skip_node_names_in_args,
                         "parse_stack_trace": parse_stack_trace,
                         "dot_graph_shape": dot_graph_shape, "normalize_args": normalize_args}
        self.dot_graph_shape = dot_graph_shape or "record"
        self.normalize_args = normalize_args
        self._dot_graphs = {name: Dot(graph_module, self._options)}
        for child_name, child in graph_module.named_children():
            if isinstance(child, GraphModule):
                full = f"{name}_{child_name}"
                self._dot_graphs[full] = Dot(child, {**self._options, "name": full})

    def get_dot_graph(self, submod_name=None):
        """The drawing of the module, or of one of its GraphModules."""
        if submod_name is None:
            return self.get_main_dot_graph()
        return self.get_submod_dot_graph(submod_name)

    def get_main_dot_graph(self):
        return self._dot_graphs[self._name]

    def get_submod_dot_graph(self, submod_name):
        return self._dot_graphs[f"{self._name}_{submod_name}"]

    def get_all_dot_graphs(self):
        return self._dot_graphs


_ = re
