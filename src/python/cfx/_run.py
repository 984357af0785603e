"""Scripts that were written for PyTorch, run with cfx.torch in its place."""
import importlib.abc
import importlib.machinery
import importlib.util
import os
import runpy
import sys

USAGE = """usage: python3 -m cfx SCRIPT [ARG...]
       python3 -m cfx -m MODULE [ARG...]
       python3 -m cfx -c CODE [ARG...]
       python3 -m cfx --help | --version

Runs a Python program in which `import torch` means cfx.torch: PyTorch's tensors, nn, fx, export and
more, over the C library cfx. A module of torch's that cfx does not have is an ImportError.
"""

_HERE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "torch")


class TorchFinder(importlib.abc.MetaPathFinder):
    """Finds torch and what is below it in cfx/torch; cfx.torch is the same package then."""

    def find_spec(self, name, path=None, target=None):
        if name == "cfx.torch" or name.startswith("cfx.torch."):
            return importlib.machinery.ModuleSpec(name, _Alias(name[4:]), is_package=True)
        if name != "torch" and not name.startswith("torch."):
            return None
        place = os.path.join(_HERE, *name.split(".")[1:])
        if os.path.isfile(os.path.join(place, "__init__.py")):
            return importlib.util.spec_from_file_location(
                name, os.path.join(place, "__init__.py"), submodule_search_locations=[place])
        if os.path.isfile(place + ".py"):
            return importlib.util.spec_from_file_location(name, place + ".py")
        if name in sys.modules:
            return sys.modules[name].__spec__
        raise ModuleNotFoundError(f"No module named '{name}': cfx plays torch here, and does not "
                                  "have that part of it", name=name)


class _Alias(importlib.abc.Loader):
    """One module under two names."""

    def __init__(self, name):
        self.name = name

    def create_module(self, spec):
        self.module = importlib.import_module(self.name)
        self.spec = self.module.__spec__
        return self.module

    def exec_module(self, module):
        module.__spec__ = self.spec


def install():
    """From now on `import torch` gives cfx.torch."""
    if not any(isinstance(f, TorchFinder) for f in sys.meta_path):
        if "cfx.torch" in sys.modules:
            raise RuntimeError("cfx.torch was imported already: import torch first")
        sys.meta_path.insert(0, TorchFinder())


def main(argv):
    if not argv or argv[0] in ("-h", "--help"):
        print(USAGE, end="", file=sys.stdout if argv else sys.stderr)
        return 0 if argv else 2
    if argv[0] == "--version":
        import cfx

        print(f"cfx {cfx.__version__}")
        return 0
    install()
    if argv[0] == "-m" and len(argv) > 1:
        sys.argv = argv[1:]
        sys.path.insert(0, os.getcwd())
        runpy.run_module(argv[1], run_name="__main__", alter_sys=True)
    elif argv[0] == "-c" and len(argv) > 1:
        sys.argv = ["-c"] + argv[2:]
        sys.path.insert(0, "")
        _run_code(compile(argv[1], "<string>", "exec"), None)
    elif argv[0].startswith("-"):
        print(f"cfx: there is no option {argv[0]}\n{USAGE}", end="", file=sys.stderr)
        return 2
    else:
        return _run_script(argv)
    return 0


def _run_script(argv):
    """As `python3 script.py` does: the script is __main__, and tracebacks begin there."""
    sys.argv, path = argv, os.path.abspath(argv[0])
    sys.path.insert(0, os.path.dirname(path))
    try:
        with open(argv[0], "rb") as f:
            code = compile(f.read(), path, "exec")
    except OSError as e:
        print(f"cfx: can't open file '{argv[0]}': [Errno {e.errno}] {e.strerror}", file=sys.stderr)
        return 2
    except SyntaxError as e:
        e.__traceback__ = None
        sys.excepthook(SyntaxError, e, None)
        return 1
    _run_code(code, path)
    return 0


def _run_code(code, path):
    import types

    main = types.ModuleType("__main__")
    main.__file__ = path
    main.__builtins__ = __builtins__
    sys.modules["__main__"] = main
    if path is None:
        del main.__file__
    try:
        exec(code, main.__dict__)
    except SystemExit:
        raise
    except BaseException as e:
        # Only the script's own frames are the user's business.
        traceback = e.__traceback__.tb_next
        sys.excepthook(type(e), e.with_traceback(traceback), traceback)
        sys.exit(1)
