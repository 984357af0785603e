"""torch.nn.init: first values of parameters."""
import math
import warnings

import cfx


def _written(f):
    """Functions that write to their argument, and the same without the underscore."""
    import functools

    @functools.wraps(f)
    def inner(tensor, *args, **kwargs):
        with cfx.no_grad():
            f(tensor, *args, **kwargs)
        return tensor

    return inner


def _fans(tensor):
    if tensor.dim() < 2:
        raise ValueError("Fan in and fan out can not be computed for tensor with fewer than 2 "
                         "dimensions")
    field = 1
    for n in tensor.shape[2:]:
        field *= n
    return tensor.size(1) * field, tensor.size(0) * field


_calculate_fan_in_and_fan_out = _fans


def calculate_gain(nonlinearity, param=None):
    """How much larger values have to be before a nonlinearity."""
    if nonlinearity == "tanh":
        return 5.0 / 3
    if nonlinearity == "relu":
        return math.sqrt(2.0)
    if nonlinearity == "leaky_relu":
        return math.sqrt(2.0 / (1 + (0.01 if param is None else param) ** 2))
    if nonlinearity == "selu":
        return 3.0 / 4
    if nonlinearity in ("linear", "sigmoid") or nonlinearity.startswith("conv"):
        return 1
    raise ValueError(f"Unsupported nonlinearity {nonlinearity}")


def _kaiming_std(tensor, a, mode, nonlinearity):
    if mode not in ("fan_in", "fan_out"):
        raise ValueError(f"Mode {mode} not supported, please use one of ['fan_in', 'fan_out']")
    fan = _fans(tensor)[mode == "fan_out"]
    return calculate_gain(nonlinearity, a) / math.sqrt(fan)


@_written
def uniform_(tensor, a=0.0, b=1.0, generator=None):
    tensor.uniform_(a, b, generator=generator)


@_written
def normal_(tensor, mean=0.0, std=1.0, generator=None):
    tensor.normal_(mean, std, generator=generator)


@_written
def trunc_normal_(tensor, mean=0.0, std=1.0, a=-2.0, b=2.0, generator=None):
    def cdf(x):
        return (1.0 + math.erf(x / math.sqrt(2.0))) / 2.0

    low, high = cdf((a - mean) / std), cdf((b - mean) / std)
    tensor.uniform_(2 * low - 1, 2 * high - 1, generator=generator)
    tensor.erfinv_()
    tensor.mul_(std * math.sqrt(2.0))
    tensor.add_(mean)
    tensor.clamp_(min=a, max=b)


@_written
def constant_(tensor, val):
    tensor.fill_(val)


@_written
def ones_(tensor):
    tensor.fill_(1.0)


@_written
def zeros_(tensor):
    tensor.zero_()


@_written
def eye_(tensor):
    if tensor.dim() != 2:
        raise ValueError("Only tensors with 2 dimensions are supported")
    tensor.copy_(cfx.eye(*tensor.shape))


@_written
def dirac_(tensor, groups=1):
    """A convolution that gives its input, as far as there are channels."""
    if tensor.dim() not in (3, 4, 5):
        raise ValueError("Only tensors with 3, 4, or 5 dimensions are supported")
    if tensor.size(0) % groups:
        raise ValueError("dim 0 must be divisible by groups")
    tensor.zero_()
    each = tensor.size(0) // groups
    middle = tuple(n // 2 for n in tensor.shape[2:])
    for group in range(groups):
        for i in range(min(each, tensor.size(1))):
            tensor[(group * each + i, i, *middle)] = 1


@_written
def xavier_uniform_(tensor, gain=1.0, generator=None):
    bound = math.sqrt(3.0) * gain * math.sqrt(2.0 / sum(_fans(tensor)))
    tensor.uniform_(-bound, bound, generator=generator)


@_written
def xavier_normal_(tensor, gain=1.0, generator=None):
    std = gain * math.sqrt(2.0 / sum(_fans(tensor)))
    tensor.normal_(0.0, std, generator=generator)


@_written
def kaiming_uniform_(tensor, a=0, mode="fan_in", nonlinearity="leaky_relu", generator=None):
    if 0 not in tensor.shape:
        bound = math.sqrt(3.0) * _kaiming_std(tensor, a, mode, nonlinearity)
        tensor.uniform_(-bound, bound, generator=generator)


@_written
def kaiming_normal_(tensor, a=0, mode="fan_in", nonlinearity="leaky_relu", generator=None):
    if 0 not in tensor.shape:
        std = _kaiming_std(tensor, a, mode, nonlinearity)
        tensor.normal_(0, std, generator=generator)


@_written
def orthogonal_(tensor, gain=1, generator=None):
    if tensor.dim() < 2:
        raise ValueError("Only tensors with 2 or more dimensions are supported")
    rows, cols = tensor.size(0), tensor.numel() // tensor.size(0)
    flat = cfx.randn(rows, cols, generator=generator)
    q, r = cfx.qr(flat.t() if rows < cols else flat)
    q = q * r.diagonal().sign()
    tensor.copy_((q.t() if rows < cols else q).reshape(tensor.shape)).mul_(gain)


@_written
def sparse_(tensor, sparsity, std=0.01, generator=None):
    rows, cols = tensor.shape
    tensor.normal_(0, std, generator=generator)
    for c in range(cols):
        tensor[cfx.randperm(rows)[:math.ceil(sparsity * rows)], c] = 0


def _old(name):
    """A name that PyTorch once had without the underscore, and still has."""
    new = globals()[name]

    def old(*args, **kwargs):
        warnings.warn(f"`nn.init.{name[:-1]}` is now deprecated in favor of `nn.init.{name}`.",
                      FutureWarning, stacklevel=2)
        return new(*args, **kwargs)

    old.__name__ = name[:-1]
    return old


for _name in ("uniform_", "normal_", "constant_", "eye_", "dirac_", "xavier_uniform_",
              "xavier_normal_", "kaiming_uniform_", "kaiming_normal_", "orthogonal_", "sparse_"):
    globals()[_name[:-1]] = _old(_name)
