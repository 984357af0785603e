"""A GraphModule cut into parts for devices with little memory: by size, by cost, or as told."""
import operator
import typing

from ..graph_module import GraphModule
from ..passes.graph_manipulation import get_size_of_all_nodes
from ..passes.split_module import split_module
from .partitioner_utils import (Device, Partition, PartitionMode, get_extra_size_of,
                                get_latency_of_partitioned_graph, get_partition_to_latency_mapping)

_NO_OPERATION = ("placeholder", "get_attr", "output")


class DAGNode:
    """A part: the node that calls it, what it takes and gives, and its devices."""

    def __init__(self, submodule_node, input_nodes, output_nodes, logical_device_ids, size_bytes):
        self.submodule_node = submodule_node
        self.input_nodes, self.output_nodes = input_nodes, output_nodes
        self.logical_device_ids = logical_device_ids
        self.size_bytes = size_bytes

    def __str__(self):
        return str(self.submodule_node)


class DAG:
    def __init__(self):
        self.nodes = []

    def create_node(self, submodule_node, input_nodes, output_nodes, logical_devices, size_bytes):
        self.nodes.append(DAGNode(submodule_node, input_nodes, output_nodes, logical_devices,
                                  size_bytes))


class PartitionResult(typing.NamedTuple):
    dag: DAG
    module_with_submodules: GraphModule


# ---- lists of partitions -------------------------------------------------------------------------


def reset_partition_device(partitions):
    for p in partitions:
        p.logical_device_ids = []


def set_parents_and_children(partitions):
    """Notes which partition reads of which."""
    for p in partitions:
        p.parents, p.children = set(), set()
    for p in partitions:
        for node in p.nodes:
            for other in partitions:
                if other is not p and node not in other.nodes and \
                        any(u in other.nodes for u in node.users):
                    p.children.add(other)
                    other.parents.add(p)


def reorganize_partitions(partitions):
    for i, p in enumerate(partitions):
        p.partition_id = i
    set_parents_and_children(partitions)


def combine_two_partitions(partition_0, partition_1, partitions):
    """Puts one partition, at the end, in the place of two."""
    both = Partition(len(partitions))
    both.nodes = partition_0.nodes | partition_1.nodes
    both.recalculate_mem_size()
    partitions.append(both)
    partitions.remove(partition_0)
    partitions.remove(partition_1)
    reorganize_partitions(partitions)


def get_bfs_level_partition(partitions):
    """Notes how far each partition is from those that read of no other."""
    level, here = 0, {p for p in partitions if not p.parents}
    while here:
        for p in here:
            p.bfs_level = level
        here = {c for p in here for c in p.children}
        level += 1


def get_node_to_partition_mapping(partitions):
    return {node: p.partition_id for p in partitions for node in p.nodes}


def get_logical_id_to_device(devices):
    return {d.logical_id: d for d in devices}


def get_device_partition_stats(partitions, devices):
    """(partitions of each device, bytes left on each, partitions without one)"""
    known = get_logical_id_to_device(devices)
    on, left = {d: [] for d in devices}, {d: d.available_mem_bytes for d in devices}
    for p in partitions:
        for i in p.logical_device_ids:
            on[known[i]].append(p)
            left[known[i]] -= p.used_mem_bytes
    return on, left, [p for p in partitions if not p.logical_device_ids]


def get_device_to_partitions_mapping(partitions, devices):
    """Finds a device for each partition that has none: the fullest that has room. Whether all
    have one then."""
    on, left, without = get_device_partition_stats(partitions, devices)

    def needed(p, d):
        nodes = set().union(*(other.nodes for other in on[d]))
        if not nodes:
            return p.used_mem_bytes
        return sum(get_extra_size_of(n, nodes | p.nodes) for n in p.nodes)

    for p in without:
        for d in sorted(left, key=left.get):
            size = needed(p, d)
            if size < left[d]:
                on[d].append(p)
                p.logical_device_ids.append(d.logical_id)
                left[d] -= size
                break
        else:
            return False
    return True


def check_dependency(partition):
    """Whether a partition reads, by way of others, of itself."""
    seen, todo = set(), [partition]
    while todo:
        for child in todo.pop().children:
            if child is partition:
                return True
            if child not in seen:
                seen.add(child)
                todo.append(child)
    return False


# ---- the partitioner -----------------------------------------------------------------------------


class Partitioner:
    """partition_graph() cuts a GraphModule; `partitions` are the parts then."""

    def __init__(self):
        self.partitions = []
        self.node_to_partition = {}
        self.devices = []

    def partition_graph(self, fx_module, torch_module, partitioner_config):
        config = partitioner_config
        self.graph_module, self.torch_module = fx_module, torch_module
        self.devices = config.devices
        if not self.devices:
            raise RuntimeError("No devices")
        get_size_of_all_nodes(fx_module)
        if not self._operations():
            raise RuntimeError("No Partition since no operations in the module")
        total = sum(n.size_bytes.total_size for n in fx_module.graph.nodes if n.op != "output")
        largest = max(self.devices, key=lambda d: d.available_mem_bytes)
        if config.mode is PartitionMode.aot_based:
            self.aot_based_partition(config.node_to_partition_mapping,
                                     config.partition_to_logical_device_mapping)
        elif total <= largest.available_mem_bytes:
            self.find_single_partition(total, largest.logical_id)
        elif total > sum(d.available_mem_bytes for d in self.devices):
            raise RuntimeError("Devices have no enough memory for the module")
        else:
            self._cut(config)
        if config.saturate_host:
            self.saturate_host()
        module = self.do_partition()
        return PartitionResult(self.dump_dag(module), module)

    def _cut(self, config):
        rate, latency = config.transfer_rate_bytes_per_sec, config.node_to_latency_mapping
        if config.mode is PartitionMode.sparse_nn:
            memory = self.devices[0].available_mem_bytes
            if any(d.available_mem_bytes != memory for d in self.devices):
                raise RuntimeError("All devices must have same memory size!")
            self.sparse_nn_partition(memory)
        elif config.mode is PartitionMode.cost_aware:
            self.cost_aware_partition(rate, latency)
        elif config.mode is PartitionMode.kl_based:
            self.kl_based_partition(rate, latency)
        else:
            self.size_based_partition()

    def _operations(self):
        return [n for n in self.graph_module.graph.nodes if n.op not in _NO_OPERATION]

    def create_partition(self):
        self.partitions.append(Partition(len(self.partitions)))
        return self.partitions[-1]

    def create_single_node_partition(self, node):
        self.create_partition().add_node(node)

    def find_single_partition(self, total_size_of_graph, logical_device_id=0):
        whole = self.create_partition()
        whole.nodes = {n for n in self.graph_module.graph.nodes if n.op != "output"}
        whole.used_mem_bytes = total_size_of_graph
        whole.logical_device_ids = [logical_device_id]
        self.node_to_partition = get_node_to_partition_mapping(self.partitions)

    def size_based_partition(self):
        """Fills one device after the other, in the order of nodes; nodes for which no device is
        left are parts of their own, which go where there is room."""
        free = list(self.devices)

        def take(node):
            needed = get_extra_size_of(node, set())
            for d in free:
                if d.available_mem_bytes >= needed:
                    free.remove(d)
                    return d
            raise RuntimeError(f"{node}is too large to fit any device")

        part, left = self.create_partition(), 0
        for node in self._operations():
            if len(self.partitions) > len(self.devices):
                self.create_single_node_partition(node)
                continue
            if not part.used_mem_bytes or left < get_extra_size_of(node, part.nodes):
                if part.used_mem_bytes:
                    if len(self.partitions) == len(self.devices):
                        self.create_single_node_partition(node)
                        continue
                    device, part = take(node), self.create_partition()
                else:
                    device = take(node)
                left = device.available_mem_bytes
                part.logical_device_ids.append(device.logical_id)
            left -= get_extra_size_of(node, part.nodes)
            part.add_node(node)
        reorganize_partitions(self.partitions)
        self.node_to_partition = get_node_to_partition_mapping(self.partitions)
        if not get_device_to_partitions_mapping(self.partitions, self.devices):
            raise RuntimeError("Cannot Get a Valid Partition to Logical Device Mapping")

    def saturate_host(self):
        """Lets idle devices run what others run, as long as there are enough for all of them."""
        on, left, without = get_device_partition_stats(self.partitions, self.devices)
        if without:
            raise AssertionError("Expect no_device_partitions has 0 device, but get "
                                 f"{len(without)}")
        used = [d for d in self.devices if on[d]]
        idle = [d for d in self.devices if not on[d]]
        while len(idle) >= len(used):
            copies = {}
            for d in used:
                fits = [i for i in idle if i not in copies and
                        i.available_mem_bytes >= d.available_mem_bytes - left[d]]
                if not fits:
                    return
                copies[min(fits, key=lambda i: i.available_mem_bytes)] = d
            for copy, d in copies.items():
                idle.remove(copy)
                for p in on[d]:
                    p.logical_device_ids.append(copy.logical_id)

    def do_partition(self):
        return split_module(self.graph_module, self.torch_module,
                            lambda node: self.node_to_partition[node])

    def dump_dag(self, module_with_submodules):
        """How the parts of a module are connected."""
        dag = DAG()
        for node in module_with_submodules.graph.nodes:
            if node.op in _NO_OPERATION or node.target == operator.getitem:
                continue
            p = self.partitions[int(node.name.rsplit("_", 1)[-1])]
            dag.create_node(node, list(node.all_input_nodes),
                            list(node.users) if len(node.users) > 1 else [node],
                            p.logical_device_ids, p.used_mem_bytes)
        return dag

    def aot_based_partition(self, node_to_partition_mapping, partition_to_logical_device_mapping):
        """The parts and devices that the caller says."""
        self.node_to_partition = node_to_partition_mapping
        made = {}
        for node, i in node_to_partition_mapping.items():
            if i not in made:
                made[i] = Partition(i)
                made[i].logical_device_ids = partition_to_logical_device_mapping[i]
                self.partitions.append(made[i])
            made[i].add_node(node)

    # ---- embeddings apart ----

    def _is_embedding(self, node):
        """Whether a node calls an embedding, or a module with one in it."""
        if node.op != "call_module":
            return False
        return "Embedding" in str(self.graph_module.get_submodule(node.target))

    def sparse_nn_partition(self, available_mem_bytes):
        """By size, for devices of one size; embeddings are parts of their own, one on each device,
        and the rest is on all of these devices."""
        kinds = {True: [], False: []}
        embeds, part = False, self.create_partition()
        for node in self._operations():
            if self._is_embedding(node) != embeds:
                if part.used_mem_bytes:
                    kinds[embeds].append(part)
                    part = self.create_partition()
                embeds = not embeds
            if get_extra_size_of(node, part.nodes) + part.used_mem_bytes > available_mem_bytes:
                kinds[embeds].append(part)
                part = self.create_partition()
                if get_extra_size_of(node, set()) > available_mem_bytes:
                    raise RuntimeError(f"{node.target}is too large to fit into a device")
            part.add_node(node)
        kinds[embeds].append(part)
        set_parents_and_children(self.partitions)
        for embeds in (False, True):
            while self._combined_by_size(kinds[embeds], available_mem_bytes):
                pass
        others = sum(p.used_mem_bytes for p in kinds[False])
        if len(kinds[True]) > len(self.devices):
            raise RuntimeError(f"Need {len(kinds[True])} devices, but only {len(self.devices)} "
                               "provided")
        for p, d in zip(kinds[True], self.devices):
            if others + p.used_mem_bytes > available_mem_bytes:
                raise RuntimeError(f"partition_{p.partition_id}(embedding partition) and non "
                                   "embedding partitions can not fit into one device")
            p.logical_device_ids = [d.logical_id]
        ids = [d.logical_id for d in self.devices[:len(kinds[True])]]
        for p in kinds[False]:
            p.logical_device_ids = ids
        self.node_to_partition = get_node_to_partition_mapping(self.partitions)

    def _combined_by_size(self, parts, available_mem_bytes):
        """Puts the smallest part together with the largest that leaves room, near to it."""
        get_bfs_level_partition(self.partitions)
        smallest, *rest = sorted(parts, key=lambda p: p.used_mem_bytes)
        for p in reversed(rest):
            nodes = p.nodes | smallest.nodes
            if abs(smallest.bfs_level - p.bfs_level) <= 1 and \
                    sum(get_extra_size_of(n, nodes) for n in nodes) <= available_mem_bytes:
                combine_two_partitions(p, smallest, self.partitions)
                parts.remove(smallest)
                parts.remove(p)
                parts.append(self.partitions[-1])
                return True
        return False

    # ---- by cost ----

    def _cost(self, partitions, rate, latency):
        """The latency of a way to cut, on devices; infinite where there are not enough."""
        if any(check_dependency(p) for p in partitions):
            return float("inf")
        reset_partition_device(partitions)
        if not get_device_to_partitions_mapping(partitions, self.devices):
            return float("inf")
        return get_latency_of_partitioned_graph(
            partitions, get_partition_to_latency_mapping(partitions, latency), rate)

    def cost_aware_partition(self, transfer_rate_bytes_per_sec, node_to_latency_mapping):
        """Begins with every node alone, and combines the two that cost least, as long as that is
        not more than before."""
        for node in self._operations():
            self.create_single_node_partition(node)
        set_parents_and_children(self.partitions)
        get_bfs_level_partition(self.partitions)
        while self._combined_by_cost(transfer_rate_bytes_per_sec, node_to_latency_mapping):
            pass
        reorganize_partitions(self.partitions)
        self.node_to_partition = get_node_to_partition_mapping(self.partitions)

    def _combined_by_cost(self, rate, latency):
        cost = get_latency_of_partitioned_graph(
            self.partitions, get_partition_to_latency_mapping(self.partitions, latency), rate)
        best = None
        for i, a in enumerate(self.partitions):
            for b in self.partitions[i + 1:]:
                if abs(a.bfs_level - b.bfs_level) > 1 and a not in b.parents | b.children:
                    continue
                tried = list(self.partitions)
                combine_two_partitions(a, b, tried)
                new = self._cost(tried, rate, latency)
                if new <= cost:
                    best, cost = (a, b), new
                reorganize_partitions(self.partitions)
        if best:
            combine_two_partitions(*best, self.partitions)
        get_bfs_level_partition(self.partitions)
        reset_partition_device(self.partitions)
        get_device_to_partitions_mapping(self.partitions, self.devices)
        return best is not None

    def kl_based_partition(self, transfer_rate_bytes_per_sec, node_to_latency_mapping):
        """Begins with parts by size, and moves each node to another part, in exchange for one of
        that or for none, where it costs less so (Kernighan and Lin)."""
        self.size_based_partition()
        rate, latency = transfer_rate_bytes_per_sec, node_to_latency_mapping
        cost = get_latency_of_partitioned_graph(
            self.partitions, get_partition_to_latency_mapping(self.partitions, latency), rate)
        for node in self._operations():
            best = None
            home = next(p for p in self.partitions if node in p.nodes)
            for p in self.partitions:
                for other in [] if p is home else [*p.operations(), None]:
                    self._swap(node, other, home, p)
                    new = self._cost(self.partitions, rate, latency)
                    self._swap(other, node, home, p)
                    if new < cost:
                        best, cost = (node, other, home, p), new
            if best:
                self._swap(*best)
        reset_partition_device(self.partitions)
        get_device_to_partitions_mapping(self.partitions, self.devices)
        self.node_to_partition = get_node_to_partition_mapping(self.partitions)

    def _swap(self, out, back, home, other):
        """Moves a node from home to another part, and one of that back; None: none."""
        if out is not None:
            home.remove_node(out)
            other.add_node(out)
        if back is not None:
            other.remove_node(back)
            home.add_node(back)
        reorganize_partitions(self.partitions)


__all__ = ["DAG", "DAGNode", "Device", "PartitionResult", "Partitioner"]
