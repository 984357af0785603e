"""Modules between floats and quantized tensors, and operators that are observed as modules are."""
import cfx

from ....nn import Identity, Module

__all__ = ["DeQuantize", "FXFloatFunctional", "FloatFunctional", "QFunctional", "Quantize"]


class Quantize(Module):
    """Floats become quantized: what a QuantStub is converted to."""

    def __init__(self, scale, zero_point, dtype, factory_kwargs=None):
        super().__init__()
        self.register_buffer("scale", cfx.tensor([scale], dtype=cfx.float32))
        self.register_buffer("zero_point", cfx.tensor([zero_point], dtype=cfx.int64))
        self.dtype = dtype

    def forward(self, X):
        return cfx.quantize_per_tensor(X, self.scale, self.zero_point, self.dtype)

    @staticmethod
    def from_float(mod, use_precomputed_fake_quant=False):
        scale, zero_point = mod.activation_post_process.calculate_qparams()
        return Quantize(scale.float().item(), zero_point.long().item(),
                        mod.activation_post_process.dtype)

    def extra_repr(self):
        return f"scale={self.scale}, zero_point={self.zero_point}, dtype={self.dtype}"


class DeQuantize(Module):
    """And floats again."""

    def forward(self, Xq):
        return Xq.dequantize()

    @staticmethod
    def from_float(mod, use_precomputed_fake_quant=False):
        return DeQuantize()


class _Functional(Module):
    def forward(self, x):
        raise RuntimeError(f"{type(self).__name__} is not intended to use the 'forward'. Please "
                           "use the underlying operation")


class FloatFunctional(_Functional):
    """Operators of two tensors as methods of a module, so that what they give can be observed."""

    def __init__(self):
        super().__init__()
        self.activation_post_process = Identity()

    def _seen(self, r):
        return self.activation_post_process(r)

    def add(self, x, y):
        return self._seen(cfx.add(x, y))

    def add_scalar(self, x, y):  # the scale of the result follows from the input's
        return cfx.add(x, y)

    def mul(self, x, y):
        return self._seen(cfx.mul(x, y))

    def mul_scalar(self, x, y):
        return cfx.mul(x, y)

    def cat(self, x, dim=0):
        return self._seen(cfx.cat(x, dim=dim))

    def add_relu(self, x, y):
        return self._seen(cfx.relu(cfx.add(x, y)))

    def matmul(self, x, y):
        return self._seen(cfx.matmul(x, y))


class FXFloatFunctional(_Functional):
    """The same where a graph is traced: observers are nodes of their own there."""

    add = staticmethod(lambda x, y: cfx.add(x, y))
    add_scalar = add
    mul = staticmethod(lambda x, y: cfx.mul(x, y))
    mul_scalar = mul
    cat = staticmethod(lambda x, dim=0: cfx.cat(x, dim=dim))
    add_relu = staticmethod(lambda x, y: cfx.relu(cfx.add(x, y)))
    matmul = staticmethod(lambda x, y: cfx.matmul(x, y))


class QFunctional(_Functional):
    """What a FloatFunctional is converted to: the operators on quantized tensors."""

    def __init__(self):
        super().__init__()
        self.scale, self.zero_point = 1.0, 0
        self.activation_post_process = Identity()

    def _save_to_state_dict(self, destination, prefix, keep_vars):
        super()._save_to_state_dict(destination, prefix, keep_vars)
        destination[prefix + "scale"] = cfx.tensor(self.scale)
        destination[prefix + "zero_point"] = cfx.tensor(self.zero_point)

    def _load_from_state_dict(self, state_dict, prefix, local_metadata, strict, missing_keys,
                              unexpected_keys, error_msgs):
        for name, kind in (("scale", float), ("zero_point", int)):
            if prefix + name in state_dict:
                setattr(self, name, kind(state_dict.pop(prefix + name)))
            else:
                missing_keys.append(prefix + name)
        super()._load_from_state_dict(state_dict, prefix, local_metadata, False, missing_keys,
                                      unexpected_keys, error_msgs)

    def _get_name(self):
        return "QFunctional"

    def extra_repr(self):
        return f"scale={self.scale}, zero_point={self.zero_point}"

    def _op(self, name, *args):
        from .... import ops

        r = getattr(ops.quantized, name)(*args, self.scale, self.zero_point)
        return self.activation_post_process(r)

    def add(self, x, y):
        return self._op("add", x, y)

    def add_scalar(self, x, y):
        return _by_number(x, cfx.add, y)

    def mul(self, x, y):
        return self._op("mul", x, y)

    def mul_scalar(self, x, y):
        return _by_number(x, cfx.mul, y)

    def cat(self, x, dim=0):
        from .... import ops

        r = ops.quantized.cat(x, dim, self.scale, self.zero_point)
        return self.activation_post_process(r)

    def add_relu(self, x, y):
        return self._op("add_relu", x, y)

    def matmul(self, x, y):
        return self._op("matmul", x, y)

    @classmethod
    def from_float(cls, mod, use_precomputed_fake_quant=False):
        if not isinstance(mod, FloatFunctional):
            raise AssertionError("QFunctional.from_float expects an instance of FloatFunctional")
        scale, zero_point = mod.activation_post_process.calculate_qparams()
        new = QFunctional()
        new.scale, new.zero_point = float(scale), int(zero_point)
        return new


_INTEGERS = {"torch.quint8": (0, 255), "torch.qint8": (-128, 127),
             "torch.qint32": (-2 ** 31, 2 ** 31 - 1)}


def _by_number(x, op, number):
    """x with a number added or multiplied: the integers stay where they can, scale and zero point
    of the result follow from those of x."""
    low, high = _INTEGERS[repr(x.dtype)]
    scale, zero = x.q_scale(), x.q_zero_point()
    if op is cfx.add:
        steps = round(number / scale)
        number = steps * scale
        zero -= steps
        if zero < low:
            scale, zero = (high - zero) / (high - low) * scale, low
        elif zero > high:
            scale, zero = (zero - low) / (high - low) * scale, high
    elif number == 0:
        scale, zero = 1.0, 0
    else:
        scale *= abs(number)
        zero = high - (zero - low) if number < 0 else zero
    return cfx.quantize_per_tensor(op(x.dequantize(), number), scale, zero, x.dtype)
