"""Searching for the nodes that a backend computes otherwise: parts of a graph are run in both ways,
and the parts that differ are made smaller."""
import dataclasses
import logging
import typing

import cfx

from .._compatibility import compatibility
from ..node import map_arg
from .shape_prop import ShapeProp
from .split_utils import split_by_tags
from .tools_common import CALLABLE_NODE_OPS, FxNetAccFusionsFinder

__all__ = ["FxNetMinimizerBadModuleError", "FxNetMinimizerRunFuncError",
           "FxNetMinimizerResultMismatchError"]
_log = logging.getLogger(__name__)


@compatibility(is_backward_compatible=False)
class FxNetMinimizerBadModuleError(Exception):
    """A part could not be split off."""


@compatibility(is_backward_compatible=False)
class FxNetMinimizerRunFuncError(Exception):
    """run_a or run_b failed."""


@compatibility(is_backward_compatible=False)
class FxNetMinimizerResultMismatchError(Exception):
    """The two ways gave results that differ."""


_FAILURES = (FxNetMinimizerRunFuncError, FxNetMinimizerResultMismatchError)


@dataclasses.dataclass
class _MinimizerSettingBase:
    """accumulate_error: inputs of a part are what run_b computed for them, not run_a.
    traverse_method: sequential, binary, accumulate, skip, defined or block. find_all: go on behind
    the first culprit. return_intermediate: parts give all that their nodes compute, not the last
    alone. all_outputs: parts give all that others use."""

    accumulate_error: bool = False
    traverse_method: str = "sequential"
    find_all: bool = False
    return_intermediate: bool = False
    all_outputs: bool = False

    def __str__(self):
        rows = (f"\t{f.name}: {getattr(self, f.name)}\n" for f in dataclasses.fields(self))
        return "FX Minimizer Settings:\n" + "".join(rows)


class _MinimizerBase:
    """To be subclassed: run_a(mod, inputs, report_idx) and run_b compute a part in the two ways;
    compare_fn(a, b, names) is (a number that says how much they differ, whether that is well)."""

    def __init__(self, module, sample_input, compare_fn, settings, module_exporter=None,
                 exclusions=None):
        if not isinstance(module, cfx.torch.fx.GraphModule):
            raise AssertionError(f"Expected a GraphModule, got {type(module)}")
        self.module = module
        self.sample_input = sample_input
        self.compare_fn = compare_fn
        self.module_exporter = module_exporter
        self.settings = settings
        self.exclusions = exclusions
        self.a_outputs, self.b_outputs = {}, {}  # what each way computed, by names of nodes
        self.results = {}  # what compare_fn said
        self.reports, self.iteration = [], 0
        self.fusions = {}
        ShapeProp(module).propagate(*sample_input)
        callables = {n for n in module.graph.nodes if n.op in CALLABLE_NODE_OPS}
        self.fusions = FxNetAccFusionsFinder(module, callables)()
        for node, value in zip(module.graph.find_nodes(op="placeholder"), sample_input):
            self.a_outputs[node.name] = self.b_outputs[node.name] = value

    def run_a(self, mod, inputs, report_idx=-1):
        raise RuntimeError("run_a() is not implemented.")

    def run_b(self, mod, inputs, report_idx=-1):
        raise RuntimeError("run_b() is not implemented.")

    # ---- one part ----

    def _build_submodule(self, nodes):
        """(the module with those nodes in a part of its own, the name of that part)"""
        before = True
        for node in self.module.graph.nodes:
            node.tag = ""
            if node.op in CALLABLE_NODE_OPS:
                node.tag = "minimize" if node in nodes else "main_0" if before else "main_1"
                before = before and node not in nodes
        tags = [t for t in ("main_0", "minimize", "main_1")
                if any(n.tag == t for n in self.module.graph.nodes)]
        self._tag_constants()
        if self.settings.return_intermediate:
            raise_to_outputs = [n for n in self.module.graph.nodes if n in nodes]
            return self._with_outputs(raise_to_outputs, tags)
        return self._split(tags), "minimize"

    def _tag_constants(self):
        """What is got of attributes goes where it is used."""
        for node in self.module.graph.find_nodes(op="get_attr"):
            users = [u.tag for u in node.users if u.op != "output"]
            node.tag = users[0] if users else "main_0"

    def _split(self, tags):
        try:
            split = split_by_tags(self.module, tags)
        except Exception as e:
            raise FxNetMinimizerBadModuleError(f"the module cannot be split: {e}") from e
        if not hasattr(split, "minimize"):
            raise FxNetMinimizerBadModuleError("no node is in the part")
        return split

    def _with_outputs(self, nodes, tags):
        """The part, which gives what each of its nodes computes."""
        split = self._split(tags)
        part = split.minimize
        names = {n.name for n in nodes}
        last = next(iter(reversed(part.graph.nodes)))
        last.args = (tuple(n for n in part.graph.nodes if n.name in names),)
        part.recompile()
        return split, "minimize"

    def _get_submod_inputs(self, main_module, submod_path):
        """What a part takes in the two ways: computed before, or by running what is before it."""
        names = [n.name for n in getattr(main_module, submod_path).graph.nodes
                 if n.op == "placeholder"]
        if self.settings.accumulate_error and all(n in self.b_outputs for n in names):
            return [[known[n] for n in names] for known in (self.a_outputs, self.b_outputs)]
        seen = []

        def keep(module, args):
            seen.append(args)

        handle = getattr(main_module, submod_path).register_forward_pre_hook(keep)
        try:
            main_module(*self.sample_input)
        finally:
            handle.remove()
        return list(seen[0]), list(seen[0])

    def _output_names(self, part):
        last = next(iter(reversed(part.graph.nodes)))
        names = []
        map_arg(last.args, lambda n: names.append(n.name))
        return names

    def _run_and_compare(self, split_module, submod_name, output_names, report_idx=-1):
        """Runs a part in both ways; an error of ours where they differ."""
        part = getattr(split_module, submod_name)
        a_input, b_input = self._get_submod_inputs(split_module, submod_name)
        if self.module_exporter:
            self.module_exporter(part, b_input, submod_name)
        a = self._run(self.run_a, part, a_input, report_idx)
        b = self._run(self.run_b, part, b_input, report_idx)
        names = output_names or self._output_names(part)
        for known, result in ((self.a_outputs, a), (self.b_outputs, b)):
            values = result if isinstance(result, (tuple, list)) else [result]
            known.update(zip(names, values))
        number, well = self.compare_fn(a, b, names)
        self.results[tuple(names)] = number
        self._say(report_idx, f"{', '.join(names)}: {number}")
        if not well:
            raise FxNetMinimizerResultMismatchError(f"Result mismatch for {names}")

    def _run(self, run, part, inputs, report_idx):
        try:
            return run(part, inputs, report_idx)
        except Exception as e:
            raise FxNetMinimizerRunFuncError(f"{run} failed: {e}") from e

    def _fails(self, nodes, output_names=None):
        """Whether the two ways differ where these nodes are a part."""
        nodes = self._whole_fusions(nodes)
        if not nodes:
            return False
        split, name = self._build_submodule(nodes)
        index = len(self.reports)
        self.reports.append([f"{self.iteration}: {', '.join(n.name for n in nodes)}"])
        self.iteration += 1
        try:
            self._run_and_compare(split, name, output_names or [], index)
            return False
        except _FAILURES as e:
            self._say(index, f"{type(e).__name__}: {e}")
            return True

    def _whole_fusions(self, nodes):
        """With each node those that have to stay with it, in the order of the graph."""
        wanted = set(nodes).union(*(self.fusions.get(n, ()) for n in nodes))
        return [n for n in self.module.graph.nodes if n in wanted]

    # ---- ways to search ----

    def _sequential_traverse(self, nodes):
        culprits = set()
        for node in nodes:
            if node not in culprits and self._fails([node]):
                culprits.update(self._whole_fusions([node]))
                if not self.settings.find_all:
                    break
        return culprits

    def _binary_traverse(self, nodes):
        if not nodes or not self._fails(nodes):
            return set()
        if len(nodes) == 1:
            return set(self._whole_fusions(nodes))
        half = len(nodes) // 2
        culprits = self._binary_traverse(nodes[:half])
        if self.settings.find_all or not culprits:
            culprits |= self._binary_traverse(nodes[half:])
        return culprits

    def _accumulate_traverse(self, nodes):
        """The node with which what comes before it fails."""
        culprits, so_far = set(), []
        for node in nodes:
            so_far.append(node)
            if self._fails(so_far):
                culprits.add(node)
                so_far.pop()
                if not self.settings.find_all:
                    break
        return culprits

    def _skip_traverse(self, all_nodes, skip_nodes):
        """The parts between nodes that are known to fail."""
        culprits, part = set(), []
        for node in [*all_nodes, None]:
            if node is not None and node.name not in skip_nodes:
                part.append(node)
            elif part:
                if self._fails(part):
                    culprits.update(part)
                part = []
        return culprits

    def _defined_traverse(self, nodes):
        return set(nodes) if nodes and self._fails(nodes) else set()

    def _least(self, low, high, holds):
        """The least number of a range for which something holds, where it holds for all above."""
        while low < high:
            middle = (low + high) // 2
            if holds(middle):
                high = middle
            else:
                low = middle + 1
        return low

    def _block_traverse(self, nodes, find_last_node=None):
        """The shortest run of nodes that fails: its end, then its start. find_last_node: only the
        end (True) or the start (False) is looked for."""
        if not nodes or not self._fails(nodes):
            return set()
        start, end = 0, len(nodes)
        if find_last_node is not False:
            end = self._least(1, end, lambda n: self._fails(nodes[:n]))
        if find_last_node is not True:  # the last start that fails
            start = end - self._least(1, end, lambda n: self._fails(nodes[end - n:end]))
        return set(nodes[start:end])

    # ---- reports ----

    def _say(self, index, text):
        _log.info("%s", text)
        if 0 <= index < len(self.reports):
            self.reports[index].append(text)

    def print_report(self, report):
        for i, line in enumerate(report):
            print(f" . {line}" if i else f"Iteration {line}")

    def print_reports(self):
        for report in self.reports:
            self.print_report(report)

    # ---- for callers ----

    def _collect_nodes(self, start, end):
        """The nodes that call something, from the one called start to the one called end."""
        names = [n.name for n in self.module.graph.nodes]
        for name in (start, end):
            if name is not None and name not in names:
                raise ValueError(f"no node is called {name!r}")
        first = 0 if start is None else names.index(start)
        last = len(names) - 1 if end is None else names.index(end)
        left_out = {n.name if hasattr(n, "name") else n for n in self.exclusions or ()}
        return [n for n in list(self.module.graph.nodes)[first:last + 1]
                if n.op in CALLABLE_NODE_OPS and n.name not in left_out]

    def run_nodes(self, start=None, end=None):
        """Runs the nodes between two as one part, and prints whether the results differ."""
        nodes = self._whole_fusions(self._collect_nodes(start, end))
        split, name = self._build_submodule(nodes)
        try:
            self._run_and_compare(split, name, [])
        except _FAILURES as e:
            print(e)

    def minimize(self, start=None, end=None, skip_nodes=None, find_last_node=None):
        """The set of nodes that the two ways compute otherwise."""
        print(self.settings)
        nodes = self._collect_nodes(start, end)
        method = self.settings.traverse_method
        ways: typing.Dict[str, typing.Callable] = {
            "sequential": self._sequential_traverse, "binary": self._binary_traverse,
            "accumulate": self._accumulate_traverse, "defined": self._defined_traverse,
            "skip": lambda n: self._skip_traverse(n, skip_nodes or []),
            "block": lambda n: self._block_traverse(n, find_last_node)}
        if method not in ways:
            raise RuntimeError(f"Unknown traverse method {method}!")
        return ways[method](nodes)
