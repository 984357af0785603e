"""What PyTorch's tests ask of torch.testing._internal and other modules for tests: as much as they
need to run on cfx. Modules are made here and put into sys.modules."""
import builtins
import contextlib
import functools
import importlib.abc
import importlib.machinery
import io
import itertools
import os
import sys
import types
import unittest

import torch
from torch.testing import _comparison


class Namespace(types.ModuleType):
    """A module that has whatever is put in it."""


def module(name, **members):
    m = Namespace(name)
    m.__dict__.update(members)
    m.__path__ = []
    m.__spec__ = types.SimpleNamespace(name=name, submodule_search_locations=[], loader=None,
                                       parent=name.rpartition(".")[0], has_location=False,
                                       origin=None, cached=None, _initializing=False,
                                       _uninitialized_submodules=[])
    sys.modules[name] = m
    parent, _, last = name.rpartition(".")
    if parent in sys.modules:
        setattr(sys.modules[parent], last, m)
    return m


# ---- test cases ----------------------------------------------------------------------------------


class TestCase(unittest.TestCase):
    """unittest's, with assertEqual for tensors."""

    precision = 0
    rel_tol = 0
    maxDiff = None
    longMessage = True

    def setUp(self):
        torch.manual_seed(0)

    def assertEqual(self, x, y, msg=None, *, atol=None, rtol=None, equal_nan=True,
                    exact_dtype=True, exact_device=False, exact_layout=False, exact_stride=False,
                    exact_is_coalesced=False):
        if isinstance(x, str) and isinstance(y, str):
            super().assertEqual(x, y, msg if isinstance(msg, str) else None)
            return
        _comparison.compare(x, y, rtol=rtol, atol=atol, equal_nan=equal_nan,
                            check_dtype=exact_dtype, check_stride=exact_stride,
                            msg=msg if isinstance(msg, str) else None)

    def assertNotEqual(self, x, y, msg=None, **kwargs):
        with self.assertRaises(AssertionError, msg=msg):
            self.assertEqual(x, y, msg, **kwargs)

    def assertEqualIgnoreType(self, *args, **kwargs):
        return self.assertEqual(*args, exact_dtype=False, **kwargs)

    def assertExpectedInline(self, actual, expect, skip=0, ignore_empty_lines=False):
        texts = [str(actual), _dedent(expect)]
        if ignore_empty_lines:
            texts = ["\n".join(line for line in t.split("\n") if line.strip()) for t in texts]
        self.assertMultiLineEqual(*texts)

    def assertExpected(self, s, subname=None):
        raise unittest.SkipTest("expected texts are files of PyTorch's")

    def assertExpectedRaisesInline(self, kind, f, expect, *args, **kwargs):
        with self.assertRaises(kind) as caught:
            f(*args, **kwargs)
        self.assertMultiLineEqual(str(caught.exception), _dedent(expect))

    @contextlib.contextmanager
    def assertRaisesRegexWithHighlight(self, kind, regex, highlight):
        with self.assertRaisesRegex(kind, regex):
            yield

    def assertAtenCall(self, *a, **k):
        raise unittest.SkipTest("counts of TorchScript")

    def assertObjectIn(self, obj, iterable):
        self.assertTrue(any(o is obj for o in iterable))

    @contextlib.contextmanager
    def assertWarnsOnceRegex(self, category, regex=""):
        with self.assertWarnsRegex(category, regex):
            yield

    def wrap_with_cuda_policy(self, *a):
        pass

    @contextlib.contextmanager
    def capture_stderr(self):
        """A list whose one item is what was written meanwhile."""
        text, was, out = io.StringIO(), sys.stderr, [""]
        sys.stderr = text
        try:
            yield out
        finally:
            sys.stderr, out[0] = was, text.getvalue()


def _dedent(text):
    return text


class JitTestCase(TestCase):
    def checkModule(self, *a, **k):
        raise unittest.SkipTest("TorchScript")

    checkScript = checkTrace = checkModule


# ---- decorators ----------------------------------------------------------------------------------


def skip(reason):
    return unittest.skip(reason)


def skip_always(*args, **kwargs):
    """A decorator that is used with and without arguments, and skips."""
    if len(args) == 1 and (callable(args[0]) or isinstance(args[0], type)) and not kwargs:
        return unittest.skip("not asked for on cfx")(args[0])
    return unittest.skip("not asked for on cfx")


def same(*args, **kwargs):
    """A decorator, with or without arguments, that changes nothing."""
    if len(args) == 1 and callable(args[0]) and not kwargs:
        return args[0]
    return lambda f: f


class subtest:
    def __init__(self, arg_values, name=None, decorators=()):
        self.arg_values = arg_values
        self.name = name
        self.decorators = list(decorators)


class parametrize:
    """@parametrize("a,b", [(1, 2), ...])"""

    def __init__(self, arg_str, arg_values, name_fn=None):
        self.names = [n.strip() for n in arg_str.split(",") if n.strip()]
        self.values = list(arg_values)
        self.name_fn = name_fn

    def __call__(self, f):
        f.__dict__.setdefault("_parametrized", []).insert(0, self)
        return f


def _value_name(v):
    if isinstance(v, (bool, int, float, str)):
        return str(v).replace(".", "_").replace(" ", "_")
    return getattr(v, "__name__", type(v).__name__)


def instantiate_parametrized_tests(cls):
    """A test for each combination of values."""
    for name in [n for n in dir(cls) if n.startswith("test")]:
        f = getattr(cls, name)
        rows = getattr(f, "_parametrized", None)
        if not rows:
            continue
        delattr(cls, name)
        for combination in itertools.product(*[r.values for r in rows]):
            kwargs, words = {}, []
            for row, value in zip(rows, combination):
                given = value
                if isinstance(given, subtest):
                    given = given.arg_values
                values = list(given) if len(row.names) > 1 else [given]
                if len(row.names) == 1 and isinstance(given, tuple) and isinstance(value, subtest) \
                        and len(given) == 1:
                    values = [given[0]]
                kwargs.update(zip(row.names, values))
                if isinstance(value, subtest) and value.name:
                    words.append(value.name)
                elif row.name_fn:
                    words.append(row.name_fn(*values))
                else:
                    words += [f"{n}_{_value_name(v)}" for n, v in zip(row.names, values)]
            setattr(cls, f"{name}_{'_'.join(words)}", _bound(f, kwargs))
    return cls


def _bound(f, kwargs):
    @functools.wraps(f)
    def test(self):
        return f(self, **kwargs)

    return test


def run_tests(argv=None):
    pass


@contextlib.contextmanager
def nothing(*args, **kwargs):
    yield


class DeterministicGuard:
    def __init__(self, *a, **k):
        pass

    def __enter__(self):
        return self

    def __exit__(self, *error):
        pass


def find_library_location(name):
    """A library of TorchScript's classes: it is not there, and tests that need it fail."""
    return name


# ---- parts of torch that cfx does not have -------------------------------------------------------


class Absent:
    """Something that is not there: who calls it fails with its name, who imports it does not."""

    importing = True

    def __init__(self, name):
        self.__dict__["_name"] = name
        self.__name__ = self.__qualname__ = name.rpartition(".")[2]

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return Absent(f"{self._name}.{name}")

    def __call__(self, *args, **kwargs):
        if not Absent.importing:
            raise NotImplementedError(f"cfx has no {self._name}")
        return args[0] if len(args) == 1 and callable(args[0]) else self

    def __mro_entries__(self, bases):
        return (object,)

    def __iter__(self):
        return iter(())

    def __or__(self, other):
        return self

    __ror__ = __getitem__ = __or__


class AbsentModule(types.ModuleType):
    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return Absent(f"{self.__name__}.{name}")


class AbsentFinder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Finds what no file of cfx/torch is."""

    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] not in ("torch", "functorch", "torchvision", "testing") or \
                name in sys.modules:
            return None
        parent, _, last = name.rpartition(".")
        there = vars(sys.modules[parent]).get(last) if parent in sys.modules else None
        if there is not None and not isinstance(there, (Absent, AbsentModule)):
            return None
        place = os.path.join(os.path.dirname(torch.__file__), *name.split(".")[1:])
        if name.startswith("torch") and not name.startswith("torchvision") and (
                os.path.isfile(place + ".py") or os.path.isfile(f"{place}/__init__.py")):
            return None
        return importlib.machinery.ModuleSpec(name, self, is_package=True)

    def create_module(self, spec):
        return AbsentModule(spec.name)

    def exec_module(self, module):
        pass


def importing(name, globals=None, locals=None, fromlist=(), level=0):
    """Python's own import; a name that a module of torch's lacks is absent, and no error."""
    found = real_import(name, globals, locals, fromlist, level)
    if Absent.importing and fromlist and found.__name__.partition(".")[0] == "torch":
        for wanted in fromlist:
            if wanted != "*" and not hasattr(found, wanted):
                setattr(found, wanted, Absent(f"{found.__name__}.{wanted}"))
    return found


real_import = builtins.__import__


def install(version):
    """For the tests of that version of PyTorch, as (2, 11)."""
    from torch import _higher_order_ops as control

    sys.meta_path.insert(0, AbsentFinder())
    for name in ("library", "_dynamo", "package", "_export", "_decomp", "_inductor", "classes"):
        setattr(torch, name, importlib.import_module(f"torch.{name}"))
    builtins.__import__ = importing
    type(torch.ops).load_library = lambda self, path: None
    module("functorch")
    module("functorch.experimental", control_flow=control)
    module("functorch.experimental.control_flow", cond=control.cond, map=control.map)
    module("torch.testing._internal")
    module("torch.testing._internal.common_utils",
           TestCase=TestCase, run_tests=run_tests, parametrize=parametrize, subtest=subtest,
           instantiate_parametrized_tests=instantiate_parametrized_tests,
           IS_FBCODE=False, IS_WINDOWS=False, IS_MACOS=False, IS_LINUX=True,
           IS_SANDCASTLE=False, IS_REMOTE_GPU=False, IS_JETSON=False, IS_ARM64=False, IS_X86=True,
           IS_CI=False, TEST_WITH_ROCM=False, TEST_WITH_CROSSREF=False, TEST_Z3=False,
           TEST_WITH_TORCHDYNAMO=False, TEST_CUDA=False, TEST_TRANSFORMERS=False, TEST_NUMPY=False,
           TEST_SCIPY=False, TEST_WITH_ASAN=False, TEST_WITH_SLOW=False, TEST_MKL=False,
           TEST_WITH_UBSAN=False, TEST_OPT_EINSUM=False, NO_MULTIPROCESSING_SPAWN=False,
           skipIfTorchDynamo=same, skipIfRocm=same, skipIfCrossRef=same, skipIfNoDynamoSupport=same,
           skipIfXpu=same, skipIfHpu=same, slowTest=same, skipIfSlowGradcheckEnv=same,
           skipIfPy312=same, suppress_warnings=same, xfailIfTorchDynamo=same, serialTest=same,
           markDynamoStrictTest=same, skipIfMPS=same, skipIfWindows=same,
           wrapDeterministicFlagAPITest=same,
           unMarkDynamoStrictTest=same, skipIfLegacyJitExecutor=same, skipIfTBB=same,
           compare_equal_outs_and_grads=None, freeze_rng_state=nothing,
           find_library_location=find_library_location, DeterministicGuard=DeterministicGuard,
           TemporaryFileName=_temporary, TemporaryDirectoryName=_temporary_folder,
           set_default_dtype=_default_dtype, disable_gc=nothing,
           munge_exc=lambda e, **k: str(e), LazyVal=lambda f: f, gradcheck=None, gradgradcheck=None,
           dtype_abbrs={}, skipIfNoTorchVision=skip_always, HAS_TORCHVISION=False,
           custom_op=None, make_tensor=torch.testing.make_tensor, GRAPH_EXECUTOR=None,
           enable_profiling_mode_for_profiling_tests=nothing, noncontiguous_like=lambda t: t,
           xfailIf=lambda condition: same, get_cycles_per_ms=None,
           TEST_CUDA_GRAPH=False, TEST_FAIRSEQ=False, TEST_DILL=False)
    module("torch.testing._internal.jit_utils", JitTestCase=JitTestCase, RUN_CUDA=False)
    module("torch.testing._internal.common_methods_invocations", op_db=[], python_ref_db=[])
    module("torch.testing._internal.common_device_type", ops=lambda *a, **k: skip_always,
           onlyCPU=same, onlyCUDA=skip_always, instantiate_device_type_tests=lambda *a, **k: None,
           OpDTypes=types.SimpleNamespace(supported=0), onlyNativeDeviceTypes=same,
           tol=None, toleranceOverride=lambda *a: same, dtypes=lambda *a: same)
    module("torch.testing._internal.common_nn", module_tests=[], new_module_tests=[],
           get_new_module_tests=lambda: [])
    module("torch.testing._internal.common_cuda", TEST_CUDA=False, TEST_MULTIGPU=False,
           PLATFORM_SUPPORTS_FLASH_ATTENTION=False, SM80OrLater=False, SM90OrLater=False,
           PLATFORM_SUPPORTS_MEM_EFF_ATTENTION=False, tf32_on_and_off=lambda *a: same,
           blas_library_context=nothing, xfailIfDistributedNotSupported=skip_always,
           xfailIfSM89=same, _get_torch_cuda_version=lambda: (0, 0))
    module("torch.testing._internal.common_quantization", skipIfNoDynamoSupport=same,
           skipIfNoFBGEMM=same, skipIfNoQNNPACK=same)
    module("torch.testing._internal.torchbind_impls", init_torchbind_implementations=lambda: None,
           register_fake_operators=lambda: None,
           load_torchbind_test_lib=lambda: None)  # a class of it that is used is absent
    module("torch.testing._internal.custom_op_db", custom_op_db=[])
    module("torch.testing._internal.hop_db", hop_db=[],
           hop_that_doesnt_have_opinfo_test_allowlist=[])
    module("torch.testing._internal.distributed")
    module("torch.testing._internal.distributed.fake_pg", FakeStore=object)
    module("torch.testing._internal.two_tensor", TwoTensor=object)
    from torch import _errors

    module("torch._dynamo.exc", **{n: v for n, v in vars(_errors).items() if isinstance(v, type)},
           TorchRuntimeError=RuntimeError,  # what a model raises comes out as it is
           InternalTorchDynamoError=type("InternalTorchDynamoError", (RuntimeError,), {}))
    module("torch._dynamo.test_case", TestCase=TestCase, run_tests=run_tests)
    module("torch._dynamo.testing", normalize_gm=_normalize_gm, CompileCounter=object,
           same=lambda a, b: True)
    torch.profiler.__path__ = []
    module("torch.fx.experimental._config", patch=nothing)
    torch.fx.experimental._config = sys.modules["torch.fx.experimental._config"]
    module("torch._inductor.test_case", TestCase=TestCase, run_tests=run_tests)
    module("torch.testing._internal.inductor_utils", HAS_GPU=False, HAS_CPU=False, GPU_TYPE="cuda")
    module("torch.testing._internal.triton_utils", requires_gpu=skip_always,
           requires_cuda_and_triton=skip_always)
    module("torch._opaque_base", OpaqueBase=type("OpaqueBase", (), {}))
    module("expecttest", TestCase=TestCase)
    if version < (2, 9):
        _as_in_2_6()


def version_of(folder):
    """The version of PyTorch whose folder `test` that is, as (2, 11): version.txt beside it."""
    try:
        with open(os.path.join(folder, "..", "version.txt")) as f:
            return tuple(int(n) for n in f.read().split(".")[:2])
    except OSError:
        return (2, 11)


def _as_in_2_6():
    """Where the tests' PyTorch has another default: sizes of inputs are checked by a hook, and not
    by guards in the graph, which came with 2.9."""
    from torch.export import ExportedProgram

    module_ = ExportedProgram.module
    ExportedProgram.module = lambda self, check_guards=False: module_(self, check_guards)


def _normalize_gm(text):
    import re

    return re.sub(r"[ \t]+#.*", "", re.sub(r"\n\s*#.*", "", text))


@contextlib.contextmanager
def _temporary(*args, **kwargs):
    import tempfile

    handle, path = tempfile.mkstemp()
    os.close(handle)
    try:
        yield path
    finally:
        os.unlink(path)


@contextlib.contextmanager
def _temporary_folder(suffix=None):
    import tempfile

    with tempfile.TemporaryDirectory(suffix=suffix) as d:
        yield d


@contextlib.contextmanager
def _default_dtype(dtype):
    was = torch.get_default_dtype()
    torch.set_default_dtype(dtype)
    try:
        yield
    finally:
        torch.set_default_dtype(was)
