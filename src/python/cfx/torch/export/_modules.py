"""GraphModules of Python over programs and modules of the C library."""
from cfx import _cfx

from ..nn.modules import _layers, _mirror, container
from ..nn.modules._backed import backed
from ..nn.modules.module import Module, Parameter
from ..utils import _pytree as pytree
from ._custom import unpack_spec


def spec_from_c(spec):
    """A spec of C's (containers with an ellipsis for each leaf) as a TreeSpec; None stays."""
    if spec is None:
        return None
    if spec is ...:
        return pytree.treespec_leaf()
    leaves, tree = pytree.tree_flatten(spec, is_leaf=lambda x: x is ... or x is None)
    return unpack_spec(tree)


def graph_module_of(program):
    """The GraphModule of a program: placeholders for its weights."""
    return from_c(program._module(), class_name="GraphModule")


def from_c(made, class_name=None, known=None):
    """The Python module for one of C: what it mirrors, a layer, a GraphModule, or a holder. One
    that stands in several places is one (known: those that were met)."""
    known = {} if known is None else known
    if made.address not in known:
        known[made.address] = made, _from_c(made, class_name, known)
    return known[made.address][1]


def _from_c(made, class_name, known):
    own = backed(made)
    if own is not None:
        return own
    if made.object is not None and _unchanged(made):
        return made.object
    if made.graph is not None:
        return _graph_module(made, class_name, known)
    if made.type in _layers.ROWS:
        return _layers.new_from_c(made)
    cls = Dispatcher if made.type == "InterpreterModuleDispatcher" else \
        getattr(container, made.type, Module)
    m = cls.__new__(cls)
    Module.__init__(m)
    _fill(m, made, known)
    if cls is Dispatcher:
        m.__dict__["_call_modules"] = [from_c(c, known=known) for c in made.counted()]
    return m


class Dispatcher(Module):
    """The calls of one module, each with a graph of its own, which come in their order."""

    _num_calls = 0

    def forward(self, *args, **kwargs):
        n = self._num_calls
        self._num_calls = (n + 1) % len(self._call_modules)
        try:
            return self._call_modules[n](*args, **kwargs)
        except BaseException:
            self._num_calls = 0
            raise

    def call_modules(self):
        return self._call_modules

    def type_name(self):
        """The class of the module that was called, with the module that it is in."""
        return next((t for t in map(_type_name, self._call_modules) if t), None)


def _type_name(m):
    return m.type_name() if hasattr(m, "type_name") else getattr(m, "_type_name", None)


def _unchanged(made):
    """Whether a mirror still has the tensors of the Python module that it mirrors."""
    own = made.object
    mine = made.parameters()
    return all(own._parameters.get(n) is p for n, p in mine.items())


def _fill(m, made, known):
    for name, p in made.parameters().items():
        m.register_parameter(name, p if p is None or isinstance(p, Parameter)
                             else Parameter(p, p.requires_grad))
    for name, (b, persistent) in made.buffers().items():
        m.register_buffer(name, b, persistent)
    for name, value in made.attrs().items():  # those called _spec_0 are trees, which code refers to
        if name == "_call_modules":
            continue
        setattr(m, name, spec_from_c(value) if name.startswith("_spec_") else value)
    for name, child in made.children():
        m.add_module(name, from_c(child, known=known))
    m.training = made.training


def _graph_module(made, class_name, known):
    from ..fx.graph_module import GraphModule

    root = Module()
    _fill(root, made, known)
    gm = GraphModule(root, made.graph, class_name or made.type)
    gm.graph._made_by = made  # which the graph belongs to
    gm.training = made.training
    for part in ("_parameters", "_buffers", "_modules", "_non_persistent_buffers_set"):
        getattr(gm, part).clear()  # all, not what the graph names alone
        getattr(gm, part).update(getattr(root, part))
    for name, value in root.__dict__.items():  # constants that others read by its path
        if not name.startswith("_") and name != "training":
            gm.__dict__.setdefault(name, value)
    return gm


def module_of(program):
    """program.module()"""
    return from_c(program._callable(), class_name="GraphModule")


def swapped(program, modules):
    """program.module() with modules of the caller's, a dict by path, in the place of exported ones;
    what they are called with and what they do is Python's."""
    mirrors = {path: _cfx.mirror_tree(m, _mirror.signature(m))[0] for path, m in modules.items()}
    return from_c(program._swap(mirrors), class_name="GraphModule")


_cfx.adopt("module_from", from_c)
