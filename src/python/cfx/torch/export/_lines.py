"""Lines of code that torch.fx generated, as the lines of the model that its nodes are from: a
module of a program is exported with the traces that the program has."""
import re

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


def model_line(frame):
    """(file, line) of the model for a frame of generated code; None where there is none."""
    module = frame.f_locals.get("self")
    if not hasattr(module, "graph") or not hasattr(module, "code"):
        return None
    if id(frame.f_code) not in _known:
        _known[id(frame.f_code)] = _of_module(module)
    return _known[id(frame.f_code)].get(frame.f_lineno)
