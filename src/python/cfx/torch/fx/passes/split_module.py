"""split_module: a graph becomes a graph of calls of parts."""
import operator

from ...nn import Module
from .._compatibility import compatibility
from ..graph import Graph
from ..graph_module import GraphModule, _get_attr
from ..node import map_arg
from ..proxy import Proxy

__all__ = ["Partition", "split_module"]


@compatibility(is_backward_compatible=True)
class Partition:
    """A part: its nodes, what it takes and gives, and which parts it waits for."""

    def __init__(self, name):
        self.name = name
        self.submod_name = f"submod_{name}"
        self.node_names = []
        self.inputs = {}
        self.outputs = {}
        self.dependencies = {}
        self.dependents = {}
        self.graph = Graph()
        self.environment = {}
        self.targets = {}

    def __repr__(self):
        return (f"name: {self.name},\n nodes: {self.node_names},\n inputs: {self.inputs},\n "
                f"outputs: {self.outputs},\n partitions depended on: {self.dependencies},\n "
                f"partition dependents: {self.dependents}")


def _state_functions():
    """Functions that change a state that holds from there on: each part has to set it again."""
    from ... import _C, amp

    return amp._enter_autocast, amp._exit_autocast, _C._set_grad_enabled


class _Splitter:
    """The work of one split."""

    def __init__(self, m, callback, qualnames, options):
        self.m, self.callback, self.qualnames = m, callback, qualnames
        self.options = options
        self.parts, self.nodes, self.part_of = {}, {}, {}
        self.enter, self.exit, self.set_grad = _state_functions()
        self.grads, self.autocasts, self.exits = {}, {}, {}
        self.base, self.env, self.attrs = Graph(), {}, {}

    # ---- which node is where ----

    def assign(self):
        grad, open_casts = None, []
        for node in self.m.graph.nodes:
            self.nodes[node.name] = node
            if node.op in ("placeholder", "get_attr", "output"):
                continue
            number = self.callback(node)
            name = str(number)
            if self.options["affix"] is not None:
                name = f"{self.options['affix']}_{name}"
            part = self.parts.setdefault(name, None) or Partition(name)
            self.parts[name] = part
            part.node_names.append(node.name)
            self.part_of[node] = name
            if node.op == "call_function" and node.target is self.set_grad:
                grad = node
                self.grads[node] = set()
            elif node.op == "call_function" and node.target is self.enter:
                open_casts.append(node)
                self.autocasts[node] = set()
            elif node.op == "call_function" and node.target is self.exit:
                self.autocasts[node.args[0]].add(number)
                open_casts.remove(node.args[0])
                self.exits[node.args[0]] = node
            if grad is not None:
                self.grads[grad].add(number)
            for a in open_casts:
                self.autocasts[a].add(number)
        if any(a not in self.exits for a in self.autocasts):
            raise AssertionError("autocast must exit")
        if self.grads or self.autocasts:
            self._check_order()

    def _check_order(self):
        highest = -1
        for node in self.part_of:
            number = self.callback(node)
            if highest > number:
                raise AssertionError("autocast or set_grad_enabled require monotonically "
                                     f"increasing partitions: highest: {highest}, this node's: "
                                     f"{number}")
            highest = number

    def connect(self):
        for node in self.m.graph.nodes:
            if node.op in ("placeholder", "get_attr"):
                continue
            user = None if node.op == "output" else node
            if user is not None and user.op == "call_function" and \
                    user.target in (self.enter, self.exit, self.set_grad):
                continue
            for n in node.all_input_nodes:
                self._use(n, user)

    def _use(self, node, user):
        made, used = self.part_of.get(node), self.part_of.get(user)
        if made == used:
            return
        if made is not None:
            self.parts[made].outputs.setdefault(node.name)
            if used is not None:
                self.parts[made].dependents.setdefault(used)
        if used is not None:
            self.parts[used].inputs.setdefault(node.name)
            if made is not None:
                self.parts[used].dependencies.setdefault(made)

    def order(self):
        ready = [n for n, p in self.parts.items() if not p.dependencies]
        done = []
        while ready:
            name = ready.pop()
            done.append(name)
            for d in self.parts[name].dependents:
                self.parts[d].dependencies.pop(name)
                if not self.parts[d].dependencies:
                    ready.append(d)
        if len(done) != len(self.parts):
            raise RuntimeError("cycle exists between partitions!")
        return done

    # ---- the graphs of the parts ----

    def _number(self, number):
        affix = self.options["affix"]
        return str(number) if affix is None else f"{affix}_{number}"

    def _repeat(self, part, node, args):
        new = part.graph.create_node(node.op, node.target, args, {}, type_expr=node.type)
        new.meta = node.meta.copy()
        return new

    def set_states(self):
        for regions in (self.autocasts, self.grads):
            for node, numbers in regions.items():
                first, *rest = sorted(numbers)
                self.parts[self._number(first)].environment[node] = node
                for number in rest:
                    part = self.parts[self._number(number)]
                    part.environment[node] = self._repeat(part, node, tuple(node.args))

    def leave_states(self):
        for node in reversed(list(self.autocasts)):
            for number in sorted(self.autocasts[node])[:-1]:
                part = self.parts[self._number(number)]
                self._repeat(part, self.exits[node], (part.environment[node],))

    def take_inputs(self, part):
        taken, count = {}, 0
        for name in part.inputs:
            node = self.nodes[name]
            value = _get_attr(self.m, node.target) if node.op == "get_attr" else None
            if isinstance(value, Module):
                new = part.graph.get_attr(node.target)
                part.targets[node.target] = value
            else:
                own = name if self.options["input_names"] else f"arg_{count}"
                count += 1
                new = part.graph.placeholder(own, type_expr=node.type)
                taken[name] = None
            new.meta = node.meta.copy()
            part.environment[node] = new
        part.inputs = taken

    def copy_nodes(self):
        for node, name in self.part_of.items():
            part = self.parts[name]
            env = part.environment
            target = node.target
            if node.op in ("call_module", "get_attr"):
                target = node.target.replace(".", "_")
                part.targets[target] = _get_attr(self.m, node.target)
                if self.qualnames is not None:
                    self.qualnames[f"{part.submod_name}.{target}"] = node.target
            new = part.graph.create_node(
                node.op, target, map_arg(node.args, lambda n: env[n]),
                map_arg(node.kwargs, lambda n: env[n]),
                name=node.name if self.options["node_names"] else None, type_expr=node.type)
            new.meta = node.meta.copy()
            env[node] = new

    # ---- the graph around them ----

    def outside(self, node):
        """A placeholder or attribute of the whole."""
        if node.op == "placeholder":
            default = node.args[0] if node.args else ...
            self.env[node.name] = self.base.placeholder(node.target, type_expr=node.type,
                                                        default_value=default)
            self.env[node.name].meta = node.meta.copy()
        elif node.op == "get_attr":
            self.env[node.name] = self.base.get_attr(node.target)
            self.env[node.name].meta = node.meta.copy()
            self.attrs[node.target] = _get_attr(self.m, node.target)

    def call(self, part):
        values = tuple(part.environment[self.nodes[n]] for n in part.outputs)
        part.graph.output(values[0] if len(values) == 1 else values)
        if self.options["keep_order"]:
            for name in [n.name for n in self.m.graph.nodes if n.op == "placeholder"] \
                    + list(part.inputs):
                if name not in self.env:
                    self.outside(self.nodes[name])
        self.attrs[part.submod_name] = GraphModule(part.targets, part.graph)
        result = self.base.call_module(part.submod_name,
                                       tuple(self.env[n] for n in part.inputs))
        if len(part.outputs) == 1:
            self.env[next(iter(part.outputs))] = result
        elif part.outputs:
            proxy = Proxy(result)
            for i, name in enumerate(part.outputs):
                self.env[name] = proxy[i].node

    def run(self):
        self.assign()
        self.connect()
        original = list(self.parts)
        order = self.order()
        self.set_states()
        for name in order:
            self.take_inputs(self.parts[name])
        self.copy_nodes()
        self.leave_states()
        if not self.options["keep_order"]:
            for node in self.m.graph.nodes:
                self.outside(node)
        for name in original if self.options["keep_order"] else order:
            self.call(self.parts[name])
        if self.options["keep_order"] and not self.env:
            for node in self.m.graph.nodes:
                self.outside(node)
        for node in self.m.graph.nodes:
            if node.op == "output":
                self.base.output(map_arg(node.args[0], lambda n: self.env[n.name]))
        return GraphModule(self.attrs, self.base)


@compatibility(is_backward_compatible=True)
def split_module(m, root_m, split_callback, qualname_map=None, keep_original_order=False,
                 keep_original_node_name=False, keep_original_input_name=True, *,
                 partition_affix=None):
    """The GraphModule split into parts, submod_0, submod_1, ...: split_callback(node) is the number
    of a node's."""
    return _Splitter(m, split_callback, qualname_map,
                     {"keep_order": keep_original_order, "node_names": keep_original_node_name,
                      "input_names": keep_original_input_name, "affix": partition_affix}).run()


_ = operator
