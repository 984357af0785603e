"""Lines of code that torch.fx generated, as the lines of the model that its nodes are from: a
module of a program is exported with the traces that the program has."""
import re

from ..fx import _meta

_ASSIGNED = re.compile(r"\s*(\w+)(?:\s*:[^=]*)? = ")
_FRAME = re.compile(r'File "([^"]+)", line (\d+)')
_known = {}  # id of a code object: {line: (file, line of the model)}, while a module is exported


def forget():
    _known.clear()


def _of_module(module):
    traces = {n.name: n.meta.get("stack_trace") for n in module.graph.nodes}
    lines = {}
    for i, line in enumerate(module.code.split("\n"), 1):
        assigned = _ASSIGNED.match(line)
        found = _FRAME.findall(traces.get(assigned and assigned[1]) or "")
        if found:
            lines[i] = found[-1][0], int(found[-1][1])
    return lines


def _line_of(node):
    return _FRAME.findall(node.meta.get("stack_trace") or "")[-1:]


def keep_stacks(module, ep):
    """Nodes of a program made of a GraphModule that are those of it, by name, target and line, have
    the calls and modules around them that these have."""
    before = {n.name: n for n in module.graph.nodes if n.meta.get("nn_module_stack")}
    for node in ep.graph.nodes if before else ():
        like = before.get(node.name)
        if like is None or like.target != node.target or _line_of(like) != _line_of(node):
            continue
        for key in ("nn_module_stack", "stack_trace"):
            if like.meta.get(key):
                node.meta[key] = like.meta[key]
                node._put_meta(key, _meta.to_c(key, like.meta[key]))


def model_line(frame):
    """(file, line) of the model for a frame of generated code; None where there is none."""
    module = frame.f_locals.get("self")
    if not hasattr(module, "graph") or not hasattr(module, "code"):
        return None
    if id(frame.f_code) not in _known:
        _known[id(frame.f_code)] = _of_module(module)
    return _known[id(frame.f_code)].get(frame.f_lineno)
