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
        text = _told(a.detach(), b.detach(), close, rtol, atol)
    _fail(text + where, o["msg"])


def _limit(tolerance, rtol, atol):
    return "" if rtol == 0 == atol else f" (up to {tolerance} allowed)"


def _told(a, b, close, rtol, atol):
    """How far two tensors are apart, and where most."""
    word = "equal" if rtol == 0 == atol else "close"
    if a.dim() == 0:
        return _told_numbers(a.item(), b.item(), rtol, atol)
    if a.dtype is cfx.bool:
        a, b = a.to(cfx.int64), b.to(cfx.int64)
    wrong = close.numel() - int(close.sum())
    text = (f"Tensor-likes are not {word}!\n\nMismatched elements: {wrong} / {a.numel()} "
            f"({100 * wrong / max(a.numel(), 1):.1f}%)")
    apart = (a - b).abs()
    apart[close] = 0
    share = apart / b.abs()
    share[close] = 0
    for name, d, tolerance in (("absolute", apart, atol), ("relative", share, rtol)):
        at = int(d.reshape(-1).argmax())
        index = tuple(int(at // max(1, _product(d.shape[i + 1:])) % n)
                      for i, n in enumerate(d.shape))
        text += (f"\nGreatest {name} difference: {d.reshape(-1)[at].item()} at index {index}"
                 f"{_limit(tolerance, rtol, atol)}")
    return text


def _product(sizes):
    n = 1
    for s in sizes:
        n *= s
    return n


def _told_numbers(a, b, rtol, atol):
    apart = abs(a - b)
    share = apart / abs(b) if b != 0 else float("inf") if apart == apart else apart
    return (f"Scalars are not {'equal' if rtol == 0 == atol else 'close'}!\n\nExpected {b} but got "
            f"{a}.\nAbsolute difference: {apart}{_limit(atol, rtol, atol)}\n"
            f"Relative difference: {share}{_limit(rtol, rtol, atol)}")


def _compare_numbers(a, b, o):
    if a == b or (o["equal_nan"] and a != a and b != b):
        return
    rtol, atol = o["rtol"], o["atol"]
    if rtol is None or atol is None:
        exact = isinstance(a, int) and isinstance(b, int)
        rtol, atol = (0.0, 0.0) if exact else (1e-7, 1e-7)
    if not abs(a - b) <= atol + rtol * abs(b):
        where = f"\n\nThe failure occurred for item {o['path']}" if o["path"] else ""
        _fail(_told_numbers(a, b, rtol, atol) + where, o["msg"])


def _cannot(a, b, o):
    """assert_close compares numbers and containers of them; assertEqual of tests anything."""
    if not o.get("objects", True):
        raise TypeError(f"No comparison pair was able to handle inputs of type {type(a)} and "
                        f"{type(b)}.")


def _compare(a, b, o):
    if isinstance(a, cfx.Tensor) and isinstance(b, cfx.Tensor):
        _compare_tensors(a, b, o)
    elif isinstance(a, dict) and isinstance(b, dict):
        if set(a) != set(b):
            _fail("The keys of the mappings do not match:\n"
                  f"Missing keys in the actual mapping: {sorted(set(b) - set(a))}\n"
                  f"Additional keys in the actual mapping: {sorted(set(a) - set(b))}", o["msg"])
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
            _cannot(a, b, o)
            _fail(f"Except for scalars, type equality is required if allow_subclasses=True, but "
                  f"got {type(a)} and {type(b)} instead.", o["msg"])
        _compare_tensors(cfx.as_tensor(a), cfx.as_tensor(b), {**o, "check_dtype": False})
    elif hasattr(a, "__array_interface__") and hasattr(b, "__array_interface__"):
        _compare_tensors(cfx.from_numpy(a), cfx.from_numpy(b), o)
    elif a is not None or b is not None:
        _cannot(a, b, o)
        if a is b or a == b:
            return
        _fail(f"Object comparison failed: {a!r} != {b!r}", o["msg"])


def compare(actual, expected, *, rtol=None, atol=None, equal_nan=False, check_dtype=True,
            check_stride=False, msg=None):
    """The same for tests: what is no number is compared as Python does."""
    _compare(actual, expected, {"rtol": rtol, "atol": atol, "equal_nan": equal_nan,
                                "check_dtype": check_dtype, "check_stride": check_stride,
                                "msg": msg, "path": ""})


def assert_close(actual, expected, *, allow_subclasses=True, rtol=None, atol=None, equal_nan=False,
                 check_device=True, check_dtype=True, check_layout=True, check_stride=False,
                 msg=None):
    """An AssertionError where values differ by more than the tolerances."""
    if (rtol is None) != (atol is None):
        raise ValueError("Both 'rtol' and 'atol' must be either specified or unspecified, but got "
                         f"no {'rtol' if rtol is None else 'atol'}.")
    _compare(actual, expected, {"rtol": rtol, "atol": atol, "equal_nan": equal_nan,
                                "check_dtype": check_dtype, "check_stride": check_stride,
                                "msg": msg, "path": "", "objects": False})


def assert_allclose(actual, expected, rtol=None, atol=None, equal_nan=True, msg=""):
    assert_close(actual, expected, rtol=rtol, atol=atol, equal_nan=equal_nan, check_dtype=False,
                 msg=msg or None)
