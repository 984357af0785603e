"""Parts of a graph for several devices: what they need, and how long they take."""
import enum
import typing

_READS = ("placeholder", "get_attr")


class Device(typing.NamedTuple):
    name: str
    available_mem_bytes: int
    logical_id: int


class NodeLatency(typing.NamedTuple):
    mem_latency_sec: float
    computer_latency_sec: float


class PartitionLatency(typing.NamedTuple):
    """Sums over the longest path, and its own length."""

    mem_latency_sec: float
    computer_latency_sec: float
    overall_latency_sec: float


class PartitionMode(enum.Enum):
    size_based = 0
    sparse_nn = 1
    cost_aware = 2
    kl_based = 3
    aot_based = 4


class PartitionerConfig(typing.NamedTuple):
    devices: typing.List[Device]
    mode: PartitionMode = PartitionMode.size_based
    transfer_rate_bytes_per_sec: float = 0.0
    node_to_latency_mapping: typing.Dict = {}
    node_to_partition_mapping: typing.Dict = {}
    partition_to_logical_device_mapping: typing.Dict = {}
    saturate_host: bool = False


class Partition:
    """Nodes that run on one device, with the inputs and weights that they read."""

    def __init__(self, partition_id):
        self.partition_id = partition_id
        self.nodes = set()
        self.parents, self.children = set(), set()
        self.bfs_level = -1
        self.used_mem_bytes = 0
        self.logical_device_ids = []

    def __str__(self):
        return str(self.partition_id)

    def recalculate_mem_size(self):
        self.used_mem_bytes = sum(get_extra_size_of(n, self.nodes) for n in self.nodes)

    def add_node(self, node):
        self.nodes.update(n for n in node.all_input_nodes if n.op in _READS)
        self.nodes.add(node)
        self.recalculate_mem_size()

    def remove_node(self, node):
        """Takes a node out, and what it alone read."""
        if node not in self.nodes:
            return
        self.nodes.remove(node)
        for n in node.all_input_nodes:
            if n.op in _READS and not any(u in self.nodes for u in n.users):
                self.nodes.discard(n)
        self.recalculate_mem_size()

    def operations(self):
        return [n for n in self.nodes if n.op not in _READS]


def _size_of(node):
    size = getattr(node, "size_bytes", None)
    if not size:
        raise RuntimeError("node has no size_bytes attr")
    return size


def get_extra_size_of(node, nodes):
    """The bytes that a set of nodes needs more with this one: its own, and of inputs that are not
    in the set."""
    outside = sum(_size_of(n).output_size for n in node.all_input_nodes if n not in nodes)
    return outside + _size_of(node).total_size


def _longest(before, nodes, next_of, cost_of):
    """The longest path that starts at one of the nodes: a tuple of sums, compared by the last."""
    best = None
    for n in nodes:
        here = tuple(a + b for a, b in zip(before, cost_of(n)))
        path = _longest(here, next_of(n), next_of, cost_of) or here
        if best is None or path[-1] > best[-1]:
            best = path
    return best


def get_latency_of_one_partition(partition, node_to_latency_mapping):
    """The latency of the critical path of a partition."""
    own = partition.operations()
    top = [n for n in own if not any(i in own for i in n.all_input_nodes)]

    def cost(n):
        mem, compute = node_to_latency_mapping[n]
        return mem, compute, max(mem, compute)

    found = _longest((0.0, 0.0, 0.0), top, lambda n: [u for u in n.users if u in partition.nodes],
                     cost)
    return PartitionLatency(*(found or (0.0, 0.0, 0.0)))


def get_partition_to_latency_mapping(partitions, node_to_latency_mapping):
    return {p: get_latency_of_one_partition(p, node_to_latency_mapping) for p in partitions}


def get_comm_latency_between(parent_partition, child_partition, transfer_rate_bytes_per_sec):
    """The time to bring from one partition to another what that reads of it; none on one device."""
    if parent_partition.logical_device_ids and \
            parent_partition.logical_device_ids == child_partition.logical_device_ids:
        return 0.0
    read = {n for node in child_partition.nodes for n in node.all_input_nodes
            if n in parent_partition.nodes}
    sizes = [getattr(n, "size_bytes", None) for n in read]
    return sum(s.output_size for s in sizes if s is not None) / transfer_rate_bytes_per_sec


def get_latency_of_partitioned_graph(partitions, partition_to_latency_mapping,
                                     transfer_rate_bytes_per_sec):
    """The latency of the critical path through all partitions."""
    def from_here(p, so_far):
        so_far += partition_to_latency_mapping[p].overall_latency_sec
        return max((from_here(c, so_far + get_comm_latency_between(
            p, c, transfer_rate_bytes_per_sec)) for c in p.children), default=so_far)

    return max((from_here(p, 0.0) for p in partitions if not p.parents), default=0.0)
