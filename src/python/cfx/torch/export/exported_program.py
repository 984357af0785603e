"""Exported programs: torch.export's class over a program of the C library."""
import copy
import dataclasses
import typing

import cfx
import cfx._program

from ..nn import Parameter
from ..utils import _pytree as pytree
from . import graph_signature as sig
from ._guards import add_guards
from ._inputs import CheckInputs, flatten
from ._modules import graph_module_of, module_of, spec_from_c
from ._provenance import keep_custom, push_custom, say_sources

__all__ = ["ExportedProgram", "ModuleCallEntry", "ModuleCallSignature", "default_decompositions"]


@dataclasses.dataclass
class ModuleCallSignature:
    """The arguments and results of a call of a module inside a program."""

    inputs: typing.List[typing.Any]
    outputs: typing.List[typing.Any]
    in_spec: typing.Any
    out_spec: typing.Any
    forward_arg_names: typing.Optional[typing.List[str]] = None

    def replace_all_uses_with(self, original_node, new_node):
        for i in [*self.inputs, *self.outputs]:
            if i.name == original_node.name:
                i.name = new_node.name


@dataclasses.dataclass
class ModuleCallEntry:
    fqn: str
    signature: typing.Optional[ModuleCallSignature] = None


@dataclasses.dataclass
class CallSpec:
    in_spec: typing.Any
    out_spec: typing.Any


class ValueRanges(typing.NamedTuple):
    """The least and the largest that a size may be."""

    lower: typing.Any
    upper: typing.Any

    def __repr__(self):
        return f"VR[{_bound(self.lower)}, {_bound(self.upper)}]"

    __str__ = __repr__


def _bound(n):
    return {float("inf"): "int_oo", -float("inf"): "-int_oo"}.get(n, str(n))


def default_decompositions():
    """The operators that run_decompositions takes apart: {overload: function}. What is deleted
    from it stays whole."""
    from .decomp_utils import CustomDecompTable

    return CustomDecompTable()


class ExportedProgram:
    """A graph of ATen operators, its signature and its weights."""

    _graph_module = None
    _example_inputs = None

    def __init__(self, program):
        if not isinstance(program, cfx.Program):
            raise TypeError("an ExportedProgram is made by torch.export.export and load, or of a "
                            f"cfx.Program; got {type(program).__name__}")
        self._program = program

    # ---- parts ----

    @property
    def graph_module(self):
        if self._graph_module is None:
            self._graph_module = graph_module_of(self._program)
            self._say_values(self._graph_module.graph, self._program._inputs())
        return self._graph_module

    @property
    def _noted(self):
        """The program, which knows what callers noted at nodes."""
        if self._graph_module is not None:
            push_custom(self._graph_module)
        return self._program

    def _say_values(self, graph, inputs):
        """Constants are the values of their placeholders; those of parameters, and of inputs that
        did in the example, want gradients."""
        user = iter(pytree.tree_leaves(self._example_inputs or ()))
        state = self._program._state()
        for node, (kind, _, target, _, constant, value) in zip(
                graph.find_nodes(op="placeholder"), inputs):
            like = next(user, None) if kind == 0 else state.get(target)
            if constant:
                node.meta.setdefault("val", value)
            elif isinstance(like, cfx.Tensor) and like.requires_grad and \
                    isinstance(node.meta.get("val"), cfx.Tensor):
                node.meta["val"].requires_grad_(True)

    @graph_module.setter
    def graph_module(self, value):
        raise RuntimeError("Unable to set ExportedProgram's graph_module attribute.")

    @property
    def graph(self):
        return self.graph_module.graph

    @graph.setter
    def graph(self, value):
        raise RuntimeError("Unable to set ExportedProgram's graph attribute.")

    @property
    def graph_signature(self):
        return sig.from_program(self._program)

    @graph_signature.setter
    def graph_signature(self, value):
        raise RuntimeError("Unable to set ExportedProgram's graph_signature attribute.")

    @property
    def state_dict(self):
        """Parameters and persistent buffers by name."""
        state = self._program._state()
        parameters = dict.fromkeys(n for n in self.graph_signature.parameters if n in state)
        return {**{n: _parameter(state[n]) for n in parameters},
                **{n: t for n, t in state.items() if n not in parameters}}

    @state_dict.setter
    def state_dict(self, value):
        raise RuntimeError("Unable to set ExportedProgram's state_dict attribute.")

    @property
    def constants(self):
        return self._program._constants()

    tensor_constants = constants

    def named_parameters(self):
        state = self.state_dict
        for name in self.graph_signature.parameters:
            yield name, state[name]

    def parameters(self):
        for _, p in self.named_parameters():
            yield p

    def named_buffers(self):
        state, constants = self.state_dict, self.constants
        for name in self.graph_signature.buffers:
            yield name, state[name] if name in state else constants[name]

    def buffers(self):
        for _, b in self.named_buffers():
            yield b

    @property
    def range_constraints(self):
        """Symbol to the range of the size that it stands for."""
        from .._sym import _Expr

        inf = float("inf")  # data is any number, a size is not negative
        return {_Expr(s): ValueRanges((-inf if s[0] in "uz" else 0) if low is None else low,
                                      inf if high is None else high)
                for s, (low, high) in self._program._ranges().items()}

    @property
    def call_spec(self):
        in_spec, out_spec = self._program._specs()
        return CallSpec(spec_from_c(in_spec), spec_from_c(out_spec))

    @property
    def module_call_graph(self):
        spec = self.call_spec
        s = self.graph_signature
        inputs = [i.arg for i in s.input_specs if i.kind == sig.InputKind.USER_INPUT]
        outputs = [o.arg for o in s.output_specs if o.kind == sig.OutputKind.USER_OUTPUT]
        root = ModuleCallSignature(inputs, outputs, spec.in_spec, spec.out_spec)
        return [ModuleCallEntry("", root), *map(ModuleCallEntry, self._called_modules())]

    def _called_modules(self):
        """The paths of the modules that were called, in the order in which they were."""
        stacks = (n.meta.get("nn_module_stack") or {} for n in self.graph.nodes)
        paths = (path for stack in stacks for path, _ in stack.values())
        return [path for path in dict.fromkeys(paths) if path and "@" not in path]

    @property
    def example_inputs(self):
        if self._example_inputs is None:
            self._example_inputs = self._program._sample_inputs()
        return self._example_inputs

    @example_inputs.setter
    def example_inputs(self, value):
        if value is None:
            self._example_inputs = None
            return
        if not (isinstance(value, tuple) and len(value) == 2 and isinstance(value[0], tuple) and
                isinstance(value[1], dict)):
            raise ValueError("Example inputs should be a tuple containing example arguments (as a "
                             "tuple), and example kwargs (as a dictionary).")
        names = self.call_spec.in_spec.children_specs[1].context
        if set(names) != set(value[1]):
            raise ValueError(f"Ran into a kwarg keyword mismatch: Got the following keywords "
                             f"{list(value[1])} but expected {list(names)}")
        flatten(*value, self.call_spec.in_spec)
        self._example_inputs = value

    @property
    def dialect(self):
        kinds = self._program._extra().get("verifiers") or ["TRAINING"]
        return kinds[0]

    # ---- using it ----

    def __call__(self, *args, **kwargs):
        raise RuntimeError("Unable to call ExportedProgram directly. You should use "
                           "`exported_program.module()` instead.")

    def module(self, check_guards=True):
        """A GraphModule with parameters under their own names, called like the model."""
        module = module_of(self._noted)
        say_sources(module, self.graph, self.graph_signature)
        self._say_values(module.graph, [row for row in self._program._inputs() if row[0] == 0])
        ranges = {str(s): r for s, r in self.range_constraints.items()}
        module.register_forward_pre_hook(CheckInputs(ranges), with_kwargs=True)
        if check_guards:
            add_guards(module, self.example_inputs, ranges,
                       self._program._extra().get("guards") or [])
        cls = type(module)
        cls.train = _no_mode("train")
        cls.eval = _no_mode("eval")
        return module

    def run_decompositions(self, decomp_table=None, decompose_custom_triton_ops=False):
        """The program in Core ATen, or with what a table says taken apart."""
        from .decomp_utils import decompose

        other = ExportedProgram(decompose(self._noted, decomp_table))
        other._example_inputs = self._example_inputs
        if self._graph_module is not None:
            keep_custom(self._graph_module, other)
        return other

    def validate(self):
        self._program._check()

    _validate = validate

    def __str__(self):
        return self._program._str()

    def _repr_html_(self):
        return self._program._repr_html_()

    def __deepcopy__(self, memo):
        other = ExportedProgram(self._program._copy())
        other._example_inputs = copy.deepcopy(self._example_inputs, memo)
        return other

    def __reduce__(self):
        return (_loaded, (self._program.to_bytes(),))

    def _get_flat_args_with_check(self, args, kwargs):
        spec = self.call_spec.in_spec
        return [value for _, value in flatten(args, kwargs or {}, spec)], spec


def _no_mode(name):
    def method(self, mode=True):
        raise NotImplementedError(f"Calling {name}() is not supported yet.")

    return method


def _parameter(t):
    return t if isinstance(t, Parameter) else Parameter(t, t.requires_grad)


def _loaded(data):
    return ExportedProgram(cfx._program.from_bytes(data))
