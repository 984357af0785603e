"""What the inputs and outputs of a program's graph stand for."""
import collections
import dataclasses
import enum
import types
import typing

__all__ = ["ConstantArgument", "CustomObjArgument", "ExportBackwardSignature",
           "ExportGraphSignature", "InputKind", "InputSpec", "OutputKind", "OutputSpec",
           "SymBoolArgument", "SymFloatArgument", "SymIntArgument", "TensorArgument",
           "TokenArgument"]


@dataclasses.dataclass
class TensorArgument:
    name: str


@dataclasses.dataclass
class TokenArgument:
    name: str


@dataclasses.dataclass
class SymIntArgument:
    name: str


@dataclasses.dataclass
class SymFloatArgument:
    name: str


@dataclasses.dataclass
class SymBoolArgument:
    name: str


@dataclasses.dataclass
class CustomObjArgument:
    name: str
    class_fqn: str
    fake_val: typing.Any = None


@dataclasses.dataclass
class ConstantArgument:
    name: str
    value: typing.Any


class InputKind(enum.Enum):
    USER_INPUT = enum.auto()
    PARAMETER = enum.auto()
    BUFFER = enum.auto()
    CONSTANT_TENSOR = enum.auto()
    CUSTOM_OBJ = enum.auto()
    TOKEN = enum.auto()


@dataclasses.dataclass
class InputSpec:
    kind: InputKind
    arg: typing.Any
    target: typing.Optional[str]
    persistent: typing.Optional[bool] = None

    def __post_init__(self):
        if self.kind == InputKind.BUFFER and self.persistent is None:
            raise AssertionError("Failed to specify persistent flag on BUFFER.")

    def __str__(self):
        target = "" if self.target is None else f" target='{self.target}'"
        persistent = "" if self.persistent is None else f" persistent={self.persistent}"
        return f"{self.arg.name}: {self.kind.name}{target}{persistent}"


class OutputKind(enum.Enum):
    USER_OUTPUT = enum.auto()
    LOSS_OUTPUT = enum.auto()
    BUFFER_MUTATION = enum.auto()
    PARAMETER_MUTATION = enum.auto()
    GRADIENT_TO_PARAMETER = enum.auto()
    GRADIENT_TO_USER_INPUT = enum.auto()
    USER_INPUT_MUTATION = enum.auto()
    TOKEN = enum.auto()


@dataclasses.dataclass
class OutputSpec:
    kind: OutputKind
    arg: typing.Any
    target: typing.Optional[str]

    def __str__(self):
        target = "" if self.target is None else f" target='{self.target}'"
        return f"{self.arg.name}: {self.kind.name}{target}"


@dataclasses.dataclass
class ExportBackwardSignature:
    gradients_to_parameters: typing.Dict[str, str]
    gradients_to_user_inputs: typing.Dict[str, str]
    loss_output: str


def _names(specs, kind, argument=TensorArgument):
    return tuple(s.arg.name for s in specs if s.kind == kind and isinstance(s.arg, argument))


def _targets(specs, kind):
    return tuple(s.target for s in specs if s.kind == kind and isinstance(s.target, str))


def _mapped(specs, kind):
    return types.MappingProxyType({s.arg.name: s.target for s in specs
                                   if s.kind == kind and isinstance(s.target, str)})


@dataclasses.dataclass
class ExportGraphSignature:
    """The signature of a program: a spec for each input and output of its graph."""

    input_specs: typing.List[InputSpec]
    output_specs: typing.List[OutputSpec]

    parameters = property(lambda self: _targets(self.input_specs, InputKind.PARAMETER))
    buffers = property(lambda self: _targets(self.input_specs, InputKind.BUFFER))
    lifted_tensor_constants = property(
        lambda self: _targets(self.input_specs, InputKind.CONSTANT_TENSOR))
    lifted_custom_objs = property(lambda self: _targets(self.input_specs, InputKind.CUSTOM_OBJ))

    @property
    def non_persistent_buffers(self):
        return tuple(s.target for s in self.input_specs
                     if s.kind == InputKind.BUFFER and s.persistent is False)

    @staticmethod
    def _users(specs, kind):
        out = []
        for s in specs:
            if s.kind == kind:
                out.append(s.arg.value if isinstance(s.arg, ConstantArgument) else s.arg.name)
        return tuple(out)

    user_inputs = property(lambda self: self._users(self.input_specs, InputKind.USER_INPUT))

    @property
    def user_outputs(self):
        return self._users([s for s in self.output_specs
                            if s.kind in (OutputKind.USER_OUTPUT, OutputKind.LOSS_OUTPUT)],
                           OutputKind.USER_OUTPUT)

    inputs_to_parameters = property(lambda self: _mapped(self.input_specs, InputKind.PARAMETER))
    inputs_to_buffers = property(lambda self: _mapped(self.input_specs, InputKind.BUFFER))
    inputs_to_lifted_tensor_constants = property(
        lambda self: _mapped(self.input_specs, InputKind.CONSTANT_TENSOR))
    inputs_to_lifted_custom_objs = property(
        lambda self: _mapped(self.input_specs, InputKind.CUSTOM_OBJ))
    buffers_to_mutate = property(lambda self: _mapped(self.output_specs,
                                                      OutputKind.BUFFER_MUTATION))
    parameters_to_mutate = property(lambda self: _mapped(self.output_specs,
                                                         OutputKind.PARAMETER_MUTATION))
    user_inputs_to_mutate = property(lambda self: _mapped(self.output_specs,
                                                          OutputKind.USER_INPUT_MUTATION))
    input_tokens = property(lambda self: _names(self.input_specs, InputKind.TOKEN, TokenArgument))
    output_tokens = property(lambda self: _names(self.output_specs, OutputKind.TOKEN,
                                                 TokenArgument))
    assertion_dep_token = None

    @property
    def backward_signature(self):
        loss, parameters, inputs = None, {}, {}
        for s in self.output_specs:
            if s.kind == OutputKind.LOSS_OUTPUT:
                loss = s.arg.name
            elif s.kind == OutputKind.GRADIENT_TO_PARAMETER:
                parameters[s.arg.name] = s.target
            elif s.kind == OutputKind.GRADIENT_TO_USER_INPUT:
                inputs[s.arg.name] = s.target
        return None if loss is None else ExportBackwardSignature(parameters, inputs, loss)

    def replace_all_uses(self, old, new):
        """Puts another name in the place of one."""
        for s in self.output_specs:
            if getattr(s.arg, "name", None) == old:
                s.arg.name = new
        for s in self.input_specs:
            if getattr(s.arg, "name", None) == old:
                s.arg.name = new

    def get_replace_hook(self, replace_inputs=False):
        def hook(old, new, user):
            if user.op == "output":
                self.replace_all_uses(old.name, new)
            if replace_inputs and old.op == "placeholder":
                self.replace_all_uses(old.name, new)

        return hook

    def __str__(self):
        inputs = "\n".join(map(str, self.input_specs))
        outputs = "\n".join(map(str, self.output_specs))
        return f"\n# inputs\n{inputs}\n\n# outputs\n{outputs}\n"


# ---- from the C library --------------------------------------------------------------------------

_INPUT_KINDS = [InputKind.USER_INPUT, InputKind.PARAMETER, InputKind.BUFFER,
                InputKind.CONSTANT_TENSOR, InputKind.CUSTOM_OBJ, InputKind.TOKEN]
_OUTPUT_KINDS = [OutputKind.USER_OUTPUT, OutputKind.LOSS_OUTPUT, OutputKind.BUFFER_MUTATION,
                 OutputKind.PARAMETER_MUTATION, OutputKind.USER_INPUT_MUTATION,
                 OutputKind.GRADIENT_TO_PARAMETER, OutputKind.GRADIENT_TO_USER_INPUT,
                 OutputKind.TOKEN]


def from_program(program):
    """The signature of a program of C."""
    graph = program._graph()
    inputs = []
    for kind, name, target, persistent, constant, value in program._inputs():
        k = _INPUT_KINDS[kind]
        arg = ConstantArgument(name, value) if constant else _argument(graph, name, k)
        inputs.append(InputSpec(k, arg, target, persistent if k == InputKind.BUFFER else None))
    outputs = []
    for kind, name, target, value in program._outputs():
        k = _OUTPUT_KINDS[kind]
        arg = ConstantArgument("", value) if name is None else _argument(graph, name, k)
        outputs.append(OutputSpec(k, arg, target))
    return ExportGraphSignature(inputs, outputs)


def _argument(graph, name, kind):
    if kind in (InputKind.TOKEN, OutputKind.TOKEN):
        return TokenArgument(name)
    node = graph._find(name)
    val = node.meta.get("val") if node is not None else None
    if isinstance(val, bool):
        return SymBoolArgument(name)
    from .. import SymInt

    if isinstance(val, (int, SymInt)) and val is not None:
        return SymIntArgument(name)
    if isinstance(val, float):
        return SymFloatArgument(name)
    if kind == InputKind.CUSTOM_OBJ:
        return CustomObjArgument(name, "")
    return TensorArgument(name)
