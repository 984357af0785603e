"""The classes of fused and quantized layers. Each stands for a type of module of C's, and has the
place that PyTorch has for it; what makes modules of them is in quantization.eager."""
import cfx

from ...nn.modules import _backed
from ...nn.modules.container import Sequential

_CONVS = ("Conv1d", "Conv2d", "Conv3d")
_TRANSPOSED = ("ConvTranspose1d", "ConvTranspose2d", "ConvTranspose3d")
_RECURRENT = ("LSTM", "GRU", "LSTMCell", "GRUCell", "RNNCell")
_RELU = ("ConvReLU1d", "ConvReLU2d", "ConvReLU3d", "LinearReLU")
_NORMED = ("ConvBn1d", "ConvBn2d", "ConvBn3d", "ConvBnReLU1d", "ConvBnReLU2d", "ConvBnReLU3d",
           "LinearBn1d")
# The names in each module of torch.ao.nn.
NAMES = {
    "quantized": ("Linear", *_CONVS, *_TRANSPOSED, "BatchNorm2d", "BatchNorm3d", "LayerNorm",
                  "InstanceNorm1d", "InstanceNorm2d", "InstanceNorm3d", "Hardswish", "ELU",
                  "LeakyReLU", "PReLU", "Softmax", "Dropout", "Embedding", "EmbeddingBag"),
    "quantized.dynamic": ("Linear", *_RECURRENT),
    "quantized.reference": ("Linear", *_CONVS, *_TRANSPOSED, *_RECURRENT, "Embedding",
                            "EmbeddingBag"),
    "intrinsic": (*_RELU, *_NORMED, "BNReLU2d", "BNReLU3d"),
    "intrinsic.quantized": (*_RELU, "BNReLU2d", "BNReLU3d"),
    "intrinsic.quantized.dynamic": ("LinearReLU",),
    "intrinsic.qat": (*_RELU, *_NORMED),
    "qat": ("Linear", *_CONVS, "Embedding", "EmbeddingBag"),
}
_made = {}  # (section, name) to the class


class FusedModule(Sequential):
    """Modules that are called one after the other as one; the base of all of these."""


class _Layer(_backed.Backed):
    """A layer of C's."""

    def __init__(self, *args, **kwargs):
        raise TypeError(f"{type(self).__module__}.{type(self).__name__} is made of a float module, "
                        "by from_float() or convert()")

    @classmethod
    def from_float(cls, mod, use_precomputed_fake_quant=False):
        """The layer for a float module with a qconfig, and with what has observed it."""
        from ..quantization import eager

        return eager.from_float(cls, mod)


class _Trained(_Layer):
    """A layer that rounds its weight while it is trained."""

    @classmethod
    def from_float(cls, mod, use_precomputed_fake_quant=False):
        from ..quantization import eager

        return eager.trained(cls, mod)


class _Fused(_backed.Backed, FusedModule):
    """Float modules as one."""

    def __init__(self, *modules):
        from ..quantization import eager

        _backed.Backed.__init__(self, eager.fused(type(self), modules))


class _FusedTrained(_Trained, FusedModule):
    """Of several modules: the normalisation may be told to learn no more."""

    freeze_bn = False

    def _learn(self, learn):
        self.__dict__["freeze_bn"] = not learn
        for name, child in self._c.children():
            if name == "bn":
                self.bn.training = child.training = learn

    def freeze_bn_stats(self):
        self._learn(False)
        return self

    def update_bn_stats(self):
        self._learn(True)
        return self

    def train(self, mode=True):
        super().train(mode)
        if self.freeze_bn:
            self._learn(False)
        return self


class _Packed(_Layer):
    """A layer whose weight and bias are one attribute, packed; its state dict is PyTorch's."""

    def _packed(self):
        return self._c.attrs()["_packed_params"]

    def weight(self):
        return self._packed()[0]

    def bias(self):
        return self._packed()[1]

    def _keys(self, prefix):
        """Where the state dict has (weight, bias), or each of them."""
        return [f"{prefix}_packed_params._packed_params"] if "Linear" in self._c.type \
            else [f"{prefix}weight", f"{prefix}bias"]

    def _save_to_state_dict(self, destination, prefix, keep_vars):
        super()._save_to_state_dict(destination, prefix, keep_vars)
        both = self.weight(), self.bias()
        keys = self._keys(prefix)
        if len(keys) == 2:
            destination.update(zip(keys, both))
        destination[prefix + "scale"] = cfx.tensor(self.scale)
        destination[prefix + "zero_point"] = cfx.tensor(self.zero_point)
        if len(keys) == 1:
            destination[prefix + "_packed_params.dtype"] = cfx.qint8
            destination[keys[0]] = both

    def _load_from_state_dict(self, state_dict, prefix, local_metadata, strict, missing_keys,
                              unexpected_keys, error_msgs):
        keys = self._keys(prefix)
        if all(key in state_dict for key in keys):
            both = state_dict[keys[0]] if len(keys) == 1 else [state_dict[k] for k in keys]
            try:
                self._set_packed(*both)
            except (TypeError, ValueError) as e:
                error_msgs.append(f"While loading {prefix[:-1]}: {e}")
        else:
            missing_keys += [key for key in keys if key not in state_dict]
        for name, kind in (("scale", float), ("zero_point", int)):
            if prefix + name in state_dict:
                self._c.set(name, kind(state_dict[prefix + name]))
        self._read()

    def _set_packed(self, weight, bias):
        old, old_bias, *rest = self._packed()
        for name, new, was in (("weight", weight, old), ("bias", bias, old_bias)):
            if new is None and was is None:
                continue
            if not isinstance(new, cfx.Tensor) or was is None or new.shape != was.shape \
                    or new.dtype != was.dtype:
                raise ValueError(f"the {name} must be like the one that is there")
        self._c.set("_packed_params", (weight, bias, *rest))


def named(section, name):
    """The class of that name in a module of torch.ao.nn; AttributeError where there is none."""
    if name not in NAMES[section]:
        raise AttributeError(f"module 'torch.ao.nn.{section}' has no attribute {name!r}")
    if (section, name) not in _made:
        _made[section, name] = type(name, (_base(section, name),),
                                    {"__module__": _file(section, name), "__doc__": None})
    return _made[section, name]


def _base(section, name):
    if section == "intrinsic":
        return _Fused
    if section.endswith("qat"):
        return _FusedTrained if section == "intrinsic.qat" else _Trained
    packed = "reference" not in section and name.startswith(("Linear", "Conv"))
    return _Packed if packed else _Layer


_FILES = (("Linear", "linear"), ("Conv", "conv"), ("BatchNorm", "batchnorm"),
          ("LayerNorm", "normalization"), ("InstanceNorm", "normalization"),
          ("Embedding", "embedding_ops"), ("Dropout", "dropout"), ("BNReLU", "bn_relu"))


def _file(section, name):
    """The module that PyTorch defines it in."""
    file = next((f for start, f in _FILES if name.startswith(start)),
                "rnn" if name in _RECURRENT else "activation")
    if section == "intrinsic":
        file = "fused"
    elif section == "intrinsic.qat":
        file = "linear_fused" if name == "LinearBn1d" else \
            "linear_relu" if name == "LinearReLU" else "conv_fused"
    elif section.startswith("intrinsic.") and file != "bn_relu":
        file += "_relu"
    elif section == "quantized.reference" and name.startswith("Embedding"):
        file = "sparse"
    return f"torch.ao.nn.{section}.modules.{file}"


def _place(made):
    """Where PyTorch has a module of C: (section, class)."""
    text = made.type
    if text.endswith("(Reference)"):
        return "quantized.reference", made.path.rpartition(".")[2]
    if made.path.startswith("torch.ao.nn.qat."):
        return "intrinsic.qat" if text in NAMES["intrinsic.qat"] else "qat", text
    for start, section in (("DynamicQuantized", "quantized.dynamic"), ("Quantized", "quantized")):
        if text.startswith(start):
            name = text[len(start):]
            fused = f"intrinsic.{section}"
            return fused if name in NAMES[fused] else section, name
    return "intrinsic", text


def _find(made):
    return named(*_place(made)) if made.path.startswith("torch.ao.nn.") else None


_backed._finders.append(_find)
