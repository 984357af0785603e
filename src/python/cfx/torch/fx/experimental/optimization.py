"""Optimisations of modules for inference."""
import copy
import operator
import typing

from ... import nn
from ...nn.utils.fusion import fuse_conv_bn_eval
from .._symbolic_trace import Tracer, symbolic_trace
from ..graph_module import GraphModule

__all__ = ["matches_module_pattern", "replace_node_module", "fuse", "remove_dropout",
           "extract_subgraph", "modules_to_mkldnn", "reset_modules", "MklSubgraph",
           "optimize_for_inference"]


def _parent_name(target):
    *parent, name = target.rsplit(".", 1)
    return parent[0] if parent else "", name


def matches_module_pattern(pattern, node, modules):
    """Whether a node and its first input call modules of these types."""
    if len(node.args) == 0:
        return False
    for expected, n in zip(pattern, (node.args[0], node)):
        if getattr(n, "op", None) != "call_module" or not isinstance(n.target, str) \
                or n.target not in modules or type(modules[n.target]) is not expected:
            return False
    return True


def replace_node_module(node, modules, new_module):
    parent, name = _parent_name(node.target)
    modules[node.target] = new_module
    setattr(modules[parent], name, new_module)


def fuse(model, inplace=False, no_trace=False):
    """Batch norms behind convolutions become part of their weights; the module is in eval mode."""
    patterns = [(nn.Conv1d, nn.BatchNorm1d), (nn.Conv2d, nn.BatchNorm2d),
                (nn.Conv3d, nn.BatchNorm3d)]
    if not inplace:
        model = copy.deepcopy(model)
    gm = model if no_trace and isinstance(model, GraphModule) else symbolic_trace(model)
    modules, graph = dict(gm.named_modules()), copy.deepcopy(gm.graph)
    for pattern in patterns:
        for node in graph.nodes:
            if not matches_module_pattern(pattern, node, modules):
                continue
            if len(node.args[0].users) > 1:
                continue
            conv, bn = modules[node.args[0].target], modules[node.target]
            if not bn.track_running_stats:
                continue
            replace_node_module(node.args[0], modules, fuse_conv_bn_eval(conv, bn))
            node.replace_all_uses_with(node.args[0])
            graph.erase_node(node)
    return GraphModule(gm, graph)


def remove_dropout(model):
    """The module without its dropouts."""
    from ..interpreter import Transformer

    class DropoutRemover(Transformer):
        def call_module(self, target, args, kwargs):
            if isinstance(self.submodules[target], nn.Dropout):
                return args[0]
            return super().call_module(target, args, kwargs)

    return DropoutRemover(symbolic_trace(model)).transform()


def extract_subgraph(orig_module, nodes, inputs, outputs):
    """Nodes of a module as a module of their own."""
    from ..graph import Graph

    new, env = Graph(), {}
    for n in inputs:
        env[n] = new.placeholder(n.name)
    for n in nodes:
        env[n] = new.node_copy(n, lambda x: env[x])
    new.output([env[n] for n in outputs])
    new.lint()
    return GraphModule(orig_module, new)


mkldnn_supported = [nn.Conv2d, nn.Linear, nn.BatchNorm2d, nn.ReLU, nn.MaxPool2d, nn.AvgPool2d,
                    nn.AdaptiveAvgPool2d, operator.add]
mkldnn_map = {}


def modules_to_mkldnn(nodes, modules):
    """There are no layouts of oneDNN's own here: modules stay."""
    return {}


def reset_modules(nodes, modules, old_modules):
    for n in nodes:
        if n.op == "call_module" and modules[n.target] in old_modules:
            replace_node_module(n, modules, old_modules[modules[n.target]])


class MklSubgraph(typing.NamedTuple):
    nodes: list


def optimize_for_inference(model, pass_config=None, tracer=Tracer):
    """Batch norms folded, dropouts removed."""
    config = {"conv_bn_fuse": True, "remove_dropout": True, **(pass_config or {})}
    if config["conv_bn_fuse"]:
        model = fuse(model)
    if config["remove_dropout"]:
        model = remove_dropout(model)
    return model
