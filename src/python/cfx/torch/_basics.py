"""The functions of torch that are no operators: seeds, defaults, checks, printing, saving."""
import builtins
import contextlib
import functools

from cfx import _cfx, _numbers, _tensor
from cfx._tensor import Tensor, _default_dtype, _print_options
from cfx._cfx import strided  # noqa: F401

from . import _sym

__all__ = ["manual_seed", "seed", "initial_seed", "get_rng_state", "set_rng_state", "is_tensor",
           "is_storage", "typename", "set_default_dtype", "get_default_dtype",
           "set_default_device", "get_default_device", "set_default_tensor_type",
           "set_printoptions", "asarray", "is_inference", "unravel_index", "vmap", "save", "load",
           "compile", "use_deterministic_algorithms",
           "are_deterministic_algorithms_enabled", "is_complex", "is_floating_point",
           "get_num_interop_threads", "set_num_interop_threads", "Generator", "default_generator",
           "is_autocast_enabled", "autocast", "set_float32_matmul_precision",
           "get_float32_matmul_precision", "numel", "equal", "is_deterministic",
           "FloatTensor", "DoubleTensor", "HalfTensor", "LongTensor", "IntTensor", "ByteTensor",
           "BoolTensor", "cond", "while_loop", "compiled_with_cxx11_abi", "is_nonzero", "nonzero",
           "result_type", "can_cast", "promote_types", "get_device", "obj", "sym_sqrt",
           "broadcast_shapes", "from_file",
           "is_distributed", "is_same_size", "UntypedStorage", "Storage"]

_seed = [0x3C6EF372FE94F82B & 0x7FFFFFFF]


# ---- random numbers ------------------------------------------------------------------------------


def manual_seed(seed):
    """Seeds the generator of this thread; the streams are PyTorch's own."""
    _seed[0] = builtins.int(seed)
    _cfx.manual_seed(seed)
    return default_generator


def seed():
    import random

    n = random.getrandbits(63)
    manual_seed(n)
    return n


def initial_seed():
    return _seed[0]


class Generator:
    """A stream of random numbers of its own, PyTorch's for the same seed."""

    def __init__(self, device="cpu"):
        self.device = _cfx.device(device)
        self._seed = 67280421310721
        self._state = None

    def manual_seed(self, seed):
        self._seed = builtins.int(seed)
        if self is default_generator:
            _cfx.manual_seed(seed)
        self._state = None
        return self

    def initial_seed(self):
        return self._seed

    def seed(self):
        import random

        return self.manual_seed(random.getrandbits(63)).initial_seed()

    def get_state(self):
        with drawing_from(self):
            return _cfx.get_rng_state()

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        """A function that is given a generator draws from it."""
        kwargs = dict(kwargs or {})
        given = kwargs.pop("generator", None)
        if given is None:
            return NotImplemented
        with drawing_from(given):
            return func(*args, **kwargs)

    def set_state(self, new_state):
        if self is default_generator:
            _cfx.set_rng_state(new_state)
        self._state = new_state
        return self


@contextlib.contextmanager
def drawing_from(generator):
    """Numbers drawn inside come from a generator; from this thread's own where it is None."""
    if generator is None or generator is default_generator:
        yield
        return
    before = _cfx.get_rng_state()
    try:
        if generator._state is None:
            _cfx.manual_seed(generator._seed)
        else:
            _cfx.set_rng_state(generator._state)
        yield
        generator._state = _cfx.get_rng_state()
    finally:
        _cfx.set_rng_state(before)


default_generator = Generator()


def get_rng_state():
    """The state of the generator, which set_rng_state takes."""
    return _cfx.get_rng_state()


def set_rng_state(new_state):
    _cfx.set_rng_state(new_state)


# ---- what something is ---------------------------------------------------------------------------


def is_tensor(obj):
    return isinstance(obj, Tensor)


def is_storage(obj):
    return isinstance(obj, _tensor.Storage)


UntypedStorage = Storage = _tensor.Storage
obj = object


def typename(obj, /):
    """The type of an object with its module."""
    if isinstance(obj, Tensor):
        return obj.type()
    named = obj if hasattr(obj, "__qualname__") or hasattr(obj, "__name__") else type(obj)
    name = getattr(named, "__qualname__", None) or named.__name__
    module = getattr(named, "__module__", None) or ""
    return name if module in ("builtins", "") else f"{module}.{name}"


def _of_torch(f, asks=True):
    """A function that is C's in PyTorch: overrides see it, and graphs call it torch.numel. One
    without tensors asks nobody but modes."""
    @functools.wraps(f)
    def called(*args, **kwargs):
        if _cfx.is_overridden(*args, *kwargs.values()) if asks else _cfx.is_overridden():
            return _cfx.override(called, args, kwargs)
        return f(*args, **kwargs)

    called.__module__ = "torch"
    return called


@_of_torch
def is_floating_point(input):
    return input.is_floating_point()


@_of_torch
def is_complex(input):
    return input.is_complex()


@_of_torch
def is_nonzero(input):
    return builtins.bool(input)


@_of_torch
def is_same_size(input, other):
    return input.shape == other.shape


@_of_torch
def is_distributed(input):
    return False


@_of_torch
def nonzero(input, *, out=None, as_tuple=False):
    """The places of elements that are not zero; see Tensor.nonzero."""
    found = input.nonzero(as_tuple=as_tuple)
    return found if out is None else out.resize_(found.shape).copy_(found)


@_of_torch
def numel(input):
    return input.numel()


@_of_torch
def get_device(input):
    return input.get_device()


@_of_torch
def equal(input, other):
    """Whether two tensors have the same sizes and numbers."""
    for i, (name, t) in enumerate((("input", input), ("other", other))):
        if not isinstance(t, Tensor):
            raise TypeError(f"equal(): argument '{name}' (position {i + 1}) must be Tensor, not "
                            f"{type(t).__name__}")
    return input.shape == other.shape and input.dtype == other.dtype and \
        builtins.bool((input == other).all())


@_of_torch
def result_type(tensor1, tensor2):
    """The dtype that arithmetic with both has: those of numbers and of tensors without dimensions
    count less."""
    def plain(t):
        return _tensor.tensor([], dtype=t.dtype) if isinstance(t, Tensor) and t.dim() else t

    a, b = plain(tensor1), plain(tensor2)
    if not isinstance(a, Tensor) and not isinstance(b, Tensor):
        a = _tensor.tensor(a)
    return (a + b).dtype


def _dtypes(name, **given):
    for i, (argument, d) in enumerate(given.items()):
        if not isinstance(d, _cfx.dtype):
            raise TypeError(f"{name}(): argument '{argument}' (position {i + 1}) must be "
                            f"torch.dtype, not {type(d).__name__}")


@functools.partial(_of_torch, asks=False)
def promote_types(type1, type2):
    _dtypes("promote_types", type1=type1, type2=type2)
    return _numbers.promoted(type1, type2)


@functools.partial(_of_torch, asks=False)
def can_cast(from_, to):
    _dtypes("can_cast", from_=from_, to=to)

    def kind(d):
        return 3 if d.is_complex else 2 if d.is_floating_point else 0 if d is _cfx.bool else 1

    if kind(from_) == 1 and kind(to) == 1 and from_.is_signed and not to.is_signed:
        return False
    return kind(from_) <= kind(to)


# ---- defaults ------------------------------------------------------------------------------------


def set_default_dtype(d, /):
    if not isinstance(d, _cfx.dtype):
        raise TypeError("invalid dtype object: only floating-point types are supported as the "
                        "default type")
    if not d.is_floating_point:
        raise TypeError("only floating-point types are supported as the default type")
    _default_dtype[0] = d
    _cfx.set_default_dtype(d)


def get_default_dtype():
    return _default_dtype[0]


def set_default_tensor_type(t, /):
    name = t if isinstance(t, str) else t._name
    set_default_dtype({"torch.FloatTensor": _cfx.float32, "torch.DoubleTensor": _cfx.float64,
                       "torch.HalfTensor": _cfx.float16}[name])


def set_default_device(device):
    """Where tensors are made that nobody says a device for."""
    _cfx.set_default_device(str(_cfx.device("cpu" if device is None else device)))


def get_default_device():
    now = _cfx.set_default_device("cpu")
    _cfx.set_default_device(str(now))
    return now


def set_printoptions(precision=None, threshold=None, edgeitems=None, linewidth=None, profile=None,
                     sci_mode=None):
    """How tensors print."""
    profiles = {"default": (4, 1000, 3, 80), "short": (2, 1000, 2, 80),
                "full": (4, 2 ** 62, 3, 80)}
    names = ("precision", "threshold", "edgeitems", "linewidth")
    if profile is not None:
        _print_options.update(zip(names, profiles[profile]))
    for name, value in zip(names, (precision, threshold, edgeitems, linewidth)):
        if value is not None:
            _print_options[name] = 2 ** 62 if value == builtins.float("inf") else value
    _print_options["sci_mode"] = sci_mode


class _OldType:
    """torch.FloatTensor(2, 3) and the like."""

    def __init__(self, name, dtype):
        self._name, self.dtype = f"torch.{name}", dtype
        self.__name__ = name

    def __call__(self, *args):
        if len(args) == 1 and not isinstance(args[0], builtins.int):
            return _tensor.tensor(args[0], dtype=self.dtype)
        from . import empty

        return empty(*(args or (0,)), dtype=self.dtype)

    def __instancecheck__(self, t):
        return isinstance(t, Tensor) and t.dtype is self.dtype


FloatTensor = _OldType("FloatTensor", _cfx.float32)
DoubleTensor = _OldType("DoubleTensor", _cfx.float64)
HalfTensor = _OldType("HalfTensor", _cfx.float16)
LongTensor = _OldType("LongTensor", _cfx.int64)
IntTensor = _OldType("IntTensor", _cfx.int32)
ByteTensor = _OldType("ByteTensor", _cfx.uint8)
BoolTensor = _OldType("BoolTensor", _cfx.bool)


def use_deterministic_algorithms(mode, *, warn_only=False):
    """Everything here is deterministic."""


def are_deterministic_algorithms_enabled():
    return False  # nobody asked for it; they are all the same


is_deterministic = are_deterministic_algorithms_enabled


def get_num_interop_threads():
    return 1


def set_num_interop_threads(n):
    pass


_matmul_precision = ["highest"]


def set_float32_matmul_precision(precision):
    _matmul_precision[0] = precision


def get_float32_matmul_precision():
    return _matmul_precision[0]


def compiled_with_cxx11_abi():
    return True


# ---- checks --------------------------------------------------------------------------------------


def _assert(condition, message):
    """An assertion that is traced."""
    if type(condition) is not Tensor and _cfx.is_overridden(condition):
        return _cfx.override(_assert, (condition, message), {})
    assert condition, message


def broadcast_shapes(*shapes):
    """The size that tensors of these sizes have together."""
    from cfx._functions import function

    for s in shapes:
        if not isinstance(s, (builtins.int, _sym.SymInt, tuple, list)):
            raise RuntimeError("Input shapes should be of type ints, a tuple of ints, or a list of "
                               "ints, got ", s)
    given = [tuple(s) if isinstance(s, (tuple, list)) else (s,) for s in shapes] or [()]
    fakes = [_cfx.fake(_cfx.float32, s) for s in given]
    return function("torch.broadcast_tensors", "torch")(*fakes)[0].shape


_assert.__module__ = "torch"  # where generated code finds it


def _failed(kind, message):
    text = ("Expected cond to be True, but got False. (Could this error message be improved? If "
            "so, please report an enhancement request to PyTorch.)")
    raise kind(str(message()) if callable(message) else message or text)


def _check(cond, message=None):
    """A RuntimeError where a condition does not hold. Of numbers that are data, while a module is
    exported, it is assumed, and the program asserts it."""
    if type(cond) is not builtins.bool and _cfx.is_overridden(cond):
        return _cfx.override(_check, (cond, message), {})
    if _sym._is_marked(cond):
        return _assumed("_check", cond)
    if not cond:
        _failed(RuntimeError, message)


def _check_value(cond, message=None):
    if _sym._is_marked(cond):
        return _assumed("_check_value", cond)
    if not cond:
        _failed(ValueError, message)


def _check_is_size(i, message=None, *, max=None):
    """A RuntimeError where a number cannot be a size."""
    if _sym._is_marked(i):
        return _assumed("_check_is_size", i, max=max)
    if i < 0 or (max is not None and i > max):
        _failed(RuntimeError, message)


def _assumed(name, *args, **kwargs):
    _sym._function("torch", name)(*args, **kwargs)


# ---- files ---------------------------------------------------------------------------------------


def save(obj, f, pickle_module=None, pickle_protocol=2, _use_new_zipfile_serialization=True):
    from .serialization import save as save_

    return save_(obj, f, pickle_module, pickle_protocol)


def load(f, map_location=None, pickle_module=None, *, weights_only=None, mmap=None, **kwargs):
    from .serialization import load as load_

    return load_(f, map_location, pickle_module, weights_only=weights_only, mmap=mmap)


def asarray(obj, *, dtype=None, device=None, copy=None, requires_grad=False):
    """A tensor of what is given, in its memory unless `copy` says otherwise."""
    made = _tensor.as_tensor(obj, dtype=dtype)
    if copy and isinstance(obj, _tensor.Tensor) or copy and hasattr(obj, "__array_interface__"):
        made = made.clone()
    return made.detach().requires_grad_() if requires_grad else made


def unravel_index(indices, shape):
    """The numbers of elements in a flat tensor as indices of each dimension."""
    sizes = [shape] if isinstance(shape, builtins.int) else list(shape)
    out = []
    for n in reversed(sizes):
        out.append(indices % n)
        indices = indices // n
    return tuple(reversed(out))


def is_inference(input):
    return input.is_inference()


def vmap(func, in_dims=0, out_dims=0, randomness="error", *, chunk_size=None):
    from .func import vmap as vmap_

    return vmap_(func, in_dims, out_dims, randomness, chunk_size=chunk_size)


def from_file(filename, shared=None, size=0, *, dtype=None, **kwargs):
    with open(filename, "rb") as f:
        return _tensor.frombuffer(bytearray(f.read()), dtype=dtype or _cfx.float32, count=size)


# ---- what is elsewhere ---------------------------------------------------------------------------


def compile(model=None, *, backend="inductor", **kwargs):
    """There is no compiler: the function itself. A backend of the user's would never be called, so
    it is refused."""
    if callable(backend):
        raise NotImplementedError("cfx has no Dynamo, whose graphs torch.compile gives to a "
                                  "backend: use torch.fx.symbolic_trace, make_fx or torch.export")
    if model is not None and not callable(model):
        raise AssertionError(f"A callable function is expected, but {type(model)} is provided.")
    return (lambda m: m) if model is None else model


autocast_regions = []  # (device, whether it is on), innermost last


def is_autocast_enabled(device_type="cuda"):
    on = [enabled for device, enabled in autocast_regions if device == device_type]
    return builtins.bool(on and on[-1])


def autocast(device_type, dtype=None, enabled=True, cache_enabled=None):
    from .amp import autocast as autocast_

    return autocast_(device_type, dtype, enabled, cache_enabled)


def cond(pred, true_fn, false_fn, operands=()):
    from ._higher_order_ops import cond as cond_

    return cond_(pred, true_fn, false_fn, operands)


def while_loop(cond_fn, body_fn, carried_inputs):
    from ._higher_order_ops import while_loop as loop

    return loop(cond_fn, body_fn, carried_inputs)


def sym_sqrt(a):
    import math

    return math.sqrt(a)
