"""Supported nodes gathered into as few and large groups as they can be without a cycle."""
import collections
import itertools
import logging
import operator

from ...node import _get_qualified_name
from ..utils.fuser_utils import fuse_by_partitions

logger = logging.getLogger(__name__)


class Partition:
    """A group: its nodes, each with the place that it has from the end of the graph."""

    def __init__(self, id=None, nodes=None, node_orders=None):
        self.id = id
        nodes = list(nodes or ())
        self.nodes = dict(zip(nodes, [None] * len(nodes) if node_orders is None
                              else list(node_orders)))

    def __repr__(self):
        return str(self.nodes)

    def add_node(self, node, node_order=None):
        self.nodes[node] = node_order

    def remove_node(self, node):
        del self.nodes[node]

    def size(self):
        return len(self.nodes)


class _DependencyViewer:
    """Which nodes depend on a node."""

    def __init__(self, graph_module):
        self.downstreams = collections.defaultdict(set)
        for node in reversed(graph_module.graph.nodes):
            for user in node.users:
                self.downstreams[node].add(user)
                self.downstreams[node].update(self.downstreams[user])

    def downstreams_of(self, node):
        return self.downstreams[node]


class _Proposal:
    """The groups while they grow."""

    def __init__(self, viewer):
        self.viewer = viewer
        self.of, self.groups, self.order, self.users = {}, {}, {}, {}
        self.reaches = collections.defaultdict(set)  # a group to those that depend on it

    def start(self, node, place, number):
        self.of[node] = number
        self.groups[number] = Partition(number, [node], [place])
        self.order[number] = number
        self.users[number] = set(node.users)
        for user in node.users:
            other = self.of.get(user)
            if other is not None:
                self.reaches[number].add(other)
                self.reaches[number].update(self.reaches[other])

    def move(self, node, number):
        if node in self.of:
            self.groups[self.of[node]].remove_node(node)
        if number is None:
            self.of.pop(node, None)
        else:
            self.of[node] = number
            self.groups[number].add_node(node)

    def would_cycle(self, a, b, users):
        mine, others = self.groups[a].nodes, self.groups[b].nodes
        for user in users:
            seen = set()
            for node in self.viewer.downstreams_of(user):
                if node in mine or node in others:
                    return True
                number = self.of.get(node)
                if number is None or number in seen:
                    continue
                if a in self.reaches[number] or b in self.reaches[number]:
                    return True
                seen.add(number)
        return False

    def merge(self, a, b):
        """Makes one group of two where that makes no cycle; the number of what a is part of."""
        users = (self.users[a] | self.users[b]) - set(self.groups[a].nodes) \
            - set(self.groups[b].nodes)
        if self.would_cycle(a, b, users):
            return a
        keep, gone = (a, b) if self.groups[a].size() >= self.groups[b].size() else (b, a)
        self.groups[keep].nodes.update(self.groups[gone].nodes)
        for node in self.groups.pop(gone).nodes:
            self.of[node] = keep
        self.order[keep] = min(self.order[keep], self.order.pop(gone))
        self.reaches[keep] = self.reaches[keep] | self.reaches.pop(gone, set())
        self.users[keep] = users
        del self.users[gone]
        return keep


class CapabilityBasedPartitioner:
    """Groups the nodes that a backend supports."""

    def __init__(self, graph_module, operator_support, allows_single_node_partition=False,
                 non_compute_ops=None, allowed_single_node_partition_ops=None):
        self.graph_module = graph_module
        self.operator_support = operator_support
        self.allows_single_node_partition = allows_single_node_partition
        self.non_compute_ops = non_compute_ops or []
        self.allowed_single_node_partition_ops = allowed_single_node_partition_ops or []
        self.dependency_viewer = _DependencyViewer(graph_module)

    def _is_node_supported(self, node):
        return self.operator_support.is_node_supported(dict(self.graph_module.named_modules()),
                                                       node)

    def propose_partitions(self):
        """The groups, as a list of Partition."""
        p = _Proposal(self.dependency_viewer)
        numbers = itertools.count()
        for place, node in enumerate(reversed(self.graph_module.graph.nodes)):
            candidates = {}
            if self._is_node_supported(node) and node not in p.of:
                number = next(numbers)
                p.start(node, place, number)
                candidates[number] = None
            candidates.update(dict.fromkeys(
                n for n, _ in sorted(p.order.items(), key=operator.itemgetter(1))))
            first, *rest = candidates or [None]
            for other in rest:
                first = p.merge(first, other)
        for group in p.groups.values():
            group.nodes = dict(sorted(group.nodes.items(), key=operator.itemgetter(1),
                                      reverse=True))
        self._gather_items(p)
        groups = list(p.groups.values())
        if not self.allows_single_node_partition:
            groups = [g for g in groups if self._computes(g) > 1]
        return [g for g in groups if g.size() > 0]

    def _gather_items(self, p):
        """Nodes that take one of several results are where those are made."""
        while True:
            moved = {}
            for node in self.graph_module.graph.nodes:
                users = list(node.users)
                if all(u.op == "call_function" and u.target is operator.getitem for u in users):
                    number = p.of.get(node)
                    moved.update((u, number) for u in users if p.of.get(u) != number)
            if not moved:
                return
            for node, number in moved.items():
                p.move(node, number)

    def _computes(self, group):
        idle = {"torch.ops.aten.view", "_operator.getitem", *self.non_compute_ops}
        count = 0
        for node in group.nodes:
            if node.op == "call_function":
                name = _get_qualified_name(node.target)
                count += (name not in idle) + (name in self.allowed_single_node_partition_ops)
        return count

    def fuse_partitions(self, partitions, prefix="fused_"):
        return fuse_by_partitions(self.graph_module, [list(p.nodes) for p in partitions],
                                  prefix=prefix)

    def remove_bookend_non_compute_ops(self, partitions):
        """Leaves out nodes at the ends of groups that compute nothing."""
        idle = set(self.non_compute_ops)

        def computes_nothing(node):
            return node.op == "call_function" and _get_qualified_name(node.target) in idle

        def open_end(node, group, removed, ways, known):
            if node.op == "placeholder" or node not in group or node in removed:
                return True
            if node not in known:
                known[node] = computes_nothing(node) and all(
                    open_end(n, group, removed, ways, known) for n in ways(node))
            return known[node]

        ins, outs = {}, {}
        for p in partitions:
            group, removed = set(p.nodes), set()
            for node in p.nodes:
                if computes_nothing(node) and (
                        open_end(node, group, removed, lambda n: n.all_input_nodes, ins)
                        or open_end(node, group, removed, lambda n: n.users, outs)):
                    removed.add(node)
            for node in removed:
                p.nodes.pop(node, None)

    def partition_and_fuse(self, prefix="fused_"):
        return self.fuse_partitions(self.propose_partitions(), prefix=prefix)
