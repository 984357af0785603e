"""Constant folding: what depends on attributes alone is computed once, at the first run."""
import operator
import re

import cfx

from ...nn import Module, Parameter, ParameterList
from .._symbolic_trace import symbolic_trace
from ..graph_module import GraphModule
from ..node import map_arg
from ..passes.split_module import split_module

__all__ = ["FoldedGraphModule", "get_unique_attr_name_in_module", "split_const_subgraphs"]


class FoldedGraphModule(GraphModule):
    """A GraphModule whose constants are computed by const_subgraph_module when it is first
    called."""

    def __init__(self, root, graph, const_subgraph=None, fx_const_folded_attrs_name=None,
                 device_for_folded_attrs="cuda"):
        super().__init__(root, graph)
        self.const_subgraph_module = None if const_subgraph is None \
            else GraphModule(root, const_subgraph)
        self.has_folding_been_run = False
        self.fx_const_folded_attrs_name = fx_const_folded_attrs_name
        self.device_for_folded_attrs = device_for_folded_attrs

    def __call__(self, *args, **kwargs):
        if not self.has_folding_been_run:
            self.run_folding()
        return super().__call__(*args)

    def run_folding(self):
        """Computes the constants now."""
        if self.const_subgraph_module is None or self.fx_const_folded_attrs_name is None:
            return
        if self.has_folding_been_run:
            raise AssertionError("Folding has already been run")
        self.has_folding_been_run = True
        folded = self.const_subgraph_module()

        def parameter(v):
            if isinstance(v, int):
                return Parameter(cfx.Tensor([v]), requires_grad=False)
            return Parameter(v.detach().clone(), requires_grad=v.requires_grad)

        setattr(self, self.fx_const_folded_attrs_name,
                ParameterList([parameter(v) for v in folded]) if isinstance(folded, tuple)
                else parameter(folded))


def _inline_module(gm, inline_mod_name, run_dce=True):
    """Puts the nodes of a GraphModule in the place of its call; {its nodes: those here}."""
    inner = dict(gm.named_modules())[inline_mod_name]
    call = next(n for n in gm.graph.nodes
                if n.op == "call_module" and n.target == inline_mod_name)
    values, count = {}, 0

    def value(n):
        new = values[n]
        new.meta = n.meta.copy()
        return new

    for node in inner.graph.nodes:
        if node.op == "placeholder":
            values[node] = call.kwargs[node.name] if node.name in call.kwargs else \
                call.args[count]
            count += 1
        elif node.op == "output":
            results = map_arg(node.args[0], value)
            if isinstance(results, (list, tuple)):
                for user in list(call.users):
                    if user.target is operator.getitem and isinstance(user.args[1], int):
                        user.replace_all_uses_with(results[user.args[1]])
                        gm.graph.erase_node(user)
                        values[user] = results[user.args[1]]
            else:
                call.replace_all_uses_with(results)
        else:
            with gm.graph.inserting_before(call):
                values[node] = gm.graph.node_copy(node, value)
    gm.graph.erase_node(call)
    if run_dce:
        gm.graph.eliminate_dead_code()
    return values


def get_unique_attr_name_in_module(mod_traced, name):
    """A name that the module has no attribute of."""
    name = re.sub("[^0-9a-zA-Z_]+", "_", name)
    if name[0].isdigit():
        name = f"_{name}"
    while hasattr(mod_traced, name):
        found = re.match(r"(.*)_(\d+)$", name)
        name = f"{name}_1" if found is None else f"{found[1]}_{int(found[2]) + 1}"
    return name


def _is_constant(node, constants, traced, skip):
    if node.op in ("placeholder", "output"):
        return False
    if node.op != "get_attr" and not set(node.all_input_nodes) <= constants:
        return False
    if skip and skip(node) or node.is_impure():
        return False
    if node.op == "call_module":
        m = traced.get_submodule(node.target)
        if isinstance(m, GraphModule) and _has_effects(m):
            return False
    return True


def _has_effects(gm):
    for node in gm.graph.nodes:
        if node.op == "call_function" and node.is_impure():
            return True
        if node.op == "call_module":
            m = gm.get_submodule(node.target)
            if isinstance(m, GraphModule) and _has_effects(m):
                return True
    return False


def split_const_subgraphs(module, skip_folding_node_fn=None, device_for_folded_attrs="cpu"):
    """The module with the nodes that depend on attributes alone in a graph of their own."""
    traced = module if isinstance(module, GraphModule) else symbolic_trace(module)
    constants, found = set(), False
    for node in traced.graph.nodes:
        if _is_constant(node, constants, traced, skip_folding_node_fn):
            constants.add(node)
            found = found or node.op != "get_attr"
    if not found:
        return FoldedGraphModule(traced, traced.graph)
    split = split_module(traced, module, lambda n: 0 if n in constants else 1)
    const_gm, rest_gm = split.submod_0, getattr(split, "submod_1", None)
    for gm in (rest_gm, const_gm):
        for node in gm.graph.nodes if gm is not None else ():
            if node.op == "call_module":
                setattr(split, node.target, getattr(gm, node.target))
    _name_attributes(split, const_gm)
    return _folded(split, const_gm, rest_gm, device_for_folded_attrs)


def _name_attributes(split, const_gm):
    """Inputs of the constant part are attributes of the whole: they are read there by name."""
    call = next(n for n in split.graph.nodes if n.target == "submod_0")
    inputs = [n for n in const_gm.graph.nodes if n.op == "placeholder"]
    for ph, node in zip(inputs, call.args):
        if node.op != "get_attr":
            raise AssertionError(f"Expected get_attr, got {node.op}")
        with const_gm.graph.inserting_before(ph):
            new = const_gm.graph.get_attr(node.target)
        new.meta = ph.meta.copy()
        ph.replace_all_uses_with(new)
        const_gm.graph.erase_node(ph)


def _folded(split, const_gm, rest_gm, device):
    name = get_unique_attr_name_in_module(split, "_FX_CONST_FOLDED_ATTRS")
    setattr(split, name, ParameterList() if isinstance(
        const_gm.graph.output_node().args[0], tuple) else Parameter(cfx.tensor([0.0])))
    for node in split.graph.nodes:
        if node.op == "call_module" and node.target == "submod_0":
            with node.graph.inserting_before(node):
                folded = node.graph.get_attr(name)
            folded.meta = node.meta.copy()
            node.replace_all_uses_with(folded)
            break
    split.graph.eliminate_dead_code()
    metas = [n.meta for n in const_gm.graph.output_node().all_input_nodes]
    for node in split.graph.nodes:
        if node.target is operator.getitem and node.args[0].target == name:
            node.meta = metas[node.args[1]].copy()
        elif node.target == name and len(metas) == 1 and not node.meta:
            node.meta = metas[0].copy()
    if rest_gm is not None:
        _inline_module(split, "submod_1")
    return FoldedGraphModule(split, split.graph, const_gm.graph, name, device)


_ = Module
