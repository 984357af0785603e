"""torch.qscheme: how a quantized tensor's scales are laid out."""
import cfx


class qscheme:
    """One of torch.per_tensor_affine and its kin; `number` is C's."""

    __module__ = "torch"

    def __init__(self, name, number):
        self._name, self._number = name, number

    def __repr__(self):
        return f"torch.{self._name}"

    def __reduce__(self):
        return named, (self._name,)


per_tensor_affine = qscheme("per_tensor_affine", 0)
per_tensor_symmetric = qscheme("per_tensor_symmetric", 1)
per_channel_affine = qscheme("per_channel_affine", 2)
per_channel_symmetric = qscheme("per_channel_symmetric", 3)
per_channel_affine_float_qparams = qscheme("per_channel_affine_float_qparams", 4)

ALL = (per_tensor_affine, per_tensor_symmetric, per_channel_affine, per_channel_symmetric,
       per_channel_affine_float_qparams)


def named(name):
    return next(s for s in ALL if s._name == name)


def _of_tensor(self):
    """How its scales are laid out; an error where it is not quantized."""
    if not self.is_quantized:
        raise RuntimeError("Could not run 'aten::qscheme' with arguments from the 'CPU' backend: "
                           "the tensor is not quantized")
    try:
        self.q_scale()
        return per_tensor_affine
    except RuntimeError:
        floats = self.q_per_channel_zero_points().is_floating_point()
        return per_channel_affine_float_qparams if floats else per_channel_affine


cfx.Tensor.qscheme = _of_tensor
