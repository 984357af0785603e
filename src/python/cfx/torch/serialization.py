"""torch.save and torch.load: PyTorch's files, a ZIP of a pickle and the bytes of storages."""
import io
import os
import pickle
import sys
import zipfile

from cfx import _cfx
from cfx._functions import torch as _torch
from cfx._tensor import Tensor, frombuffer

from .nn.parameter import Parameter

_NAMES = {_cfx.float64: "DoubleStorage", _cfx.float32: "FloatStorage", _cfx.float16: "HalfStorage",
          _cfx.bfloat16: "BFloat16Storage", _cfx.int64: "LongStorage", _cfx.int32: "IntStorage",
          _cfx.int16: "ShortStorage", _cfx.int8: "CharStorage", _cfx.uint8: "ByteStorage",
          _cfx.bool: "BoolStorage", _cfx.complex64: "ComplexFloatStorage",
          _cfx.complex128: "ComplexDoubleStorage"}
_DTYPES = {name: d for d, name in _NAMES.items()}


class _StorageType:
    """Stands in a pickle for torch.FloatStorage and the like."""

    def __init__(self, name):
        self.name = name


class _Ref:
    """What pickle is to write as a persistent id: a storage."""

    def __init__(self, dtype, key, numel, device):
        self.dtype, self.key, self.numel, self.device = dtype, key, numel, device


# ---- writing -------------------------------------------------------------------------------------


class _Pickler(pickle._Pickler):
    """Writes tensors as PyTorch does: a call of torch._utils._rebuild_tensor_v2 on a storage."""

    def __init__(self, file):
        super().__init__(file, 2)
        self.storages = []  # [a tensor in it, elements up to the last in use, dtype]

    def persistent_id(self, obj):
        if not isinstance(obj, _Ref):
            return None
        return ("storage", _Global("torch", _NAMES[obj.dtype]), str(obj.key), obj.device, obj.numel)

    def _place(self, t):
        """(the number of the storage that t lies in, offset in elements, elements)"""
        last = t.storage_offset() + 1 + sum((n - 1) * s for n, s in zip(t.shape, t.stride())) \
            if t.numel() else 0
        for key, storage in enumerate(self.storages):
            if storage[0]._shares(t) and storage[2] is t.dtype:
                storage[1] = max(storage[1], last)
                return key
        self.storages.append([t, last, t.dtype])
        return len(self.storages) - 1

    def save(self, obj, save_persistent_id=True):
        if isinstance(obj, _Global):
            self.write(pickle.GLOBAL + f"{obj.module}\n{obj.name}\n".encode())
            return
        super().save(obj, save_persistent_id)

    def save_tensor(self, t):
        plain = t.detach()
        key = self._place(plain)
        build = (_Global("torch._utils", "_rebuild_tensor_v2"),
                 (_Ref(plain.dtype, key, self.storages[key][1], str(plain.device)),
                  plain.storage_offset(),
                  tuple(plain.shape), tuple(plain.stride()), t.requires_grad, _Ordered()))
        if isinstance(t, Parameter):
            build = (_Global("torch._utils", "_rebuild_parameter"),
                     (_Call(*build), t.requires_grad, _Ordered()))
        self.save_reduce(*build, obj=t)

    def save_reduce(self, func, args, *rest, obj=None, **kwargs):
        if not isinstance(func, _Global):
            return super().save_reduce(func, args, *rest, obj=obj, **kwargs)
        self.save(func)
        self.save(args)
        self.write(pickle.REDUCE)
        if obj is not None:
            self.memoize(obj)

    dispatch = dict(pickle._Pickler.dispatch)


class _Global:
    """A name in a pickle that is nothing of this process."""

    def __init__(self, module, name):
        self.module, self.name = module, name


class _Call:
    """func(*args) in a pickle."""

    def __init__(self, func, args):
        self.func, self.args = func, args


class _Ordered:
    """An empty OrderedDict."""


def _save_call(pickler, call):
    pickler.save_reduce(call.func, call.args)


def _save_ordered(pickler, empty):
    pickler.save_reduce(_Global("collections", "OrderedDict"), ())


def _save_dtype(pickler, d):
    pickler.save(_Global("torch", repr(d).partition(".")[2]))


def _save_device(pickler, d):
    pickler.save_reduce(_Global("torch", "device"), (d.type,) if d.index is None
                        else (d.type, d.index))


def _save_layout(pickler, layout):
    pickler.save_reduce(_Global("torch.serialization", "_get_layout"), (repr(layout),))


def _save_size(pickler, size):
    pickler.save_reduce(_Global("torch", "Size"), (tuple(size),))


def _dispatch():
    from cfx._types import Size

    table = _Pickler.dispatch
    table[Tensor] = table[Parameter] = _Pickler.save_tensor
    table[_Call], table[_Ordered], table[_cfx.dtype] = _save_call, _save_ordered, _save_dtype
    table[_cfx.memory_format] = _save_dtype
    table[Size], table[_cfx.device], table[_cfx.layout] = _save_size, _save_device, _save_layout


_dispatch()


def _bytes(storage):
    """The bytes of a storage up to its last element in use."""
    t, count, _ = storage
    if not count:
        return b""
    flat = t.as_strided((count,), (1,), 0)
    own = flat.cpu().clone()  # memory that is lent out counts as written to from then on
    return bytes(memoryview(own.view(_cfx.uint8)))


def save(obj, f, pickle_module=None, pickle_protocol=2):
    """Writes an object with tensors in it to a file."""
    data = io.BytesIO()
    pickler = _Pickler(data)
    pickler.dump(obj)
    named = isinstance(f, (str, os.PathLike))
    base = os.path.splitext(os.path.basename(os.fspath(f)))[0] if named else "archive"
    with zipfile.ZipFile(f, "w", zipfile.ZIP_STORED) as z:
        z.writestr(f"{base}/data.pkl", data.getvalue())
        z.writestr(f"{base}/byteorder", sys.byteorder)
        for key, storage in enumerate(pickler.storages):
            z.writestr(f"{base}/data/{key}", _bytes(storage))
        z.writestr(f"{base}/version", "3\n")


# ---- reading -------------------------------------------------------------------------------------


def _rebuild_tensor(storage, offset, size, stride, requires_grad, hooks, metadata=None):
    dtype, flat = storage
    t = flat.as_strided(size, stride, offset) if flat.numel() else flat.reshape(size)
    return t.requires_grad_() if requires_grad else t


def _rebuild_parameter(data, requires_grad, hooks):
    return Parameter(data, requires_grad)


def _located(flat, location, map_location):
    """A storage where it was saved, or where the caller wants it; on the CPU without a card."""
    if callable(map_location):
        moved = map_location(flat, location)
        return flat if moved is None else moved
    if isinstance(map_location, dict):
        location = map_location.get(location, location)
    elif map_location is not None:
        location = str(_cfx.device(map_location))
    on_card = location.startswith("cuda") and (map_location is not None or _cfx.cuda_count())
    return flat.to(location) if on_card else flat


def _get_layout(name):
    return getattr(_torch(), name.partition(".")[2])


class _Unpickler(pickle.Unpickler):
    """Reads the pickle of such a file. With `safe`, nothing is called but what builds tensors and
    plain containers."""

    _BUILT = {("torch.serialization", "_get_layout"): _get_layout,
              ("torch._utils", "_rebuild_tensor_v2"): _rebuild_tensor,
              ("torch._utils", "_rebuild_parameter"): _rebuild_parameter}
    _SAFE = {("collections", "OrderedDict"), ("collections", "defaultdict"),
             ("collections", "Counter"), ("builtins", "set"), ("builtins", "dict"),
             ("builtins", "complex"), ("builtins", "bytearray")}

    def __init__(self, file, archive, base, safe, map_location):
        super().__init__(file, encoding="utf-8")
        self.archive, self.base, self.safe, self.storages = archive, base, safe, {}
        self.map_location = map_location

    def find_class(self, module, name):
        if (module, name) in self._BUILT:
            return self._BUILT[module, name]
        if module == "torch" and (name in _DTYPES or name == "UntypedStorage"):
            return _StorageType(name)
        if module == "torch" and (name == "Size" or hasattr(_cfx, name)):
            return getattr(_torch(), name)
        if self.safe and (module, name) in _safe_globals:
            return _safe_globals[module, name]
        if self.safe and (module, name) not in self._SAFE:
            raise pickle.UnpicklingError(
                "Weights only load failed. This file can still be loaded, to do so you have two "
                "options, \033[1mdo those steps only if you trust the source of the checkpoint"
                "\033[0m. \n\t(1) In PyTorch 2.6, we changed the default value of the "
                "`weights_only` argument in `torch.load` from `False` to `True`. Re-running "
                "`torch.load` with `weights_only` set to `False` will likely succeed, but it can "
                "result in arbitrary code execution. Do it only if you got the file from a trusted "
                "source.\n\t(2) Alternatively, to load with `weights_only=True` please check the "
                "recommended steps in the following error message.\n\tWeightsUnpickler error: "
                f"Unsupported global: GLOBAL {module}.{name} was not an allowed global by default. "
                f"Please use `torch.serialization.add_safe_globals([{name}])` or the "
                f"`torch.serialization.safe_globals([{name}])` context manager to "
                "allowlist this global if you trust this class/function.\n\nCheck the "
                "documentation of torch.load to learn more about types accepted by default with "
                "weights_only https://pytorch.org/docs/stable/generated/torch.load.html.")
        return super().find_class(module, name)

    def persistent_load(self, saved):
        _, kind, key, location, numel = saved
        if key not in self.storages:
            dtype = _DTYPES.get(kind.name, _cfx.uint8)
            data = bytearray(self.archive.read(f"{self.base}/data/{key}"))
            if len(data) < numel * dtype.itemsize:
                raise RuntimeError(f"storage {key} of the file has {len(data)} bytes; "
                                   f"{numel * dtype.itemsize} are needed")
            flat = frombuffer(data, dtype=dtype) if data else _torch().empty(0, dtype=dtype)
            self.storages[key] = (dtype, _located(flat, location, self.map_location))
        return self.storages[key]


_safe_globals = {}  # (module, name) to what files may name although weights_only


def add_safe_globals(safe_globals):
    """Classes and functions that a file may name, as themselves or as (object, "module.name")."""
    for item in safe_globals:
        what, path = item if isinstance(item, tuple) else \
            (item, f"{item.__module__}.{item.__qualname__}")
        module, _, name = path.rpartition(".")
        _safe_globals[module, name] = what


def get_safe_globals():
    return list(_safe_globals.values())


def clear_safe_globals():
    _safe_globals.clear()


class safe_globals:
    """The same inside a context."""

    def __init__(self, safe_globals):
        self._given = safe_globals

    def __enter__(self):
        self._before = dict(_safe_globals)
        add_safe_globals(self._given)

    def __exit__(self, *error):
        _safe_globals.clear()
        _safe_globals.update(self._before)


def load(f, map_location=None, pickle_module=None, *, weights_only=None, mmap=None):
    """The object in a file that torch.save wrote."""
    safe = True if weights_only is None else weights_only
    try:
        archive = zipfile.ZipFile(f)
    except zipfile.BadZipFile as e:
        if hasattr(f, "seek") and not f.seek(0, 2):
            raise EOFError("Ran out of input") from None
        raise pickle.UnpicklingError(f"{f!r} is no file of torch.save's: {e}") from None
    with archive:
        names = [n for n in archive.namelist() if n.endswith("/data.pkl")]
        if not names:
            raise RuntimeError(f"{f!r} is no file of torch.save's: it has no data.pkl")
        base = names[0].rpartition("/")[0]
        return _Unpickler(io.BytesIO(archive.read(names[0])), archive, base, safe,
                          map_location).load()
