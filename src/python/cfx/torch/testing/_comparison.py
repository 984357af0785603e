"""Values that are equal within tolerances."""
import cfx

_TOLERANCES = {cfx.float16: (1e-3, 1e-5), cfx.bfloat16: (1.6e-2, 1e-5),
               cfx.float32: (1.3e-6, 1e-5), cfx.float64: (1e-7, 1e-7),
               cfx.complex64: (1.3e-6, 1e-5), cfx.complex128: (1e-7, 1e-7)}


def default_tolerances(*inputs):
    """(rtol, atol): the largest of the dtypes."""
    pairs = [_TOLERANCES.get(t.dtype if isinstance(t, cfx.Tensor) else t, (0.0, 0.0))
             for t in inputs]
    return max(p[0] for p in pairs), max(p[1] for p in pairs)


def _fail(text, msg):
    raise AssertionError(msg(text) if callable(msg) else msg or text)


def _compare_tensors(a, b, o):
    where = f"\n\nThe failure occurred for item {o['path']}" if o["path"] else ""
    if a.shape != b.shape:
        _fail(f"The values for attribute 'shape' do not match: {a.shape} != {b.shape}.{where}",
              o["msg"])
    if o["check_dtype"] and a.dtype != b.dtype:
        _fail(f"The values for attribute 'dtype' do not match: {a.dtype} != {b.dtype}.{where}",
              o["msg"])
    if o["check_stride"] and a.stride() != b.stride():
        _fail(f"The values for attribute 'stride()' do not match: {a.stride()} != {b.stride()}."
              f"{where}", o["msg"])
    rtol, atol = o["rtol"], o["atol"]
    if rtol is None or atol is None:
        rtol, atol = default_tolerances(a, b)
    with cfx.no_grad():
        if a.dtype != b.dtype:
            common = (a.reshape(-1)[:0] + b.reshape(-1)[:0]).dtype
            a, b = a.to(common), b.to(common)
        close = cfx.isclose(a.detach(), b.detach(), rtol=rtol, atol=atol,
                            equal_nan=o["equal_nan"])
        if bool(close.all()):
            return
        wrong = close.numel() - int(close.sum())
        d = (a.detach() - b.detach()).abs() if a.dtype is not cfx.bool else (a != b).to(cfx.int64)
        most = d.max().item()
    if a.numel() == 1 and a.dim() == 0:
        text = f"Scalars are not close!\n\nExpected {b.item()} but got {a.item()}."
    else:
        text = (f"Tensor-likes are not {'equal' if rtol == 0 == atol else 'close'}!\n\n"
                f"Mismatched elements: {wrong} / {a.numel()} "
                f"({100 * wrong / max(a.numel(), 1):.1f}%)")
    text += f"\nGreatest absolute difference: {most} (up to {atol} allowed)"
    _fail(text + where, o["msg"])


def _compare_numbers(a, b, o):
    if a == b or (o["equal_nan"] and a != a and b != b):
        return
    rtol, atol = o["rtol"], o["atol"]
    if rtol is None or atol is None:
        exact = isinstance(a, int) and isinstance(b, int)
        rtol, atol = (0.0, 0.0) if exact else (1e-7, 1e-7)
    if not abs(a - b) <= atol + rtol * abs(b):
        _fail(f"Scalars are not {'equal' if rtol == 0 == atol else 'close'}!\n\nExpected {b} but "
              f"got {a}.", o["msg"])


def _compare(a, b, o):
    if isinstance(a, cfx.Tensor) and isinstance(b, cfx.Tensor):
        _compare_tensors(a, b, o)
    elif isinstance(a, dict) and isinstance(b, dict):
        if set(a) != set(b):
            _fail(f"The keys of the mappings do not match:\n{set(a) ^ set(b)}", o["msg"])
        for k in a:
            _compare(a[k], b[k], {**o, "path": f"{o['path']}[{k!r}]"})
    elif isinstance(a, (list, tuple)) and isinstance(b, (list, tuple)):
        if len(a) != len(b):
            _fail(f"The length of the sequences mismatch: {len(a)} != {len(b)}", o["msg"])
        for i, (x, y) in enumerate(zip(a, b)):
            _compare(x, y, {**o, "path": f"{o['path']}[{i}]"})
    elif isinstance(a, (int, float, complex)) and isinstance(b, (int, float, complex)):
        _compare_numbers(a, b, o)
    elif isinstance(a, cfx.Tensor) or isinstance(b, cfx.Tensor):
        if not isinstance(a, (cfx.Tensor, int, float)) or \
                not isinstance(b, (cfx.Tensor, int, float)):
            _fail(f"Except for scalars, type equality is required if allow_subclasses=True, but "
                  f"got {type(a)} and {type(b)} instead.", o["msg"])
        _compare_tensors(cfx.as_tensor(a), cfx.as_tensor(b), {**o, "check_dtype": False})
    elif hasattr(a, "__array_interface__") and hasattr(b, "__array_interface__"):
        _compare_tensors(cfx.from_numpy(a), cfx.from_numpy(b), o)
    elif a is not b and a != b:
        _fail(f"Object comparison failed: {a!r} != {b!r}", o["msg"])


def assert_close(actual, expected, *, allow_subclasses=True, rtol=None, atol=None, equal_nan=False,
                 check_device=True, check_dtype=True, check_layout=True, check_stride=False,
                 msg=None):
    """An AssertionError where values differ by more than the tolerances."""
    if (rtol is None) != (atol is None):
        raise ValueError("Both 'rtol' and 'atol' must be either specified or unspecified, but got "
                         f"no {'rtol' if rtol is None else 'atol'}.")
    _compare(actual, expected, {"rtol": rtol, "atol": atol, "equal_nan": equal_nan,
                                "check_dtype": check_dtype, "check_stride": check_stride,
                                "msg": msg, "path": ""})


def assert_allclose(actual, expected, rtol=None, atol=None, equal_nan=True, msg=""):
    assert_close(actual, expected, rtol=rtol, atol=atol, equal_nan=equal_nan, check_dtype=False,
                 msg=msg or None)
