"""Types of nodes by their sizes, as far as annotations say them: what is known is checked, what is
not is Dyn."""
import math
import operator

from ... import nn
from ..node import Node, map_arg
from ..tensor_type import Dyn, TensorType, is_consistent, is_more_precise

__all__ = ["GraphTypeChecker", "broadcast_types", "register_inference_rule"]

_rules = {}


def register_inference_rule(call_target):
    """A rule for what a function or a class of modules gives: a decorator."""
    def put(f):
        if call_target in _rules:
            raise RuntimeError(f"Inference rule already registered for {call_target}!")
        _rules[call_target] = f
        return f

    return put


# ---- types ---------------------------------------------------------------------------------------


def expand_to_tensor_dim(t, n):
    """The type as one of tensors with n dimensions."""
    if t == Dyn:
        return TensorType((Dyn,) * n)
    if isinstance(t, TensorType):
        if len(t.__args__) != n:
            raise TypeError(f"Cannot extend tensor. Tensor {t} has rank {len(t.__args__)}. It "
                            f"should have rank {n}")
        return t
    raise TypeError(f"Cannot extend the type {t} to {n} dimensions")


def get_greatest_upper_bound(type1, type2):
    """What is known of something that is of both types."""
    if type1 == Dyn:
        return type2
    if type2 == Dyn:
        return type1
    if not is_consistent(type1, type2):
        raise TypeError(f"Inconsistent types {type1}, {type2}")
    if isinstance(type1, TensorType) and isinstance(type2, TensorType):
        return TensorType(tuple(a if is_more_precise(a, b) else b
                                for a, b in zip(type1.__args__, type2.__args__)))
    return type1


def broadcast_types(t1, t2):
    """Both types as those of what they are broadcast to."""
    if Dyn in (t1, t2):
        return t1, t2
    if not isinstance(t1, TensorType) or not isinstance(t2, TensorType):
        raise TypeError(f"Cannot broadcast types {t1} and {t2}")
    n = max(len(t1.__args__), len(t2.__args__))
    a, b = ([1] * (n - len(t.__args__)) + list(t.__args__) for t in (t1, t2))
    for i in range(n):
        if a[i] == 1:
            a[i] = b[i]
        elif b[i] == 1:
            b[i] = a[i]
    return TensorType(tuple(a)), TensorType(tuple(b))


def _argument(n, name, position, default=None):
    return n.args[position] if len(n.args) > position else n.kwargs.get(name, default)


# ---- functions -----------------------------------------------------------------------------------


def _of(value):
    return value.type if isinstance(value, Node) else type(value)


def add_inference_rule(n):
    """x + y: the less precise type, as a size that is not known may be broadcast."""
    t1, t2 = _of(n.args[0]), _of(n.args[1])
    for one, other in ((t1, t2), (t2, t1)):
        if one in (int, float) and isinstance(other, TensorType):
            n.type = other
            return n.type
    new1, new2 = broadcast_types(t1, t2)
    n.meta["broadcast"] = new1 != t1 or new2 != t2
    if n.meta["broadcast"]:
        n.meta[str(n.args[0])] = new1
        n.meta[str(n.args[1])] = new2
    if not is_consistent(new1, new2):
        raise TypeError(f"Cannot add arguments {n.args[0]} ({t1}) and {n.args[1]} ({t2}) in node "
                        f"{n}. Types should match ")
    n.type = new2 if is_more_precise(new1, new2) else new1
    return n.type


def transpose_inference_rule(n):
    t, first, second = n.args[0].type, *n.args[1:3]
    if t == Dyn:
        n.type = Dyn
        return n.type
    sizes = list(t.__args__)
    if not (0 <= first < len(sizes) and 0 <= second < len(sizes)):
        raise TypeError(f"Cannot transpose {first} and {second} in type {t} for node {n}")
    sizes[first], sizes[second] = sizes[second], sizes[first]
    n.type = get_greatest_upper_bound(n.type, TensorType(sizes))
    return n.type


def reshape_inference_rule(n):
    t, shape = n.args[0].type, n.args[1]
    to = TensorType([Dyn if size == -1 else size for size in shape])
    if t != Dyn:
        has = math.prod(1 if size == Dyn else size for size in t.__args__)
        wants = math.prod(shape)
        if has % wants and wants % has:
            raise TypeError(f"Cannot reshape in node {n} from {t} to {to}")
    n.type = to
    return n.type


def flatten_check(tensor_type, start_dim, end_dim):
    """The type with some dimensions made one."""
    sizes = list(tensor_type.__args__)
    start = start_dim + len(sizes) if start_dim < 0 else start_dim
    end = end_dim + len(sizes) + 1 if end_dim < 0 else end_dim + 1
    if not (0 <= start < len(sizes) and start < end <= len(sizes)):
        raise TypeError(f"Incompatible dimensions {start_dim}, {end_dim - 1} in type {tensor_type}")
    middle = sizes[start:end]
    one = Dyn if Dyn in middle else math.prod(middle)
    return TensorType((*sizes[:start], one, *sizes[end:]))


def flatten_inference_rule(n):
    t = n.args[0].type
    if isinstance(t, TensorType):
        made = flatten_check(t, _argument(n, "start_dim", 1, 0), _argument(n, "end_dim", 2, -1))
        n.type = get_greatest_upper_bound(made, n.type)
    return n.type


# ---- modules -------------------------------------------------------------------------------------


def _of_images(n):
    """The type of what a module is given, as one of a batch of images."""
    n.args[0].type = expand_to_tensor_dim(n.args[0].type, 4)
    return n.args[0].type


def bn2d_inference_rule(n, module):
    given = _of_images(n)
    n.type = expand_to_tensor_dim(n.type, 4)
    if not (is_consistent(given.__args__[1], module.num_features) and
            is_consistent(n.type.__args__[1], module.num_features) and
            is_consistent(given, n.type)):
        raise TypeError(f"Cannot apply {module} with input type {given} and existing type "
                        f"{n.type} on {n}")
    n.type = get_greatest_upper_bound(given, n.type)
    return n.type


def calculate_out_dimension(d_in, module, index):
    """A size after a convolution or a pooling."""
    def at(value):
        return value if isinstance(value, int) else value[index]

    if d_in == Dyn:
        return Dyn
    if not isinstance(d_in, int):
        raise TypeError(f"{d_in} in {module} must be a number or Dyn. Received {type(d_in)}")
    dilation = getattr(module, "dilation", 1)
    rest = d_in + 2 * at(module.padding) - at(dilation) * (at(module.kernel_size) - 1) - 1
    return rest // at(module.stride) + 1


def conv2d_inference_rule(n, module):
    given = _of_images(n)
    batch, channels, height, width = given.__args__
    if not is_consistent(channels, module.in_channels):
        raise TypeError(f"Cannot apply {module} with input type {given} and existing type "
                        f"{n.type} on {n}")
    made = TensorType((batch, module.out_channels, calculate_out_dimension(height, module, 0),
                       calculate_out_dimension(width, module, 1)))
    n.type = get_greatest_upper_bound(made, expand_to_tensor_dim(n.type, 4))
    return n.type


def relu_inference_rule(n, module):
    t = n.args[0].type
    if t == Dyn and isinstance(n.type, TensorType):
        n.args[0].type = expand_to_tensor_dim(t, len(n.type.__args__))
    if isinstance(t, TensorType):
        n.type = get_greatest_upper_bound(t, n.type)
    return n.type


def _with_last(n, module, count):
    """The type with the last sizes as count(size, index) makes them."""
    t = n.args[0].type
    if not isinstance(t, TensorType):
        return n.type
    sizes = list(t.__args__)
    if len(sizes) not in (3, 4):
        raise TypeError(f"Wrong size {t} for {module}")
    made = TensorType((*sizes[:-2], count(sizes[-2], 0), count(sizes[-1], 1)))
    n.type = get_greatest_upper_bound(made, n.type)
    return n.type


def maxpool2d_inference_rule(n, module):
    return _with_last(n, module, lambda size, i: calculate_out_dimension(size, module, i))


def adaptiveavgpool2d_inference_rule(n, module):
    out = module.output_size
    out = (out, out) if isinstance(out, int) else out
    return _with_last(n, module, lambda size, i: size if out[i] is None else out[i])


def linear_inference_rule(n, module):
    t = n.args[0].type
    if isinstance(t, TensorType):
        sizes = list(t.__args__)
        if len(sizes) < 2 or not is_consistent(module.in_features, sizes[-1]):
            raise TypeError(f"Inconsistent {module.in_features} and {sizes[-1:]} in {module}")
        made = TensorType((*sizes[:-1], module.out_features))
        n.type = get_greatest_upper_bound(made, n.type)
    return n.type


def _register():
    from ... import add, flatten, reshape, transpose

    for targets, rule in (((add, operator.add, operator.iadd), add_inference_rule),
                          ((transpose,), transpose_inference_rule),
                          ((reshape,), reshape_inference_rule),
                          ((flatten,), flatten_inference_rule),
                          ((nn.BatchNorm2d,), bn2d_inference_rule),
                          ((nn.Conv2d,), conv2d_inference_rule),
                          ((nn.ReLU,), relu_inference_rule),
                          ((nn.MaxPool2d,), maxpool2d_inference_rule),
                          ((nn.AdaptiveAvgPool2d,), adaptiveavgpool2d_inference_rule),
                          ((nn.Linear,), linear_inference_rule)):
        for target in targets:
            register_inference_rule(target)(rule)


_register()


# ---- the checker ---------------------------------------------------------------------------------


class GraphTypeChecker:
    """Gives every node of a traced module a type; TypeError where those do not fit."""

    def __init__(self, env, traced):
        self.env = env
        self.traced = traced

    def type_check(self):
        for n in self.traced.graph.nodes:
            self.type_check_node(n)
        return True

    def type_check_node(self, n):
        if n.type is None:
            n.type = Dyn
        if n.op == "get_attr":
            value = self.traced
            for name in n.target.split("."):
                value = getattr(value, name)
            if hasattr(value, "shape"):
                n.type = TensorType(tuple(value.shape))
        elif n.op == "call_function":
            if n.target not in _rules:
                raise RuntimeError(f"No inference rule registered for target {n.target}!")
            _rules[n.target](n)
        elif n.op == "call_module":
            module = self.traced.get_submodule(n.target)
            if type(module) not in _rules:
                raise RuntimeError(f"No inference rule registered for class {type(module)}!")
            _rules[type(module)](n, module)
        elif n.op == "output":
            n.type = map_arg(n.args[0], lambda a: a.type)
        elif n.op != "placeholder":
            raise NotImplementedError(f"Method {n.op} not yet implemented")
        return n.type
