"""Tensors to test with."""
import math

import cfx


def make_tensor(*shape, dtype, device="cpu", low=None, high=None, requires_grad=False,
                noncontiguous=False, exclude_zero=False, memory_format=None):
    """Random numbers between low and high, as many as the sizes say."""
    if len(shape) == 1 and isinstance(shape[0], (list, tuple)):
        shape = tuple(shape[0])
    if dtype is cfx.bool:
        t = cfx.randint(0, 2, shape, dtype=dtype)
    elif dtype.is_floating_point or dtype.is_complex:
        low, high = -9 if low is None else low, 9 if high is None else high
        t = cfx.rand(shape, dtype=dtype if not dtype.is_complex else cfx.float32) \
            * (high - low) + low
        t = t.to(dtype)
    else:
        low, high = (0 if not dtype.is_signed else -9) if low is None else low, \
            10 if high is None else high
        t = cfx.randint(math.floor(low), math.ceil(high), shape, dtype=dtype)
    if noncontiguous and t.numel() > 1:
        t = cfx.repeat_interleave(t, 2, dim=-1)[..., ::2]
    if exclude_zero:
        t[t == 0] = 1
    return t.requires_grad_() if requires_grad else t
