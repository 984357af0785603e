"""The classes of fused and quantized layers, made when a name is first asked for: the type of C's
module says which one it is."""
import cfx

from ...nn.modules import _backed

_made = {}


class _Packed(_backed.Backed):
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
        if not self._c.type.startswith("Dynamic"):
            destination[prefix + "scale"] = cfx.tensor(self.scale)
            destination[prefix + "zero_point"] = cfx.tensor(self.zero_point)
        if len(keys) == 1:
            destination[prefix + "_packed_params.dtype"] = cfx.qint8
            destination[keys[0]] = both
        else:
            destination.update(zip(keys, both))

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


def of_type(text):
    """The class for a type of C's: "QuantizedLinear", "ConvReLU2d"."""
    if text not in _made:
        section, name = _place(text)
        packed = "quantized" in section and "reference" not in section \
            and name.startswith(("Linear", "Conv"))
        _made[text] = type(name, (_Packed if packed else _backed.Backed,),
                           {"__module__": f"torch.ao.nn.{section}", "__doc__": None})
    return _made[text]


def _place(text):
    """Where PyTorch has it: (module, class)."""
    if text.endswith("(Reference)"):
        return "quantized.reference", text[len("Quantized"):-len("(Reference)")]
    for start, section in (("DynamicQuantized", "quantized.dynamic"), ("Quantized", "quantized")):
        if text.startswith(start):
            name = text[len(start):]
            return ("intrinsic." if "ReLU" in name and "Leaky" not in name and name != "PReLU"
                    else "") + section, name
    return "intrinsic", text


def _find(made):
    return of_type(made.type) if made.path.startswith("torch.ao.nn.") else None


_backed._finders.append(_find)
