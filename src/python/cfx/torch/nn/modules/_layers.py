"""The layers of torch.nn, made from the C library's table: one class for each row, when it is first
asked for. What a constructor does (options, parameters and their first values) is C's; forward is
the call that the row describes, or is written here."""
import sys
import types

import cfx
from cfx import _cfx

from .. import functional as F
from ..utils.rnn import PackedSequence
from . import _mirror  # noqa: F401
from .module import Module, Parameter

ROWS = {row["name"]: row for row in _cfx.layers()}
_FACTORY = ("linear", "conv", "batchnorm", "instancenorm", "normalization", "sparse", "rnn",
            "transformer", "activation.MultiheadAttention", "activation.PReLU")
_classes = {}


class _Layer(Module):
    """What all layers share."""

    _layer = None  # the row's name

    def _make(self, args, kwargs, device=None, dtype=None):
        Module.__init__(self)
        self._take(_cfx.make_layer(self._layer, args, kwargs))
        if dtype is not None or device is not None:
            self._apply(lambda t: t.to(device=device, dtype=dtype if t.is_floating_point()
                                       and dtype is not None else t.dtype))

    def _take(self, made):
        """Gets what a module of C has."""
        for name, value in made.attrs().items():
            self.__dict__[name] = value
        for name, p in made.parameters().items():
            self.register_parameter(name, None if p is None else Parameter(p, p.requires_grad))
        for name, (b, persistent) in made.buffers().items():
            self.register_buffer(name, b, persistent)
        for name, child in made.children():
            self.add_module(name, from_c(child))
        self.training = made.training

    def _options(self):
        """The values of the constructor's options, as far as attributes tell."""
        out = {}
        for name in _names(ROWS[self._layer]["options"]):
            if name in self._parameters:
                out[name] = self._parameters[name] is not None
            elif name in self.__dict__:
                out[name] = self.__dict__[name]
        return out

    def reset_parameters(self):
        """First values again."""
        made = _cfx.make_layer(self._layer, (), self._options())
        with cfx.no_grad():
            for name, p in made.parameters().items():
                if p is not None and self._parameters.get(name) is not None:
                    self._parameters[name].copy_(p)

    def extra_repr(self):
        attrs = {k: v for k, v in self.__dict__.items() if not k.startswith("_")}
        return _cfx.layer_repr(self._layer, attrs, dict(self._parameters))

    def _in_c(self, *args, **kwargs):
        return _cfx.mirror(self).forward(args, kwargs)


def _names(options):
    """The names of parameters that a row writes as Python does."""
    depth, names, start = 0, [], 0
    for i, c in enumerate(options + ","):
        depth += (c in "([{") - (c in ")]}")
        if c == "," and not depth:
            name = options[start:i].split("=")[0].split(":")[0].strip().lstrip("*")
            if name:
                names.append(name)
            start = i + 1
    return names


# ---- forwards that are more than one call --------------------------------------------------------


def _identity(self, input):
    return input


def _linear(self, input):
    return F.linear(input, self.weight, self.bias)


def _conv(self, input):
    return self._conv_forward(input, self.weight, self.bias)


def _conv_forward(self, input, weight, bias):
    call = getattr(F, f"conv{len(self.kernel_size)}d")
    if self.padding_mode != "zeros":
        return call(F.pad(input, self._reversed_padding_repeated_twice, mode=self.padding_mode),
                    weight, bias, self.stride, (0,) * len(self.kernel_size), self.dilation,
                    self.groups)
    return call(input, weight, bias, self.stride, self.padding, self.dilation, self.groups)


def _padding_twice(self):
    """The padding of both sides, from the last dimension on."""
    if isinstance(self.padding, str):
        out = []
        for d, k in zip(reversed(self.dilation), reversed(self.kernel_size)):
            total = d * (k - 1) if self.padding == "same" else 0
            out += [total // 2, total - total // 2]
        return out
    return tuple(p for p in reversed(self.padding) for _ in range(2))


def _transposed(self, input, output_size=None):
    n = len(self.kernel_size)
    call = getattr(F, f"conv_transpose{n}d")
    extra = self._output_padding(input, output_size, self.stride, self.padding, self.kernel_size,
                                 n, self.dilation)
    return call(input, self.weight, self.bias, self.stride, self.padding, extra, self.groups,
                self.dilation)


def _output_padding(self, input, output_size, stride, padding, kernel_size, num_spatial_dims,
                    dilation=None):
    if output_size is None:
        return tuple(self.output_padding)
    n, lead = num_spatial_dims, input.dim() - num_spatial_dims
    if len(output_size) == n + lead:
        output_size = output_size[lead:]
    if len(output_size) != n:
        raise ValueError(f"ConvTranspose{n}D: for {input.dim()}D input, output_size must have {n} "
                         f"or {n + lead} elements (got {len(output_size)})")
    least = [(input.size(d + lead) - 1) * stride[d] - 2 * padding[d]
             + (dilation[d] if dilation else 1) * (kernel_size[d] - 1) + 1 for d in range(n)]
    for d in range(n):
        if not least[d] <= output_size[d] <= least[d] + stride[d] - 1:
            raise ValueError(f"requested an output size of {output_size}, but valid sizes range "
                             f"from {least} to {[a + b - 1 for a, b in zip(least, stride)]} (for "
                             f"an input of {input.size()[2:]})")
    return tuple(output_size[d] - least[d] for d in range(n))


def _check_input_dim(self, input):
    n = int(self._layer[-2]) + 2
    fewer = "InstanceNorm" in self._layer or n == 3
    if input.dim() != n and not (fewer and input.dim() == n - 1):
        words = f"{n - 1}D or {n}D" if fewer else f"{n}D"
        raise ValueError(f"expected {words} input (got {input.dim()}D input)")


def _reset_running_stats(self):
    if self.track_running_stats:
        self.running_mean.zero_()
        self.running_var.fill_(1)
        self.num_batches_tracked.zero_()


def _batch_norm(self, input):
    self._check_input_dim(input)
    factor = 0.0 if self.momentum is None else self.momentum
    if self.training and self.track_running_stats and self.num_batches_tracked is not None:
        self.num_batches_tracked.add_(1)
        if self.momentum is None:
            factor = 1.0 / float(self.num_batches_tracked)
    batch = self.training or (self.running_mean is None and self.running_var is None)
    if batch and isinstance(input, cfx.Tensor) and not input._is_fake \
            and input.numel() == input.shape[1]:
        raise ValueError("Expected more than 1 value per channel when training, got input size "
                         f"{input.shape}")
    tracked = not self.training or self.track_running_stats
    return F.batch_norm(input, self.running_mean if tracked else None,
                        self.running_var if tracked else None, self.weight, self.bias, batch,
                        factor, self.eps)


def _instance_norm(self, input):
    self._check_input_dim(input)
    alone = input.dim() == int(self._layer[-2]) + 1
    out = F.instance_norm(input.unsqueeze(0) if alone else input, self.running_mean,
                          self.running_var, self.weight, self.bias,
                          self.training or not self.track_running_stats,
                          self.momentum if self.momentum is not None else 0.0, self.eps)
    return out.squeeze(0) if alone else out


def _softmax2d(self, input):
    if input.dim() not in (3, 4):
        raise ValueError(f"Softmax2d: expected input to be 3D or 4D, got {input.dim()}D instead")
    return F.softmax(input, -3, _stacklevel=5)


def _adaptive(self, input):
    name = self._layer.replace("Adaptive", "adaptive_").replace("AvgPool", "avg_pool")
    name = name.replace("MaxPool", "max_pool")
    if "max" in name:
        return getattr(F, name)(input, self.output_size, self.return_indices)
    return getattr(F, name)(input, self.output_size)


def _recurrent(self, input, hx=None):
    """Sequences of different lengths are packed in a tuple, and come out so."""
    if not isinstance(input, PackedSequence):
        return self._in_c(input, hx)
    output, *rest = self._in_c(tuple(input), hx)
    return (PackedSequence(*output), *rest)


def _relu6(self, input):
    return F.hardtanh(input, 0.0, 6.0, self.inplace)


def _all_weights(self):
    """The parameters of each layer and direction."""
    names = list(self._parameters)
    each = len(names) // (self.num_layers * (2 if self.bidirectional else 1))
    return [[self._parameters[n] for n in names[i:i + each]] for i in range(0, len(names), each)]


_RNN_EXTRAS = {"all_weights": property(_all_weights),
               "flatten_parameters": lambda self: None}  # they lie as they should


def _forward_of(name):
    for start, forward in (("Identity", _identity), ("ReLU6", _relu6),
                           ("ConvTranspose", _transposed), ("Conv", _conv),
                           ("BatchNorm", _batch_norm),
                           ("InstanceNorm", _instance_norm), ("Softmax2d", _softmax2d),
                           ("Adaptive", _adaptive)):
        if name.startswith(start):
            return forward
    if name.endswith("Linear"):
        return _linear
    return _recurrent if name in ("RNN", "LSTM", "GRU") else None


def _causal_mask(sz, device=None, dtype=None):
    """Minus infinity where a position would see one behind it."""
    return cfx.triu(cfx.full((sz, sz), float("-inf"), dtype=dtype), diagonal=1)


_EXTRAS = {
    "ReLU6": {"min_val": 0.0, "max_val": 6.0},
    "RNN": {**_RNN_EXTRAS, "mode": property(lambda self: f"RNN_{self.nonlinearity.upper()}")},
    "LSTM": {**_RNN_EXTRAS, "mode": "LSTM"},
    "GRU": {**_RNN_EXTRAS, "mode": "GRU"},
    "MultiheadAttention": {"head_dim": property(lambda self: self.embed_dim // self.num_heads)},
    "Transformer": {"generate_square_subsequent_mask": staticmethod(_causal_mask)},
    "Conv": {"_conv_forward": _conv_forward,
             "_reversed_padding_repeated_twice": property(_padding_twice),
             "transposed": False},
    "ConvTranspose": {"_output_padding": _output_padding, "transposed": True},
    "BatchNorm": {"_check_input_dim": _check_input_dim,
                  "reset_running_stats": _reset_running_stats},
    "InstanceNorm": {"_check_input_dim": _check_input_dim,
                     "reset_running_stats": _reset_running_stats},
}


def _make_stack(self, args, kwargs, device=None, dtype=None):
    """TransformerEncoder and TransformerDecoder: copies of a layer one behind the other."""
    import copy

    from .container import ModuleList

    Module.__init__(self)
    options = dict(kwargs)
    like = options.pop("encoder_layer", None) or options.pop("decoder_layer")
    self.layers = ModuleList([copy.deepcopy(like) for _ in range(options["num_layers"])])
    for name, value in options.items():
        setattr(self, name, value)


_STACKS = ("TransformerEncoder", "TransformerDecoder")
# What PyTorch's own constructor takes beside: ways of computing that there is no choice of here.
_MORE_OPTIONS = {"TransformerEncoder": ", enable_nested_tensor=True, mask_check=True"}


# ---- classes from rows ---------------------------------------------------------------------------


def _source(row):
    """The text of __init__ and forward, as PyTorch's have their parameters."""
    options, inputs, call = row["options"], row["inputs"], row["call"]
    options += _MORE_OPTIONS.get(row["name"], "")
    names = _names(options)
    more = [n for n in ("device", "dtype") if row["path"].startswith(_FACTORY)]
    head = ", ".join(["self"] + ([options] if options and options != "*" else [])
                     + [f"{n}=None" for n in more])
    given = ", ".join(f"{n!r}: {n}" for n in names)
    text = f"def __init__({head}):\n    self._make((), {{{given}}}"
    text += "".join(f", {n}={n}" for n in more) + ")\n"
    if call:
        function, _, arguments = call.partition("(")
        words = []
        known = _names(inputs)
        for word in arguments.rstrip(")").split(", "):
            key, eq, name = word.rpartition("=")
            words.append(key + eq + (name if name in known or name[0] == "'" else f"self.{name}"))
        function = function.replace("torch.nn.functional.", "F.")
        if function.startswith("Tensor."):
            text += (f"def forward(self, {inputs}):\n    return {words[0]}."
                     f"{function[7:]}({', '.join(words[1:])})\n")
        else:
            text += f"def forward(self, {inputs}):\n    return {function}({', '.join(words)})\n"
    elif _forward_of(row["name"]) is None:
        passed = ", ".join(n if i == 0 else f"{n}={n}" for i, n in enumerate(known_inputs(inputs)))
        text += f"def forward(self, {inputs}):\n    return self._in_c({passed})\n"
    return text


def known_inputs(inputs):
    return _names(inputs)


def layer(name):
    """The class of a layer; KeyError where there is none."""
    if name in _classes:
        return _classes[name]
    row = ROWS[name]
    from cfx._functions import torch

    scope = {"F": F, "torch": torch()}
    module = f"{__name__.rpartition('.')[0]}.{row['path'].rpartition('.')[0]}"
    exec(compile(_source(row), f"<torch.nn.{name}>", "exec"), scope)
    forward = scope.get("forward") or _forward_of(name)
    base = _base_of(name)
    members = {"_layer": name, "__module__": module, "__init__": scope["__init__"],
               "forward": forward, "__constants__": _names(row["options"])}
    for start, extra in _EXTRAS.items():
        if name.startswith(start) and not name.endswith("Cell"):
            members.update(extra)
    if name in _STACKS:
        members["_make"] = _make_stack
    cls = type(name, (base,), members)
    for f in (cls.__init__, cls.forward):
        f.__qualname__ = f"{name}.{f.__name__}"
    _annotate(name, cls.forward)
    _classes[name] = cls
    return cls


def _annotate(name, forward):
    """The types of parameters and result, which a trace of the layer alone shows."""
    if name in ("RNN", "LSTM", "GRU"):
        return
    code, optional = forward.__code__, len(forward.__defaults__ or ())
    kinds = dict.fromkeys(code.co_varnames[1:code.co_argcount - optional], cfx.Tensor)
    if "MaxPool" not in name and name not in ("LSTMCell", "MultiheadAttention"):
        kinds["return"] = cfx.Tensor
    forward.__annotations__ = kinds


def _base_of(name):
    for base in _bases:
        if name.startswith(base[1:]) and name != base[1:]:
            return _bases[base]
    if name.endswith("Loss"):
        return _bases["_Loss"]
    return _Layer


_bases = {n: type(n, (_Layer,), {"__module__": __name__}) for n in (
    "_ConvTransposeNd", "_ConvNd", "_BatchNorm", "_InstanceNorm", "_DropoutNd", "_Loss",
    "_MaxPoolNd", "_AvgPoolNd", "_RNNBase")}
_bases = {"_ConvTranspose": _bases["_ConvTransposeNd"], "_Conv": _bases["_ConvNd"],
          "_BatchNorm": _bases["_BatchNorm"], "_InstanceNorm": _bases["_InstanceNorm"],
          "_Dropout": _bases["_DropoutNd"], "_MaxPool": _bases["_MaxPoolNd"],
          "_AvgPool": _bases["_AvgPoolNd"], "_Loss": _bases["_Loss"],
          "_RNNBase": _bases["_RNNBase"]}


def from_c(made):
    """The Python module for one that C made: a layer by its type, others hold what they hold."""
    if made.object is not None:
        return made.object
    if made.type in ROWS:
        return new_from_c(made)
    from . import container

    cls = getattr(container, made.type, Module)
    m = cls.__new__(cls)
    Module.__init__(m)
    _Layer._take(m, made)
    return m


def new_from_c(made):
    """A layer with the tensors of one of C's, whatever that mirrors."""
    cls = layer(made.type)
    m = cls.__new__(cls)
    Module.__init__(m)
    m._take(made)
    return m


# ---- the modules that PyTorch has them in --------------------------------------------------------


class _Section(types.ModuleType):
    """torch.nn.modules.conv and the like: names of rows are found when they are asked for."""

    def __getattr__(self, name):
        row = ROWS.get(name)
        if row and row["path"] == f"{self.__name__.rpartition('.')[2]}.{name}":
            return layer(name)
        short = {"_ConvNd": "_Conv", "_ConvTransposeNd": "_ConvTranspose",
                 "_BatchNorm": "_BatchNorm", "_InstanceNorm": "_InstanceNorm",
                 "_DropoutNd": "_Dropout", "_Loss": "_Loss"}.get(name)
        if short:
            return _bases[short]
        raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}")


def install(package):
    """Makes the sections importable below a package."""
    for section in sorted({row["path"].rpartition(".")[0] for row in ROWS.values()}):
        name = f"{package.__name__}.{section}"
        if name not in sys.modules:
            sys.modules[name] = _Section(name)
            setattr(package, section, sys.modules[name])
