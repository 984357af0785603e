"""Attributes of layers written down at the nodes that call them."""
from ... import nn, typename
from .._compatibility import compatibility
from ..graph_module import GraphModule

__all__ = ["default_matching", "extract_attrs_for_lowering", "lift_lowering_attrs_to_nodes"]


@compatibility(is_backward_compatible=False)
def default_matching(name, target_version):
    return name


module_fetch_book = {
    nn.Linear: (1, ["weight", "bias"], default_matching),
    nn.Conv2d: (1, ["weight", "bias", "kernel_size", "stride", "padding", "dilation", "groups",
                    "padding_mode"], default_matching),
    nn.BatchNorm2d: (2, ["weight", "bias", "running_mean", "running_var", "eps"],
                     default_matching),
    nn.AdaptiveAvgPool2d: (1, [], default_matching),
    nn.MaxPool2d: (1, ["kernel_size", "stride", "padding", "dilation", "return_indices",
                       "ceil_mode"], default_matching),
    nn.ReLU: (1, ["inplace"], default_matching),
}


@compatibility(is_backward_compatible=False)
def extract_attrs_for_lowering(mod):
    """The attributes of a layer that a backend wants."""
    out = {"name": typename(mod)}
    if type(mod) not in module_fetch_book:
        raise RuntimeError(f"{typename(mod)} is not in the module_fetch_book yet, please add it to "
                           "the module_fetch_book, open an issue and @842974287 or report a bug to "
                           "AIACC team directly.")
    version, names, match = module_fetch_book[type(mod)]
    if version < mod._version:
        raise RuntimeError(f"Fetcher version {version} try to fetch {typename(mod)} version "
                           f"{mod._version}, please upgrade the module_fetch_book, open an issue "
                           "and @842974287 or report a bug to AIACC team directly.")
    for name in names:
        out[name] = getattr(mod, match(name, mod._version))
    return out


@compatibility(is_backward_compatible=False)
def lift_lowering_attrs_to_nodes(fx_module):
    """Writes node.attrs_for_lowering for calls of layers, in modules below too."""
    modules = dict(fx_module.named_modules())
    for node in fx_module.graph.nodes:
        if node.op == "call_module":
            m = modules[node.target]
            if isinstance(m, GraphModule):
                lift_lowering_attrs_to_nodes(m)
            else:
                node.attrs_for_lowering = extract_attrs_for_lowering(m)
